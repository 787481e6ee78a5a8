"""Make what 0.2 wrote: `python tests/compat/v0_2/make.py FOLDER`, with the code of commit 80cf15b8. Never over the archive.

It needs the extras `transfer`, `serve`, `postgres`, `mysql` and servers of both; `python` must be on the path. What it
makes knows the folder that it is made in, so FOLDER is best a short one. `make.py FOLDER PART...`
makes these parts alone, into a folder that may be there.
"""

from __future__ import annotations

import gzip
import hashlib
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
IMAGES = "tune --dataset digits.npz --objective objective.py:of_images --exclude-group sklearn_digits --seed 1"
CURVES = "tune --dataset digits.npz --objective objective.py:of_curves --exclude-group sklearn_digits --seed 1"
KINDS = "tune --objective objective.py:of_all_kinds --space space.json --no-warm --seed 2"
COMMAND = (
    "tune --space space.yaml --command 'python program.py --rate {rate} --layers {layers} --kind {kind}"
    " --momentum {momentum} --seed {warmstart.seed}' --metric accuracy --maximize --scale fraction --seed 3"
)
JOINT = "tune --dataset near --dataset far --objective objective.py:of_path --no-warm --space compact"
CNN = "tune --dataset digits.npz --exclude-group sklearn_digits --device cpu --seed 4"
TRANSFER = "tune --dataset digits.npz --workload transfer --device cpu --seed 5"
STUDIES = {  # name: (command, trials after which it is killed; 0 = it ends)
    "running.db": (f"{IMAGES} --related semeion --trials 7 --log running.log", 4),
    "running.journal": (f"{KINDS} --pruner asha --trials 12 --workers 2 --log kinds.log", 4),
    "running-command.journal": (f"{COMMAND} --pruner median --trials 6", 2),
    "running-joint.db": (f"{JOINT} --split gain --surrogate dngo --trials 9", 7),
    "running-time.db": (f"{IMAGES} --warm initial --time 2m --trials 8", 4),
    "running-cnn.db": (f"{CNN} --pruner hyperband --warm extra --startup 1 -k 1 --trials 3", -1),
    "running-transfer.db": (
        f"{TRANSFER} --no-warm --startup 1 --space transfer.yaml --target-budget steps --budget 120 --trials 2",
        -1,
    ),
    "done.db": (f"{IMAGES} -k 2 --trials 4 --surrogate dngo", 0),
    "done.journal": (f"{KINDS} --trials 6 --surrogate gp-map --acquisition ei-per-second", 0),
    "done-command.db": (f"{COMMAND} --trials 5 --surrogate gp-map --workers 2", 0),
    "done-joint.journal": (f"{JOINT} --trials 7", 0),
    "done-time.db": (f"{IMAGES} --time 25s --trials 5", 0),
    "done-related.journal": (f"{IMAGES} --related auto --neighbours 2 --surrogate bohamiann -k 1 --trials 4", 0),
    "done-pruned.db": (f"{CURVES} --pruner history --trials 6", 0),
    "done-initial.db": (f"{CURVES} --initial initial.json --warm initial --startup 4 --trials 5 --acquisition lcb", 0),
    "done-finite.db": (
        "tune --objective objective.py:shifted_half --space finite.yaml --no-warm --startup 2 --trials 20 --surrogate gp-map",
        0,
    ),
    "done-cnn.db": (
        f"{CNN} --space cnn.yaml --no-warm --startup 2 --budget 60 --trials 2 --save-model cnn.safetensors --ensemble 2",
        0,
    ),
    "done-cnn-time.db": (f"{CNN} --time 60s --trials 2 --budget 40", 0),
    "done-transfer.db": (
        f"{TRANSFER} --space transfer:frozen --exclude-group sklearn_digits --trials 2 --save-model heads.safetensors --ensemble 2",
        0,
    ),
    "done-tuned.db": (
        f"{TRANSFER} --no-warm --startup 1 --space tuned.yaml --target-budget steps --budget 20 --trials 1 --save-model tuned.safetensors",
        0,
    ),
    "failed.db": ("tune --objective objective.py:always_fails --space finite.yaml --no-warm --trials 6", 0),
}
"""The commands of studies, to which `--storage NAME --format json` is added."""


def main(folder: Path, parts: list[str]) -> None:
    """Make everything in a folder that is not there yet, or some parts."""
    if not parts:
        folder.mkdir(parents=True)
    for name, make in PARTS.items():
        if not parts or name in parts:
            place = folder / name
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            os.chdir(place)
            began = time.monotonic()
            make(folder)
            print(name, round(time.monotonic() - began), "s", flush=True)  # noqa: T201
    pack(folder, folder.with_name(f"{folder.name}-packed"))


def pack(folder: Path, out: Path) -> None:
    """Copy what was made as the archive has it: programs, and what gzip makes smaller, are gzipped, and `SHA256SUMS` has the digests of all."""
    shutil.rmtree(out, ignore_errors=True)
    sums = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        is_large = name.parts[0] == "studies" and path.suffix == ".safetensors" and path.stem != "weights"
        if path.is_dir() or is_large or path.name.endswith("-shm"):
            continue
        data, place = path.read_bytes(), out / name
        small = gzip.compress(data, 9, mtime=0)
        if path.suffix in (".gz", ".py") or len(small) < 0.8 * len(data):
            data, place = small, place.with_name(f"{place.name}.gz")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        sums.append(f"{hashlib.sha256(data).hexdigest()}  {place.relative_to(out)}\n")
    (out / "SHA256SUMS").write_text("".join(sums))


def warmstart(*args: object) -> list[str]:
    """Give the command line."""
    return [sys.executable, "-m", "warmstart", *map(str, args)]


def run(*args: object, code: int = 0) -> str:
    """Run a command, which must end with a code, and return what it prints."""
    done = subprocess.run(warmstart(*args), capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise SystemExit(f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def write_digits(n: int = 60, path: str = "digits.npz") -> None:
    """Write the first of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    np.savez_compressed(path, images=(digits.images[:n] * 15.9).astype(np.uint8), labels=digits.target[:n])


def write_inputs() -> None:
    """Write what people write: spaces, data, configurations to begin with, programs."""
    from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

    for name in ("objective.py", "program.py"):
        shutil.copy(HERE / name, name)
    with Path("objective.py").open("a") as file:
        file.write("\n\nshifted_half = shifted(0.5)\n")
    write_digits()
    space = ConfigurationSpace()
    space.add(
        Float("rate", (1e-4, 1.0), log=True),
        Integer("layers", (1, 6)),
        Categorical("kind", ["sgd", "adam"]),
        Float("momentum", (0.0, 0.99)),
    )
    space.add(EqualsCondition(space["momentum"], space["kind"], "sgd"))
    space.to_json("space.json")
    Path("space.yaml").write_text(
        "rate: {log: [1e-4, 1.0]}\nlayers: {int: [1, 6]}\nkind: [sgd, adam]\nmomentum: {float: [0.0, 0.99], if: {kind: sgd}}\n"
    )
    Path("finite.yaml").write_text("x: {ordered: [0.1, 0.4, 0.7]}\n")
    Path("cnn.yaml").write_text(
        "log10_learning_rate: {float: [-3.5, -2.5]}\nlog10_decay_rate: {value: -6.0}\nbatch_size: {int: [8, 16]}\n"
        "num_layers_conv: {value: 5}\nnum_layers_fc: {value: 1}\ndropout_rate: {float: [0.0, 0.3]}\n"
    )
    write_weights()
    fixed = (
        "image_size: {value: 32}\ndepth: [s16, full]\nflip_copies: {value: false}\nlearning_rate: {log: [1e-4, 1e-2]}\n"
        "body_lr_multiplier: {value: 0.1}\nweight_decay: {value: 0.01}\nrandom_flip: {value: false}\n"
        "crop_scale: {value: 1.0}\nmixup_alpha: {value: 0.0}\nlabel_smoothing: {value: 0.0}\n"
    )
    tiny = 'backbone: ["test_efficientnet@weights.safetensors"]\n'
    Path("transfer.yaml").write_text(tiny + fixed + "steps: {value: 400}\ntuned_stages: {value: all}\n")
    Path("tuned.yaml").write_text(tiny + fixed + "steps: {value: 400}\ntuned_stages: {value: last}\n")
    first = [
        {
            "log10_learning_rate": -3.0, "log10_decay_rate": -6.0, "batch_size": 16,
            "num_layers_conv": 2, "num_layers_fc": 1, "dropout_rate": rate,
        }
        for rate in (0.25, 0.5)
    ]  # fmt: skip
    Path("initial.json").write_text(json.dumps(first) + "\n")


def write_weights(path: str = "weights.safetensors") -> None:
    """Write weights of a tiny network of timm that follow a pattern."""
    import timm
    from safetensors.torch import save_file

    state = timm.create_model("test_efficientnet", num_classes=7).state_dict()
    save_file({name: patterned(tensor, number) for number, (name, tensor) in enumerate(state.items())}, path)


def patterned(tensor, number):  # type: ignore[no-untyped-def]
    """Give a tensor of the same shape that follows a pattern; variances and factors stay as they are."""
    import torch

    if tensor.dim() < 2:
        return tensor
    values = (torch.arange(tensor.numel()) * 7 + number) % 31 - 15
    return (values.reshape(tensor.shape) / (9 * tensor[0].numel() ** 0.5)).float().contiguous()


def studies(folder: Path) -> None:
    """Make studies in files: running and done."""
    write_inputs()
    for name, (command, kill_after) in STUDIES.items():
        study(name, command, kill_after)
    subprocess.run([sys.executable, "-c", PYTHON_STUDY], check=True)
    shutil.rmtree("__pycache__", ignore_errors=True)
    for path in [*Path().glob("*-reports/*/report.html"), *Path().glob("*-shm")]:
        path.unlink()
    for name in ("done.db", "done-joint.journal"):  # pages are written, never read
        run("studies", "list", "--storage", name)
    run("studies", "export", "done.html", "--storage", "done.db")
    run("studies", "export", "done.csv", "--storage", "done.db")
    run("studies", "export", "done-export.json", "--storage", "done.db")
    run("studies", "export", "done.parquet", "--storage", "done.db")


PYTHON_STUDY = """
import json, pickle, warmstart, objective
found = warmstart.tune(objective=objective.shifted(0.3), space={"x": [0.0, 1.0]}, warm="none", trials=4, seed=6,
                       storage="python.db", study="closure", on_message=lambda line: None, report="python.md")
json.dump(found.to_dict(), open("python.db.json", "w"))
"""


def study(name: str, command: str, kill_after: int) -> None:
    """Run a study to its end, or kill all of it amid a trial: after so many that began, or (-1) after one that ended."""
    import shlex

    args = warmstart(*shlex.split(command), "--storage", name, "--format", "json")
    if not kill_after:
        done = subprocess.run(args, capture_output=True, check=False)
        if done.returncode != (5 if name.startswith("failed") else 0):
            raise SystemExit(f"{name}: {done.stderr.decode()}")
        Path(f"{name}.json").write_bytes(done.stdout or done.stderr.splitlines()[-1])
        return
    if kill_after > 0:
        Path("slow").touch()  # lines are added to it as trials begin
        process = subprocess.Popen(args, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(Path("slow").read_text().splitlines()) <= kill_after:
            if process.poll() is not None:
                raise SystemExit(f"{name} ended by itself")
            time.sleep(0.05)
        time.sleep(0.8)
    else:
        process = subprocess.Popen(
            [*args, "-v"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        while not (line := process.stderr.readline()).startswith("trial 0"):
            if not line:
                raise SystemExit(f"{name} ended by itself")
        time.sleep(1.5)
        if process.poll() is not None:
            raise SystemExit(f"{name} ended by itself")
    # The trials' own processes are in groups of their own; they end when their parent does.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(2)
    Path("slow").unlink(missing_ok=True)


def histories(folder: Path) -> None:
    """Make histories with all that is kept beside them, and what they were written to."""
    full_history(Path("full.h5"))
    tiny_history(Path("tiny.h5"))
    shutil.copy(HERE.parent / "v1/history.h5", "upgraded.h5")
    run("history", "upgrade", "upgraded.h5")
    export_and_share()
    collections()
    for lock in Path().rglob("*.lock"):
        lock.write_text("1\n")  # a process number
    for path in Path().glob("*.bak"):  # those of two histories are enough
        if path.name not in ("full.h5.bak", "tiny.h5.bak"):
            path.unlink()
    shutil.rmtree("__pycache__", ignore_errors=True)


def full_history(path: Path) -> None:
    """Make a history with all kinds of elements, in the file, its backup and its journal, and the indexes of large ones."""
    from history_store.file import dataset_list, table
    from history_store.history import History
    from history_store.images import ImageSet
    from history_store.records import DatasetInfo, Evaluation, Status
    from history_store.space import dump_space, sobol_configs
    from training.workloads.cnn.space import target_space

    dataset_list.INDEXED, table.LATER, usual = 1, 1, (dataset_list.INDEXED, table.LATER)
    space = target_space("compact")
    configs = sobol_configs(space, 4)
    with History.create(path, dump_space(space), configs=configs[:3], stored_size=4, notes={"made": "v0.2"}) as history:
        images = np.arange(6 * 4 * 4 * 3, dtype=np.uint16).reshape(6, 4, 4, 3).astype(np.uint8)
        info = DatasetInfo(
            "first", "group", n_train=4, n_val=1, n_test=1, n_classes=2, class_counts=(2, 2), fingerprint="content:00",
            source="made", licence="CC0-1.0", what="a ramp", split_seed=0, decoding="none", manifest="none",
            extra={"key": "v\u00e4lue"},
        )  # fmt: skip
        given = ImageSet(images, np.array([0, 0, 1, 1, 0, 1]), ("dark", "light"))
        history.add_dataset(info, given, np.array([0, 0, 0, 0, 1, 2], np.int8))
        history.append(
            Evaluation("first", configs[0], 0.25, seed=0, duration=1.5, curve=((10, 0.5), (20, 0.25)), origin="a")
        )
        history.append(Evaluation("first", configs[1], 0.5, Status.DIVERGED, seed=0, origin="a"))
        history.set_embeddings("abc123", {"first": np.array([0.5, -1.0], np.float32)})
        history.compact()
        dataset_list.INDEXED, table.LATER = usual
        history.set_result("calibration/abc123", {"slope": 0.5})
        history.add_dataset(DatasetInfo("Zwei/\u2603", "other", n_train=4, n_val=0, n_test=0, n_classes=2, channels=1))
        for config, status in zip(configs, (Status.CRASHED, Status.TIMEOUT, Status.OOM), strict=False):
            history.append(Evaluation("Zwei/\u2603", config, float("nan"), status, seed=2**63 - 1, origin="b"))
        history.append(Evaluation("first", configs[3], 0.75))


def tiny_history(path: Path) -> None:
    """Make a history of seven groups that answers: images, curves, embeddings, references and a calibration."""
    from history_store.history import History
    from history_store.images import ImageSet
    from history_store.records import DatasetInfo
    from history_store.space import dump_space, sobol_configs
    from history_store.splits import split_codes
    from training.workloads.cnn.space import target_space

    write_digits()
    space = target_space("compact")
    configs = sobol_configs(space, 10)
    Path("config.json").write_text(json.dumps(dict(configs[0])) + "\n")
    with History.create(path, dump_space(space), configs=configs, stored_size=8) as history:
        for kind in range(8):
            images, labels = pictures(kind)
            codes, seed = split_codes(labels)
            train, val, test = (int((codes == code).sum()) for code in (0, 1, 2))
            name = f"stripes{kind}"
            info = DatasetInfo(name, f"group{kind % 7}", train, val, test, 4, split_seed=seed, source="made", licence="CC0-1.0", fingerprint=f"content:{kind}")  # fmt: skip
            history.add_dataset(info, ImageSet(images, labels, ("a", "b", "c", "d")), codes)
            history.extend(told_runs(name, kind, configs, "collect/compact-400"))


def told_runs(name: str, kind: int, configs, origin: str) -> list:  # type: ignore[no-untyped-def,type-arg]
    """Make runs whose errors follow a pattern."""
    from history_store.records import Evaluation

    found = []
    for number, config in enumerate(configs):
        error = round(min(0.9, 0.1 + abs(config["log10_learning_rate"] + 3) / 8 + config["dropout_rate"] / 9 + kind * number % 5 / 90), 4)  # fmt: skip
        curve = tuple((step, round(min(1.0, error + 0.4 - step / 1000), 4)) for step in range(50, 401, 50))
        found.append(Evaluation(name, config, error, seed=1, duration=2.0 + number, curve=curve, origin=origin))
    return found


def pictures(kind: int, n: int = 24, size: int = 8):  # type: ignore[no-untyped-def]
    """Draw stripes whose direction is the class: `n x size x size x 3`."""
    labels = (np.arange(n) % 4).astype(np.int64)
    y, x = np.mgrid[:size, :size] / size
    angle = labels * np.pi / 4
    phase = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y + (np.arange(n) // 4)[:, None, None] / 9
    wave = 0.5 + 0.5 * np.sin(2 * np.pi * (1 + kind) * phase)
    return (wave[..., None] * np.array([200, 100 + 20 * kind, 50 + 10 * kind])).astype(np.uint8), labels


def export_and_share() -> None:
    """Write exports and bundles; merge the bundles of eight, one of whom lies."""
    from history_store.history import History
    from history_store.records import DatasetInfo, Evaluation
    from history_store.space import dump_space, sobol_configs
    from training.workloads.cnn.space import target_space

    for name in ("runs.csv", "runs.parquet", "runs"):
        run("history", "export", "full.h5", name)
    space = target_space("compact")
    configs = sobol_configs(space, 10)
    Path("bundles").mkdir()
    for kind in range(8):
        with History.create("one.h5", dump_space(space)) as one:
            name = f"shared{kind}"
            one.add_dataset(
                DatasetInfo(name, name, 40, 10, 10, 4, fingerprint=f"content:shared{kind}", licence="CC0-1.0")
            )
            runs = told_runs(name, kind, configs, "collect/compact-400")
            if kind == 7:  # who lies
                runs = [Evaluation(name, r.config, round(1 - r.error, 4), seed=1, origin=r.origin) for r in runs]
            one.extend(runs)
        run("history", "bundle", "one.h5", "--out", "bundles/")
        for path in Path().glob("one.h5*"):
            path.unlink()
    run("history", "merge", "merged.h5", "bundles/")
    Path("merged.json").write_text(run("history", "quarantine", "merged.h5", "--format", "json"))
    run("history", "bundle", "full.h5", "--out", "full.jsonl.gz")
    for path in sorted(Path("bundles").iterdir())[1:]:
        path.unlink()


def collections() -> None:
    """Measure on two datasets: a script, killed amid a run; the workload `transfer`; the built-in network."""
    for name, first in (("even", 0), ("odd", 1)):
        from sklearn.datasets import load_digits

        digits = load_digits()
        rows = np.flatnonzero(digits.target % 2 == first)[:25]
        np.savez_compressed(
            f"{name}.npz", images=(digits.images[rows] * 15.9).astype(np.uint8), labels=digits.target[rows]
        )
    Path("xy.yaml").write_text("x: {float: [0, 1]}\nkind: [a, b]\n")
    Path("measure.py").write_text(
        "import sys, time, pathlib\nx = float(sys.argv[1])\nslow = pathlib.Path('slow')\n"
        "if slow.exists():\n    slow.open('a').write('began\\n')\n    time.sleep(1)\nprint(x / 2 + 0.1 * (sys.argv[2] == 'b'))\n"
    )
    Path("slow").touch()
    command = warmstart(*COLLECT)
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(Path("slow").read_text().splitlines()) <= 4:
        if process.poll() is not None:
            raise SystemExit("the collection ended by itself")
        time.sleep(0.05)
    time.sleep(0.4)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(2)
    Path("slow").unlink()
    write_weights()
    Path("frozen.yaml").write_text(
        'backbone: ["test_efficientnet@weights.safetensors"]\nimage_size: {ordered: [32, 64]}\ndepth: [s16, full]\n'
        "flip_copies: [false, true]\nsteps: {value: 0}\n"
    )
    run(*TRANSFER_COLLECT)
    run(*CNN_COLLECT)


COLLECT = (
    "history", "collect", "even.npz", "odd.npz", "--history", "own.h5", "--space", "xy.yaml", "--configs", "4",
    "--command", "python measure.py {x} {kind} {warmstart.dataset}", "--workers", "1", "--shards", "own-shards",
)  # fmt: skip
TRANSFER_COLLECT = (
    "history", "collect", "even.npz", "odd.npz", "--history", "transfer.h5", "--workload", "transfer",
    "--space", "frozen.yaml", "--configs", "3", "--workers", "1", "--device", "cpu", "--shards", "transfer-shards",
)  # fmt: skip
CNN_COLLECT = (
    "history", "collect", "even.npz", "--history", "cnn.h5", "--configs", "1", "--fraction", "0.5",
    "--workers", "1", "--device", "cpu", "--shards", "cnn-shards",
)  # fmt: skip


def models(folder: Path) -> None:
    """Make meta-feature models, a training under way, an evaluation and the models of its folds."""
    import torch

    from metafeat.model import MetaFeatureModel
    from metafeat.pretrained.landmark_model import LandmarkModel
    from metafeat.spec import ModelSpec

    said = {}
    specs = {
        "residual": ModelSpec(extractor="attention", image_size=8, tau=6, backbone="residual", handcrafted=True),
        "sum": ModelSpec(extractor="adf-sum", image_size=8, tau=6, label_plane=True, target="rank"),
        "features": ModelSpec(extractor="handcrafted", image_size=8, tau=6, handcrafted=True),
    }
    images = (np.arange(6 * 8 * 8 * 3) * 37 % 256).astype(np.uint8).reshape(6, 8, 8, 3)
    for name, spec in specs.items():
        made = MetaFeatureModel.random(spec)
        for number, parameter in enumerate(made.network.parameters()):
            parameter.data = ((torch.arange(parameter.numel()) * 7 + number) % 31 - 14).reshape(parameter.shape) / 160
        made = MetaFeatureModel(made.network)
        made.save(Path(f"{name}.safetensors"), {"history_id": "h", "space_digest": "d", "quality": None})
        point = made.embed(images, np.array([0, 1, 2, 0, 1, 0]), rng=np.random.default_rng(0), draws=2)
        said[name] = {"hash": made.hash, "embedding": [float(x) for x in point]}
    numbers = (np.arange(4 * 28) * 37 % 101).reshape(4, 28) / 100
    LandmarkModel.of(numbers).save("landmarks.safetensors", {"space_digest": "d"})
    from metafeat.model_file import read_header

    said["landmarks"] = {"hash": read_header(Path("landmarks.safetensors")).hash}
    Path("models.json").write_text(json.dumps(said) + "\n")
    history = folder / "histories/tiny.h5"
    train = ("train", "--history", history, "--extractor", "handcrafted", "--hold-out-group", "group3", "--device", "cpu", "--seed", "1")  # fmt: skip
    run(*train, "--steps", "30", "--out", "tiny.safetensors")
    of_few_values(Path("tiny.safetensors"))
    run("history", "embed", history, "--model", "tiny.safetensors")
    run(*train, "--steps", "100000", "--out", "part.safetensors", "--budget", "1s")
    coarse(Path("part.safetensors.checkpoint"), Path("part.safetensors.checkpoint"), 1)
    Path("part.safetensors").unlink(missing_ok=True)
    rng = np.random.default_rng(5)
    names = np.array([f"d{i}" for i in range(6)])
    np.savez("errors.npz", errors=rng.uniform(size=(6, 8)), dataset_names=names, X=rng.uniform(size=(8, 2)))
    run("evaluate", "--table", "errors.npz", "--methods", "random,portfolio", "--horizon", "4", "--repeats", "2", "--out", "evaluation.json")  # fmt: skip
    run(*EVALUATE, "--out", "of-history.json")
    run(*EVALUATE, "--calibrate")
    for path in Path().rglob("*.png"):
        path.unlink()
    os.chdir(folder / "histories")
    run("history", "add", "tiny.h5", "--dataset", "digits.npz", "--name", "digits", "--group", "digits")
    recorded = ("--dataset", "digits", "--config", "@config.json", "--status", "ok", "--duration", "2.5")
    run("history", "record", "tiny.h5", *recorded, "--error", "0.25", "--seed", "1", "--curve", "[[1, 0.5], [2, 0.25]]")
    run("history", "record", "tiny.h5", *recorded, "--error", "0.5", "--seed", "2", "--origin", "mine")
    Path("tiny.h5.lock").write_text("1\n")


EVALUATE = (
    "evaluate", "--history", "../histories/tiny.h5", "--model", "tiny.safetensors", "--folds", "2", "--steps", "5",
    "--methods", "portfolio,joint", "--horizon", "2", "--repeats", "1",
)  # fmt: skip


def of_few_values(path: Path) -> None:
    """Make the weights of a trained model few values, so that gzip makes it small, and write it anew with its header."""
    from metafeat.model import MetaFeatureModel

    model = MetaFeatureModel.load(path)
    for parameter in model.network.parameters():
        step = float(parameter.data.abs().max()) / 3 or 1.0
        parameter.data = (parameter.data / step).round() * step
    MetaFeatureModel(model.network, model.header).save(path)


def classifiers(folder: Path) -> None:
    """Keep what `tune --save-model` wrote, small, with what `predict` says of digits."""
    from sklearn.datasets import load_digits

    place = folder / "studies"
    digits = load_digits()
    np.savez_compressed(
        "asked.npz", images=(digits.images[200:212] * 15.9).astype(np.uint8), labels=digits.target[200:212]
    )
    coarse(place / "cnn.safetensors", Path("cnn.safetensors"), 4)
    coarse(place / "tuned.safetensors", Path("tuned.safetensors"), 8)
    coarse(place / "heads.safetensors", Path("whole.safetensors"), 32, only="warmstart.")
    headless(Path("whole.safetensors"), Path("heads.safetensors"))
    for name in ("cnn", "tuned", "heads"):
        file = f"{name}.safetensors" if name != "heads" else "whole.safetensors"
        Path(f"{name}.json").write_text(run("predict", file, "--dataset", "asked.npz", "--format", "json"))
    Path("whole.safetensors").unlink()
    for form in ("timm", "python", "trainer"):
        shutil.copy(place / "digits.npz", "digits.npz")
        Path(f"recipe.{form}").write_text(run("suggest", "digits.npz", "--workload", "transfer", "--exclude-group", "sklearn_digits", "--format", form))  # fmt: skip


def coarse(path: Path, out: Path, values: int, only: str = "") -> None:
    """Copy a file of tensors with few values in each that is large, so that gzip makes it small; its header stays."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = file.metadata()
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel() > 500 and name.startswith(only):
            step = float(tensor.abs().max()) / values or 1.0
            tensors[name] = (tensor / step).round() * step
    save_file(tensors, out, metadata=header)


def headless(path: Path, out: Path) -> None:
    """Copy a file of networks without the tensors of backbones, which are those of an installed package."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, framework="pt") as file:
        names = [name for name in file.keys() if name.startswith("warmstart.") and ".backbone." not in name]  # noqa: SIM118
        save_file({name: file.get_tensor(name) for name in names}, out, metadata=file.metadata())


def optimisers(folder: Path) -> None:
    """Write runs of optimisers as `to_dict` gives them and as pickles, a checkpoint, and what each asks for next."""
    import pickle

    from bo import Optimizer, RelatedTask
    from history_store.space import load_space

    space = load_space((folder / "studies/space.json").read_text())

    def error(config):  # type: ignore[no-untyped-def]
        return abs(config["rate"] - 0.1) + config["layers"] / 10 + config.get("momentum", 0)

    rng = np.random.default_rng(0)
    configs = [dict(config) for config in space.sample_configuration(8)]
    made = {name: {"surrogate": name} for name in ("gp", "gp-map", "dngo", "bohamiann")}
    made |= {f"mt-{name}": {"surrogate": f"mt-{name}"} for name in ("gp", "dngo", "bohamiann")}
    made["told"] = {"surrogate": "gp-map", "acquisition": "ei-per-second", "design": "latin", "timeout": 1e9}
    made["warped"] = {"surrogate": "gp-map", "initial": configs[:2], "candidates": configs}
    for name, settings in made.items():
        settings = dict(settings)
        if name.startswith("mt"):
            settings["related"] = [RelatedTask(configs, [error(c) + rng.normal(0, 0.01) for c in configs])]
        optimizer = Optimizer(space, seed=3, **settings)
        for number in range(5):
            config = optimizer.ask()[0]
            if name == "told" and number == 3:
                optimizer.tell(config, status="failed")
            elif name == "told":
                optimizer.tell(
                    config, error(config), duration=1.5 + number, constraints={"small": config["layers"] < 6}
                )
            else:
                optimizer.tell(config, error(config))
        optimizer.ask()  # one is pending
        saved, checkpoint = optimizer.to_dict(), optimizer.checkpoint()
        if "dngo" not in name and "bohamiann" not in name:
            Path(f"{name}.pickle").write_bytes(pickle.dumps(optimizer))
        record = {"run": saved, "checkpoint": checkpoint, "next": optimizer.ask()[0]}
        Path(f"{name}.json").write_text(json.dumps(record, default=lambda value: value.item()) + "\n")
    import functools

    from bo.surrogates import DNGO, Bohamiann, SurrogateInfo

    for make in (functools.partial(DNGO, networks=1, hidden=(6, 6), burn_in=5), functools.partial(Bohamiann, hidden=(6,), samples=4, chains=2, burn_in=50)):  # fmt: skip
        name = make.func.__name__.lower()  # those of the usual size have megabytes of weights
        small = Optimizer(space, surrogate=SurrogateInfo(name, make), seed=3)
        for _ in range(5):
            config = small.ask()[0]
            small.tell(config, error(config))
        small.ask()
        Path(f"{name}.pickle").write_bytes(pickle.dumps(small))
    Path("restarts.json").write_text(
        json.dumps({"run": restarted().to_dict()}, default=lambda value: value.item()) + "\n"
    )


def restarted():  # type: ignore[no-untyped-def]
    """Run a search until it has converged and restarts."""
    from ConfigSpace import ConfigurationSpace, Float

    from bo import Optimizer

    space = ConfigurationSpace()
    space.add(Float("x", (0.0, 1.0)), Float("y", (0.0, 1.0)), Float("z", (0.0, 1.0)))
    optimizer = Optimizer(space, surrogate="gp-map", seed=0)
    while len(optimizer.history()) < 90 and not optimizer.to_dict()["restarts"]["elsewhere"]["number"]:
        config = optimizer.ask()[0]
        optimizer.tell(config, (config["x"] - 0.3) ** 2 + (config["y"] - 0.6) ** 2 + 0.1 * config["z"])
    for _ in range(4):
        config = optimizer.ask()[0]
        optimizer.tell(config, (config["x"] - 0.3) ** 2 + (config["y"] - 0.6) ** 2 + 0.1 * config["z"])
    return optimizer


def optuna_studies(folder: Path) -> None:
    """Make studies with our sampler, warm trials and pruner; keep the pickles that Optuna's documentation shows."""
    import pickle

    import optuna
    from ConfigSpace import ConfigurationSpace

    from warmstart.integrations.optuna import WarmStartSampler, history_pruner, warm_start

    write_digits()
    settings = {
        "dataset": "digits.npz",
        "history": folder / "histories/tiny.h5",
        "model": folder / "models/tiny.safetensors",
    }

    def objective(trial):  # type: ignore[no-untyped-def]
        rate = trial.suggest_float("learning_rate", 1e-5, 1.0, log=True)
        layers = trial.suggest_int("num_layers_conv", 1, 9)
        if trial.suggest_categorical("kind", ["sgd", "adam"]) == "sgd":
            layers += trial.suggest_float("momentum", 0.0, 0.99)
        trial.report(0.5, 50)
        return abs(layers - 4) / 10 + rate

    sampler = WarmStartSampler(seed=0, surrogate="gp-map")
    study = optuna.create_study(study_name="sampled", storage="sqlite:///optuna.db", sampler=sampler)
    warm_start(study, k=3, **settings)
    study.optimize(objective, n_trials=6)
    asked = study.ask()  # one trial is under way
    asked.suggest_float("learning_rate", 1e-5, 1.0, log=True)
    space = ConfigurationSpace.from_json(folder / "studies/space.json")
    given = WarmStartSampler(
        space=space, initial=[{"rate": 0.01, "layers": 2, "kind": "adam"}], seed=1, n_startup_trials=2
    )
    memory = optuna.create_study(study_name="in memory", sampler=given, direction="maximize")
    memory.optimize(lambda trial: -trial.suggest_float("rate", 1e-4, 1.0, log=True) - trial.suggest_int("layers", 1, 6) - (trial.suggest_float("momentum", 0.0, 0.99) if trial.suggest_categorical("kind", ["sgd", "adam"]) == "sgd" else 0), n_trials=4)  # fmt: skip
    distributions = {"learning_rate": optuna.distributions.FloatDistribution(1e-5, 1.0, log=True)}
    pruner = history_pruner("digits.npz", space=distributions, n_steps=400)
    pruned = optuna.create_study(pruner=pruner)
    trial = pruned.ask(distributions)
    trial.report(0.5, 50)
    Path("prune.json").write_text(json.dumps({"prune": trial.should_prune()}) + "\n")
    pruned.tell(trial, 0.2)
    for name, thing in {
        "sampler": sampler,
        "given": given,
        "memory": memory,
        "pruner": pruner,
        "pruned": pruned,
    }.items():
        Path(f"{name}.pickle").write_bytes(pickle.dumps(thing))


def pickles(folder: Path) -> None:
    """Pickle what functions return, and what people may keep of it; 0.2 cannot pickle descriptions of datasets and locations."""
    import pickle

    import warmstart
    from history_store.errors import AllTrialsFailedError, UsageError
    from history_store.history import History
    from history_store.space import load_space
    from warmstart.studies.objectives.load import load_objective

    write_digits()
    shutil.copy(HERE / "objective.py", "objective.py")
    sys.path.insert(0, ".")
    settings = {"history": folder / "histories/tiny.h5", "model": folder / "models/tiny.safetensors"}
    asked = {"storage": "s.db", "warm": "none", "space": "compact", "on_message": lambda line: None}
    with History.open(settings["history"]) as history:
        things = {"space": load_space(history.space_json), "evaluations": list(history.evaluations())[:12]}
    advisor = warmstart.Advisor(**settings)
    things |= {
        "suggest": warmstart.suggest("digits.npz", k=2, **settings),
        "neighbours": warmstart.neighbours("digits.npz", k=2, **settings),
        "answer": warmstart.answer("digits.npz", k=2, explain=True, **settings),
        "descriptor": advisor.describe("digits.npz").descriptor,
        "tune": warmstart.tune(objective="objective.py:of_images", trials=3, study="one", **asked),
        "tune_many": warmstart.tune_many(["near", "far"], objective="objective.py:of_path", trials=4, **asked),
        "predict": warmstart.predict(folder / "classifiers/cnn.safetensors", dataset="digits.npz"),
        "error": UsageError("expected this, got that. Do so.", param="k"),
        "failed": AllTrialsFailedError("all failed"),
        "objective": load_objective("objective.py:of_images", names=["log10_learning_rate", "dropout_rate"]),
    }
    Path("descriptor.json").write_text(things["descriptor"].to_json() + "\n")
    for name, thing in things.items():
        Path(f"{name}.pickle").write_bytes(pickle.dumps(thing))
        if hasattr(thing, "to_dict"):
            Path(f"{name}.json").write_text(json.dumps(thing.to_dict()) + "\n")
    for path in [*Path().glob("s.db*"), Path("objective.py")]:
        path.unlink()
    shutil.rmtree("__pycache__", ignore_errors=True)


def databases(folder: Path) -> None:
    """Make studies on database servers, one running and one done on each, and dump them as SQL."""
    sys.path.insert(0, str(HERE.parents[2] / "scripts/bench"))
    from database_servers import MariaDB, Postgres

    write_inputs()
    for server in (Postgres, MariaDB):
        if why := server.missing():
            raise SystemExit(why)
        with server.started() as there:
            name = server.__name__.lower()
            on_server(there.url, f"{KINDS} --pruner median --workers 2 --trials 8 --study running", 4)
            done = run_study(there.url, f"{KINDS} --surrogate gp-map --trials 4 --study done")
            Path(f"{name}.json").write_text(done.replace(there.url.replace(":secret", ""), "URL"))
            Path(f"{name}.sql").write_text(dump(there))
    for path in Path().iterdir():
        if path.suffix not in (".sql", ".json") or path.name == "initial.json":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    write_inputs()
    for name in ("digits.npz", "finite.yaml", "cnn.yaml", "transfer.yaml", "tuned.yaml", "weights.safetensors"):
        Path(name).unlink()
    for name in ("initial.json", "space.yaml", "program.py"):
        Path(name).unlink()


def run_study(url: str, command: str) -> str:
    """Run a study to its end."""
    return run(*command.split(), "--storage", url, "--format", "json")


def on_server(url: str, command: str, kill_after: int) -> None:
    """Run a study and kill it amid a trial."""
    Path("slow").touch()
    args = warmstart(*command.split(), "--storage", url)
    process = subprocess.Popen(args, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(Path("slow").read_text().splitlines()) <= kill_after:
        if process.poll() is not None:
            raise SystemExit("a study ended by itself")
        time.sleep(0.05)
    time.sleep(0.8)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(2)
    Path("slow").unlink()


def dump(server) -> str:  # type: ignore[no-untyped-def]
    """Dump a database as SQL that the Python driver of the server takes."""
    if type(server).__name__ == "Postgres":
        words = ["pg_dump", "--inserts", "--no-owner", "--no-acl", server.url.replace(":secret", "")]
    else:
        words = ["mariadb-dump", "--no-defaults", "-h127.0.0.1", f"-P{server.port}", "-uwarm", "-psecret", "--skip-comments", "--skip-dump-date", "warm"]  # fmt: skip
    text = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = [line for line in text.splitlines() if not line.startswith(("--", "\\", "/*M!"))]
    return "\n".join(line for line in lines if line.strip()) + "\n"


SERVED = {
    "own": "tune --dataset digits.npz --objective objective.py:of_images --model MODEL --study own --trials 3 --report own/report.md",
    "joint": "tune --dataset even.npz --dataset digits.npz --objective objective.py:of_images --model MODEL --study joint --trials 4",
    "program": f"{COMMAND} --study program --trials 3 --report program/report.md",
}
"""The commands of studies on a server, to which `--server URL` is added; without it, with `--storage server.db` and the server's history, they go on at home."""


def server(folder: Path) -> None:
    """Make the storage, the tokens and the local records of a server and its clients, and what they said to each other."""
    import base64
    import socket

    from warmstart.client import Client
    from warmstart.service.transport import Transport

    write_inputs()
    for name in ("finite.yaml", "cnn.yaml", "transfer.yaml", "tuned.yaml", "weights.safetensors", "initial.json"):
        Path(name).unlink()
    shutil.copy(folder / "histories/even.npz", "even.npz")
    shutil.copy(folder / "models/tiny.safetensors", "model.safetensors")
    write_clean(folder / "histories/tiny.h5", "history.h5")
    token = json.loads(run("serve", "--new-token", "ann", "--token-file", "tokens", "--format", "json"))
    Path("token.json").write_text(json.dumps(token) + "\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    served = warmstart(
        "serve",
        "--port",
        port,
        "--history",
        "history.h5",
        "--model",
        "model.safetensors",
        "--storage",
        "server.db",
        "-q",
    )
    process = subprocess.Popen(served, start_new_session=True)
    said: list[dict[str, object]] = []
    usual = Transport._exchange

    def overheard(self, method, path, body, key):  # type: ignore[no-untyped-def]
        response, content = usual(self, method, path, body, key)
        said.append(
            {
                "by": "client", "method": method, "path": "/v1" + path, "body": None if body is None else json.loads(body),
                "key": key is not None, "status": response.status, "answer": json.loads(content),
            }
        )  # fmt: skip
        return response, content

    try:
        with Client(url, retries=12) as client:
            client.about()
        for name, command in SERVED.items():
            import shlex

            for place in ("own", "program"):
                Path(place).mkdir(exist_ok=True)
            words = [word.replace("MODEL", "model.safetensors") for word in shlex.split(command)]
            Path(f"{name}.json").write_text(run(*words, "--server", url, "--format", "json").replace(url, "URL"))
        Transport._exchange = overheard  # type: ignore[method-assign]
        with Client(url, advisor=warmstart_advisor("model.safetensors")) as client:
            talk(client, "digits.npz")
            late(client)
        Transport._exchange = usual  # type: ignore[method-assign]
        told = next(each for each in said if each["path"] == "/v1/suggestions")
        said += [raw(url, request) for request in raw_requests(told["body"]["descriptor"])]  # type: ignore[index]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for each in said:
        if isinstance(each["body"], bytes):
            each["body"] = base64.b64encode(each["body"]).decode()
    Path("exchanges.json").write_text(json.dumps(said) + "\n")
    for name in ("program.py", "space.yaml"):
        assert Path(name).exists()
    for name in ("history.h5.bak", "history.h5.lock"):  # those of two histories are enough
        Path(name).unlink()
    shutil.rmtree("__pycache__", ignore_errors=True)


def write_clean(source: Path, target: str) -> None:
    """Copy a history with all that its journal has."""
    run("history", "compact", source, "--out", target)


def warmstart_advisor(model: str):  # type: ignore[no-untyped-def]
    """Return who looks at pictures for a client."""
    import warmstart as package

    return package.Advisor(model=model)


def talk(client, digits: str) -> None:  # type: ignore[no-untyped-def]
    """Ask a server all that a client asks; tests do it again, with a later client or a later server."""
    client.about()
    config = client.suggest(digits, 2, explain=True).suggestions[0].config
    client.suggest(digits, 1, strategy="portfolio", space={"lr": {"log": [1e-5, 1.0]}})
    client.neighbours(digits, 2)
    client.record("stripes1", config, error=0.25, seed=9, duration=2.5, curve=((1, 0.5), (2, 0.25)), key="run-9")
    client.dataset("stripes1")
    begun = client.begin_study(
        "talk", space={"x": [0.0, 1.0], "n": {"int": [1, 4]}}, surrogate="gp-map", startup=500, pruner="median"
    )
    study = type(begun)(begun.transport, begun.name, "worker-1")
    for number in range(7):
        trial = study.ask(key=f"ask-{number}")
        trial.report(1, 0.75)
        trial.heartbeat()
        if number == 1:
            trial.tell(status="crashed", note="no memory")
        else:
            trial.tell(
                0.5 - trial.config["x"] / 4,
                duration=1.5,
                metrics={"size": 3.0},
                constraints={"small": trial.config["n"] < 4},
            )
    study.ask(key="ask-7").release()
    study.ask(key="ask-8")  # one is under way
    study.show()
    study.trials()
    client.studies()
    other = client.begin_study(
        "scaled",
        space={"x": [0.0, 1.0]},
        metric="accuracy",
        maximize=True,
        scale="percent",
        initial=[{"x": 0.25}],
        warm="initial",
        startup=2,
    )
    worker = type(other)(other.transport, other.name, "worker-1")
    worker.ask(key="first").tell(value=90.0)


def late(client) -> None:  # type: ignore[no-untyped-def]
    """Tell of a trial after its lease has ended, and somebody else has it: it is kept as an extra one."""
    from history_store.errors import LeaseLostError

    study = client.begin_study("late", space={"x": [0.0, 1.0]}, warm="none", startup=50)
    one, two = (
        type(study)(study.transport, study.name, name, lease_s) for name, lease_s in (("slow", 0.2), ("quick", 60.0))
    )
    trial = one.ask()
    time.sleep(0.5)
    two.ask().tell(0.5)
    try:
        trial.tell(0.25)
    except LeaseLostError:
        return
    raise SystemExit("no lease was lost")


def raw_requests(descriptor: object) -> list[dict[str, object]]:
    """List requests that no client of ours makes, to every other route."""
    asked = [
        ("POST", "/v1/descriptors", descriptor), ("GET", "/v1/descriptors/ID", None),
        ("POST", "/v1/neighbours", {"descriptor": "ID", "k": 2}), ("POST", "/v1/map", {"descriptor": "ID"}),
        ("GET", "/v1/history", None), ("GET", "/v1/history/datasets?limit=3", None),
        ("GET", "/v1/history/datasets/stripes1", None), ("GET", "/v1/history/datasets/stripes1/runs?limit=4", None),
        ("GET", "/v1/studies/talk/importance", None), ("GET", "/v1/studies/talk/trials/0", None),
        ("GET", "/v1/studies/talk/trials?limit=3", None), ("GET", "/v1/studies/talk/events", None),
        ("GET", "/v1/healthz", None), ("GET", "/healthz", None), ("GET", "/v1/readyz", None), ("GET", "/v1/metrics", None), ("GET", "/v1/openapi.json", None),
        ("POST", "/v1/suggestions", {"k": 2}), ("POST", "/v1/suggestions", {"descriptor": descriptor, "k": 1000}),
        ("GET", "/v1/studies/nothing", None), ("POST", "/v1/studies/talk/trials/0:tell", {"client": "worker-1", "error": 0.9}),
        ("POST", "/v1/descriptors:upload", Path("digits.npz").read_bytes()),
    ]  # fmt: skip
    return [{"method": method, "path": path, "body": body} for method, path, body in asked]


def raw(url: str, request: dict, known: dict[str, str] | None = None) -> dict:  # type: ignore[type-arg]
    """Send a request as it is, and give it with its answer; `ID` is that of the descriptor posted last."""
    from http.client import HTTPConnection

    known = IDS if known is None else known
    body, path = request["body"], request["path"].replace("ID", known.get("ID", "ID"))
    kind = "application/x-npz" if isinstance(body, bytes) else "application/json"
    if isinstance(body, dict):
        body = json.dumps({k: known.get("ID", "ID") if v == "ID" else v for k, v in body.items()})
    connection = HTTPConnection("127.0.0.1", int(url.rpartition(":")[2]), timeout=120)
    try:
        connection.request(request["method"], path, body, {} if body is None else {"Content-Type": kind})
        response = connection.getresponse()
        if path.endswith("/events"):
            text = ""
            while "data:" not in text or not text.endswith("\n\n"):
                text += response.readline().decode()
        else:
            text = response.read().decode()
    finally:
        connection.close()
    said = response.getheader("content-type", "")
    answer = json.loads(text) if "json" in said else text
    if request["path"] == "/v1/descriptors":
        known["ID"] = answer["id"]
    names = ("content-type", "etag", "location", "retry-after")
    headers = sorted(name for name, _ in response.getheaders() if name.lower() in names)
    return {
        "by": "raw",
        **request,
        "key": False,
        "status": response.status,
        "answer": answer,
        "headers": [each.lower() for each in headers],
        "type": said,
    }


IDS: dict[str, str] = {}


H, M, D = "../histories/tiny.h5", "../models/tiny.safetensors", "../histories/digits.npz"
ASKED = ("--dataset", D, "--history", H, "--model", M)
PRINTED = [
    *[("suggest", *ASKED, "--format", form) for form in ("json", "yaml", "csv", "optuna", "ray", "configspace")],
    ("suggest", *ASKED, "--explain", "--format", "json"),
    ("suggest", *ASKED, "-k", "2", "--strategy", "nearest", "--exclude-group", "group3", "--seed", "3", "--format", "json"),
    ("suggest", *ASKED, "--space", "../studies/cnn.yaml", "--format", "json"),
    ("suggest", *ASKED, "--workload", "cnn", "--format", "json"),
    ("suggest", *ASKED, "--time", "10m", "--format", "json"),
    ("suggest", "--dataset", D, "--workload", "transfer", "--exclude-group", "sklearn_digits", "--format", "json"),
    ("suggest", "--dataset", "../histories/tiny.h5::stripes2", "--history", H, "--model", M, "--format", "json"),
    *[("neighbours", *ASKED, "-k", "3", "--format", form) for form in ("json", "yaml", "csv")],
    ("predict", "../classifiers/cnn.safetensors", "--dataset", "../classifiers/asked.npz", "--format", "json"),
    ("predict", "../classifiers/cnn.safetensors", "--dataset", "../classifiers/asked.npz", "--format", "csv"),
    ("evaluate", "--table", "../models/errors.npz", "--methods", "random,portfolio", "--horizon", "4", "--repeats", "2", "--format", "json"),
    ("cache", "--format", "json"),
    ("train", "--history", H, "--extractor", "handcrafted", "--steps", "3", "--device", "cpu", "--out", "t.safetensors", "--format", "json"),
    ("history", "list", H, "--format", "json"), ("history", "list", H, "--limit", "2", "--format", "csv"),
    ("history", "show", "--history", H, "--format", "json"),
    ("history", "show", "stripes1", "--history", H, "--model", M, "--format", "json"),
    ("history", "verify", H, "--format", "json"), ("history", "verify", "../histories/full.h5", "--format", "json"),
    ("history", "quarantine", "../histories/merged.h5", "--format", "json"),
    ("history", "quarantine", "../histories/merged.h5", "--release", "shared7", "--format", "json"),
    ("history", "bundle", H, "--out", "b.jsonl", "--format", "json"),
    ("history", "create", "n.h5", "--space", "compact", "--configs", "2", "--format", "json"),
    ("history", "merge", "n.h5", "b.jsonl", "--dry-run", "--format", "json"),
    ("history", "merge", "n.h5", "b.jsonl", "--format", "json"),
    ("history", "add", "n.h5", "--dataset", D, "--name", "digits", "--group", "digits", "--format", "json"),
    ("history", "record", "n.h5", "--dataset", "digits", "--error", "0.2", "--seed", "4", "--config", "@../histories/config.json", "--format", "json"),
    ("history", "export", "n.h5", "n.csv", "--format", "json"),
    ("history", "import", "m.h5", "n.csv", "--dry-run", "--format", "json"),
    ("history", "import", "m.h5", "n.csv", "--format", "json"),
    ("history", "import", "m.h5", "n.csv", "--dry-run", "--format", "json"),
    ("history", "embed", "n.h5", "--format", "json"),
    ("history", "compact", "n.h5", "--format", "json"), ("history", "upgrade", "n.h5", "--format", "json"),
    ("history", "remove", "n.h5", "digits", "--yes", "--format", "json"),
    ("history", "collect", "../histories/even.npz", "--history", "c.h5", "--space", "../histories/xy.yaml", "--configs", "2", "--workers", "1", "--command", "python ../histories/measure.py {x} {kind}", "--format", "json"),
    ("studies", "list", "../studies/done.db", "--format", "json"), ("studies", "list", "../studies/running.journal", "--format", "json"),
    ("studies", "show", "--storage", "../studies/done.db", "--format", "json"),
    ("studies", "show", "--storage", "../studies/done.journal", "--format", "json"),
    ("studies", "show", "--storage", "../studies/running.db", "--format", "json"),
    ("studies", "export", "e.csv", "--storage", "../studies/done.journal", "--format", "json"),
    ("studies", "plot", "--storage", "../studies/done.db", "--out", "p.svg", "--format", "json"),
    ("plot", "run", "../studies/python.md", "--out", "r.svg", "--format", "json"),
    ("plot", "regret", "../models/evaluation.json", "--out", "g.svg", "--format", "json"),
    ("plot", "map", "--history", H, "--model", M, "--out", "m.svg", "--format", "json"),
    ("plot", "ccov", "--history", H, "--out", "c.svg", "--format", "json"),
    ("serve", "--new-token", "ben", "--scope", "read", "--token-file", "tokens", "--format", "json"),
    # Errors: exit codes 2, 3, 4 and 5.
    ("suggest", "--dataset", "nothing", "--history", H, "--model", M, "--format", "json"),
    ("suggest", *ASKED, "--strategy", "best", "--format", "json"),
    ("suggest", *ASKED, "-k", "0", "--format", "json"),
    ("suggest", "--dataset", "../studies/space.yaml", "--history", H, "--model", M, "--format", "json"),
    ("history", "verify", "../histories/xy.yaml", "--format", "json"),
    ("suggest", "--dataset", D, "--history", H, "--model", "../histories/xy.yaml", "--format", "json"),
    ("history", "add", "n.h5", "--dataset", "../histories/xy.yaml", "--name", "a", "--group", "a", "--format", "json"),
    ("tune", "--objective", "../studies/objective.py:always_fails", "--space", "../studies/finite.yaml", "--no-warm", "--trials", "2", "--storage", "f.db", "--format", "json"),
    ("studies", "show", "none", "--storage", "../studies/done.db", "--format", "json"),
    ("--version",),
]  # fmt: skip
"""Commands whose output programs read, in this order, in a folder beside the others."""


def called(*args: str) -> tuple[int, str, str]:
    """Run a command in this process, which has loaded what all of them need; gives its exit code and what it wrote."""
    import contextlib
    import io

    from warmstart.cli import main as command

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command(list(args))
    return code, out.getvalue(), err.getvalue()


def printed(folder: Path) -> None:
    """Keep what commands print, for programs, and their exit codes; they run in a copy of all that was made."""
    copy = folder.with_name(f"{folder.name}-printed")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    os.chdir(copy / "printed")
    said = []
    for args in PRINTED:
        code, out, err = called(*args)
        error = next((line for line in err.splitlines()[::-1] if line.startswith("{")), "")
        said.append({"args": list(args), "code": code, "out": out, "error": error})
        if code == 1:
            raise SystemExit(f"{args}\n{err}")
    Path(folder / "printed/commands.json").write_text(json.dumps(said, indent=0) + "\n")
    os.chdir(folder)
    shutil.rmtree(copy)


SPACES = {
    "short.yaml": (
        "lr: {log: [1e-5, 0.1]}\nweight_decay: {log: [1e-6, 1e-2], default: 1e-4}\ndropout: [0, 0.5]\nlayers: {int: [1, 9]}\n"
        "batch_size: [16, 32, 64]\nmodel_name: [resnet18, resnet50, vit_b_16]\noptimizer: {choice: [sgd, adam], default: adam}\n"
        "momentum: {float: [0, 0.99], if: {optimizer: sgd}}\nepochs: 30\nwidth: {log_int: [4, 512]}\n"
        "stepped: {float: [0, 0.5], step: 0.1}\neights: {int: [8, 64], step: 8}\nsize: {ordered: [small, medium, large]}\n"
        "fixed: {value: 3}\nflag: [true, false]\ndeep: {float: [0, 1], if: {layers: [7, 8, 9]}}\n"
    ),
    "short.json": '{"x": [0.0, 1.0], "kind": ["a", "b"], "n": {"int": [1, 4]}}\n',
}
MANIFEST = """name = "shapes"
group = "shapes"
what = "stripes"
source = "a program"
licence = "MIT"
n_images = 24
n_classes = 4

[splits]
kind = "stratified"
fractions = [0.5, 0.25, 0.25]
seed = 3

[obtain]
kind = "file"
path = "shapes.npz"
"""
RUNS = "dataset,lr,momentum,error,seed\nbirds,0.1,0.9,0.25,1\nbirds,0.01,0.5,0.5,2\nplanes,0.001,0.1,0.125,1\n"


def inputs(folder: Path) -> None:
    """Write files as people write them, with what was read."""
    from history_store.space import dump_space
    from warmstart.spaces import read_space

    read = {}
    for name, text in SPACES.items():
        Path(name).write_text(text)
        read[name] = json.loads(dump_space(read_space(name)))
    for name in ("compact", "paper", "cnn", "transfer", "transfer:frozen", "transfer:large"):
        read[name] = json.loads(dump_space(read_space(name)))
    Path("spaces.json").write_text(json.dumps(read) + "\n")
    images, labels = pictures(3)
    np.savez_compressed("shapes.npz", images=images, labels=labels)
    Path("shapes.toml").write_text(MANIFEST)
    Path("runs.csv").write_text(RUNS)
    Path("runs.yaml").write_text("lr: {log: [1e-4, 1.0]}\nmomentum: {float: [0, 0.99]}\n")
    for form, name in (("json", "first.json"), ("yaml", "first.yaml"), ("csv", "first.csv"), ("ray", "points.json"), ("configspace", "start.json"), ("optuna", "start.py.txt")):  # fmt: skip
        asked = ("--dataset", folder / "histories/digits.npz", "--history", folder / "histories/tiny.h5")
        said = run("suggest", *asked, "--model", folder / "models/tiny.safetensors", "--format", form)
        Path(name).write_text(said.replace(str(folder), ".."))
    for path in sorted((HERE.parents[2] / "examples/plugin").rglob("*")):
        if path.is_file() and path.suffix in (".py", ".toml"):
            place = Path("plugin") / path.relative_to(HERE.parents[2] / "examples/plugin")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.with_name(f"{place.name}.txt").write_bytes(path.read_bytes())  # a copy that no tool rewrites
    Path("interface.json").write_text(json.dumps(interface(), indent=0, sort_keys=True) + "\n")


def interface() -> dict[str, object]:
    """List the options of commands, and the parameters and attributes of public names."""
    import importlib

    from typer.main import get_command

    from warmstart.cli.app import make_app

    def options(command, words):  # type: ignore[no-untyped-def]
        found = {
            " ".join(words): sorted(option for each in command.params for option in (*each.opts, *each.secondary_opts))
        }
        for name, each in getattr(command, "commands", {}).items():
            found |= options(each, (*words, name))
        return found

    names = {
        "warmstart": "",
        "bo": "",
        "history_store.history": "History",
        "history_store.records": "DatasetInfo Evaluation",
        "warmstart.integrations.optuna": "",
        "warmstart.integrations.optuna_remote": "RemoteSampler",
        "warmstart.remote_study": "RemoteStudy RemoteTrial",
    }
    python = {}
    for module, chosen in names.items():
        there = importlib.import_module(module)
        for name in chosen.split() or there.__all__:
            python[f"{module}:{name}"] = members(getattr(there, name))
    return {"commands": options(get_command(make_app()), ("warmstart",)), "python": python}


def members(thing: object) -> dict[str, list[str]]:
    """List the parameters of a call and of each public method, and the names of attributes."""
    import inspect

    def parameters(call: object) -> list[str]:
        try:
            return [
                str(each).partition(":")[0].partition("=")[0] for each in inspect.signature(call).parameters.values()
            ]  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return []

    found = {"": parameters(thing)}
    if inspect.isclass(thing):
        for name in dir(thing):
            if not name.startswith("_"):
                each = getattr(thing, name)
                found[name] = parameters(each) if callable(each) else []
    return found


PARTS = {
    "studies": studies,
    "histories": histories,
    "models": models,
    "classifiers": classifiers,
    "optimisers": optimisers,
    "optuna": optuna_studies,
    "pickles": pickles,
    "databases": databases,
    "server": server,
    "inputs": inputs,
    "printed": printed,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
