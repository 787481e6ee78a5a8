"""A step of fine-tuning: CPU seconds of torch's own network and of the quick copy that we train, in one run, one thread.

A step is the answers to 16 images, and gradients of all convolutions and the classifier; the optimiser's part is the same
for both and left out. The two alternate, and the least of the repeats counts.

Usage: python scripts/bench/tuning_step.py [--backbones tf_efficientnet_lite0 ...] [--sizes 32 64 96 128] [--out FILE.json]
"""

import argparse
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from runs import write_report
from target_cnn import commit, processor
from torch import nn
from torch.nn import functional

from warmstart.metafeat.pretrained.backbones import find_backbone
from warmstart.metafeat.pretrained.features import open_network
from warmstart.metafeat.pretrained.heads import LinearHead
from warmstart.metafeat.pretrained.quick_copy import quick_copy
from warmstart.training.workloads.transfer.finetune import TunedNetwork, tuned_parameters

DEPTH, CLASSES, BATCH = "s16+full", 10, 16
LITE = [f"tf_efficientnet_lite{i}" for i in range(3)]


def make(backbone: str, size: int, pixels: torch.Tensor) -> TunedNetwork:
    """Open a network with a random classifier, all of whose stages are trained."""
    body = open_network(find_backbone(backbone), size=size, device=torch.device("cpu"))
    with torch.no_grad():
        found = body(pixels, DEPTH)
    d = sum(found[part].shape[1] for part in DEPTH.split("+"))
    weight = np.random.default_rng(0).normal(size=(d, CLASSES)) / d**0.5
    network = TunedNetwork(body, LinearHead(np.zeros(d), np.ones(d), weight, np.zeros(CLASSES)), DEPTH).eval()
    trained = tuned_parameters(network, "all", pixels)
    for parameter in body.parameters():
        parameter.requires_grad_(any(parameter is each for each in trained))
    return network


def gradient(network: nn.Module, pixels: torch.Tensor) -> torch.Tensor:
    """Make a step but for the optimiser's part; give all gradients in a row."""
    network.zero_grad(set_to_none=True)
    functional.cross_entropy(network(pixels), torch.arange(len(pixels)) % CLASSES).backward()  # type: ignore[no-untyped-call]
    return torch.cat([each.grad.flatten() for each in network.parameters() if each.grad is not None])


def timing(backbone: str, size: int, repeats: int) -> dict[str, Any]:
    """Time both networks."""
    pixels = torch.rand(BATCH, 3, size, size, generator=torch.Generator().manual_seed(0))
    pixels = pixels.contiguous(memory_format=torch.channels_last)
    plain = make(backbone, size, pixels)
    both = {"torch": plain, "ours": quick_copy(plain, pixels[:2])}
    norms = {name: float(gradient(network, pixels).norm()) for name, network in both.items()}
    seconds: dict[str, list[float]] = {name: [] for name in both}
    for _ in range(repeats):
        for name, network in both.items():
            began = time.process_time()
            gradient(network, pixels)
            seconds[name].append(time.process_time() - began)
    least = {name: round(min(each), 4) for name, each in seconds.items()}
    found = {"backbone": backbone, "size": size, "seconds": least, "ratio": round(least["torch"] / least["ours"], 3)}
    print(found, flush=True)
    return found | {"gradient_norms": norms, "is_copy": both["ours"] is not plain}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbones", nargs="+", default=LITE)
    parser.add_argument("--sizes", nargs="+", type=int, default=[32, 64, 96, 128])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    machine = {"processor": processor(), "python": platform.python_version(), "torch": torch.__version__}
    rows = [timing(backbone, size, asked.repeats) for backbone in asked.backbones for size in asked.sizes]
    write_report({"machine": machine | {"commit": commit()}, "batch": BATCH, "steps": rows}, asked.out)
