"""Settings of an optimiser run, checked: space, names and numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np

from warmstart.bo.acquisition.registry import ACQUISITIONS
from warmstart.bo.error_units import WARPING
from warmstart.bo.gpyopt_engine import UNUSED, check_engine
from warmstart.bo.models import Incumbent, Variance
from warmstart.bo.space.encoding import Encoding
from warmstart.bo.space.sampling import Design
from warmstart.history_store.axes import plain
from warmstart.history_store.errors import UsageError

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Engine = Literal["warmstart", "gpyopt"]


def encoding_of(space: ConfigurationSpace) -> Encoding:
    """Return the encoding of a space.

    Raises:
        UsageError: when it is no `ConfigurationSpace`.
    """
    from ConfigSpace import ConfigurationSpace

    if not isinstance(space, ConfigurationSpace):
        msg = f"Optimizer: expected a ConfigSpace ConfigurationSpace, got {type(space).__name__}. Build one with ConfigurationSpace.add, or from a dict or a file with warmstart.spaces.read_space."
        raise UsageError(msg)
    return Encoding(space)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSettings:
    """Checked settings of a run; see `warmstart.bo.Optimizer`. `find_surrogate` checks the surrogate's name."""

    surrogate: str
    acquisition: str = "ei"
    design: Design = "sobol"
    incumbent: Incumbent = "posterior-mean"
    ei_variance: Variance = "latent"
    engine: Engine = "warmstart"
    n_startup_trials: int | None = None
    timeout: float | None = None
    seed: Any = 0
    restarts: bool = True
    warp_errors: bool | None = None

    def __post_init__(self) -> None:
        """Check names and numbers, and draw a missing seed.

        Raises:
            UsageError: when a name or a number does not fit, or GPyOpt is named and not installed.
        """
        for field_name, choices in _CHOICES.items():
            if (name := getattr(self, field_name)) not in choices:
                msg = f"expected {field_name} among {', '.join(choices)}, got {name!r}. Leave it out for the default."
                raise UsageError(msg, param=field_name)
        if self.engine == "gpyopt":
            check_engine(self.surrogate, self.acquisition, incumbent=self.incumbent, ei_variance=self.ei_variance)
        for field_name in ("n_startup_trials", "seed"):
            number = getattr(self, field_name)
            is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
            if number is not None and (not is_whole or number < 0):
                msg = f"expected a whole number of 0 or more, got {number!r}. Leave it out for the default."
                raise UsageError(msg, param=field_name)
        for field_name, allowed in (("restarts", (bool, np.bool_)), ("warp_errors", (bool, np.bool_, type(None)))):
            if not isinstance(flag := getattr(self, field_name), allowed):
                msg = f"expected True or False, got {flag!r}. Leave it out for the default."
                raise UsageError(msg, param=field_name)
        object.__setattr__(self, "timeout", plain(self.timeout))
        is_number = isinstance(self.timeout, int | float) and not isinstance(self.timeout, bool)
        if self.timeout is not None and not (is_number and 0 < self.timeout < math.inf):
            msg = f"expected seconds above 0, got {self.timeout!r}. Leave it out to wait for ever."
            raise UsageError(msg, param="timeout")
        if self.n_startup_trials is not None:
            object.__setattr__(self, "n_startup_trials", int(self.n_startup_trials))
        seed = np.random.SeedSequence().generate_state(1)[0] if self.seed is None else self.seed
        object.__setattr__(self, "seed", int(seed))
        can_warp = self.surrogate in WARPING and self.engine == "warmstart"
        object.__setattr__(self, "restarts", bool(self.restarts))
        object.__setattr__(self, "warp_errors", can_warp if self.warp_errors is None else bool(self.warp_errors))
        if self.warp_errors and not can_warp:
            msg = f"warp_errors needs surrogate {', '.join(WARPING)} and engine 'warmstart', got {self.surrogate!r} and {self.engine!r}."
            raise UsageError(msg, param="surrogate")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in JSON types, by the names of 0.1."""
        return {_STORED.get(setting.name, setting.name): getattr(self, setting.name) for setting in fields(self)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read a record of `to_dict`; raises KeyError and TypeError on a damaged one."""
        named = {stored: name for name, stored in _STORED.items()}
        # Runs of old versions lack warp_errors, and may hold settings that GPyOpt never used.
        unused = UNUSED if record.get("engine") == "gpyopt" else {}
        return cls(
            **{"warp_errors": False, **{named.get(name, name): value for name, value in record.items()}, **unused}
        )


_CHOICES: Mapping[str, Collection[str]] = {
    "acquisition": ACQUISITIONS,
    "design": get_args(Design),
    "incumbent": get_args(Incumbent),
    "ei_variance": get_args(Variance),
    "engine": get_args(Engine),
}
_STORED = {"n_startup_trials": "startup"}
"""Field names in saved runs that differ from those here; saved runs keep theirs."""
