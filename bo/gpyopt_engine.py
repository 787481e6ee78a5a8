"""GPyOpt as the engine of a run, as in the experiments of [Kim2017warmstart]: its models, acquisitions and search.

GPyOpt only chooses the next point. Designs, initial configurations, pending and saved evaluations are the
`Optimizer`'s. GPyOpt knows no conditions, forbidden clauses, failures or pending evaluations. Therefore:

- An inactive hyperparameter is set to the middle of its range.
- An evaluation that failed or broke a constraint gets the worst error so far.
- A pending evaluation gets the best error so far (a constant liar, [Ginsbourger2010kriging]).
- A proposal that is taken or forbidden is replaced by the best of random points.

Needs the extra ``gpyopt``. A suggestion depends on the data and the generator alone: GPyOpt draws from numpy's global
state, which is set before the call and restored after it.
"""

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.acquisition.optimize import best_free
from warmstart.bo.space.encoding import Encoding
from warmstart.bo.surrogates.base import Standardised
from warmstart.history_store.errors import UsageError
from warmstart.history_store.extras import require_extra

if TYPE_CHECKING:
    from warmstart.bo.evaluation_log import EvaluationLog

Floats = NDArray[np.float64]

MODELS = {"gp": "GPModel_MCMC", "gp-map": "GPModel"}
"""GPyOpt's models by the names of the equivalent surrogates here."""
ACQUISITIONS = {"ei": "AcquisitionEI", "lcb": "AcquisitionLCB"}
"""GPyOpt's acquisition functions by the names here: EI with jitter 0.01, LCB with weight 2."""
UNUSED = {"incumbent": "posterior-mean", "ei_variance": "latent"}
"""Settings that only the engine `warmstart` has, with their defaults."""
CLOUD = 1024
"""Random configurations whose best replaces a taken or forbidden proposal."""


def check_engine(surrogate: str, acquisition: str, *, incumbent: str, ei_variance: str) -> None:
    """Check that GPyOpt is installed and supports the model, the acquisition and the settings.

    Raises:
        UsageError: when it is missing or does not support one of them.
    """
    for name, value in {"incumbent": incumbent, "ei_variance": ei_variance}.items():
        if value != UNUSED[name]:
            msg = f"expected {UNUSED[name]!r} beside engine='gpyopt', which has no other, got {value!r}. Leave it or engine out."
            raise UsageError(msg, param=name)
    if surrogate not in MODELS or acquisition not in ACQUISITIONS:
        msg = f"Optimizer: expected engine='gpyopt' with a surrogate among {', '.join(MODELS)} and an acquisition among {', '.join(ACQUISITIONS)}, got {surrogate!r} and {acquisition!r}. Name one of those, or leave engine out."
        raise UsageError(msg)
    require_extra("gpyopt", "engine='gpyopt'")


def propose(
    encoding: Encoding,
    log: "EvaluationLog",
    *,
    candidates: Floats | None,
    surrogate: str,
    acquisition: str,
    rng: np.random.Generator,
) -> Floats | None:
    """Return the next point, chosen by GPyOpt.

    Args:
        encoding: of the space.
        log: evaluations, pending and proposed configurations.
        candidates: `m x p`, the only points to choose from; None = all of the space.
        surrogate: `gp` = hyperparameters sampled by Hamiltonian Monte Carlo, `gp-map` = the most probable ones.
        acquisition: `ei` or `lcb`.
        rng: the only source of randomness.

    Returns: `p`; None with fewer than two valid evaluations, in a space of one point, or when no configuration is free.
    """
    points, pending, taken = log.stack(log.points), log.stack(log.pending_points), log.taken
    errors = np.array([observation.error if observation.valid else np.nan for observation in log.observations])
    if np.isfinite(errors).sum() < 2 or not encoding.p:
        return None
    errors = np.concatenate([np.where(np.isnan(errors), np.nanmax(errors), errors), np.full(len(pending), np.nanmin(errors))])  # fmt: skip
    domain = _Domain(encoding)
    with _quiet(rng):
        score = _score(domain.items, domain.to_rows(np.concatenate([points, pending])), errors, surrogate, acquisition)
        if candidates is None:
            row = score.space.zip_inputs(score.optimize()[0])
            proposed = domain.to_points(np.asarray(row, dtype=np.float64))
            if encoding.valid(proposed)[0] and encoding.keys(proposed)[0] not in taken:
                return np.asarray(proposed[0])
            candidates = encoding.sample(CLOUD, design="uniform", rng=rng, exclude=taken)
        free = log.free(candidates)
        if not len(free):
            return None
        promised = np.ravel(score.acquisition_function(score.space.unzip_inputs(domain.to_rows(free))))
    return best_free(-promised, free, encoding, taken)


class _Domain:
    """The space as GPyOpt's domain: unordered choices of more than two values by position, all else continuous."""

    def __init__(self, encoding: Encoding) -> None:
        widths = np.diff([*encoding.column.tolist(), encoding.d])
        self._choices = np.where(widths > 1, widths, 0)
        self.items: list[dict[str, Any]] = [
            {"name": f"x{k}", "type": "categorical", "domain": tuple(range(n))}
            if n
            else {"name": f"x{k}", "type": "continuous", "domain": (0.0, 1.0)}
            for k, n in enumerate(self._choices.tolist())
        ]

    def to_rows(self, points: Floats) -> Floats:
        """Convert `n x p` points to GPyOpt's rows."""
        return np.where(self._choices > 0, np.minimum(np.floor(points * self._choices), self._choices - 1), points)

    def to_points(self, rows: Floats) -> Floats:
        """Convert GPyOpt's rows to points in [0, 1]."""
        return np.clip(np.where(self._choices > 0, (rows + 0.5) / np.maximum(self._choices, 1), rows), 0.0, 1.0)


def _score(items: Sequence[dict[str, Any]], X: Floats, errors: Floats, surrogate: str, acquisition: str) -> Any:
    """Fit an ARD Matérn 5/2 process to standardised errors, and return its acquisition function."""
    import GPy
    import GPyOpt

    space = GPyOpt.Design_space(list(items))
    kernel = GPy.kern.Matern52(space.model_dimensionality, variance=1.0, ARD=True)
    model = getattr(GPyOpt.models, MODELS[surrogate])(kernel=kernel, verbose=False)
    model.updateModel(space.unzip_inputs(X), Standardised.of(errors).z[:, None], None, None)
    name = ACQUISITIONS[acquisition] + ("_MCMC" if surrogate == "gp" else "")
    search = GPyOpt.optimization.AcquisitionOptimizer(space)
    return getattr(GPyOpt.acquisitions, name)(model, space, search)


@contextmanager
def _quiet(rng: np.random.Generator) -> Iterator[None]:
    """Seed numpy's global generator and silence GPyOpt and GPy; restore generator and warning filters on exit."""
    state, level = np.random.get_state(), logging.root.manager.disable  # noqa: NPY002  GPyOpt knows no other
    logging.disable(logging.WARNING)
    np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
        np.random.set_state(state)  # noqa: NPY002
