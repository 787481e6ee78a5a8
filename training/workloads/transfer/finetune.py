"""Fine-tuning of a pretrained network, from a linear head on its frozen features."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from warmstart.history_store.records import Status
from warmstart.metafeat.pretrained.depths import Depth, TunedStages
from warmstart.metafeat.pretrained.features import FeatureNetwork, batch_size, to_pixels
from warmstart.metafeat.pretrained.heads import LinearHead
from warmstart.metafeat.pretrained.quick_copy import quick_copy
from warmstart.training.workloads.adam import Adam
from warmstart.training.workloads.transfer.budget import TransferBudget
from warmstart.training.workloads.transfer.config import FIRST_RATE, WARM_UP, Tuning

WATCHED = 64
"""Most validation images in points of the curve, to save time; the last point uses all."""
_ANSWER = 0.4
"""Seconds of answering a batch, at most, in seconds of a training step."""


class TunedNetwork(nn.Module):
    """Feature network with a linear classifier on its features at one depth.

    Args:
        body: computes the features.
        head: initial classifier.
        depth: of the features.
    """

    mean: torch.Tensor
    spread: torch.Tensor

    def __init__(self, body: FeatureNetwork, head: LinearHead, depth: Depth) -> None:
        super().__init__()
        self.body, self.depth = body, depth
        self.register_buffer("mean", torch.from_numpy(head.mean).float())
        self.register_buffer("spread", torch.from_numpy(head.spread).float())
        self.weight = nn.Parameter(torch.from_numpy(head.scale * head.weight).float())
        self.bias = nn.Parameter(torch.from_numpy(head.scale * head.bias).float())

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Compute the logits, `n x classes`, of pixels in [0, 1]."""
        parts = self.body(pixels, self.depth)
        rows = torch.cat([parts[part] for part in self.depth.split("+")], 1)
        return ((rows - self.mean) / self.spread) @ self.weight + self.bias

    def linear_head(self) -> LinearHead:
        """Return the present classifier."""
        mean, spread, weight, bias = (
            part.detach().cpu().double().numpy() for part in (self.mean, self.spread, self.weight, self.bias)
        )
        return LinearHead(mean, spread, weight, bias)


@dataclass(frozen=True, slots=True)
class TuningImages:
    """Images of a fine-tuning.

    Attributes:
        images: `n x s x s x c` uint8 of the training part.
        labels: `n` int64.
        val_images: `v x s x s x c` uint8.
        val_labels: `v` int64.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    val_images: NDArray[np.uint8]
    val_labels: NDArray[np.int64]

    def answer(self, network: TunedNetwork, rows: NDArray[np.int64]) -> torch.Tensor:
        """Compute the logits of validation images, `r x classes`."""
        return logits(network, self.val_images[rows])


@dataclass(frozen=True, slots=True)
class TunedResult:
    """Result of a fine-tuning.

    Attributes:
        error: at the end, of all validation images; NaN unless ok.
        status: ok, diverged or timeout.
        curve: pairs (step, error), on `WATCHED` images except the last.
        outputs: logits of the validation images at the end, `v x classes`; None unless ok.
    """

    error: float
    status: Status
    curve: tuple[tuple[int, float], ...]
    outputs: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class TrainingClock:
    """Seconds of a training.

    Attributes:
        seconds: clock of the work so far.
        timeout_s: largest number of seconds of work.
        until: `time.monotonic` at which it ends with its last answers, whatever a budget of time says.
    """

    seconds: Callable[[], float]
    timeout_s: float = math.inf
    until: float = math.inf

    def progress_from_now(self, budget: TransferBudget, length: int, last_batches: float) -> Callable[[int], float]:
        """Return a function that tells the finished share of a training after a step.

        Args:
            budget: upper limit.
            length: steps.
            last_batches: batches that are answered at the end.
        """
        started, began = self.seconds(), time.monotonic()

        def progress(step: int) -> float:
            if math.isinf(self.until):
                return budget.progress(step, length, self.seconds() - started)
            spent = time.monotonic() - began
            answering = _ANSWER * last_batches * spent / step
            return min(max(step / length, spent / max(self.until - began - answering, _ANSWER)), 1.0)

        return progress


def fine_tune(
    network: TunedNetwork,
    data: TuningImages,
    tuning: Tuning,
    *,
    budget: TransferBudget,
    seed: int,
    report: Callable[[int, float], None],
    clock: TrainingClock,
) -> TunedResult:
    """Train a network in place: AdamW, warm-up and cosine, norms frozen.

    Args:
        network: with the head on frozen features.
        data: images and labels.
        tuning: hyperparameters.
        budget: upper limit.
        seed: of the order and of augmentation.
        report: called with each (step, error); its exceptions end the run.
        clock: its seconds.
    """
    device = network.weight.device
    draws = torch.Generator().manual_seed(seed)
    beta = np.random.default_rng(seed)
    optimizers = _optimizers(network, tuning, to_pixels(data.images[:2], device))
    rows_at_end = np.arange(len(data.val_labels))
    length, batches = budget.steps(tuning.steps), len(rows_at_end) / tuning.batch_size
    share_after = clock.progress_from_now(budget, length, batches)
    watch = np.linspace(0, len(rows_at_end) - 1, min(WATCHED, len(rows_at_end))).astype(np.int64)
    queue = torch.empty(0, dtype=torch.int64)
    curve: list[tuple[int, float]] = []
    step, progress, marks = 0, 0.0, 0
    network.eval()
    quick = quick_copy(network, to_pixels(data.images[:2], device))
    while progress < 1:
        if len(queue) < min(tuning.batch_size, len(data.labels)):
            queue = torch.cat([queue, torch.randperm(len(data.labels), generator=draws)])
        rows, queue = queue[: tuning.batch_size].numpy(), queue[tuning.batch_size :]
        loss = _loss(quick, data, rows, tuning, draws, beta)
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer, rate in optimizers:
            optimizer.step(rate * _schedule(progress))
        step += 1
        progress = share_after(step)
        if progress * budget.curve_points >= marks + 1 or progress >= 1:
            marks = int(progress * budget.curve_points)
            chosen = rows_at_end if progress >= 1 else watch
            outputs = data.answer(network, chosen)
            if not bool(torch.isfinite(outputs).all()) or not math.isfinite(loss.item()):
                return TunedResult(math.nan, Status.DIVERGED, tuple(curve))
            curve.append((step, float((outputs.argmax(1).numpy() != data.val_labels[chosen]).mean())))
            report(*curve[-1])
        if progress < 1 and clock.seconds() > clock.timeout_s:
            return TunedResult(math.nan, Status.TIMEOUT, tuple(curve))
    return TunedResult(curve[-1][1], Status.OK, tuple(curve), outputs.double().numpy())


@torch.inference_mode()
def logits(network: TunedNetwork, images: NDArray[np.uint8]) -> torch.Tensor:
    """Compute the logits of images, batch by batch, on the CPU: `n x classes`."""
    device = network.weight.device
    size = batch_size(device)
    starts = range(0, len(images), size)
    return torch.cat([network(to_pixels(images[start : start + size], device)).float().cpu() for start in starts])


def process_seconds(device: torch.device) -> Callable[[], float]:
    """Return a clock that starts now: CPU seconds on a CPU, independent of other load, else wall seconds."""
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    started = clock()
    return lambda: clock() - started


def _schedule(progress: float) -> float:
    return min(1.0, (progress + FIRST_RATE) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * progress))


def _optimizers(network: TunedNetwork, tuning: Tuning, pixels: torch.Tensor) -> tuple[tuple[Adam, float], ...]:
    """Build optimisers of the head and of the body, each with its highest learning rate."""
    body = tuned_parameters(network, tuning.tuned_stages, pixels)
    for parameter in network.body.parameters():
        parameter.requires_grad_(any(parameter is tuned for tuned in body))
    rate = tuning.learning_rate
    head = Adam([network.weight, network.bias], weight_decay=tuning.weight_decay)
    return (head, rate), (Adam(body, weight_decay=tuning.weight_decay), rate * tuning.body_lr_multiplier)


def tuned_parameters(network: TunedNetwork, stages: TunedStages, pixels: torch.Tensor) -> list[nn.Parameter]:
    """Return the trained parameters of the body: those of the last stages before the features, without norms."""
    from timm.models import group_parameters

    body = network.body.network
    for parameter in body.parameters():
        parameter.requires_grad_(True)  # noqa: FBT003  torch's
    network(pixels).sum().backward()
    named = {name: weight for name, weight in body.named_parameters() if weight.grad is not None}
    network.zero_grad(set_to_none=True)
    norms = {
        id(weight) for module in body.modules() if isinstance(module, nn.BatchNorm2d) for weight in module.parameters()
    }
    groups = group_parameters(body, body.group_matcher(coarse=True))  # type: ignore[operator]
    reached = [key for key in sorted(groups) if any(name in named for name in groups[key])]
    # The last group of some networks (ConvNeXt) is a norm after the stages. In others (EfficientNet, ResNet, ViT) it is
    # the last stage, so that one more stage is trained. The measured history has this meaning, so it stays.
    spare = 1 if reached and reached[-1] == max(groups) and len(reached) > 1 else 0
    count = {"last": 1 + spare, "last2": 2 + spare, "all": len(reached)}[stages]
    return [
        named[name]
        for key in reached[-count:]
        for name in groups[key]
        if name in named and id(named[name]) not in norms
    ]


def _loss(
    network: TunedNetwork,
    data: TuningImages,
    rows: NDArray[np.int64],
    tuning: Tuning,
    draws: torch.Generator,
    beta: np.random.Generator,
) -> torch.Tensor:
    device = network.weight.device
    pixels = augment(to_pixels(data.images[rows], device), tuning, draws)
    targets = functional.one_hot(torch.from_numpy(data.labels[rows]), network.weight.shape[1]).float().to(device)
    if tuning.mixup_alpha > 0:
        share = float(beta.beta(tuning.mixup_alpha, tuning.mixup_alpha))
        pixels = share * pixels + (1 - share) * pixels.flip(0)
        targets = share * targets + (1 - share) * targets.flip(0)
    loss: torch.Tensor = functional.cross_entropy(network(pixels), targets, label_smoothing=tuning.label_smoothing)
    return loss


def augment(pixels: torch.Tensor, tuning: Tuning, draws: torch.Generator) -> torch.Tensor:
    """Mirror images and crop them, resized to the full size.

    Args:
        pixels: `n x 3 x s x s`.
        tuning: settings of both.
        draws: generator of both.
    """
    n = len(pixels)
    area = tuning.crop_scale + (1 - tuning.crop_scale) * torch.rand(n, generator=draws)
    side = area.sqrt()
    shift = (2 * torch.rand(n, 2, generator=draws) - 1) * (1 - side)[:, None]
    mirrored = torch.rand(n, generator=draws) < 0.5
    sign = torch.where(mirrored, -1.0, 1.0) if tuning.random_flip else torch.ones(n)
    if tuning.crop_scale == 1:
        return torch.where((sign < 0).to(pixels.device)[:, None, None, None], pixels.flip(3), pixels)
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1], theta[:, :, 2] = side * sign, side, shift
    grid = functional.affine_grid(theta, list(pixels.shape), align_corners=False).to(pixels.device)
    return functional.grid_sample(pixels, grid, padding_mode="reflection", align_corners=False)
