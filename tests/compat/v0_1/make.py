"""Make what 0.1 wrote: `python tests/compat/v0_1/make.py FOLDER`, with the code of commit 217f10f. Never over the archive."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
IMAGES = "tune --dataset sklearn:digits --objective objective.py:of_images --exclude-group sklearn_digits --seed 1"
KINDS = "tune --objective objective.py:of_all_kinds --space space.json --no-warm --pruner asha --seed 2"
STUDIES = {  # name: (command, trials after which it is killed; 0 = it ends)
    "running.db": (f"{IMAGES} --related semeion --trials 7 --log running.log", 4),
    "done.db": (f"{IMAGES} -k 2 --trials 4 --surrogate dngo --log done.log", 0),
    "running.journal": (f"{KINDS} --trials 12 --workers 2 --log running-kinds.log", 4),
    "done.journal": (f"{KINDS} --trials 6 --surrogate gp-map --acquisition ei-per-second", 0),
    "joint.db": (
        "tune --dataset near --dataset far --objective objective.py:of_path --no-warm --space compact --trials 7",
        0,
    ),
}


def main(folder: Path) -> None:
    """Make everything in a folder that is not there yet."""
    folder.mkdir(parents=True)
    shutil.copy(HERE / "objective.py", folder)
    os.chdir(folder)
    write_space()
    for name, (command, kill_after) in STUDIES.items():
        study(name, command, kill_after)
    suggest()
    history()
    model()
    optimisers()
    evaluation()
    for path in [*Path().glob("*.db"), *Path().glob("*.db-wal"), Path("model.safetensors")]:
        with gzip.GzipFile(f"{path}.gz", "wb", mtime=0) as file:
            file.write(path.read_bytes())
        path.unlink()
    for path in (*Path().glob("*.db-shm"), Path("slow"), Path("errors.npz")):
        path.unlink(missing_ok=True)
    shutil.rmtree("__pycache__", ignore_errors=True)


def warmstart(*args: str) -> list[str]:
    """Give the command line."""
    return [sys.executable, "-m", "warmstart", *args]


def write_space() -> None:
    """Write a space of every kind."""
    from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

    space = ConfigurationSpace()
    space.add(
        Float("rate", (1e-4, 1.0), log=True),
        Integer("layers", (1, 6)),
        Categorical("kind", ["sgd", "adam"]),
        Float("momentum", (0.0, 0.99)),
    )
    space.add(EqualsCondition(space["momentum"], space["kind"], "sgd"))
    space.to_json("space.json")


def study(name: str, command: str, kill_after: int) -> None:
    """Run a study to its end, or kill all of it amid the trial after so many."""
    args = warmstart(*command.split(), "--storage", name, "--format", "json")
    if not kill_after:
        Path(f"{name}.json").write_bytes(subprocess.run(args, stdout=subprocess.PIPE, check=True).stdout)
        return
    Path("slow").touch()  # lines are added to it as trials begin
    process = subprocess.Popen(args, start_new_session=True, stdout=subprocess.DEVNULL)
    while len(Path("slow").read_text().splitlines()) <= kill_after:
        if process.poll() is not None:
            raise SystemExit(f"{name} ended by itself")
        time.sleep(0.05)
    time.sleep(0.15)
    # The trials' own processes are in groups of their own; they end when their parent does.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(2)
    Path("slow").unlink()


def suggest() -> None:
    """Write what `suggest` answers, for programs and for tuners."""
    query = ["suggest", "--dataset", "sklearn:digits", "--exclude-group", "sklearn_digits"]
    for kind, name in (("json", "suggest.json"), ("yaml", "suggest.yaml"), ("csv", "suggest.csv"), ("ray", "points.json"), ("configspace", "start.json"), ("optuna", "start.py")):  # fmt: skip
        Path(name).write_bytes(
            subprocess.run(warmstart(*query, "--format", kind), stdout=subprocess.PIPE, check=True).stdout
        )
    args = warmstart(*query, "--explain", "--format", "json")
    Path("suggest-explained.json").write_bytes(subprocess.run(args, stdout=subprocess.PIPE, check=True).stdout)


def history() -> None:
    """Write a history with a journal, by the maker of format version 1 and what came after it."""
    sys.path.insert(0, str(HERE.parent / "v1"))
    import make as version_1  # type: ignore[import-not-found]  # the other maker

    from history_store.history import History
    from history_store.records import Evaluation

    path = Path("history.h5")
    version_1.make(path)
    with History.open(path, write=True) as opened:
        for error, config in zip((0.5, 0.25, 0.125, 0.5), opened.configs, strict=True):
            opened.append(Evaluation("Zwei/☃", config, error, seed=7, duration=2.5, origin="0.1"))


def model() -> None:
    """Write a model of the newest version whose weights follow a pattern."""
    import torch

    from metafeat.model import MetaFeatureModel
    from metafeat.spec import ModelSpec

    made = MetaFeatureModel.random(ModelSpec(extractor="adf", image_size=8, tau=6, handcrafted=True))
    for number, parameter in enumerate(made.wing.parameters()):
        parameter.data = ((torch.arange(parameter.numel()) * 7 + number) % 31 - 14).reshape(parameter.shape) / 160
    made = MetaFeatureModel(made.wing)
    made.save(Path("model.safetensors"), {"history_id": "h", "space_digest": "d", "quality": None})
    images = (np.arange(6 * 8 * 8 * 3) * 37 % 256).astype(np.uint8).reshape(6, 8, 8, 3)
    point = made.embed(images, np.array([0, 1, 2, 0, 1, 0]), rng=np.random.default_rng(0), draws=2)
    Path("model.json").write_text(json.dumps({"hash": made.hash, "embedding": [float(x) for x in point]}) + "\n")


def optimisers() -> None:
    """Write runs of optimisers as `to_dict` gives them, a checkpoint, and what each asks for next."""
    from bo import Optimizer, RelatedTask
    from history_store.space import load_space

    space = load_space(Path("space.json").read_text())

    def error(config):  # type: ignore[no-untyped-def]
        return abs(config["rate"] - 0.1) + config["layers"] / 10 + config.get("momentum", 0)

    rng = np.random.default_rng(0)
    configs = [dict(config) for config in space.sample_configuration(8)]
    for surrogate in ("gp", "gp-map", "dngo", "bohamiann", "mt-gp"):
        related = [RelatedTask(configs, [error(c) + rng.normal(0, 0.01) for c in configs])]
        more = {"related": related} if surrogate.startswith("mt") else {}
        optimizer = Optimizer(space, surrogate=surrogate, seed=3, **more)
        for _ in range(5):
            config = optimizer.ask()[0]
            optimizer.tell(config, error(config))
        optimizer.ask()  # one is pending
        saved, checkpoint = optimizer.to_dict(), optimizer.checkpoint()
        record = {"run": saved, "checkpoint": checkpoint, "next": optimizer.ask()[0]}
        text = json.dumps(record, default=lambda value: value.item()) + "\n"
        with gzip.GzipFile(f"optimizer-{surrogate}.json.gz", "wb", mtime=0) as file:
            file.write(text.encode())


def evaluation() -> None:
    """Write the report of an evaluation of a small table."""
    rng = np.random.default_rng(5)
    names = np.array([f"d{i}" for i in range(6)])
    np.savez("errors.npz", errors=rng.uniform(size=(6, 8)), dataset_names=names, X=rng.uniform(size=(8, 2)))
    args = ["evaluate", "--table", "errors.npz", "--rivals", "random,portfolio", "--horizon", "4", "--repeats", "2"]
    subprocess.run(warmstart(*args, "--out", "evaluation.json"), check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
