"""Small histories for tests."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from warmstart.history_store.file.base import Sink
from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.records import DatasetInfo, Evaluation, Status, Value
from warmstart.history_store.space import dump_space

NAMES = ("digits", "Ä/ö ☃", "..")


@functools.cache
def space_json() -> str:
    """A space with an integer, a logarithmic real, a condition, mixed choices and a constant."""
    from ConfigSpace import Categorical, ConfigurationSpace, Constant, EqualsCondition, Float, Integer

    space = ConfigurationSpace(name="test")
    optimizer = Categorical("optimizer", ["sgd", "adam"])
    momentum = Float("momentum", (0.0, 0.99))
    space.add(optimizer, momentum, EqualsCondition(momentum, optimizer, "sgd"))
    space.add(Integer("layers", (1, 9)), Float("rate", (1e-5, 1.0), log=True), Categorical("width", [8, "all", True]))
    space.add(Constant("epochs", 3))
    return dump_space(space)


@functools.cache
def _configs(n: int) -> tuple[dict[str, Value], ...]:
    from warmstart.history_store.space import load_space

    return tuple(sobol_configs(load_space(space_json()), n))


def configs(n: int = 4) -> list[dict[str, Value]]:
    """Configurations of the space, some with the conditional value and some without."""
    return [dict(config) for config in _configs(16)[:n]]


def info(name: str, n: int = 10, **changes: object) -> DatasetInfo:
    """Describe a dataset of n training images in two classes."""
    values: dict[str, object] = {"n_train": n, "n_val": 0, "n_test": 0, "n_classes": 2, "group": f"group of {name}"}
    return DatasetInfo(name, **{**values, **changes})  # type: ignore[arg-type]


def runs() -> list[Evaluation]:
    """Evaluations of every kind."""
    a, b, c, d = configs(4)
    x, y, z = NAMES
    return [
        Evaluation(x, a, 0.25, seed=0, duration=1.5, curve=((10, 0.5), (20, 0.25)), origin="first"),
        Evaluation(x, a, 0.75, seed=2**63 - 1, duration=0.1 + 0.2, curve=((1, 1.0),), origin="first"),
        Evaluation(x, b, 0.9, Status.DIVERGED, seed=0, origin="first"),
        Evaluation(y, b, math.nan, Status.CRASHED, seed=1, origin="zweite Messung ☃"),
        Evaluation(y, c, math.nan, Status.TIMEOUT, duration=60.0, curve=((5, 0.8),)),
        Evaluation(y, c, math.nan, Status.TIMEOUT, duration=60.0, curve=((5, 0.8),)),  # unknown seeds may repeat
        Evaluation(z, d, math.nan, Status.OOM, seed=3),
        Evaluation(z, a, 0.0),
        Evaluation(z, a, 1.0, seed=7, origin="first"),
    ]


def empty(path: Path, names: Sequence[str] = NAMES) -> History:
    """A history with datasets and configurations, open for writing."""
    history = History.create(path, space_json(), configs=configs(3), notes={"made": "in a test"})
    for name in names:
        history.add_dataset(info(name))
    return history


def filled(path: Path) -> History:
    """A history with evaluations of every kind, open for writing; the last configuration came with a run."""
    history = empty(path)
    history.extend(runs())
    return history


@contextlib.contextmanager
def to_be_copied() -> Iterator[None]:
    """Write histories without the number of their file, so that a copy counts as the file itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sink, "inode", property(lambda _: 0, lambda *_: None), raising=False)
        yield


def pictures(n: int = 10, size: int = 32, channels: int = 3, seed: int = 0) -> ImageSet:
    """Noise in two classes."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n, size, size, channels), dtype=np.uint8)
    return ImageSet(images, np.arange(n, dtype=np.int64) % 2, ("even", "odd"))


def plain(evaluations: Sequence[Evaluation]) -> list[str]:
    """Evaluations in a form in which NaN equals NaN and the order of a configuration's names does not count."""
    return [repr(replace(e, config=dict(sorted(e.config.items())))) for e in evaluations]
