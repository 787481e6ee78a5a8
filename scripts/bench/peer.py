"""One figure of one peer, in the peer's own environment: `python peer.py ROW DATA.npz`, JSON on the last line.

DATA holds `X` (n x 6, in the unit cube), `y`, `pending` (q x 6), `cube` (10,000 x 6), `X_test` and `y_test`. Seconds are CPU
seconds of this process, imports not counted. `peers.py` makes the data, the environments and the table.
"""

import json
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")


def gpyopt(data):
    """GPyOpt, hyperparameters by Hamiltonian Monte Carlo, integrated expected improvement."""
    from GPyOpt.methods import BayesianOptimization

    domain = [{"name": f"x{i}", "type": "continuous", "domain": (0.0, 1.0)} for i in range(data["X"].shape[1])]
    np.random.seed(0)  # noqa: NPY002  GPyOpt takes no generator
    start = time.process_time()
    BayesianOptimization(
        f=None,
        domain=domain,
        X=data["X"],
        Y=data["y"][:, None],
        model_type="GP_MCMC",
        acquisition_type="EI_MCMC",
        ARD=True,
    ).suggest_next_locations()
    return {"seconds": time.process_time() - start}


def _fitted(data):
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(0)
    X, y = torch.tensor(data["X"]), torch.tensor(-data["y"][:, None])
    model = SingleTaskGP(X, y, outcome_transform=Standardize(m=1))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model, X, y


def _optimise(acquisition, d):
    import torch
    from botorch.optim import optimize_acqf

    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    optimize_acqf(acquisition, bounds, q=1, num_restarts=10, raw_samples=512)


def botorch(data):
    """BoTorch, most probable hyperparameters, log expected improvement."""
    from botorch.acquisition import LogExpectedImprovement

    start = time.process_time()
    model, X, y = _fitted(data)
    fit = time.process_time() - start
    _optimise(LogExpectedImprovement(model, y.max()), X.shape[1])
    return {"seconds": time.process_time() - start, "fit": fit}


def botorch_pending(data):
    """BoTorch, one more point beside those pending, model fitted."""
    import torch
    from botorch.acquisition import qLogNoisyExpectedImprovement

    model, X, _ = _fitted(data)
    start = time.process_time()
    pending = torch.tensor(data["pending"])
    _optimise(qLogNoisyExpectedImprovement(model, X, X_pending=pending, prune_baseline=True), X.shape[1])
    return {"seconds": time.process_time() - start}


def botorch_nuts(data):
    """BoTorch, hyperparameters by NUTS, expected improvement."""
    import torch
    from botorch.acquisition import qLogExpectedImprovement
    from botorch.fit import fit_fully_bayesian_model_nuts
    from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP
    from botorch.models.transforms import Standardize

    torch.set_num_threads(1)
    X, y = torch.tensor(data["X"]), torch.tensor(-data["y"][:, None])
    start = time.process_time()
    model = SaasFullyBayesianSingleTaskGP(X, y, outcome_transform=Standardize(m=1))
    fit_fully_bayesian_model_nuts(model, warmup_steps=512, num_samples=256, thinning=16, disable_progbar=True)
    fit = time.process_time() - start
    _optimise(qLogExpectedImprovement(model, y.max()), X.shape[1])
    return {"seconds": time.process_time() - start, "fit": fit}


def smac(data):
    """SMAC, its black-box facade; the second ask, as the first gives its initial design."""
    import logging
    import tempfile

    from ConfigSpace import Configuration, ConfigurationSpace, Float
    from smac import BlackBoxFacade, Scenario
    from smac.runhistory import TrialInfo, TrialValue

    logging.disable(logging.WARNING)
    space = ConfigurationSpace()
    names = [f"x{i}" for i in range(data["X"].shape[1])]
    space.add(*(Float(name, (0.0, 1.0)) for name in names))
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(space, deterministic=True, n_trials=10_000, output_directory=folder)
        design = BlackBoxFacade.get_initial_design(scenario, n_configs=1)

        def target(config, seed):  # noqa: ARG001  SMAC looks for these names
            return 0.0

        facade = BlackBoxFacade(scenario, target, initial_design=design, logging_level=40)
        for x, y in zip(data["X"], data["y"], strict=True):
            config = Configuration(space, values=dict(zip(names, x.tolist(), strict=True)))
            facade.tell(TrialInfo(config, seed=0), TrialValue(cost=float(y)))
        first = facade.ask()
        facade.tell(first, TrialValue(cost=float(data["y"].mean())))
        start = time.process_time()
        facade.ask()
        return {"seconds": time.process_time() - start}


def _judged(predict, data):
    mean, var = (np.ravel(part) for part in predict(data["X_test"]))
    error = np.sqrt(np.mean((mean - data["y_test"]) ** 2)) / data["y_test"].std()
    density = -0.5 * ((data["y_test"] - mean) ** 2 / var + np.log(2.0 * np.pi * var))
    return {"nrmse": float(error), "log_density": float(density.mean())}


def _timed(model, data, **options):
    start = time.process_time()
    model.train(data["X"], data["y"], **options)
    fitted = time.process_time()
    model.predict(data["cube"])
    end = time.process_time()
    return {"fit": fitted - start, "predict": end - fitted, **_judged(model.predict, data)}


def pybnn_dngo(data):
    """pybnn's DNGO at its defaults."""
    import torch
    from pybnn.dngo import DNGO

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return _timed(DNGO(rng=np.random.RandomState(0)), data)


def pybnn_bohamiann(data):
    """pybnn's BOHAMIANN at its defaults, but for the step of its later releases, 1e-2: at 1e-5 it hardly moves."""
    import torch
    from pybnn.bohamiann import Bohamiann

    torch.set_num_threads(1)
    torch.manual_seed(0)
    return _timed(Bohamiann(print_every_n_steps=100_000), data, lr=1e-2)


def optuna(data):
    """Optuna's process sampler, 200 evaluations of a function: least values after 50, 100 and 200, seconds."""
    import optuna as package
    from functions import branin, hartmann6

    package.logging.set_verbosity(package.logging.ERROR)
    problem = {"branin": branin, "hartmann6": hartmann6}[str(data["function"])]()
    ranges = {name: (float(each.lower), float(each.upper)) for name, each in problem.space.items()}
    sampler = package.samplers.GPSampler(seed=int(data["seed"]), deterministic_objective=True)
    study = package.create_study(sampler=sampler)
    start = time.process_time()
    study.optimize(
        lambda trial: problem.value({name: trial.suggest_float(name, *ends) for name, ends in ranges.items()}),
        n_trials=int(data["t"]),
    )
    values = [trial.value for trial in study.trials]
    marks = [n for n in (50, 100, 200) if n <= len(values)]
    return {"seconds": time.process_time() - start, "best": {str(n): min(values[:n]) for n in marks}}


ROWS = {
    row.__name__: row
    for row in (gpyopt, botorch, botorch_pending, botorch_nuts, smac, pybnn_dngo, pybnn_bohamiann, optuna)
}

if __name__ == "__main__":
    with np.load(sys.argv[2]) as file:
        print(json.dumps(ROWS[sys.argv[1]](dict(file))))
