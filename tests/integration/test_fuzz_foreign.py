"""Datasets, runs of other tools and classifiers in which one thing is odd: each is read, or refused with an error of ours."""

from __future__ import annotations

import gzip
import json
import math
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import layouts
import numpy as np
import optuna
import pytest
import run_folders
from odd_files import alter_folder

from warmstart.history_store.errors import WarmstartError
from warmstart.history_store.external_import import plan_import
from warmstart.history_store.history import History
from warmstart.history_store.readers import open_images
from warmstart.history_store.space import dump_space
from warmstart.history_store.space_yaml import parse_space
from warmstart.integrations.importers.registry import read_source
from warmstart.training.workloads import load_classifier

TESTS = Path(__file__).parents[1]
FOREIGN = TESTS / "foreign"
CASES = 3600
"""Of a kind, in a campaign."""
FOUND = {
    "read npz": (561,),
    "read arranged": (14, 837),
    "import table-parquet": (1260, 1410),
    "import optuna": (1215,),
    "import optuna-journal": (135,),
    "import smac": (884,),
    "import syne_tune": (113,),
    "import database": (95,),
    "classifier heads": (192,),
}
"""Seeds that a campaign found to be faults."""
SECONDS = 60
PIXELS, CLASSES = layouts.pixels(12, 8), layouts.classes(12)


def _folder(root: Path) -> str:
    layouts.save_folder(root / "train", PIXELS[:9], CLASSES[:9] % 3)
    layouts.save_folder(root / "val", PIXELS[:9], np.arange(9) % 3)
    return ""


def _labelled(root: Path) -> str:
    for number, image in enumerate(PIXELS):
        layouts.save_picture(root / f"{number}.png", image)
    rows = "".join(f"{n}.png,{'abc'[n % 3]},{n % 2},{'train' if n < 9 else 'test'}\n" for n in range(12))
    (root / "labels.csv").write_text("file_name,label,age,split\n" + rows)
    return "::labels=labels.csv::column=label"


def _json_lines(root: Path) -> str:
    for split in ("train", "test"):
        for number, image in enumerate(PIXELS[:9]):
            layouts.save_picture(root / split / f"{number}.png", image)
        lines = "".join(json.dumps({"file_name": f"{n}.png", "label": "abc"[n % 3]}) + "\n" for n in range(9))
        (root / split / "metadata.jsonl").write_text(lines)
    return "::labels=metadata.jsonl"


def _idx(root: Path) -> str:
    for part in ("train", "t10k"):
        layouts.save_mnist(root, PIXELS[..., :1], CLASSES, part=part, ending="" if part == "train" else ".gz")
    return ""


def _cifar(root: Path) -> str:
    layouts.save_cifar(root / "data_batch_1.bin", layouts.pixels(6, 32), CLASSES[::2])
    layouts.save_cifar(root / "test_batch.bin", layouts.pixels(6, 32), CLASSES[::2])
    return ""


def _npz(root: Path) -> str:
    root.mkdir()
    names = np.array(["a", "b", "c"])
    np.savez_compressed(root / "d.npz", images=PIXELS, labels=CLASSES, test_images=PIXELS, test_labels=CLASSES, class_names=names)  # fmt: skip
    return "/d.npz"


def _npy(root: Path) -> str:
    root.mkdir()
    np.save(root / "images.npy", PIXELS / np.float32(255))
    np.save(root / "labels.npy", CLASSES)
    return ""


def _zip(root: Path) -> str:
    layouts.save_folder(root / "pics", PIXELS, CLASSES)
    layouts.save_zip(root / "d.zip", root / "pics", prefix="pics/")
    shutil.rmtree(root / "pics")
    return "/d.zip"


def _tar(root: Path) -> str:
    layouts.save_folder(root / "pics", PIXELS, CLASSES)
    layouts.save_tar(root / "d.tar", root / "pics", prefix="./pics/")
    shutil.rmtree(root / "pics")
    return "/d.tar"


def _webdataset(root: Path) -> str:
    root.mkdir()
    layouts.save_shard(root / "train-0.tar", PIXELS, CLASSES)
    layouts.save_shard(root / "test-0.tar", PIXELS, CLASSES, ending="json")
    return ""


def _parquet(root: Path) -> str:
    root.mkdir()
    layouts.save_table(root / "train-0.parquet", PIXELS, CLASSES, names=["a", "b", "c"])
    layouts.save_table(root / "test-0.parquet", PIXELS, CLASSES, names=["a", "b", "c"])
    return ""


def _arrow(root: Path) -> str:
    root.mkdir()
    layouts.save_table(root / "data-0.arrow", PIXELS, CLASSES, names=["a", "b", "c"])
    (root / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-0.arrow"}]}))
    (root / "dataset_info.json").write_text(json.dumps({"features": {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["a", "b", "c"]}}}))  # fmt: skip
    return ""


def _arranged(root: Path) -> str:
    layouts.save_folder(root / "pics", PIXELS, CLASSES)
    parts = "".join(f"{CLASSES[n]}/{n:04d}.png,{'train' if n % 2 else 'val'},{n}\n" for n in range(12))
    (root / "arranged.csv").write_text("picture,part,group\n" + parts)
    return "/pics::arranged={root}/arranged.csv"


READERS: dict[str, Callable[[Path], str]] = {"folder": _folder, "labelled": _labelled, "json-lines": _json_lines, "idx": _idx, "cifar": _cifar, "npz": _npz, "npy": _npy, "zip": _zip, "tar": _tar, "webdataset": _webdataset, "parquet": _parquet, "arrow": _arrow, "arranged": _arranged}  # fmt: skip
"""Writers of a small dataset of each layout; they return what follows the folder in its location."""


def _read_dataset(location: str) -> None:
    source = open_images(location)
    assert len(source.labels) == len(source)
    for kind in ("listing", "content"):
        source.fingerprint(kind)
    source.signature()
    for tolerant in (True, False):
        images = source.read(range(min(len(source), 20)), size=8, skip_broken=tolerant)
        assert images.images.shape[1:3] == (8, 8)


def _table(root: Path) -> str:
    root.mkdir()
    rows = "".join(f"{10.0**-n},{n},{'adam' if n % 2 else 'sgd'},0.{n + 1},{n},ok,1.5\n" for n in range(5))
    (root / "runs.csv").write_text("learning_rate,layers,optimizer,error,seed,status,duration\n" + rows)
    return "/runs.csv"


def _table_parquet(root: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    root.mkdir()
    columns = {"learning_rate": [0.1, 0.01, 0.001], "error": [0.1, 0.2, 0.3], "optimizer": ["sgd", "adam", "adam"]}
    pq.write_table(pa.table(columns), root / "runs.parquet")
    return "/runs.parquet"


def _hpob(root: Path) -> str:
    root.mkdir()
    table = {"5860": {"3": {"X": [[0.0, 1.0], [0.5, 0.25]], "y": [[0.9], [0.1]]}}}
    about = {"5860": {"variables": {"rate": {"min": -9.2, "max": 0.0, "min_before_tf": 1e-4, "max_before_tf": 1.0}, "depth": {"min": 0.0, "max": 16.0}}, "variables_to_apply_log": ["rate"], "variables_order": ["rate", "depth"]}}  # fmt: skip
    (root / "meta-train-dataset.json").write_text(json.dumps(table))
    (root / "meta-dataset-descriptors.json").write_text(json.dumps(about))
    return "/meta-train-dataset.json"


def _optuna(root: Path, name: str) -> str:
    root.mkdir()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = root / name
    storage: Any = f"sqlite:///{path}"
    if name.endswith(".journal"):
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage, study_name="s", sampler=optuna.samplers.RandomSampler(seed=1))

    def objective(trial: optuna.Trial) -> float:
        trial.report(0.75, 1)
        return trial.suggest_float("learning_rate", 1e-5, 0.1, log=True) + len(trial.suggest_categorical("o", ["a", "bb"]))  # fmt: skip

    study.optimize(objective, n_trials=3)
    return f"/{name}"


def _foreign(name: str) -> Callable[[Path], str]:
    def copy(root: Path) -> str:
        shutil.copytree(FOREIGN / name, root)
        return "/experiment.json" if name == "ax" else ""

    return copy


def _folders(name: str) -> Callable[[Path], str]:
    return lambda root: str(run_folders.MADE[name](root))[len(str(root)) :]


IMPORTERS: dict[str, Callable[[Path], str]] = {
    "table": _table,
    "table-parquet": _table_parquet,
    "hpob": _hpob,
    "optuna": lambda root: _optuna(root, "s.db"),
    "optuna-journal": lambda root: _optuna(root, "s.journal"),
    **{name: _foreign(name) for name in ("ax", "keras_tuner", "ray", "smac", "syne_tune", "tensorboard")},
    **{name: _folders(name) for name in run_folders.MADE},
}
METRICS = {"ray": "val_error", "tensorboard": None, "table-parquet": "error"}


def _import_runs(location: str, history: History, metric: str | None) -> None:
    runs, described = read_source(location, metric=metric)
    scale = (1.0, 0.0) if runs.maximised else (0.0, 1.0)
    dataset = None if any(runs.datasets) and not runs.are_hints else "digits"
    plan = plan_import(history, runs, dataset=dataset, error_range=scale, described=described)
    json.dumps(plan.to_dict(), allow_nan=False)
    for each in plan.evaluations:
        assert math.isnan(each.error) or 0 <= each.error <= 1


def _heads(root: Path) -> str:
    """Write heads on a tiny backbone of random weights, which is in the file."""
    import timm
    import torch
    from safetensors.torch import save_file

    from warmstart.training.workloads import Member, SourceDataset, get_workload
    from warmstart.training.workloads.transfer import Transfer

    root.mkdir()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(timm.create_model("test_resnet", num_classes=7).state_dict(), root / "w.safetensors")
    frozen = {"image_size": 32, "depth": "s16+full", "flip_copies": False, "steps": 0, "backbone": f"test_resnet@{root}/w.safetensors"}  # fmt: skip
    prepared = get_workload("transfer").prepare(SourceDataset(open_images("sklearn:digits")), device="cpu")
    budget = Transfer().budget("steps", amount=16)
    models = [prepared.train({**frozen, "head": head}, seed=0, budget=budget, keep=True) for head in ("ridge", "knn")]
    members = [Member(0, {}, 0, model.error) for model in models]
    prepared.combine(members, [model.model for model in models], error=0.1).save(root / "c.safetensors")
    (root / "w.safetensors").unlink()
    return "/c.safetensors"


def _classifier(name: str) -> Callable[[Path], str]:
    def write(root: Path) -> str:
        root.mkdir()
        packed = TESTS / "compat" / "v0_2" / "classifiers" / f"{name}.safetensors.gz"
        (root / "c.safetensors").write_bytes(gzip.decompress(packed.read_bytes()))
        return "/c.safetensors"

    return write


CLASSIFIERS = {"cnn": _classifier("cnn"), "tuned": _classifier("tuned"), "heads": _heads}


def _answer(location: str) -> None:
    classifier = load_classifier(location)
    side = classifier.size
    classifier.predict(np.zeros((2, side, side, classifier.channels), np.uint8))


KINDS = {
    **{f"read {name}": write for name, write in READERS.items()},
    **{f"import {name}": write for name, write in IMPORTERS.items()},
    **{f"classifier {name}": write for name, write in CLASSIFIERS.items()},
}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    path = tmp_path_factory.mktemp("h") / "h.h5"
    space = parse_space("learning_rate: {log: [1.0e-5, 1]}\noptimizer: [sgd, adam]\nlayers: {int: [1, 9]}\n")
    with History.create(path, dump_space(space)) as made:
        yield made


def use(kind: str, location: str, history: History) -> None:
    """Do with a location what is done with its kind."""
    what, _, name = kind.partition(" ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if what == "read":
            _read_dataset(location)
        elif what == "import":
            _import_runs(location, history, METRICS.get(name))
        else:
            _answer(location)


def _too_long(*_: object) -> None:
    msg = f"it took more than {SECONDS} s"
    raise AssertionError(msg)


def attack(kind: str, base: Path, behind: str, seed: int, history: History) -> str:
    """Alter a copy of a dataset, of runs or of a classifier and use it; returns how that ended."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "d"
        shutil.copytree(base, root)
        rng = Random(seed)
        for _ in range(rng.choice((1, 1, 1, 2))):
            alter_folder(root, rng)
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(SECONDS)
        try:
            use(kind, str(root) + behind.replace("{root}", str(root)), history)
        except WarmstartError as refusal:
            error = refusal
        except Exception as fault:
            fault.add_note(f"{kind}, seed {seed}")
            raise
        else:
            return "read"
        finally:
            signal.alarm(0)
    assert str(error).rstrip().endswith((".", "?", "…")), error
    return type(error).__name__


@pytest.fixture(params=KINDS)
def base(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, str]:
    """A sound dataset, sound runs, or a sound classifier: its kind, its folder and what follows that."""
    behind = KINDS[request.param](tmp_path / "base")
    return request.param, tmp_path / "base", behind


def test_what_is_odd_is_read_or_refused(base: tuple[str, Path, str], history: History) -> None:
    kind, folder, behind = base
    use(kind, str(folder) + behind.replace("{root}", str(folder)), history)
    for seed in (*range(12), *FOUND.get(kind, ())):
        attack(kind, folder, behind, seed, history)


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
def test_many_that_are_odd(base: tuple[str, Path, str], history: History) -> None:
    ended = [attack(*base, seed, history) for seed in range(CASES)]
    assert 0 < ended.count("read") < CASES
