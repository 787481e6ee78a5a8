"""Samplers of the board: each searches a problem and gives its errors in order, and the CPU seconds of its suggestions."""

import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from ConfigSpace import CategoricalHyperparameter, ConfigurationSpace, UniformFloatHyperparameter
from functions import Problem

Found = tuple[list[float], float]


def warmstart(problem: Problem, t: int, seed: int) -> Found:
    """Search by our optimiser at its defaults."""
    return _ours(problem, t, seed)


def unwarped(problem: Problem, t: int, seed: int) -> Found:
    """Search by our optimiser without logarithms of errors."""
    return _ours(problem, t, seed, warp_errors=False)


def _ours(problem: Problem, t: int, seed: int, **keywords: Any) -> Found:
    from warmstart.bo import Optimizer

    optimizer, errors, seconds = Optimizer(problem.space, seed=seed, **keywords), [], 0.0
    for _ in range(t):
        start = time.process_time()
        config = optimizer.ask()[0]
        seconds += time.process_time() - start
        errors.append(problem.value(config))
        optimizer.tell(config, errors[-1])
    return errors, seconds


def gpsampler(problem: Problem, t: int, seed: int) -> Found:
    """Search by Optuna's Gaussian process, told that errors are without noise."""
    from optuna.samplers import GPSampler

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _optuna(GPSampler(seed=seed, deterministic_objective=True), problem, t)


def tpe(problem: Problem, t: int, seed: int) -> Found:
    """Search by Optuna's TPE: multivariate, and grouped where there are conditions."""
    from optuna.samplers import TPESampler

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _optuna(TPESampler(seed=seed, multivariate=True, group=bool(problem.space.conditions)), problem, t)


def smac(problem: Problem, t: int, seed: int) -> Found:
    """Search by SMAC's black-box facade."""
    from smac import BlackBoxFacade, Scenario
    from smac.runhistory import TrialValue

    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scenario = Scenario(problem.space, n_trials=t, deterministic=True, seed=seed, output_directory=folder)  # type: ignore[arg-type]
        facade = BlackBoxFacade(scenario, lambda config, seed=0: 0.0, overwrite=True, logging_level=False)  # noqa: ARG005
        errors, seconds = [], 0.0
        for _ in range(t):
            start = time.process_time()
            asked = facade.ask()
            errors.append(problem.value(dict(asked.config)))
            facade.tell(asked, TrialValue(cost=errors[-1]))
            seconds += time.process_time() - start
    return errors, seconds


def botorch(problem: Problem, t: int, seed: int) -> Found:
    """Search a box by BoTorch: 2 (d + 1) Sobol points, at most 20, then qLogNoisyExpectedImprovement."""
    import torch
    from botorch.acquisition import qLogNoisyExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    names, low, high = _box(problem.space)
    d, errors, seconds = len(names), [], 0.0
    X = torch.quasirandom.SobolEngine(d, scramble=True, seed=seed).draw(min(2 * (d + 1), 20), dtype=torch.double)
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(t):
            if i >= len(X):
                start = time.process_time()
                model = SingleTaskGP(X, -torch.tensor(errors).double()[:, None])
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
                acquisition = qLogNoisyExpectedImprovement(model, X, prune_baseline=True)
                point, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=10, raw_samples=512)
                X = torch.cat([X, point])
                seconds += time.process_time() - start
            errors.append(problem.value(dict(zip(names, (low + (high - low) * X[i].numpy()).tolist(), strict=True))))
    return errors, seconds


SAMPLERS: Mapping[str, Callable[[Problem, int, int], Found]] = {
    "warmstart": warmstart,
    "gpsampler": gpsampler,
    "tpe": tpe,
    "smac": smac,
    "botorch": botorch,
    "unwarped": unwarped,
}
FAST = ("warmstart", "gpsampler", "tpe")
"""Those that search every problem..."""
SLOW = ("smac", "botorch")
"""...and those that search the fixed third of bbob. What is in neither has no rank: it is an option of ours."""


def _optuna(sampler: Any, problem: Problem, t: int) -> Found:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study, errors, seconds = optuna.create_study(sampler=sampler), [], 0.0
    for _ in range(t):
        start = time.process_time()
        trial = study.ask()
        config = _suggested(trial, problem.space)
        seconds += time.process_time() - start
        errors.append(problem.value(config))
        start = time.process_time()
        study.tell(trial, errors[-1])
        seconds += time.process_time() - start
    return errors, seconds


def _suggested(trial: Any, space: ConfigurationSpace) -> dict[str, Any]:
    """Suggest what is active, parents first, as an objective does."""
    config: dict[str, Any] = {}
    for name, each in space.items():
        conditions = space.parent_conditions_of[name]
        if not all(c.parent.name in config and c.satisfied_by_value(config) for c in conditions):
            continue
        if isinstance(each, CategoricalHyperparameter):
            config[name] = trial.suggest_categorical(name, list(each.choices))
        elif isinstance(each, UniformFloatHyperparameter):
            config[name] = trial.suggest_float(name, each.lower, each.upper, log=each.log)
        else:
            config[name] = trial.suggest_int(name, each.lower, each.upper, log=each.log)
    return config


def _box(space: ConfigurationSpace) -> tuple[list[str], np.ndarray, np.ndarray]:
    names = list(space)
    return names, *(np.array([getattr(space[name], end) for name in names]) for end in ("lower", "upper"))
