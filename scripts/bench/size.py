"""What commands cost on histories of many datasets, simulated: CPU seconds and memory of whole processes.

``python scripts/bench/size.py --datasets 124 2000 100000 --folder size --out scripts/bench/results/size.json``

The histories hold records, runs of 50 shared configurations and embeddings of the shipped model, drawn at random around
the shipped history's own; no images. The query's own embedding is cached by a first call.
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

import numpy as np

from warmstart.history_store.file.base import write_base
from warmstart.history_store.file.content import Content
from warmstart.history_store.file.dataset_list import DatasetList
from warmstart.history_store.file.table import frozen_table
from warmstart.history_store.history import History
from warmstart.history_store.records import DatasetInfo
from warmstart.locations import history_path

CONFIGS = 50
IMAGES = (300, 8, 8)


def simulate(path: Path, m: int, seed: int = 0) -> None:
    """Write a history of m datasets."""
    rng = np.random.default_rng(seed)
    with History.open(history_path(None)) as shipped:
        (model,) = shipped.model_hashes
        own = np.stack(list(shipped.embeddings(model).values()))
        configs, space = list(shipped.configs)[:CONFIGS], shipped.space_json
        errors, size = shipped.errors[:, :CONFIGS], shipped.stored_size
        unit = shipped.configs_unit[:CONFIGS]
    c, near = len(configs), rng.integers(len(own), size=m)
    n = m * c
    content = Content(
        id=f"{seed:032x}",
        space_json=space,
        stored_size=size,
        notes={},
        datasets=DatasetList(describe(i, int(near[i])) for i in range(m)),
        configs=[dict(config) for config in configs],
        unit=unit,
        base=frozen_table(
            {
                "dataset": np.repeat(np.arange(m), c),
                "config": np.tile(np.arange(c), m),
                "error": np.clip(np.nan_to_num(errors[near], nan=0.9) + rng.normal(0, 0.02, (m, c)), 0, 1).ravel(),
                "status": np.zeros(n),
                "duration": np.full(n, 60.0),
                "seed": np.zeros(n),
                "origin": np.zeros(n),
                "curve_end": np.zeros(n),
                "curve_step": np.zeros(0),
                "curve_error": np.zeros(0),
            },
            ("simulated",),
        ),
    )
    vectors = own[near] + rng.normal(0, 0.05 * own.std(), (m, own.shape[1]))
    embeddings = {info.name: vectors[i].astype(np.float32) for i, info in enumerate(content.datasets)}
    write_base(path, content, embeddings={model: embeddings}, writer="bench")


def describe(i: int, near: int) -> DatasetInfo:
    """Describe one dataset, as collected ones are."""
    return DatasetInfo(
        name=f"simulated-{i:06d}",
        group=f"group-{i // 3}",
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


def cost(arguments: list[str], repeats: int) -> dict[str, float]:
    """Run a command of warmstart some times; gives the median and the least CPU seconds, and the largest memory in MB."""
    seconds, peaks = [], []
    command = [sys.executable, "-m", "warmstart", *arguments]
    for _ in range(repeats):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
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


def measure(path: Path, query: Path, repeats: int) -> dict[str, object]:
    """Measure the commands on one history."""
    with History.open(path) as history:
        name, config = history.names[len(history.names) // 2], json.dumps(dict(history.configs[7]))
        m = len(history.names)
    here = ["--history", str(path)]
    there = [str(path)]
    suggest = ["suggest", "--dataset", str(query), *here, "--format", "json"]
    record = ["history", "record", *there, "-d", name, "--config", config, "--error", "0.5", "-q"]
    cost(suggest, 1)  # embeds the query
    cost(record, 1)  # makes the backup
    return {
        "datasets": m,
        "file_mb": round(path.stat().st_size / 2**20, 1),
        "suggest": cost(suggest, repeats),
        "record": cost(record, repeats),
        "list": cost(["history", "list", *there, "--format", "json"], 1),
        "list_20": cost(["history", "list", *there, "--limit", "20"], 1),
        "verify": cost(["history", "verify", *there], 1),
    }


def main() -> None:
    """Simulate, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, nargs="+", default=[124, 2000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where histories are kept between calls")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "WARMSTART_THREADS": "1"}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as in an installed package
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        os.environ.setdefault("WARMSTART_CACHE", f"{folder}/cache")
        os.environ.setdefault("PYTHONPYCACHEPREFIX", f"{folder}/compiled")
        query = folder / "query.npz"
        rng = np.random.default_rng(1)
        labels = np.arange(IMAGES[0]) % 10
        images = np.clip(rng.normal(20 * labels[:, None, None], 25, IMAGES), 0, 255).astype(np.uint8)
        np.savez(query, images=images, labels=labels)
        found = {"python": platform.python_version(), "cpus": os.cpu_count(), "help": cost(["--help"], options.repeats)}
        sizes = []
        for m in options.datasets:
            path = folder / f"{m}.h5"
            if not path.exists():  # in a process of its own: a child's peak of memory begins with its parent's
                apart = multiprocessing.get_context("spawn").Process(target=simulate, args=(path, m))
                apart.start()
                apart.join()
            sizes.append(measure(path, query, options.repeats))
        text = json.dumps(found | {"sizes": sizes}, indent=1) + "\n"
    sys.stdout.write(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
