"""Training of one target network on one dataset."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from warmstart.history_store.errors import LabelError
from warmstart.history_store.records import Config, Status
from warmstart.history_store.splits import TRAIN, VAL
from warmstart.training.workloads.adam import Adam
from warmstart.training.workloads.cnn.budget import Budget
from warmstart.training.workloads.cnn.config import TargetConfig
from warmstart.training.workloads.cnn.network import build_network, has_native_bf16

Route = Literal["fast", "eager"]
EVALUATION_BATCH = 256


@dataclass(frozen=True, slots=True)
class TargetData:
    """Dataset prepared for the target network, shared by all configurations.

    Attributes:
        images: `n x s x s x c` float32 of the training part, each channel standardised by the training part.
        labels: `n` int64.
        val_images: `v x s x s x c` float32, standardised alike.
        val_labels: `v` int64.
        n_classes: number of classes.
        mean: `c`, of the training part's pixels in [0, 1]; None for images standardised elsewhere.
        spread: `c`, standard deviation of these pixels, at least 1e-3; None likewise.
    """

    images: torch.Tensor
    labels: torch.Tensor
    val_images: torch.Tensor
    val_labels: torch.Tensor
    n_classes: int
    mean: torch.Tensor | None = None
    spread: torch.Tensor | None = None

    @classmethod
    def of(
        cls,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        split: NDArray[np.int8],
        *,
        n_classes: int,
        device: torch.device | None = None,
    ) -> TargetData:
        """Prepare the training and validation parts of stored images.

        Args:
            images: `n x s x s x c` uint8.
            labels: `n` int64 in 0 .. n_classes - 1.
            split: `n` codes of `warmstart.history_store.splits`.
            n_classes: number of classes.
            device: of the tensors; None = the CPU.

        Raises:
            LabelError: when the training part has fewer than two images or the validation part none.
        """
        train, val = split == TRAIN, split == VAL
        if train.sum() < 2 or not val.any():
            msg = f"target network: expected at least 2 training images and 1 validation image, got {train.sum()} and {val.sum()}. Give more images."
            raise LabelError(msg)
        pixels = torch.from_numpy(np.ascontiguousarray(images[train | val])).to(device).float().div_(255)
        in_train = torch.from_numpy(train[train | val]).to(pixels.device)
        spread, mean = torch.std_mean(pixels[in_train], dim=(0, 1, 2))
        spread = spread.clamp_min(1e-3)
        pixels = (pixels - mean) / spread
        targets = torch.from_numpy(labels[train | val]).to(pixels.device)
        parts = (pixels[in_train], targets[in_train], pixels[~in_train], targets[~in_train])
        return cls(*parts, n_classes, mean, spread)

    def constant_error(self) -> float:
        """Compute the validation error of always predicting the most frequent training class."""
        majority = torch.bincount(self.labels, minlength=self.n_classes).argmax()
        return int((self.val_labels != majority).sum()) / len(self.val_labels)


@dataclass(frozen=True, slots=True)
class TargetResult:
    """Result of one training run.

    Attributes:
        error: validation error at the end, in [0, 1]; of a constant prediction when it diverged; NaN when timed out.
        status: ok, diverged or timeout.
        duration: CPU seconds of this process on a CPU, independent of other load, else wall seconds.
        curve: pairs (update, validation error).
        images_per_s: training images per second of duration, without evaluation.
    """

    error: float
    status: Status
    duration: float
    curve: tuple[tuple[int, float], ...]
    images_per_s: float


def train_target(
    data: TargetData,
    config: Config,
    budget: Budget,
    *,
    seed: int,
    route: Route = "fast",
    timeout: float = math.inf,
    report: Callable[[int, float], None] | None = None,
    keep: Callable[[nn.Module], None] | None = None,
) -> TargetResult:
    """Train a configuration on a dataset and measure its validation error.

    Adam with lr_t = 10^{l0} exp(-10^eta t) [Kim2017warmstart] on the clock of the budget; every epoch is a new
    random order whose last incomplete batch is left out.

    Args:
        data: the dataset.
        config: hyperparameter values by name.
        budget: the run's length.
        seed: of the initial weights, the order and the dropout; same seed and device, same result.
        route: `fast` runs channels-last with fused Adam, in bfloat16 where that is native; `eager` is plain float32.
        timeout: largest duration, in seconds.
        report: called with each point of the curve; its exceptions end the run.
        keep: called with the trained network.

    Raises:
        DataError: when the configuration does not fit the target network.
    """
    cast = TargetConfig.of(config)
    device = data.images.device
    clock = _Clock(device)
    # Dropout draws from torch's global generator; the fork restores the caller's state.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        run = _Run(data, cast, route)
        result = _train(run, cast, budget, seed=seed, timeout=timeout, report=report, clock=clock)
    if keep is not None:
        keep(run.network)
    return result


class _Clock:
    """Clock of the seconds since its creation: CPU seconds of this process on a CPU, else wall seconds."""

    def __init__(self, device: torch.device) -> None:
        self._read = time.process_time if device.type == "cpu" else time.perf_counter
        self._started = self._read()

    def __call__(self) -> float:
        return self._read() - self._started


def _train(
    run: _Run,
    config: TargetConfig,
    budget: Budget,
    *,
    seed: int,
    timeout: float,
    report: Callable[[int, float], None] | None,
    clock: _Clock,
) -> TargetResult:
    """Run the updates, and measure the validation error along the curve."""
    n = len(run.data.images)
    length = budget.length(n, run.batch_size)
    marks = {math.ceil(length * (i + 1) / budget.curve_points) for i in range(budget.curve_points)}
    curve: list[tuple[int, float]] = []
    status, error, training_s = Status.OK, math.nan, 0.0
    for step, batch in enumerate(_batches(n, run.batch_size, length, seed=seed)):
        before = clock()
        rate = config.learning_rate * math.exp(-config.decay_rate * budget.clock(step, length))
        loss = run.update(batch.to(run.data.images.device), rate)
        if step + 1 in marks:
            finite = math.isfinite(loss.item())
            training_s += clock() - before
            error = run.validation_error() if finite else math.nan
            if math.isnan(error):
                status = Status.DIVERGED
                break
            curve.append((step + 1, error))
            if report is not None:
                report(step + 1, error)
        else:
            training_s += clock() - before
        if step + 1 < length and clock() > timeout:
            status = Status.TIMEOUT
            break
    final = {Status.OK: error, Status.DIVERGED: run.data.constant_error(), Status.TIMEOUT: math.nan}[status]
    images = (step + 1) * run.batch_size
    return TargetResult(final, status, clock(), tuple(curve), images / max(training_s, 1e-9))


def _batches(n: int, size: int, length: int, *, seed: int) -> Iterator[torch.Tensor]:
    """Yield the rows of `length` batches; every epoch is a new random order without its last incomplete batch."""
    order, queue = torch.Generator().manual_seed(seed), torch.empty(0, dtype=torch.int64)
    for _ in range(length):
        if len(queue) < size:
            queue = torch.randperm(n, generator=order)
        yield queue[:size]
        queue = queue[size:]


class _Run:
    """Network, optimiser and arithmetic of one route."""

    def __init__(self, data: TargetData, config: TargetConfig, route: Route) -> None:
        self.data = data
        self.batch_size = min(config.batch_size, len(data.images))
        self.fast = route == "fast"
        device = data.images.device
        self.bf16 = self.fast and has_native_bf16(device)
        network = build_network(config, data.images.shape[3], data.images.shape[1], data.n_classes).to(device)
        layout = torch.channels_last if self.fast else torch.contiguous_format
        self.network = network.to(memory_format=layout)
        self.optimizer = Adam(network.parameters(), fused=self.fast)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        # Stored `n x s x s x c`: the permuted view is channels-last without a copy.
        inputs = images.permute(0, 3, 1, 2)
        if not self.fast:
            inputs = inputs.contiguous()
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.bf16):
            logits: torch.Tensor = self.network(inputs)
        return logits.float()

    def update(self, rows: torch.Tensor, rate: float) -> torch.Tensor:
        loss: torch.Tensor = self.loss(self.forward(self.data.images[rows]), self.data.labels[rows])
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(rate)
        return loss.detach()

    @torch.no_grad()
    def validation_error(self) -> float:
        """Compute the share of wrong validation images; NaN for outputs that are not finite."""
        self.network.eval()
        wrong = 0
        for images, labels in zip(
            torch.split(self.data.val_images, EVALUATION_BATCH),
            torch.split(self.data.val_labels, EVALUATION_BATCH),
            strict=True,
        ):
            logits = self.forward(images)
            if not bool(torch.isfinite(logits).all()):
                return math.nan
            wrong += int((logits.argmax(1) != labels).sum())
        self.network.train()
        return wrong / len(self.data.val_labels)
