"""Training of the Siamese meta-feature network: Algorithm 2 of [Kim2017warmstart] and its mini-batch version.

The step is made for a CPU core: each (dataset, draw) is embedded once, fifty images at a time so that activations stay
in the cache, with bfloat16 convolutions if the processor supports them, channels last and fused Adam. Random choices of
step t depend on (seed, t) alone, so a resumed run needs no generator state to equal the uninterrupted one bit for bit.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.history_store.error_tables import ErrorDistances
from warmstart.history_store.errors import DataError, UsageError
from warmstart.metafeat.handcrafted import centre_and_scale
from warmstart.metafeat.images import check_images
from warmstart.metafeat.index import distances_to
from warmstart.metafeat.labels import check_labels, label_codes
from warmstart.metafeat.model import MetaFeatureModel, random_network
from warmstart.metafeat.siamese_network import SiameseNetwork
from warmstart.metafeat.spec import EMBEDDING
from warmstart.training.siamese.checkpoint import Checkpoint, Curves, Validation, load_checkpoint, save_checkpoint
from warmstart.training.siamese.labelled_images import LabelledImages
from warmstart.training.siamese.pairs import GivenDistances, TrainingPairs, spread
from warmstart.training.siamese.settings import SiameseSettings, preset

_VALIDATION_IMAGES = 200
_VALIDATED = 500
"""Held-out datasets, and others, that are compared."""
STREAMS = {"step": 0, "validation": 1, "held_out": 2}


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Progress of a run after a step, the argument of progress callbacks."""

    step: int
    steps: int
    loss: float


@dataclass(frozen=True, slots=True)
class TrainedSiamese:
    """Finished run: the model, its curves, its validation (None without held-out datasets)."""

    model: MetaFeatureModel
    curves: Curves
    quality: Validation | None


def train_siamese(
    data: Mapping[str, LabelledImages],
    target: ErrorDistances | NDArray[np.float64],
    *,
    settings: SiameseSettings | None = None,
    seed: int = 0,
    held_out: Sequence[str] = (),
    checkpoint: Path | None = None,
    checkpoint_every: int = 200,
    progress: Callable[[TrainingProgress], None] | None = None,
    deadline_s: float | None = None,
    device: str = "cpu",
) -> TrainedSiamese:
    """Train a meta-feature model so that distances between embeddings imitate a target distance.

    Args:
        data: `m` datasets by name.
        target: distances, aligned with `data`: of errors, or `m x m` as given; NaN = unknown, no training pair.
        settings: None = preset `modern`.
        seed: of weights, pairs and draws; with the same thread count it determines the model bit for bit.
        held_out: names used for validation alone.
        checkpoint: file to resume from if it exists, and to write; a finished one is only read.
        checkpoint_every: steps between two checkpoints.
        progress: called after every step.
        deadline_s: seconds after which to stop; with a checkpoint, a later call continues.
        device: of torch.

    Raises:
        UsageError: when shapes or names do not fit, or a loss is not finite.
        DataError: when images or labels are of a wrong kind.
        ModelError: when the checkpoint is damaged.
    """
    run = SiameseRun(data, target, settings or preset("modern"), seed=seed, held_out=held_out, device=device)
    if checkpoint is not None and checkpoint.exists():
        run.restore(load_checkpoint(checkpoint, run.identity))
    return run.train(checkpoint, checkpoint_every=checkpoint_every, progress=progress, deadline_s=deadline_s)


class SiameseRun:
    """Training run: network, optimiser, curves, and the best weights so far."""

    def __init__(
        self,
        data: Mapping[str, LabelledImages],
        target: ErrorDistances | NDArray[np.float64],
        settings: SiameseSettings,
        *,
        seed: int,
        held_out: Sequence[str],
        device: str,
    ) -> None:
        self.names, self.sets = list(data), list(data.values())
        self.target = target if isinstance(target, ErrorDistances) else GivenDistances(target)
        self.settings, self.seed = settings, seed
        self._check(held_out)
        self.held_out = np.array([self.names.index(name) for name in held_out], dtype=np.int64)
        self.training = np.setdiff1d(np.arange(len(self.names)), self.held_out)
        self.pairs = TrainingPairs(self.target, self.training)
        if self.pairs.is_empty:
            msg = f"siamese: expected a pair of training datasets with a known target distance, got none among {len(self.training)}. Add datasets or evaluations."
            raise UsageError(msg)
        self.device = torch.device(device)
        self.autocast = uses_bfloat16(settings, self.device)
        self.network = random_network(settings.spec, seed=seed).to(self.device)
        self.features: Tensor | None = None
        if settings.spec.handcrafted:
            handcrafted = np.stack([entry.handcrafted_samples() for entry in self.sets])
            self.network.set_units(*centre_and_scale(np.concatenate(handcrafted[self.training])))
            self.features = self.network.standardised(handcrafted)
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        self.curves, self.step = Curves(), 0
        self.best: tuple[float, dict[str, Tensor]] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Return the settings and digests that a checkpoint must share with its run."""
        digest = hashlib.sha256(self.target.digest())
        digest.update(json.dumps([self.names, self.held_out.tolist()]).encode())
        for entry in self.sets:
            digest.update(entry.digest)
        settings = self.settings.to_dict()
        return {"settings": settings, "seed": self.seed, "bfloat16": self.autocast, "data": digest.hexdigest()}

    def train(
        self,
        checkpoint: Path | None = None,
        *,
        checkpoint_every: int = 200,
        progress: Callable[[TrainingProgress], None] | None = None,
        deadline_s: float | None = None,
    ) -> TrainedSiamese:
        """Run the remaining steps, or as many as the deadline allows; arguments as in `train_siamese`."""
        started = time.monotonic()
        steps = self.settings.steps
        while self.step < steps and self.curves.stopped != "deadline":
            self.advance()
            if self.step == steps:
                self.curves.stopped = "done"
            elif deadline_s is not None and time.monotonic() - started >= deadline_s:
                self.curves.stopped = "deadline"
            if self.step % self.settings.validate_every == 0 or self.curves.stopped:
                self.validate()
            if progress is not None:
                progress(TrainingProgress(self.step, self.settings.steps, self.curves.loss[-1]))
            if checkpoint is not None and (self.step % checkpoint_every == 0 or self.curves.stopped):
                save_checkpoint(checkpoint, self.state(), self.identity)
        return self.result()

    def advance(self) -> None:
        """Run one update."""
        rng = np.random.default_rng([self.seed, STREAMS["step"], self.step])
        networks, pairs = self.plan(rng)
        samples = [self.sets[i].sample(rng, self.settings.spec.tau) for i in networks]
        features = None
        if self.features is not None:
            features = self.features[networks, rng.integers(self.features.shape[1], size=len(networks))]
        points = self.embed_samples(samples, features)
        apart = self.target.between(networks, networks)
        targets = torch.tensor(apart[pairs[:, 0], pairs[:, 1]], dtype=torch.float32)
        loss = pair_loss(points, torch.from_numpy(pairs), targets, kind=self.settings.loss)
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate_at(self.step)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        value = loss.item()
        if not np.isfinite(value):
            msg = f"siamese: expected a finite loss, got {value} at step {self.step}. Lower the learning rate or tau."
            raise UsageError(msg)
        self.curves.loss.append(value)
        self.step += 1

    def embed_samples(
        self, samples: Sequence[tuple[NDArray[np.uint8], NDArray[np.int64]]], handcrafted: Tensor | None = None
    ) -> Tensor:
        """Embed k samples, with their standardised `k x p` handcrafted features: points `k x 256`."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            features = torch.stack([self.network.features(images, labels) for images, labels in samples])
        codes = np.stack([label_codes(labels, self.settings.spec.label_code) for _, labels in samples])
        return self.network.encode(features, torch.from_numpy(codes).to(self.device), handcrafted)

    def embed(self, rows: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
        """Embed one sample of each of some datasets: points `m x 256`, zeros for the others."""
        points = np.zeros((len(self.sets), EMBEDDING), np.float32)
        with torch.inference_mode():
            for row in rows.tolist():
                sample = self.sets[row].sample(rng, _VALIDATION_IMAGES)
                features = None if self.features is None else self.features[row, :1]
                points[row] = self.embed_samples([sample], features)[0].cpu().numpy()
        return points

    def validate(self) -> None:
        """Validate on the held-out datasets, and store the weights if they are the best so far."""
        if not len(self.held_out) or (self.curves.validations and self.curves.validations[-1].step == self.step):
            return
        rng = np.random.default_rng([self.seed, STREAMS["validation"]])
        queries, references = (spread(rows, _VALIDATED) for rows in (self.held_out, self.training))
        points = self.embed(np.union1d(queries, references), rng)
        apart = self.target.between(queries, references)
        result = compare(points[queries], points[references], apart, step=self.step)
        self.curves.validations.append(result)
        least = -np.inf if self.best is None else self.best[0]
        if self.settings.keep == "best" and result.spearman > least:  # False for NaN
            self.best = (result.spearman, {k: v.detach().clone() for k, v in self.network.state_dict().items()})

    def state(self) -> Checkpoint:
        """Return the state of the run for a checkpoint."""
        slots = self.optimiser.state
        moments = {
            name: (slots[p]["exp_avg"], slots[p]["exp_avg_sq"])
            for name, p in self.network.named_parameters()
            if p in slots
        }
        return Checkpoint(self.step, self.network.state_dict(), moments, self.curves, self.best)

    def restore(self, state: Checkpoint) -> None:
        """Restore the state of a checkpoint."""
        self.network.load_state_dict(state.weights)
        for name, parameter in self.network.named_parameters():
            first, second = (
                m.to(self.device).contiguous(memory_format=_format(parameter)) for m in state.moments[name]
            )
            step = torch.tensor(float(state.step), device=self.device if self.device.type == "cuda" else None)
            self.optimiser.state[parameter] = {"step": step, "exp_avg": first, "exp_avg_sq": second}
        self.step, self.curves, self.best = state.step, state.curves, state.best
        if self.step < self.settings.steps:
            self.curves.stopped = None

    def result(self) -> TrainedSiamese:
        """Return the model with the best or the last weights, by the settings."""
        network = SiameseNetwork(self.settings.spec)
        network.load_state_dict(self.network.state_dict() if self.best is None else self.best[1])
        best = None if self.best is None else self.best[0]
        candidates = [v for v in self.curves.validations if best is None or v.spearman == best]
        quality = None if not candidates else candidates[-1] if best is None else candidates[0]
        return TrainedSiamese(MetaFeatureModel(network), self.curves, quality)

    def plan(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw the datasets of a step's networks, and its pairs as `P x 2` indices into them."""
        batch = self.settings.batch
        if self.settings.sampling == "pairs":
            return self.pairs.draw(rng, batch).ravel(), np.arange(2 * batch).reshape(batch, 2)
        while True:
            networks = self.pairs.datasets(rng, min(batch, len(self.training)))
            pairs = np.argwhere(np.triu(self.target.has_target(networks, networks), k=1))
            if len(pairs):
                return networks, pairs

    def _check(self, held_out: Sequence[str]) -> None:
        m = len(self.names)
        if len(self.target) != m:
            msg = f"siamese: expected target distances of {m} datasets, got those of {len(self.target)}. Align them with the data."
            raise UsageError(msg)
        unknown = sorted(set(held_out) - set(self.names))
        if unknown:
            msg = f"siamese: expected held-out names among the {m} datasets, got {unknown}. Check their spelling."
            raise UsageError(msg)
        for name, entry in zip(self.names, self.sets, strict=True):
            check_images(entry.images, self.settings.spec, name)
            check_labels(entry.labels, len(entry.images))
            if entry.rows is not None and not len(entry.rows):
                msg = f"{name}: expected at least one image to train on, got none. Check its split."
                raise DataError(msg)


def pair_loss(points: Tensor, pairs: Tensor, targets: Tensor, *, kind: str) -> Tensor:
    """Compute the loss of pairs of points against target distances [Kim2017warmstart] Eq. 1.

    Distances are √(‖·‖² + 1e-12): the plain norm's gradient is NaN for equal points.

    Args:
        points: `k x 256`.
        pairs: `P x 2` indices into points.
        targets: `P` target distances.
        kind: `absolute` = L2 norm of the residuals, `squared` = their mean square.
    """
    gap = points[pairs[:, 0]] - points[pairs[:, 1]]
    residual = targets.to(points.device) - (gap.square().sum(1) + 1e-12).sqrt()
    return torch.linalg.vector_norm(residual) if kind == "absolute" else residual.square().mean()


def compare(
    queries: NDArray[np.float32], references: NDArray[np.float32], targets: NDArray[np.float64], *, step: int = 0
) -> Validation:
    """Compare embedding distances of query datasets with target distances.

    Args:
        queries: `q x 256` points of held-out datasets.
        references: `r x 256` points of the other ends of the distances.
        targets: `q x r` target distances, NaN = unknown.
        step: of the result.

    Returns: mean squared residual and rank correlations; NaN with fewer than three known pairs.
    """
    from scipy.stats import spearmanr

    distances = np.stack([distances_to(point, references) for point in queries])
    is_finite = np.isfinite(targets)

    def correlation(mask: NDArray[np.bool_], a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        a, b = a[mask], b[mask]
        return float(spearmanr(a, b).statistic) if len(a) > 2 and np.ptp(a) > 0 and np.ptp(b) > 0 else float("nan")

    rows = [correlation(is_finite[i], distances[i], targets[i]) for i in range(len(queries))]
    rows = [r for r in rows if np.isfinite(r)]
    loss = float(np.square(distances - targets)[is_finite].mean()) if is_finite.any() else float("nan")
    return Validation(
        step, loss, correlation(is_finite, distances, targets), float(np.mean(rows)) if rows else float("nan")
    )


def uses_bfloat16(settings: SiameseSettings, device: torch.device) -> bool:
    """Tell whether the convolutions run in bfloat16: by the settings, or `auto` on hardware that supports it."""
    if settings.precision != "auto":
        return settings.precision == "bfloat16"
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def _format(parameter: Tensor) -> torch.memory_format:
    return torch.channels_last if parameter.ndim == 4 else torch.contiguous_format
