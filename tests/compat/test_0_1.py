"""What 0.1 wrote is opened, read and resumed; what its documentation imports is still there."""

from __future__ import annotations

import csv
import gzip
import importlib
import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from ConfigSpace import Configuration

from warmstart.bo import Optimizer
from warmstart.history_store.space import load_space
from warmstart.pickles import current_module

ARCHIVE = Path(__file__).parent / "v0_1"
DOCUMENTED = """
bo: Optimizer RelatedTask
bo.calibration: calibrate
bo.designs: initial_designs
bo.diagnostics: diagnose read_run
bo.paper_spaces: cnn_space layered_space lbl_space natural
bo.space: Encoding
bo.strategies:
bo.surrogates: GaussianProcess
history_store.errors: AllTrialsFailedError DataError MissingPathError SpaceExhaustedError StorageError UsageError WarmstartError
history_store.foreign_import: carry_out plan_import
history_store.history: History
history_store.images: ImageSource
history_store.manifest: Manifest Obtain
history_store.mapping: Wishes map_configs
history_store.readers: open_images register_scheme
history_store.readers.arrays: ArraySource
history_store.readers.base: Source
history_store.records: DatasetInfo Evaluation
history_store.error_tables: target_distance
history_store.space: dump_space load_space target_space
metafeat.cache: EmbeddingCache
metafeat.handcrafted: FEATURES
metafeat.index: DatasetIndex
training.budget: Budget
training.collect: collect
training.enrol: rebuild
training.executor: Executor
training.siamese: train_from_history
warmstart: answer neighbours suggest tune tune_many
warmstart.exit_codes: exit_code
warmstart.importing: read_source
warmstart.integrations.botorch: SurrogateModel
warmstart.integrations.optuna: WarmStartSampler warm_start
warmstart.integrations.optuna_space: to_distributions
warmstart.integrations.ray: Cluster RayExecutor
warmstart.studies.kinds: load_objective
warmstart.studies.network: Networks
warmstart.studies.runner: TrialRunner
"""
"""Modules and names that README and docs of 0.1 import or point at; collected from them once, then frozen."""
MOVED_NAMES = {
    ("training.siamese", "train_from_history"): "warmstart.training.siamese.from_history",
    ("history_store.space", "target_space"): "warmstart.training.workloads.cnn.space",
}
PATHS = [
    (MOVED_NAMES.get((module, name)) or current_module(module), name)
    for module, _, names in (line.partition(":") for line in DOCUMENTED.strip().splitlines())
    for name in names.split() or [""]
]


def _studies():
    spec = importlib.util.spec_from_file_location("make_0_1", ARCHIVE / "make.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    return {name: command.split() for name, (command, _) in maker.STUDIES.items()}


STUDIES = _studies()


@pytest.fixture
def archive(tmp_path, monkeypatch, trials_here, no_pictures):
    """Unpack a copy, and work in its folder."""
    for path in ARCHIVE.iterdir():
        if path.suffix == ".gz":
            (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        elif path.is_file():
            shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def unpacked(name):
    return gzip.decompress((ARCHIVE / f"{name}.gz").read_bytes())


def trials(storage):
    """Read the trials of a storage's studies with Optuna alone."""
    import optuna
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    kind = JournalStorage(JournalFileBackend(storage)) if storage.endswith(".journal") else RDBStorage(f"sqlite:///{storage}")  # fmt: skip
    return {
        one.study_name: [
            (trial.number, trial.state.name, trial.params, trial.values)
            for trial in optuna.load_study(study_name=one.study_name, storage=kind).trials
        ]
        for one in optuna.get_all_study_summaries(kind)
    }


def test_documented_paths_are_there():
    for module, name in PATHS:
        if not module.endswith("botorch") or importlib.util.find_spec("botorch"):
            found = importlib.import_module(module)
            assert not name or hasattr(found, name), (module, name)


def test_a_killed_study_goes_on(archive, cli):
    storage = "running.db"
    ((name, before),) = trials(storage).items()
    ended = [trial for trial in before if trial[1] in ("COMPLETE", "PRUNED", "FAIL")]
    assert any(trial[1] == "RUNNING" for trial in before)
    command = STUDIES[storage]
    run = cli(*command, "--storage", storage, "--format", "json")
    assert run.code == 0, run.err
    found = run.json()
    wanted = int(command[command.index("--trials") + 1])
    assert (found["study"], sum(found["trials"].values())) == (name, wanted)
    after = trials(storage)[name]
    assert [trial for trial in after if trial[0] in {one[0] for one in ended}] == ended  # nothing told is lost


def assert_kept(was, now, moving=frozenset()):
    """Check that all that a document said is said, field by field; new fields may stand beside."""
    if isinstance(was, dict):
        assert set(was) <= set(now)
        for key in set(was) - moving:
            assert_kept(was[key], now[key])
    elif isinstance(was, list):
        for before, after in zip(was, now, strict=True):
            assert_kept(before, after)
    elif isinstance(was, str):  # 0.3 says "results"
        assert now == re.sub(r"trials? with an error", "results", was)
    else:
        assert now == was


@pytest.mark.parametrize("storage", ["done.journal", pytest.param("joint.db", marks=pytest.mark.slow)])
def test_a_study_that_is_done_says_the_same_and_can_be_made_longer(storage, archive, cli):
    before = trials(storage)
    old, command = json.loads(Path(f"{storage}.json").read_text()), STUDIES[storage]
    run = cli(*command, "--storage", storage, "--format", "json")
    assert run.code == 0, run.err
    assert trials(storage) == before
    new = run.json()
    moving = {"storage", "report", "seconds", "studies"}
    assert_kept(old, new, moving)
    for was, now in zip(old.get("studies", ()), new.get("studies", ()), strict=True):
        assert_kept(was, now, moving)
    at = command.index("--trials") + 1
    longer = [*command[:at], str(int(command[at]) + 1), *command[at + 1 :]]
    run = cli(*longer, "--storage", storage, "--format", "json")
    assert run.code == 0, run.err
    assert sum(run.json()["trials"].values()) == int(longer[at])
    assert {name: each[: len(before[name])] for name, each in trials(storage).items()} == before


def test_the_answer_has_the_fields_of_0_1(archive, cli):
    query = ("suggest", "sklearn:digits", "--workload", "cnn", "--exclude-group", "sklearn_digits", "--format")
    old, new = json.loads(Path("suggest-explained.json").read_text()), cli(*query, "json", "--explain").json()

    def check(was, now, where):
        if isinstance(was, dict) and where != "config":
            assert set(was) <= set(now), where
            for key, value in was.items():
                check(value, now[key], key)
        elif isinstance(was, list) and was and isinstance(was[0], dict):
            check(was[0], now[0], where)
        elif was is not None and now is not None:
            assert isinstance(now, type(was) if not isinstance(was, int | float) else int | float), where

    check(old, new, "")
    with Path("suggest.csv").open() as was:
        heads = csv.DictReader(was).fieldnames
    assert set(heads) <= set(cli(*query, "csv").out.splitlines()[0].split(","))
    assert set(yaml.safe_load(Path("suggest.yaml").read_text())) <= set(yaml.safe_load(cli(*query, "yaml").out))
    points = json.loads(Path("points.json").read_text())
    assert [set(point) for point in points] == [set(point) for point in json.loads(cli(*query, "ray").out)]
    assert set(json.loads(Path("start.json").read_text())) == set(json.loads(cli(*query, "configspace").out))


def test_the_configurations_of_0_1_are_in_the_space_of_0_1(archive):
    start = json.loads(Path("start.json").read_text())
    space = load_space(json.dumps(start["space"]))
    for values in start["configurations"]:
        assert dict(Configuration(space, values=values)) == values


@pytest.mark.parametrize("surrogate", ["gp", "dngo", "mt-gp"])
def test_an_optimiser_goes_on(surrogate, archive):
    record = json.loads(unpacked(f"optimizer-{surrogate}.json"))
    optimizer = Optimizer.from_dict(record["run"])
    space = load_space((archive / "space.json").read_text())
    assert len(optimizer.pending) == 1
    config = optimizer.ask()[0]
    assert dict(Configuration(space, values=config)).keys() == config.keys()
    optimizer.tell(config, 0.5)
    assert optimizer.best.error <= 0.5


@pytest.mark.parametrize("surrogate", ["gp"])
def test_a_checkpoint_is_resumed(surrogate, archive):
    record = json.loads(unpacked(f"optimizer-{surrogate}.json"))
    space, first = load_space((archive / "space.json").read_text()), Optimizer.from_dict(record["run"])
    again = Optimizer(space, surrogate=surrogate, seed=3)
    for one in first.history():
        again.tell(one.config, one.error)
    again.resume(record["checkpoint"], pending=first.pending)
    assert again.ask() == first.ask()
