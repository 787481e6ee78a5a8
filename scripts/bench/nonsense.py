"""Does `suggest` say when it does not know? Families of nonsense, and real sources with their own group left out.

Cases of nonsense that are called typical are misses; real sources that are not are false alarms: whole, and at 50 and 200
pictures drawn at random. Last, how often a distance stays within its range when other pictures are drawn.

    OMP_NUM_THREADS=1 python scripts/bench/nonsense.py --root FOLDER [--half development|held-out|both] [--cases 12] [--seed 0] [--out FILE.json]
"""

import argparse
import csv
import json
import platform
import zlib
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from nonsense_families import FAMILIES, Case, halves

from warmstart.history_store.readers import open_arrays
from warmstart.locations import history_path, model_path
from warmstart.metafeat.embed import embed_source
from warmstart.suggestions.confidence import judge_query
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.embeddings import load_embedded_history
from warmstart.suggestions.records import Confidence

DRAWS = (50, 200, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="folder with INDEX.csv and the sources as npz")
    parser.add_argument("--half", choices=("development", "held-out", "both"), default="both")
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families-only", action="store_true", help="leave the false alarms and the ranges out")
    parser.add_argument("--history")
    parser.add_argument("--model")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    embedded = load_embedded_history(history_path(options.history), model_path(options.model))
    sources = read_sources(options.root)
    development, held_out = halves()
    chosen = {"development": development, "held-out": held_out, "both": (*development, *held_out)}[options.half]
    bases = [case for _, _, case in sources]
    found: dict[str, dict[str, object]] = {}
    print(f"{'family':28}{'half':13}{'caught':>8}  reasons")
    for name in chosen:
        half = "development" if name in development else "held-out"
        judged = [
            judge(FAMILIES[name](np.random.default_rng([zlib.crc32(name.encode()), options.seed, i]), bases), embedded)
            for i in range(options.cases)
        ]
        found[name] = {"half": half, **summary(judged)}
        print(f"{name:28}{half:13}{found[name]['caught']:8.2f}  {found[name]['reasons']}", flush=True)
    draws = () if options.families_only else DRAWS
    alarms = {str(size or "whole"): false_alarms(sources, size, options.seed, embedded) for size in draws}
    ranges = {str(size or "whole"): covered(sources, size, embedded) for size in draws}
    means = {half: mean_caught(found, half) for half in ("development", "held-out")}
    print(f"caught: {means}")
    for size, row in alarms.items():
        print(f"false alarms at {size}: {row['share']:.3f} {row['sources']}")
    print(f"distances of another draw within the range: {ranges}")
    if options.out:
        document = {
            "families": found,
            "caught": means,
            "false_alarms": alarms,
            "ranges_cover": ranges,
            "cases": options.cases,
            "seed": options.seed,
            "versions": {name: version(name) for name in ("warmstart", "numpy")}
            | {"python": platform.python_version()},
            "machine": platform.machine(),
        }
        options.out.write_text(json.dumps(document, indent=1) + "\n")


def read_sources(root: Path) -> list[tuple[str, str, Case]]:
    """Read names, groups and pictures of the real sources."""
    found = []
    with (root / "INDEX.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            with np.load(root / f"{row['name']}.npz") as arrays:
                case = Case(arrays["images"], arrays["labels"].astype(np.int64))
            found.append((row["name"], row["group"], case))
    return found


def judge(case: Case, embedded: EmbeddedHistory, *, without: str | None = None) -> Confidence:
    """Judge a case as `suggest` does."""
    source = open_arrays(case.images, case.labels)
    names = case.class_names or source.class_names
    rows = embedded.rows_without((), None)
    if without is not None:
        rows = np.array([row for row in rows if embedded.groups[row] != without])
    seen = embed_source(source, embedded.model, fingerprint="", cache=False)
    near = embedded.nearest(seen.vector, rows, len(rows))
    return judge_query(embedded, rows, *near, sample=seen.sample, class_names=names)


def summary(judged: Sequence[Confidence]) -> dict[str, object]:
    """Summarise the verdicts about a family."""
    reasons = Counter(reason for confidence in judged for reason in confidence.reasons)
    return {
        "cases": len(judged),
        "caught": float(np.mean([not each.typical for each in judged])),
        "reasons": dict(reasons),
    }


def false_alarms(
    sources: Sequence[tuple[str, str, Case]], size: int | None, seed: int, embedded: EmbeddedHistory
) -> dict[str, object]:
    """List the sources that are doubted, at so many pictures drawn at random."""
    doubted = {}
    for name, group, case in sources:
        part = (
            case if size is None else draw(case, size, np.random.default_rng([zlib.crc32(name.encode()), seed, size]))
        )
        confidence = judge(part, embedded, without=group)
        if not confidence.typical:
            doubted[name] = list(confidence.reasons)
    return {"share": len(doubted) / len(sources), "sources": doubted}


def covered(sources: Sequence[tuple[str, str, Case]], size: int | None, embedded: EmbeddedHistory) -> float | None:
    """Return the share of distances to the five nearest datasets of other groups that another draw leaves within the range."""
    if embedded.references is None:
        return None
    within = []
    for name, group, case in sources:
        rows = np.array([row for row, other in enumerate(embedded.groups) if other != group])
        distances = []
        for seed in (2, 3):
            rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
            part = case if size is None else draw(case, size, rng)
            source = open_arrays(part.images, part.labels)
            seen = embed_source(source, embedded.model, fingerprint="", seed=seed, cache=False)
            distances.append(embedded.distances_to(seen.vector, rows))
        near = np.argsort(distances[0])[:5]
        movement = embedded.references.movement(seen.sample.n_images)
        within.append(np.abs(distances[0] - distances[1])[near] <= movement)
    return float(np.mean(within))


def draw(case: Case, size: int, rng: np.random.Generator) -> Case:
    """Draw pictures at random."""
    rows = rng.choice(len(case.labels), min(size, len(case.labels)), replace=False)
    return Case(case.images[rows], np.unique(case.labels[rows], return_inverse=True)[1].astype(np.int64))


def mean_caught(found: dict[str, dict[str, object]], half: str) -> dict[str, float]:
    """Return the mean and the worst share caught of a half's families."""
    shares = [float(str(row["caught"])) for row in found.values() if row["half"] == half]
    return {"mean": float(np.mean(shares)), "worst": min(shares)} if shares else {}


if __name__ == "__main__":
    main()
