"""Measure the Siamese step against the plain loop, in CPU seconds of one thread, and compare their loss curves.

The plain loop is what one writes first: float32, contiguous tensors, convolution - ReLU - pool, all networks of the step
stacked into one batch, unfused Adam. Ours is `warmstart.training.siamese.train`, on the same pairs, draws and initial weights: the
two differ in arithmetic only, so their loss curves must agree, which is tested over paired seeds.

    OMP_NUM_THREADS=1 python scripts/bench/siamese.py --out siamese.json
"""

import argparse
import dataclasses
import json
import platform
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from warmstart.metafeat.labels import label_codes
from warmstart.metafeat.model import random_network
from warmstart.metafeat.spec import ModelSpec
from warmstart.training.siamese.labelled_images import LabelledImages
from warmstart.training.siamese.settings import SiameseSettings
from warmstart.training.siamese.train import STREAMS, SiameseRun, pair_loss


class PlainWing(nn.Module):
    """The network as written down in the paper, with the weights of ours."""

    def __init__(self, spec: ModelSpec, seed: int) -> None:
        super().__init__()
        ours = random_network(spec, seed=seed)
        convs = [c.to(memory_format=torch.contiguous_format) for c in ours.deep.convs]
        self.deep = nn.Sequential(*(layer for c in convs for layer in (c, nn.ReLU(), nn.MaxPool2d(2))), nn.Flatten())
        self.encoder, self.after = ours.encoder, ours.after

    def forward(self, images: Tensor, codes: Tensor) -> Tensor:
        features = self.deep(images.flatten(0, 1)).unflatten(0, images.shape[:2])
        return self.after(self.encoder(features, codes))


def toy_data(n_sets: int, seed: int) -> tuple[dict[str, LabelledImages], np.ndarray]:
    """Make datasets that differ in colour, texture and number of classes, and a target distance that follows."""
    rng = np.random.default_rng(seed)
    traits = rng.random((n_sets, 3))
    data = {}
    for i, (level, contrast, classes) in enumerate(traits):
        images = 255 * (level + (rng.random((400, 32, 32, 3)) - 0.5) * contrast)
        labels = rng.integers(0, 2 + int(8 * classes), 400)
        data[f"toy{i}"] = LabelledImages(images.clip(0, 255).astype(np.uint8), labels)
    return data, np.abs(traits[:, None] - traits[None]).mean(2)


def plain_loop(run: SiameseRun, steps: int) -> tuple[list[float], list[float]]:
    """Do the steps of a run the plain way; return losses and CPU seconds of each."""
    settings = run.settings
    network = PlainWing(settings.spec, run.seed)
    optimiser = torch.optim.Adam(network.parameters(), foreach=False, fused=False)
    losses, seconds = [], []
    for step in range(steps):
        rng = np.random.default_rng([run.seed, STREAMS["step"], step])
        networks, pairs = run.plan(rng)
        samples = [run.sets[i].sample(rng, settings.spec.tau) for i in networks]
        started = time.process_time()
        images = torch.stack([torch.from_numpy(x).permute(0, 3, 1, 2).float().contiguous() / 255 for x, _ in samples])
        codes = torch.from_numpy(np.stack([label_codes(y, settings.spec.label_code) for _, y in samples]))
        apart = run.target.between(networks, networks)
        wanted = torch.tensor(apart[pairs[:, 0], pairs[:, 1]], dtype=torch.float32)
        loss = pair_loss(network(images, codes), torch.from_numpy(pairs), wanted, kind=settings.loss)
        optimiser.param_groups[0]["lr"] = settings.learning_rate_at(step)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        seconds.append(time.process_time() - started)
    return losses, seconds


def fast_loop(run: SiameseRun, steps: int) -> tuple[list[float], list[float]]:
    """Do the steps of a run as the product does."""
    seconds = []
    for _ in range(steps):
        started = time.process_time()
        run.advance()
        seconds.append(time.process_time() - started)
    return run.curves.loss, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extractors", nargs="+", default=["adf", "bilstm"])
    parser.add_argument("--steps", type=int, default=3, help="timed steps at tau 200, after one to warm up")
    parser.add_argument("--seeds", type=int, default=5, help="paired loss curves")
    parser.add_argument("--curve-steps", type=int, default=60)
    parser.add_argument("--curve-tau", type=int, default=50)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for extractor in args.extractors:
        spec = ModelSpec(extractor=extractor, tau=200)
        timed = SiameseSettings(spec, batch=8, loss="squared", learning_rate=1e-3, steps=args.steps + 1)
        make = lambda settings, seed: SiameseRun(*toy_data(12, seed), settings, seed=seed, held_out=(), device="cpu")  # noqa: E731
        plain = float(np.median(plain_loop(make(timed, 0), args.steps + 1)[1][1:]))
        fast = float(np.median(fast_loop(make(timed, 0), args.steps + 1)[1][1:]))
        curve = dataclasses.replace(timed, spec=dataclasses.replace(spec, tau=args.curve_tau), steps=args.curve_steps)
        tail, gaps, scale = max(args.curve_steps // 3, 1), [], []
        for seed in range(args.seeds):
            theirs = np.array(plain_loop(make(curve, seed), args.curve_steps)[0])
            ours = np.array(fast_loop(make(curve, seed), args.curve_steps)[0])
            gaps.append(float(ours[-tail:].mean() - theirs[-tail:].mean()))
            scale.append(float(theirs[-tail:].mean()))
        error = float(np.std(gaps, ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else float("nan")
        row = {
            "extractor": extractor,
            "bfloat16": make(timed, 0).autocast,
            "plain_s": plain,
            "fast_s": fast,
            "ratio": fast / plain,
            "final_loss_plain": float(np.mean(scale)),
            "final_loss_gap": float(np.mean(gaps)),
            "final_loss_gap_stderr": error,
            "seeds": args.seeds,
        }
        rows.append(row)
        print(
            f"{extractor:8s} 8 pairs, tau 200: plain {plain:.3f} s, ours {fast:.3f} s, ratio {row['ratio']:.3f} (asked <= 0.25); "
            f"loss at the end {row['final_loss_plain']:.5f}, ours minus plain {row['final_loss_gap']:+.6f} +- {error:.6f} over {args.seeds} seeds",
            flush=True,
        )
    if args.out:
        about = {"bench": "siamese", "torch": torch.__version__, "processor": platform.machine(), "rows": rows}
        args.out.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
