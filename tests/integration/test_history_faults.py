"""The system refuses a call of a write, once or from then on: nothing acknowledged is lost, and the history goes on."""
# ruff: noqa: F401, F811 - fixtures of another file

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import histories
import pytest
from test_history_kills import STEPS, check, start, state_at, states

from warmstart.history_store.errors import StorageError, StorageFullError, WarmstartError
from warmstart.history_store.file import durable
from warmstart.history_store.history import History
from warmstart.history_store.quick_append import append_quickly
from warmstart.history_store.records import Evaluation
from warmstart.history_store.verify import verify

FAULTS: dict[str, Callable[[], BaseException]] = {
    "EIO": lambda: OSError(errno.EIO, "Input/output error"),
    "ENOSPC": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "memory": MemoryError,
}


class Faulty:
    """A system that refuses the call number k; with `lasting`, all from there on."""

    def __init__(self, k: int, fault: str, *, lasting: bool) -> None:
        self.left, self.fault, self.lasting = k, FAULTS[fault], lasting
        self.is_broken, self.calls, self._inside = False, 0, 0

    def hook(self, call: str, path: Path) -> None:
        if path.name == "h.h5.tmp" and call == "write":  # many and alike: every third
            self._inside += 1
            if self._inside % 3:
                return
        self.calls += 1
        self.left -= 1
        if self.left == 0 or (self.lasting and self.left < 0):
            self.is_broken = True
            raise self.fault()

    def check(self, error: WarmstartError) -> None:
        """Check that an error is of exit code 4, says the next step, and tells a full disk from others."""
        assert self.is_broken
        assert isinstance(error, StorageFullError if self.fault is FAULTS["ENOSPC"] else StorageError), error
        assert str(error).rstrip().endswith("."), error


def calls(start: Path, folder: Path) -> int:
    system = Faulty(-1, "EIO", lasting=False)
    shutil.copytree(start, folder)
    durable.hook = system.hook
    try:
        with History.open(folder / "h.h5", write=True) as history:
            for _, step in STEPS:
                step(history)
    finally:
        durable.hook = None
    return system.calls


def carry_out(folder: Path, states: list[str], system: Faulty) -> int:
    """Carry out the steps against a faulty system; a step that fails once is done again. Returns how many were done."""
    done = 0
    durable.hook = system.hook
    try:
        with History.open(folder / "h.h5", write=True) as history:
            while done < len(STEPS):
                try:
                    STEPS[done][1](history)
                except WarmstartError as error:
                    system.check(error)
                    if system.lasting:
                        return done
                    hook, durable.hook = durable.hook, None
                    now = state_at(folder / "h.h5")
                    durable.hook = hook
                    assert now in states[done : done + 2], STEPS[done]
                    if now == states[done]:
                        continue  # the same object goes on
                done += 1
    except StorageError:
        assert system.is_broken  # at the opening or the closing
    finally:
        durable.hook = None
    return done


def attack(start: Path, states: list[str], folder: Path, k: int, fault: str, *, lasting: bool) -> None:
    place = folder / f"{k}-{fault}-{lasting}"
    shutil.copytree(start, place)
    done = carry_out(place, states, Faulty(k, fault, lasting=lasting))
    check(place, done, states)
    shutil.rmtree(place)
    shutil.rmtree(place.with_name(place.name + "-restored"))


def test_some_refused_calls_lose_nothing(start: Path, states: list[str], tmp_path: Path) -> None:
    n = calls(start, tmp_path / "whole")
    points = range(3, n, n // 3)
    for number, k in enumerate(points):
        attack(start, states, tmp_path, k, list(FAULTS)[number % 3], lasting=bool(number % 2))


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("fault", FAULTS)
def test_every_refused_call_loses_nothing(
    start: Path, states: list[str], tmp_path: Path, fault: str, lasting: bool
) -> None:
    for k in range(1, calls(start, tmp_path / "whole") + 1):
        attack(start, states, tmp_path, k, fault, lasting=lasting)


def test_every_refused_call_of_a_quick_append(start: Path, tmp_path: Path) -> None:
    def evaluation(seed: int) -> Evaluation:
        return Evaluation("digits", histories.configs(1)[0], 0.5, seed=seed)

    for k in range(1, 100):
        folder = tmp_path / str(k)
        shutil.copytree(start, folder)
        path = folder / "h.h5"
        with History.open(path, write=True) as history:  # a copy becomes a file of its own
            history.append(evaluation(0))
        assert append_quickly(path, evaluation(1)) == 2
        system = Faulty(k, "ENOSPC", lasting=False)
        durable.hook = system.hook
        try:
            assert append_quickly(path, evaluation(2)) == 3
        except StorageError:
            assert system.is_broken
        finally:
            durable.hook = None
        if not system.is_broken:
            break
        with History.open(path) as history:
            assert {run.seed for run in history.evaluations()} in ({0, 1}, {0, 1, 2})
        assert verify(path).ok
        if append_quickly(path, evaluation(3)) is None:
            with History.open(path, write=True) as history:
                history.append(evaluation(3))
        with History.open(path) as history:
            assert {0, 1, 3} <= {run.seed for run in history.evaluations()}
        assert verify(path).ok
    assert k > 3
