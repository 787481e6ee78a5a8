"""Time `suggest`: a cold process against its parts, a warm call with a cached embedding, and `--help`.

    python scripts/bench/suggest.py [--dataset FOLDER] [--history FILE --model FILE] [--repeats 5]

Figures are CPU seconds of one thread, best of the repeats; the bars are those of the design (cold ≤ 1.5 x the parts,
warm ≤ 10 ms, help ≤ 0.3 s). The parts are import the model's code + decode the sampled images + embed them, in a process of
their own: with a model that looks at images torch is among them; the shipped one needs none.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

PARTS = """
import sys, time
start = time.process_time()
import numpy as np
from PIL import Image
from pathlib import Path
from warmstart.metafeat.embed import load_embedder
from warmstart.metafeat.model_file import read_header
model = read_header(Path(sys.argv[2]))
if model.spec.extractor != "handcrafted":
    import torch
loaded = time.process_time()
files = sorted(Path(sys.argv[1]).rglob("*.jpg"))[:400]
images = np.stack([np.asarray(Image.open(f).convert("RGB").resize((32, 32), Image.Resampling.LANCZOS)) for f in files])
labels = np.unique([f.parent.name for f in files], return_inverse=True)[1]
decoded = time.process_time()
load_embedder(model).embed(images, labels, rng=np.random.default_rng(0))
print(loaded - start, decoded - loaded, time.process_time() - decoded)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset")
    parser.add_argument("--history")
    parser.add_argument("--model")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1"}
    from warmstart.locations import history_path, model_path

    with tempfile.TemporaryDirectory() as folder:
        os.environ["WARMSTART_CACHE"] = f"{folder}/cache"
        files = ["--history", str(history_path(args.history)), "--model", str(model_path(args.model))]
        dataset = args.dataset or str(write_photos(Path(folder) / "photos"))
        suggest = ["-m", "warmstart", "suggest", "--dataset", dataset, "--format", "json", "-q", *files]
        runs = [run_parts(dataset, files[3]) for _ in range(args.repeats)]
        parts, whole = min(runs, key=lambda run: run[1])
        cold = min(cpu_seconds([*suggest, "--no-cache"]) for _ in range(args.repeats))
        cached = min(cpu_seconds(suggest) for _ in range(args.repeats + 1))
        shown = min(cpu_seconds(["-m", "warmstart", "--help"]) for _ in range(args.repeats))
        warm = warm_ms(dataset, files)
    print(
        json.dumps(
            {
                "import_s": round(parts[0], 3),
                "decode_s": round(parts[1], 3),
                "embed_s": round(parts[2], 3),
                "process_of_the_parts_s": round(whole, 3),
                "cold_process_s": round(cold, 3),
                "cold_over_parts": round(cold / whole, 3),
                "cold_bar": 1.5,
                "process_with_cached_embedding_s": round(cached, 3),
                "warm_call_ms": round(warm, 2),
                "warm_bar_ms": 10,
                "help_s": round(shown, 3),
                "help_bar_s": 0.3,
            },
            indent=1,
        )
    )


def write_photos(root: Path, *, n: int = 400, classes: int = 10) -> Path:
    """Write n noisy photographs of 160 x 120 pixels as JPEG."""
    rng = np.random.default_rng(0)
    for number in range(n):
        folder = root / f"class{number % classes}"
        folder.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        small.resize((160, 120), Image.Resampling.BICUBIC).save(folder / f"{number}.jpg", quality=90)
    return root


def run_parts(dataset: str, model: str) -> tuple[list[float], float]:
    """Time the parts, and the process that does them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", PARTS, dataset, model], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    parts = [float(word) for word in done.stdout.split()]
    return parts, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def cpu_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def warm_ms(dataset: str, files: list[str]) -> float:
    import warmstart

    def call() -> float:
        start = time.perf_counter()
        warmstart.suggest(dataset, history=files[1], model=files[3])
        return 1e3 * (time.perf_counter() - start)

    return statistics.median(call() for _ in range(30))


if __name__ == "__main__":
    main()
