"""So many seconds of one core on pictures at their own pixels: ours beside heads on frozen features and a plain fine-tuning.

    OMP_NUM_THREADS=1 python scripts/bench/ten_minutes.py FOLDER_OF_ZIPS --work WORK --sets NAME [...] [--seconds 600] [--out FILE.json]

Of each set 70 % of the pictures are given to a method and the others asked afterwards. `classify` runs on a clock that
stands still while the machine runs something else: the seconds of an idle core. The rivals have as many CPU seconds.
`--tree NAME=FOLDER` adds `tune` of another checkout: the methods "NAME, transfer" and "NAME, cnn". `--python NAME=PYTHON`
adds the method "fastai" or "autogluon" (`NAME_rival.py`), with an interpreter that has it. A run that was ended goes on with
the same command: `WORK/runs.jsonl` holds a line a run, with the answers, so that methods are compared picture
by picture.
"""

import argparse
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from runs import resume, write_report

from warmstart.history_store.readers import open_images
from warmstart.history_store.splits import stratified_split
from warmstart.metafeat.pretrained.heads import HeadSearch, TrainingFeatures, head_specs, softmax
from warmstart.metafeat.pretrained.logistic import fit_logistic_path

GIVEN = 0.7
SIZE, BATCH = 224, 16
LITE = "tf_efficientnet_lite{}"
CLOCK = '''
"""Clock of an idle core: seconds in which processes of the run waited for a core are taken off."""
import os, time
_real, _folder, _waits, _listed = time.monotonic, os.environ.get("OWN_CORE_CLOCK"), {}, [0.0, ()]

def _waited():
    if _real() > _listed[0] + 0.2:
        _listed[:] = _real(), tuple(os.listdir(_folder))
    for pid in _listed[1]:
        try:
            with open(f"/proc/{pid}/schedstat") as file:
                _waits[pid] = int(file.read().split()[1]) / 1e9
        except OSError:
            pass
    return sum(_waits.values())

if _folder:
    open(os.path.join(_folder, str(os.getpid())), "w").close()
    time.monotonic = lambda: _real() - _waited()
'''
Answers = NDArray[np.int64]


def lay_out(archive: Path, folder: Path, seed: int) -> None:
    """Write the pictures of an archive with a folder a class to `given` and `asked`, class by class."""
    with zipfile.ZipFile(archive) as file:
        names = sorted(name for name in file.namelist() if not name.endswith("/"))
        classes = sorted({name.split("/")[-2] for name in names})
        labels = np.array([classes.index(name.split("/")[-2]) for name in names])
        for name, code in zip(names, stratified_split(labels, (GIVEN, 1 - GIVEN, 0.0), seed=seed), strict=True):
            place = folder / ("given", "asked")[code] / Path(*name.split("/")[-2:])
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read(name))


def play_tune(folder: Path, seconds: float, tree: str, workload: str = "transfer") -> tuple[Answers, dict[str, Any]]:
    """Tune one of a checkout's own workloads with a limited time, and let the saved classifier answer."""
    command = f"tune --dataset ../given --workload {workload} --time {seconds:g}s --save-model clf.safetensors"
    command += " --study s --report report.md --device cpu"
    return _train_and_ask(folder, command.split() + (["--ensemble", "8"] if workload == "transfer" else []), tree)


def play_classify(folder: Path, seconds: float) -> tuple[Answers, dict[str, Any]]:
    """Give the pictures to `warmstart classify`."""
    command = f"classify ../given --time {seconds:g}s --out clf.safetensors --device cpu"
    return _train_and_ask(folder, command.split(), str(Path(__file__).resolve().parents[2]))


def _train_and_ask(folder: Path, train: list[str], tree: str) -> tuple[Answers, dict[str, Any]]:
    """Run a command of a checkout on `given`, and `predict` on `asked`."""
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    clock = work / "clock"
    clock.mkdir(parents=True)
    (work / "sitecustomize.py").write_text(CLOCK)
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(work.resolve()), tree]),
        "WARMSTART_CACHE": str(work.resolve() / "cache"),
    }

    def call(arguments: list[str], **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "warmstart", *arguments, "--format", "json"],
            cwd=work,
            env=env | more,
            check=True,
            capture_output=True,
            text=True,
        )

    before, began = _child_seconds(), time.monotonic()
    done = call([*train, "--storage", "s.db"], OWN_CORE_CLOCK=str(clock.resolve()))
    took = {"cpu_s": _child_seconds() - before, "wall_s": time.monotonic() - began}
    found, lines = json.loads(done.stdout), done.stderr.splitlines()
    before = _child_seconds()
    answers = json.loads(call(["predict", "clf.safetensors", "--dataset", "../asked"]).stdout)
    rows, classes = answers["predictions"], answers["classes"]
    about = {
        "took_s": found.get("seconds"),
        "saved": found.get("saved_model"),
        "best": found.get("best"),
        "trials": found.get("trials"),
        "lines": [line for line in lines if "clf.safetensors" in line][-1:],
        "predict_cpu_s": round(_child_seconds() - before, 1),
    }
    # 0.2 numbers its answers; by their order both are the same.
    asked = open_images(str(folder / "asked"))
    if [row["truth"] for row in rows] != [asked.class_names[code] for code in asked.labels]:
        msg = "expected the answers in the order of the pictures asked"
        raise ValueError(msg)
    return np.array([classes.index(row["class"]) for row in rows]), {**took, **about}


def _child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read(folder: Path, size: int) -> tuple[NDArray[np.uint8], Answers, NDArray[np.uint8], int]:
    """Return given pictures and labels, asked pictures, and the number of classes."""
    given, asked = (open_images(str(folder / part)) for part in ("given", "asked"))
    images = [source.read(range(len(source)), size=size).images for source in (given, asked)]
    return images[0], np.asarray(given.labels), images[1], len(given.class_names)


def features(network: str, pictures: list[NDArray[np.uint8]], *, all_depths: bool = False) -> list[Any]:
    """Compute the features of the whole network, or with `all_depths` those of all depths."""
    import torch

    from warmstart.metafeat.pretrained.backbones import find_backbone
    from warmstart.metafeat.pretrained.features import compute_features, open_network

    torch.set_num_threads(1)
    body = open_network(find_backbone(network), size=pictures[0].shape[1], device=torch.device("cpu"))
    computed = [compute_features(body, images) for images in pictures]
    return computed if all_depths else [each.full for each in computed]


def logistic(rows: NDArray[np.float32], labels: Answers, n_classes: int) -> tuple[Any, ...]:
    """Fit the head by the penalty with the least loss of images left out; return mean, spread, weight and bias."""
    mean, spread = rows.mean(0), rows.std(0)
    spread = np.where(spread > 1e-6 * spread.max(), spread, spread.max())
    path = fit_logistic_path((rows - mean) / spread, labels, n_classes=n_classes)
    return mean, spread, path.weight[path.best()], path.bias[path.best()]


def play_heads(folder: Path, kind: str, backbone: str) -> tuple[Answers, dict[str, Any]]:
    """Fit one head on the features of a whole network at 224 pixels."""
    given, labels, asked, n_classes = read(folder, SIZE)
    rows, others = features(backbone, [given, asked])
    if kind == "logistic":
        mean, spread, weight, bias = logistic(rows, labels, n_classes)
        return ((others - mean) / spread @ weight + bias).argmax(1), {}
    search = HeadSearch(TrainingFeatures(rows, labels, n_classes), head_specs((kind,)))
    return search.fit().scores(others).argmax(1), {}


def play_six(folder: Path) -> tuple[Answers, dict[str, Any]]:
    """Average six logistic heads."""
    total: Any = 0.0
    for size in (128, 160, 224):
        given, labels, asked, n_classes = read(folder, size)
        for network in (LITE.format(0), LITE.format(2)):
            rows, others = features(network, [given, asked])
            mean, spread, weight, bias = logistic(rows, labels, n_classes)
            total = total + softmax(((others - mean) / spread @ weight + bias).astype(float))
    return total.argmax(1), {}


def play_recipe(folder: Path, seconds: float) -> tuple[Answers, dict[str, Any]]:
    """Fine-tune lite0 at 224 from its logistic head: AdamW, cosine over the seconds, flips and mild crops, batch norms still."""
    import torch

    from warmstart.metafeat.pretrained.backbones import find_backbone
    from warmstart.metafeat.pretrained.features import open_network, to_pixels
    from warmstart.training.workloads.transfer.config import Tuning
    from warmstart.training.workloads.transfer.finetune import augment

    began = time.process_time()
    given, labels, asked, n_classes = read(folder, SIZE)
    (rows,) = features(LITE.format(0), [given])
    mean, spread, weight, bias = (
        torch.tensor(np.asarray(each), dtype=torch.float32) for each in logistic(rows, labels, n_classes)
    )
    device = torch.device("cpu")
    body = open_network(find_backbone(LITE.format(0)), size=SIZE, device=device).eval()
    head = [torch.nn.Parameter(weight), torch.nn.Parameter(bias)]
    optimizer = torch.optim.AdamW(
        [{"params": head, "lr": 1e-3}, {"params": list(body.network.parameters()), "lr": 1e-4}], weight_decay=1e-2
    )
    rates, draws = [1e-3, 1e-4], torch.Generator().manual_seed(0)
    mild = Tuning(1, 1e-3, 0.1, "all", 1e-2, random_flip=True, crop_scale=0.8, mixup_alpha=0.0, label_smoothing=0.0)
    kept = 2.0 + 0.03 * len(asked)
    queue, steps, progress = torch.empty(0, dtype=torch.int64), 0, 0.0

    def scores(pixels: torch.Tensor) -> torch.Tensor:
        return (body(pixels, "full")["full"] - mean) / spread @ head[0] + head[1]

    start = time.process_time() - began
    while progress < 1:
        if len(queue) < BATCH:
            queue = torch.cat([queue, torch.randperm(len(labels), generator=draws)])
        chosen, queue = queue[:BATCH].numpy(), queue[BATCH:]
        progress = min(1.0, (time.process_time() - began - start) / max(seconds - start - kept, 1.0))
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * 0.5 * (1 + np.cos(np.pi * progress))
        loss = torch.nn.functional.cross_entropy(
            scores(augment(to_pixels(given[chosen], device), mild, draws)), torch.from_numpy(labels[chosen])
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
    with torch.inference_mode():
        found = [scores(to_pixels(asked[at : at + 32], device)).argmax(1).numpy() for at in range(0, len(asked), 32)]
    return np.concatenate(found), {"steps": steps}


def play_rival(folder: Path, seconds: float, name: str, interpreter: str) -> tuple[Answers, dict[str, Any]]:
    """Let another library fine-tune in an environment of its own."""
    script, before = Path(__file__).with_name(f"{name}_rival.py"), _child_seconds()
    command = [*shlex.split(interpreter), str(script), str(folder.resolve()), str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found, asked = json.loads(done.stdout.splitlines()[-1]), open_images(str(folder / "asked"))
    if [Path(file).parent.name for file in found["files"]] != [asked.class_names[code] for code in asked.labels]:
        msg = "expected the answers in the order of the pictures asked"
        raise ValueError(msg)
    answers = [asked.class_names.index(name) for name in found["classes"]]
    about = {key: value for key, value in found.items() if key not in ("classes", "files")}
    return np.array(answers), {"cpu_s": _child_seconds() - before, **about}


METHODS: dict[str, Callable[[Path, float], tuple[Answers, dict[str, Any]]]] = {
    "classify": play_classify,
    "recipe": play_recipe,
    "logistic, lite0, 224": lambda folder, _: play_heads(folder, "logistic", LITE.format(0)),
    "ridge, lite0, 224": lambda folder, _: play_heads(folder, "ridge", LITE.format(0)),
    "kNN, lite0, 224": lambda folder, _: play_heads(folder, "knn", LITE.format(0)),
    "mean of six logistic heads": lambda folder, _: play_six(folder),
}


def run(
    name: str,
    method: str,
    seconds: float,
    seed: int,
    *,
    zips: Path,
    work: Path,
    trees: dict[str, str],
    pythons: dict[str, str],
) -> dict[str, Any]:
    """Play one method on one set."""
    folder = work / f"{name}-{seed}"
    if not (folder / "asked").is_dir():
        lay_out(zips / f"{name}.zip", folder, seed)
    truth = np.asarray(open_images(str(folder / "asked")).labels)
    before, began = time.process_time(), time.monotonic()
    tree, _, workload = method.partition(", ")
    if tree in trees:
        answers, about = play_tune(folder, seconds, trees[tree], workload)
    elif method in pythons:
        answers, about = play_rival(folder, seconds, method, pythons[method])
    else:
        answers, about = METHODS[method](folder, seconds)
    took = {"cpu_s": time.process_time() - before, "wall_s": time.monotonic() - began} | about
    found = {key: round(value, 1) if isinstance(value, float) else value for key, value in took.items()}
    wrong = int((answers != truth).sum())
    print(
        f"{name}, {method}: {wrong} of {len(truth)} wrong, {found['cpu_s']} CPU s {about.get('lines', '')}", flush=True
    )
    return {"wrong": wrong, "asked": len(truth), "answers": answers.tolist(), "truth": truth.tolist(), **found}


def report(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Put errors side by side, with sums over the sets that every method has played."""
    table: dict[str, dict[str, Any]] = {}
    for line in lines:
        job = line["job"]
        row = table.setdefault(f"{job['name']}, {job['seconds']:g} s, seed {job['seed']}", {"asked": line["asked"]})
        row[job["method"]] = line["wrong"]
    methods = list(dict.fromkeys(line["job"]["method"] for line in lines))
    whole = [row for row in table.values() if all(method in row for method in methods)]
    sums = {method: sum(row[method] for row in whole) for method in ("asked", *methods)}
    apart = {
        method: {
            "only it is right": _only_right(lines, method, methods[0]),
            "only the first is right": _only_right(lines, methods[0], method),
        }
        for method in methods[1:]
    }
    return {
        "wrong": table,
        "sets that all have played": len(whole),
        "sums": sums,
        "beside the first method": apart,
    }


def _only_right(lines: list[dict[str, Any]], one: str, other: str) -> int:
    """Count the pictures that one method has right and another wrong, on the sets that both have played."""
    by_job = {(line["job"]["name"], line["job"]["seed"], line["job"]["method"]): line for line in lines}
    count = 0
    for (name, seed, method), line in by_job.items():
        rival = by_job.get((name, seed, other))
        if method == one and rival is not None:
            truth = np.array(line["truth"])
            count += int(((np.array(line["answers"]) == truth) & (np.array(rival["answers"]) != truth)).sum())
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zips", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--tree", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    trees, pythons = (dict(pair.split("=", 1) for pair in pairs) for pairs in (options.tree, options.python))
    jobs = [
        {"name": name, "method": method, "seconds": options.seconds, "seed": seed}
        for seed in range(options.seeds)
        for name in options.sets
        for method in options.methods
    ]
    played = resume(
        options.work / "runs.jsonl",
        jobs,
        lambda **job: run(**job, zips=options.zips, work=options.work, trees=trees, pythons=pythons),
    )
    write_report(report(played), options.out)
