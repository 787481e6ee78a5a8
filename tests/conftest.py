"""A tiny history with a model of random weights, and pictures to ask about."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # several workers, and sums in one order; before numpy is loaded

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from stripes import pictures, write_folder

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # the background of a shell; what tests start would ignore Ctrl-C, too
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Seconds are the machine's: an example that had to wait for its turn is no failure.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.hookimpl(trylast=True)  # after the shuffle
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the pages of docs, which take minutes each: at the end one worker would do them alone."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/docs/test_examples.py"))


CPU = pytest.StashKey[float]()


def cpu_s() -> float:
    """Return the CPU seconds of this process and of those that it waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note when a test begins; see below."""
    item.stash[CPU] = cpu_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Write the CPU seconds of a test into the JUnit XML file: unlike its time, they do not depend on what else runs."""
    yield
    item.user_properties.append(("cpu", round(cpu_s() - item.stash[CPU], 3)))


@dataclass(frozen=True, slots=True)
class Tiny:
    """Files of the tiny history; tests that write take a copy."""

    history: Path
    model: Path
    names: tuple[str, ...]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Make a history of six datasets in three groups over eight configurations, and a model that fits it."""
    from warmstart.history_store.history import History
    from warmstart.history_store.images import ImageSet
    from warmstart.history_store.numbering import sobol_configs
    from warmstart.history_store.records import DatasetInfo, Evaluation
    from warmstart.history_store.space import dump_space
    from warmstart.history_store.splits import split_codes
    from warmstart.metafeat.embed import embed_history
    from warmstart.metafeat.model import MetaFeatureModel
    from warmstart.metafeat.model_file import read_header
    from warmstart.metafeat.spec import ModelSpec, space_digest
    from warmstart.training.workloads.cnn.space import target_space

    folder = tmp_path_factory.mktemp("tiny")
    space = target_space("compact")
    configs = sobol_configs(space, 8)
    rng = np.random.default_rng(0)
    names = tuple(f"stripes{i}" for i in range(6))
    path, model_file = folder / "tiny.h5", folder / "tiny.safetensors"
    with History.create(path, dump_space(space), configs=configs) as history:
        for kind, name in enumerate(names):
            images, labels = pictures(kind)
            codes, seed = split_codes(labels)
            train, val, test = (int((codes == code).sum()) for code in (0, 1, 2))
            info = DatasetInfo(name, f"group{kind // 2}", train, val, test, 4, split_seed=seed, source="made in a test")
            history.add_dataset(info, ImageSet(images, labels, ("a", "b", "c", "d")), codes)
            errors = rng.uniform(0.1, 0.9, len(configs)).round(3)
            history.extend(
                Evaluation(name, config, float(error), seed=1, duration=1.5, origin="test")
                for config, error in zip(configs, errors, strict=True)
            )
        header = {
            "history_id": history.id,
            "space_digest": space_digest(history.space_json),
            "history_revision": history.revision,
        }
        MetaFeatureModel.random(ModelSpec(tau=50)).save(model_file, header)
        model = read_header(model_file)
        history.set_embeddings(model.hash, embed_history(history, history.names, model))
    return Tiny(path, model_file, names)


@pytest.fixture(autouse=True)
def _no_user_files(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep tests off the user's cache and settings."""
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.delenv("WARMSTART_HISTORY", raising=False)
    monkeypatch.delenv("WARMSTART_MODEL", raising=False)


@pytest.fixture
def use_tiny(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> Tiny:
    """Let the tiny history and model be the ones that nobody names."""
    monkeypatch.setenv("WARMSTART_HISTORY", str(tiny.history))
    monkeypatch.setenv("WARMSTART_MODEL", str(tiny.model))
    return tiny


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder of forty pictures in four classes."""
    return write_folder(tmp_path_factory.mktemp("data") / "photos", *pictures(9))


@pytest.fixture
def trials_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run trials of the built-in networks in this process, where torch is loaded: for tests of something else."""
    from trial_threads import use_threads

    use_threads(monkeypatch)


@pytest.fixture
def functions_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run trials of functions in this process, a second less for each study: for tests of something else."""
    from trial_threads import begin_functions, use_threads

    use_threads(monkeypatch, begin_functions)


@pytest.fixture
def short_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Gaussian processes draw few samples, for tests of something else than how well they search."""
    from dataclasses import replace
    from functools import partial

    from warmstart.bo.surrogates import SURROGATES

    for name in ("gp", "mt-gp"):
        info = SURROGATES[name]
        short = partial(info.factory, samples=2, burn_in=2, sweeps=2)
        monkeypatch.setitem(SURROGATES._entries, name, replace(info, factory=short))


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `warmstart tune` write its page without pictures, a second or more of each call."""
    monkeypatch.setattr("warmstart.plots.study_page._figures", lambda *_: "")


@pytest.fixture
def no_pictures_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do likewise in processes that a test starts."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "without_matplotlib"), prepend=os.pathsep)


@dataclass(frozen=True, slots=True)
class Run:
    """What a command gave."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Read its result, which must be one JSON document without NaN."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def cli() -> Callable[..., Run]:
    """Run a command in this process; its stderr may be a terminal."""
    from warmstart.cli import main

    def run(*args: object, on_terminal: bool = False) -> Run:
        out, err = io.StringIO(), Terminal() if on_terminal else io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(arg) for arg in args])
        return Run(code, out.getvalue(), err.getvalue())

    return run
