"""Settings of an optimiser run, checked: space, names and numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from bo.gpyopt_engine import check_engine
from bo.models import ACQUISITIONS, Incumbent, Variance
from bo.space.encoding import Encoding
from bo.space.sampling import Design
from history_store.errors import UsageError

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Engine = Literal["warmstart", "gpyopt"]


def encoding_of(space: ConfigurationSpace) -> Encoding:
    """Return the encoding of a space.

    Raises:
        UsageError: when it is none.
    """
    from ConfigSpace import ConfigurationSpace

    if not isinstance(space, ConfigurationSpace):
        msg = f"Optimizer: expected a ConfigSpace ConfigurationSpace, got {type(space).__name__}. Build one with ConfigurationSpace.add."
        raise UsageError(msg)
    return Encoding(space)


def checked_settings(
    *,
    surrogate: str,
    acquisition: str,
    design: str,
    incumbent: str,
    ei_variance: str,
    startup: int | None,
    timeout: float | None,
    seed: int | None,
    engine: Engine,
    restarts: bool,
) -> dict[str, Any]:
    """Check names and numbers, and draw a seed where there is none; the surrogate is checked by `find_surrogate`.

    Returns: the settings by name, as JSON has them.

    Raises:
        UsageError: when a name or a number does not fit, or GPyOpt is wanted and not installed.
    """
    names = {
        "acquisition": (acquisition, ACQUISITIONS),
        "design": (design, get_args(Design)),
        "incumbent": (incumbent, get_args(Incumbent)),
        "ei_variance": (ei_variance, get_args(Variance)),
        "engine": (engine, get_args(Engine)),
    }
    for what, (name, known) in names.items():
        if name not in known:
            msg = f"Optimizer: expected {what} among {', '.join(known)}, got {name!r}. Leave it out for the default."
            raise UsageError(msg)
    if engine == "gpyopt":
        check_engine(surrogate, acquisition)
    for what, number in (("startup", startup), ("seed", seed)):
        if number is not None and (not isinstance(number, int | np.integer) or number < 0):
            msg = f"Optimizer: expected {what} to be a whole number of 0 or more, got {number!r}. Leave it out for the default."
            raise UsageError(msg)
    if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout < math.inf):
        msg = f"Optimizer: expected a timeout of seconds above 0, got {timeout!r}. Leave it out to wait for ever."
        raise UsageError(msg)
    number = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else int(seed)
    return (
        {"surrogate": surrogate}
        | {name: value for name, (value, _) in names.items()}
        | {
            "startup": None if startup is None else int(startup),
            "timeout": timeout,
            "seed": number,
            "restarts": bool(restarts),
        }
    )
