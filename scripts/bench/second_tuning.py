"""Is the time after a fine-tuning better spent on more of its steps, or on a fine-tuning of another network?

    OMP_NUM_THREADS=1 python scripts/bench/second_tuning.py FOLDER_OF_ZIPS --work WORK --sets NAME [...] [--size 96] [--out FILE.json]

70 % of the pictures of a set are given, the others asked. The classifiers are those that `classify` would save of two heads and
one fine-tuning of Lite 0 of `--steps`; of one that is as long as both; of both networks' fine-tunings; and of two of Lite 0 from
different seeds. Wrong answers and the mean loss in nats.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from runs import resume, write_report
from ten_minutes import lay_out

from warmstart.history_store.readers import open_images
from warmstart.training.workloads import Member, SourceDataset, get_workload
from warmstart.training.workloads.transfer.budget import TransferBudget
from warmstart.training.workloads.transfer.plan import DEPTH, RECIPE

NETWORKS = ("tf_efficientnet_lite0", "tf_efficientnet_lite2")
OTHER_SECONDS = 1.4
"""Seconds of a step of the second network in those of the first."""


def play(name: str, size: int, steps: int, seed: int, *, zips: Path, work: Path) -> dict[str, Any]:
    """Train on one set and answer."""
    torch.set_num_threads(1)
    folder = work / f"{name}-{seed}"
    if not (folder / "asked").is_dir():
        lay_out(zips / f"{name}.zip", folder, seed)
    given, asked = (open_images(str(folder / part)) for part in ("given", "asked"))
    prepared = get_workload("transfer").prepare(SourceDataset(given), device="cpu")
    longest = int(steps * (1 + OTHER_SECONDS))

    def train(network: str, n_steps: int, run_seed: int = 0) -> tuple[Member, Any, float]:
        config = {"backbone": network, "image_size": size, "depth": DEPTH, "flip_copies": False, "steps": n_steps}
        config |= {**RECIPE, "steps": n_steps} if n_steps else {}
        budget = TransferBudget("steps", longest)
        result = prepared.train(config, seed=run_seed, budget=budget, keep=True)
        return Member(0, config, run_seed, result.error), result.model, result.duration

    heads = [train(network, 0) for network in NETWORKS]
    first, second = (train(network, steps) for network in NETWORKS)
    longer, again = train(NETWORKS[0], longest), train(NETWORKS[0], steps, 1)
    joined = {
        "heads": heads,
        "one": [*heads, first],
        "longer": [*heads, longer],
        "two networks": [*heads, first, second],
        "two seeds": [*heads, first, again],
    }
    truth, rows = np.asarray(asked.labels), range(len(asked))
    report: dict[str, Any] = {
        "asked": len(truth),
        "seconds": {"first": first[2], "second": second[2], "longer": longer[2]},
    }
    for kind, runs in joined.items():
        chosen = prepared.select([model for _, model, _ in runs], 8)
        classifier = prepared.combine([runs[index][0] for index in chosen], [runs[index][1] for index in chosen])
        answers = classifier.predict(asked.read(rows, size=classifier.size).images)
        loss = -np.log(np.maximum(answers[np.arange(len(truth)), truth], 1e-9)).mean()
        report[kind] = {
            "wrong": int((answers.argmax(1) != truth).sum()),
            "loss": round(float(loss), 4),
            "members": len(chosen),
        }
    print(name, report, flush=True)
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zips", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", required=True)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    jobs = [
        {"name": name, "size": options.size, "steps": options.steps, "seed": seed}
        for seed in range(options.seeds)
        for name in options.sets
    ]
    lines = resume(options.work / "runs.jsonl", jobs, lambda **job: play(**job, zips=options.zips, work=options.work))
    kinds = [key for key in lines[0] if isinstance(lines[0][key], dict) and "wrong" in lines[0][key]]
    sums = {kind: {key: sum(line[kind][key] for line in lines) for key in ("wrong", "loss")} for kind in kinds}
    write_report({"sets": lines, "sums": sums}, options.out)
