"""Whatever is wrong with an argument of the public functions is told by an error of ours."""

from pathlib import Path

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace

import warmstart
from warmstart.bo import Optimizer
from warmstart.bo.transfer.designs import initial_designs
from warmstart.history_store.errors import UsageError, WarmstartError

SPACE = ConfigurationSpace({"x": (0.0, 1.0)})
IMAGES = np.zeros((20, 8, 8), np.uint8)
IMAGES[::2] = 200
LABELS = np.arange(20) % 2
DIGITS = "sklearn:digits"
ERRORS, DISTANCES = np.array([[0.3, 0.1], [0.2, 0.4]]), np.array([0.5, 0.2])
POINT = {"x": 0.5}


def objective(config):
    return config["x"]


def asked(**arguments):
    return lambda: warmstart.suggest(DIGITS, **arguments)


def shown(**arguments):
    return lambda: warmstart.suggest(**arguments)


def tuned(**arguments):
    return lambda: warmstart.tune(**{"objective": objective, "space": SPACE, "trials": 1} | arguments)


def several(datasets, **arguments):
    return lambda: warmstart.tune_many(datasets, **{"objective": objective, "space": SPACE, "warm": "none"} | arguments)


def told(*arguments, **named):
    return lambda: Optimizer(SPACE).tell(*arguments, **named)


def chosen(errors=ERRORS, distances=DISTANCES, k=1, **named):
    return lambda: initial_designs(errors, distances, k, **named)


CALLS = {
    # suggest, neighbours, Advisor
    "history": [asked(history=each) for each in (3, object(), "a\0b", "", "nofile.h5")],
    "model": [asked(model=each) for each in ([1], b"m", "nofile")],
    "strategy": [asked(strategy=each) for each in ("x", 3, ["joint"])],
    "k": [asked(k=each) for each in ("3", 0, 2.5, True)],
    "space": [asked(space=each) for each in (3, {"lr": {"log": "x"}}, "nothing", object())],
    "rename": [asked(space=SPACE, rename=each) for each in (3, ["x"], {"a": 3})],
    "exclude_group": [asked(exclude_group=each) for each in (3, [3], [["a"]], "no such group")],
    "seed": [asked(seed=each) for each in ("0", -1, 1.5, None)],
    "device": [asked(device=each) for each in ("gpu", 3, None)],
    "threads": [asked(threads=each) for each in ("a", 0, 1.5)],
    "flags": [asked(skip_broken="no"), asked(cache="no"), asked(download=3), asked(cache=None)],
    "path": [lambda each=each: warmstart.suggest(each) for each in (None, 3, b"x", "", "a\0b", "torchvision:Nope")],
    "images": [
        *(shown(images=each) for each in (3, IMAGES, {"a": 1}, object(), [1, 2, 3], iter([1]))),
        *(shown(images=each, labels=LABELS) for each in ("text", IMAGES.astype(complex), [[1], [1, 2]], [None, None])),
    ],
    "labels": [shown(images=IMAGES, labels=each) for each in (3, LABELS[:3], ["a"] * 20, [[1]] * 20, [None] * 20, [{}] * 20)],
    "both": [asked(labels=LABELS), asked(images=IMAGES)],
    "neighbours": [lambda each=each: warmstart.neighbours(DIGITS, k=each) for each in ("a", -1, None)],
    "advisor": [
        *(lambda each=each: warmstart.Advisor(each) for each in (3, [1])),
        lambda: warmstart.Advisor(exclude_group=3),
        *(lambda each=each: warmstart.Advisor().suggest(each) for each in (None, 3, (1, 2, 3), (IMAGES,))),
        lambda: warmstart.Advisor().neighbours(DIGITS, None),
    ],
    # tune, tune_many
    "nothing": [lambda: warmstart.tune(), tuned(objective=None)],
    "dataset": [tuned(dataset=each) for each in (3, b"x", "")],
    "objective": [tuned(objective=each) for each in (3, "x", "a b:c", objective.__code__)],
    "command": [tuned(objective=None, command=each) for each in (3, "echo {y}", "echo 'x", "no-such-program {x}")],
    "two": [tuned(command="echo {x}")],
    "tuned space": [tuned(space=each) for each in (3, {"x": {"log": 0}}, "nofile.json", ["x"])],
    "numbers": [tuned(**{name: each}) for name in ("trials", "k", "n_startup_trials", "workers", "ensemble") for each in (0, "3", 1.5)],
    "times": [tuned(**{name: each}) for name in ("timeout", "trial_timeout") for each in ("soon", [1], -1, float("nan"))],
    "memory": [tuned(trial_memory=each) for each in ("x", [], 0)],
    "places": [tuned(**{name: 3}) for name in ("storage", "log", "report", "save_model", "history", "model")],
    "names": [tuned(**{name: 3}) for name in ("study", "warm", "strategy", "surrogate", "acquisition", "pruner", "record")],
    "unknown": [tuned(**{name: "x"}) for name in ("warm", "strategy", "surrogate", "acquisition", "pruner", "scale")],
    "none": [tuned(**{name: None}) for name in ("warm", "k", "seed", "surrogate", "pruner", "on_message", "cache", "device")],
    "tuned seed": [tuned(seed=each) for each in ("a", -1, 1.5)],
    "budget": [tuned(budget=each) for each in ("a", True, float("nan"), 0)],
    "callbacks": [tuned(progress=3), tuned(on_message=3)],
    "groups": [tuned(exclude_group=3), tuned(related=3)],
    "cluster": [tuned(cluster=3)],
    "metric": [tuned(metric=3), tuned(metric="last"), tuned(metric="accuracy"), tuned(maximize="yes"), tuned(metric="loss", maximize=True)],
    "log": [tuned(log="no/folder/log"), tuned(log=".")],
    "several": [several(each) for each in ([], 3, "abc", None, [1, 2], ["a"], ["a", "a"])],
    "split": [several(["a", "b"], split=each) for each in ("x", 3)],
    # bo
    "optimizer": [
        *(lambda each=each: Optimizer(each) for each in (3, "compact", None, {"x": (0, 1)})),
        *(lambda name=name, each=each: Optimizer(SPACE, **{name: each}) for name in ("surrogate", "acquisition", "design", "seed", "engine") for each in ("?", [])),
        *(lambda each=each: Optimizer(SPACE, initial=each) for each in (3, [3], "abc", [{"y": 1}], {"x": 1})),
        *(lambda each=each: Optimizer(SPACE, related=each) for each in (3, [3])),
        *(lambda each=each: Optimizer(SPACE).ask(each) for each in ("2", 0)),
    ],
    "tell": [
        *(told(each, 0.1) for each in (3, {"y": 0.5}, {"x": "a"}, None)),
        *(told(POINT, each) for each in ("a", None, [0.1, 0.2])),
        *(told(POINT, 0.1, **each) for each in ({"status": "x"}, {"duration": "a"}, {"constraints": 3})),
    ],
    "designs": [
        *(chosen(each) for each in (3, "a", None, [[1], [1, 2]], ERRORS * np.inf, ERRORS * np.nan)),
        *(chosen(distances=each) for each in (3, ["a", "b"], DISTANCES[:1], -DISTANCES)),
        *(chosen(k=each) for each in ("1", 0, 5, 1.5, None)),
        *(chosen(strategy=each) for each in ("x", 3, ["joint"])),
        *(chosen(groups=each) for each in (3, "ab", ["a"])),
        chosen(calibration=3),
        chosen(dedupe="x"),
    ],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _history(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARMSTART_HISTORY", str(tiny.history))
    monkeypatch.setenv("WARMSTART_MODEL", str(tiny.model))


@pytest.mark.parametrize("what", CALLS)
def test_a_bad_argument_is_told_by_an_error_of_ours(what):
    for i, call in enumerate(CALLS[what]):
        with pytest.raises(
            WarmstartError, match=r"expected .*, got .*\. [A-Z`]|cannot be used|needs? `|^Give your"
        ) as told:
            call()
        assert not isinstance(told.value.__cause__, AttributeError | NameError), f"{what}[{i}]"
    assert not [file for file in Path.cwd().iterdir() if not file.name.startswith("warmstart-studies")]


@pytest.mark.parametrize("given", [IMAGES, (IMAGES, LABELS), [IMAGES]])
def test_arrays_where_a_path_belongs_are_told_where_they_go(given):
    for ask in (warmstart.suggest, warmstart.neighbours, warmstart.answer):
        with pytest.raises(UsageError, match=r"path: expected a path, got arrays. Give them as `images` and `labels`"):
            ask(given)
    for call in (tuned(dataset=given), several([given])):
        with pytest.raises(
            UsageError, match=r"dataset: expected a path, got arrays. Save .* with numpy.savez\('photos"
        ):
            call()
