"""Registry of trackers. To add one, write a `Tracker` and name it in `TRACKERS` or by an entry point."""

from __future__ import annotations

from warmstart.history_store.extras import EXTRAS, require_extra
from warmstart.history_store.registry import Registry
from warmstart.integrations.trackers.tracker import Tracker

_HERE = "warmstart.integrations.trackers"
_METHODS = ("where", "begin", "report", "end")

TRACKERS: Registry[type[Tracker]] = Registry(
    "warmstart.trackers",
    "tracker",
    {
        "wandb": f"{_HERE}.wandb_runs:WandbRuns",
        "mlflow": f"{_HERE}.mlflow_runs:MlflowRuns",
        "tensorboard": f"{_HERE}.tensorboard_events:TensorboardEvents",
        "jsonl": f"{_HERE}.json_lines:JsonLines",
    },
    check=lambda kind: all(callable(getattr(kind, name, None)) for name in _METHODS),
    requirement="a class with the methods of a Tracker",
)
"""Every tracker by name."""


def find_tracker(name: str) -> type[Tracker]:
    """Return a tracker by name, with its package installed.

    Raises:
        UsageError: there is none of that name.
        MissingExtraError: its package is not installed.
    """
    if name in TRACKERS and name in EXTRAS:
        require_extra(name, f"`track` {name}")
    return TRACKERS.find(name, param="track")
