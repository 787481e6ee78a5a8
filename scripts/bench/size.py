"""What a history of many datasets costs, simulated: CPU seconds and memory of whole processes, answers, the index.

``python scripts/bench/size.py --datasets 100 10000 100000 --beside ../warmstart-0.2 --folder size --out scripts/bench/results/size.json``

**The simulation.** Datasets come in groups of three. A group is drawn at random around a dataset of the shipped history,
its members around the group, in the shipped model's space: by normal noise that leaves the median distances of the shipped
history, between the nearest datasets of different groups and between siblings. Errors are those of the shipped dataset, with
normal noise of 0.02 for the group and 0.01 for the dataset, over 50 shared configurations; one dataset in ten lacks half of them,
one run in a hundred failed. No images, no statistics of pictures. The seeds are fixed, so that checkouts get the same file,
which the first one writes.

**Measured**, one process a figure, the checkouts in turn: commands (the query's own embedding is cached by a first call); one
process that answers many questions from descriptors, as the service does; the index, for this checkout: seconds to build it,
bytes, seconds to extend it by a hundredth, and the share of the ten nearest that it finds of 200 datasets that are not in it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.history_store.file.base import write_base
from warmstart.history_store.file.content import Content
from warmstart.history_store.file.dataset_list import DatasetList
from warmstart.history_store.file.table import frozen_table
from warmstart.history_store.history import History
from warmstart.history_store.records import DatasetInfo
from warmstart.locations import history_path

ROOT, OURS = Path(__file__).resolve().parents[2], "ours"
CONFIGS = 50
SIBLINGS = 3
IMAGES = (300, 8, 8)
QUERIES = 200
HALF_MEASURED, FAILED = 0.1, 0.01
"""Share of datasets that lack half of their runs, and of runs that failed."""
INDEXED = 20_000
Vectors = np.ndarray[Any, Any]

ANSWERS = """
import json, resource, sys, time
import numpy as np
from warmstart.descriptor import Descriptor
from warmstart.metafeat.model_file import read_header
from warmstart.locations import model_path
from warmstart.suggestions.advisor import Advisor
points = np.load(sys.argv[2])[:25]
advisor, model = Advisor(sys.argv[1], threads=1), read_header(model_path())
took = []
for point in points:
    start = time.process_time()
    advisor.suggest(Descriptor(model.hash, point, 1000, 10, (100,) * 10))
    took.append(1000 * (time.process_time() - start))
p50, p99 = np.percentile(took[1:], [50, 99])
print(json.dumps({"first_ms": round(took[0], 1), "p50_ms": round(p50, 2), "p99_ms": round(p99, 2), "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}))
"""

INDEX = """
import json, sys, time
import numpy as np
from pathlib import Path
from warmstart.metafeat.cells import build_cells, extend_cells, mark_vectors
from warmstart.metafeat.index import DatasetIndex
from warmstart.locations import model_path
from warmstart.suggestions.embeddings import load_embedded_history
embedded, points = load_embedded_history(Path(sys.argv[1]), model_path()), np.load(sys.argv[2])
vectors, clock = embedded.vectors, time.process_time
start = clock()
cells = build_cells(vectors)
built = clock() - start
exact, fast = DatasetIndex(vectors), DatasetIndex(vectors, cells=cells)
found = [len(np.intersect1d(exact.nearest(point, 10)[0], fast.nearest(point, 10)[0])) / 10 for point in points]
figures = {"build_cpu_s": round(built, 1), "recall_at_10": round(float(np.mean(found)), 4), "least_recall": min(found)}
for name, index in (("exact", exact), ("cells", fast)):
    for k in (10, 2000):
        start = clock()
        for point in points:
            index.nearest(point, k)
        figures[f"{name}_{k}_ms"] = round(1000 * (clock() - start) / len(points), 2)
few = np.delete(np.arange(len(vectors)), np.arange(0, len(vectors), 100))
marks = mark_vectors(vectors)
part = build_cells(vectors[few]) if len(few) < 200_000 else None
if part is not None:
    start = clock()
    extend_cells(part, marks[few], vectors, marks)
    figures["extend_cpu_s"] = round(clock() - start, 2)
print(json.dumps(figures))
"""


class Shape:
    """What the simulation takes from the shipped history."""

    def __init__(self) -> None:
        with History.open(history_path(None)) as shipped:
            (self.model,) = shipped.model_hashes
            stored = shipped.embeddings(self.model)
            rows = [shipped.names.index(name) for name in stored]
            self.vectors = np.stack(list(stored.values()))
            self.configs, self.space = list(shipped.configs)[:CONFIGS], shipped.space_json
            self.errors, self.unit = shipped.errors[rows, :CONFIGS], shipped.configs_unit[:CONFIGS]
            self.stored_size, groups = shipped.stored_size, np.array(shipped.groups)[rows]
        apart = np.linalg.norm(self.vectors[:, None].astype(np.float64) - self.vectors[None], axis=2)
        same = groups[:, None] == groups
        np.fill_diagonal(apart, np.inf)
        nearest_sibling = np.where(same, apart, np.inf).min(axis=1)
        self.within = float(np.median(nearest_sibling[np.isfinite(nearest_sibling)]))
        self.between = float(np.median(np.where(same, np.inf, apart).min(axis=1)))
        centred = self.vectors - self.vectors.mean(axis=0)
        self.axes = centred / np.linalg.norm(centred)

    def moved(self, vectors: Vectors, distance: float, rng: np.random.Generator) -> Vectors:
        """Move vectors so that two of one origin are about so far apart, in the directions in which the shipped ones differ."""
        moves = rng.normal(0, distance / np.sqrt(2), (len(vectors), len(self.axes))) @ self.axes
        return (vectors + moves).astype(np.float32)


def simulate(path: Path, m: int, seed: int = 0) -> None:
    """Write a history of m datasets, and meta-features to ask about."""
    rng, shape = np.random.default_rng(seed), Shape()
    group, n_groups, c = np.arange(m) // SIBLINGS, -(-m // SIBLINGS), len(shape.configs)
    near = rng.integers(len(shape.vectors), size=n_groups)
    vectors = shape.moved(shape.moved(shape.vectors[near], shape.between, rng)[group], shape.within, rng)
    cells = np.nan_to_num(shape.errors[near], nan=0.9) + rng.normal(0, 0.02, (n_groups, c))
    table = np.clip(cells[group] + rng.normal(0, 0.01, (m, c)), 0, 1)
    is_there = (rng.random(m) >= HALF_MEASURED)[:, None] | (rng.random((m, c)) < 0.5)
    dataset, config = np.nonzero(is_there)
    has_failed, n = rng.random(len(dataset)) < FAILED, len(dataset)
    columns = {
        "dataset": dataset,
        "config": config,
        "error": np.where(has_failed, np.nan, table[is_there]),
        "status": np.where(has_failed, 2.0, 0.0),
        "duration": np.full(n, 60.0),
        "seed": np.zeros(n),
        "origin": np.zeros(n),
        "curve_end": np.zeros(n),
        "curve_step": np.zeros(0),
        "curve_error": np.zeros(0),
    }
    content = Content(
        id=f"{m:032x}",
        space_json=shape.space,
        stored_size=shape.stored_size,
        notes={},
        datasets=DatasetList(describe(i, int(near[group[i]])) for i in range(m)),
        configs=[dict(config) for config in shape.configs],
        unit=shape.unit,
        base=frozen_table(columns, ("simulated",)),
    )
    by_name = {info.name: vectors[i] for i, info in enumerate(content.datasets)}
    write_base(path, content, embeddings={shape.model: by_name}, writer="bench")
    centres = shape.moved(shape.vectors[rng.integers(len(shape.vectors), size=QUERIES)], shape.between, rng)
    np.save(path.with_suffix(".queries.npy"), shape.moved(centres, shape.within, rng))


def describe(i: int, near: int) -> DatasetInfo:
    """Describe one dataset, as collected ones are."""
    return DatasetInfo(
        name=f"simulated-{i:07d}",
        group=f"group-{i // SIBLINGS}",
        n_train=1000,
        n_val=200,
        n_test=200,
        n_classes=10,
        channels=1,
        class_counts=(100,) * 10,
        fingerprint=f"content:{i:064x}",
        source=f"simulated:{near}",
        licence="none",
        what="Simulated for a benchmark.",
        split_seed=0,
        decoding="pillow, 32",
    )


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment in which a checkout runs."""
    return os.environ | {"PYTHONPATH": str(checkout.resolve())}


def cost(arguments: list[str], checkout: Path, repeats: int) -> dict[str, float]:
    """Run a command of warmstart some times; gives the median and the least CPU seconds, and the largest memory in MB."""
    seconds, peaks = [], []
    command = [sys.executable, "-m", "warmstart", *arguments]
    for _ in range(repeats):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(checkout), cwd=checkout
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        seconds.append(usage.ru_utime + usage.ru_stime)
        peaks.append(usage.ru_maxrss / 1024)
    return {
        "cpu_s": round(statistics.median(seconds), 3),
        "least_cpu_s": round(min(seconds), 3),
        "peak_mb": round(max(peaks)),
    }


def figures(program: str, path: Path, checkout: Path) -> Any:
    """Run a program on a history and its queries, in a process of its own, and read the JSON that it prints."""
    command = [sys.executable, "-c", program, str(path), str(path.with_suffix(".queries.npy"))]
    done = subprocess.run(
        command, env=environment(checkout), cwd=checkout, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return json.loads(done.stdout)


def measure(path: Path, query: Path, checkouts: dict[str, Path], repeats: int, *, long: bool) -> dict[str, Any]:
    """Measure the commands on one history, by each checkout in turn."""
    with History.open(path) as history:
        name, config = history.names[len(history.names) // 2], json.dumps(dict(history.configs[7]))
        m = len(history.names)
    here, there = ["--history", str(path.resolve())], [str(path.resolve())]
    suggest = ["suggest", "--dataset", str(query.resolve()), *here, "--format", "json"]
    record = ["history", "record", *there, "-d", name, "--config", config, "--error", "0.5", "-q"]
    cost(suggest, checkouts[OURS], 1)  # embeds the query
    cost(record, checkouts[OURS], 1)  # makes the backup
    commands = {
        "suggest": suggest,
        "neighbours": ["neighbours", "--dataset", str(query.resolve()), *here, "--format", "json"],
        "record": record,
    }
    if long:
        commands |= {
            "show": ["history", "show", name, *here, "--format", "json"],
            "list_20": ["history", "list", *there, "--limit", "20"],
            "list": ["history", "list", *there, "--format", "json"],
            "verify": ["history", "verify", *there],
        }
    found: dict[str, Any] = {"datasets": m, "file_mb": round(path.stat().st_size / 2**20, 1)}
    for label, command in commands.items():
        found[label] = {which: cost(command, folder, repeats) for which, folder in checkouts.items()}
    found["answers"] = {which: figures(ANSWERS, path.resolve(), folder) for which, folder in checkouts.items()}
    if m >= INDEXED:
        found["index"] = figures(INDEX, path.resolve(), checkouts[OURS])
    return found


def main() -> None:
    """Simulate, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, nargs="+", default=[124, 2000])
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="another checkout, measured in turn")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--long", action="store_true", help="show, list and verify too")
    parser.add_argument("--folder", type=Path, help="where histories are kept between calls")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    checkouts = {OURS: ROOT} | ({} if options.beside is None else {"beside": options.beside})
    os.environ |= {"OMP_NUM_THREADS": "1", "WARMSTART_THREADS": "1"}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as in an installed package
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        os.environ.setdefault("WARMSTART_CACHE", f"{folder.resolve()}/cache")
        os.environ.setdefault("PYTHONPYCACHEPREFIX", f"{folder.resolve()}/compiled")
        query = folder / "query.npz"
        rng = np.random.default_rng(1)
        labels = np.arange(IMAGES[0]) % 10
        images = np.clip(rng.normal(20 * labels[:, None, None], 25, IMAGES), 0, 255).astype(np.uint8)
        np.savez(query, images=images, labels=labels)
        found: dict[str, Any] = {"python": platform.python_version(), "cpus": os.cpu_count()}
        found["help"] = {which: cost(["--help"], where, options.repeats) for which, where in checkouts.items()}
        sizes = []
        for m in options.datasets:
            path = folder / f"{m}.h5"
            if not path.exists():  # in a process of its own: a child's peak of memory begins with its parent's
                apart = multiprocessing.get_context("spawn").Process(target=simulate, args=(path, m))
                apart.start()
                apart.join()
            sizes.append(measure(path, query, checkouts, options.repeats, long=options.long))
        text = json.dumps(found | {"sizes": sizes}, indent=1) + "\n"
    sys.stdout.write(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
