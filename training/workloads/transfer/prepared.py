"""A dataset made ready for the transfer workload: features by backbone, size and flip, computed once."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.history_store.errors import LabelError
from warmstart.history_store.file.stored_images import Split
from warmstart.history_store.records import Config, Status
from warmstart.metafeat.pretrained.backbones import Backbone, find_backbone
from warmstart.metafeat.pretrained.features import (
    FeatureCache,
    FeatureNetwork,
    Features,
    compute_features,
    open_network,
)
from warmstart.metafeat.pretrained.heads import Head, HeadKind, HeadSearch, LinearHead, TrainingFeatures, head_specs
from warmstart.training.workloads.base import Budget, Classifier, Member, Prepared, Report, TrainingResult
from warmstart.training.workloads.dataset import Dataset
from warmstart.training.workloads.transfer.budget import TransferBudget, own_budget
from warmstart.training.workloads.transfer.classifier import TransferClassifier, TransferModel
from warmstart.training.workloads.transfer.config import FeatureSet, TransferConfig, steps_at_the_end
from warmstart.training.workloads.transfer.finetune import (
    TunedNetwork,
    TuningImages,
    fine_tune,
    process_seconds,
)

_LEAST_S = 1.0
"""Seconds of fine-tuning at least, however little time is left."""
_KEPT = 2
"""Networks that are kept in memory."""
_PICTURE_BYTES = 1_000_000_000
"""Of decoded pictures that are kept in memory; the sizes that came first go first."""
_FEATURE_BYTES = 1_000_000_000
"""Of features that are kept in memory; others are read from the cache, or computed again."""


class PreparedTransfer(Prepared):
    """A dataset and the features of its training and validation images.

    Test images that nobody keeps for later are training images, too.

    Args:
        dataset: labelled images in parts.
        device: of the networks.

    Raises:
        LabelError: when the training part has fewer than two images or the validation part none.
    """

    def __init__(self, dataset: Dataset, device: torch.device) -> None:
        self.dataset, self.device = dataset, device
        n_train, n_val = len(dataset.rows("train")), len(dataset.rows("val"))
        if n_train < 2 or not n_val:
            msg = f"{dataset.location}: expected at least 2 training images and 1 validation image, got {n_train} and {n_val}. Give more images."
            raise LabelError(msg)
        self.val_labels = self._labels(("val",))
        self.cache = FeatureCache()
        self._images: dict[tuple[int, Split], NDArray[np.uint8]] = {}
        self._networks: dict[tuple[str, int], FeatureNetwork] = {}
        self._features: dict[str, Features] = {}

    def train(
        self,
        config: Config,
        *,
        seed: int,
        budget: Budget,
        report: Report | None = None,
        timeout_s: float = math.inf,
        keep: bool = False,
    ) -> TrainingResult:
        """Fit the heads, and train on from the ridge head where the configuration says so.

        The error of a head is its share of wrong answers among the validation images and the training images, each of these
        left out in turn: several times as many images as the validation part alone, so that chance decides less between
        configurations. Fine-tuning adds what changes on the validation part. The curve begins with the head's error at
        step 0. Metrics: ``validation_error`` and the head's ``left_out_error``, of either part alone.
        """
        found, own = TransferConfig.of(config), own_budget(budget)
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            return self._train(found, own, seed, report or _nobody, timeout_s, parts=self._training, keep=keep)

    def _train(
        self,
        config: TransferConfig,
        budget: TransferBudget,
        seed: int,
        report: Report,
        timeout_s: float,
        *,
        keep: bool,
        parts: tuple[Split, ...],
        wall: float = math.inf,
    ) -> TrainingResult:
        """Train on some parts of the images; a budget of time counts wall seconds where these are given."""
        seconds, began = process_seconds(self.device), time.monotonic()
        backbone = find_backbone(config.features.backbone)
        head, left_out = self._head(config, backbone, parts=parts)
        rows = self._of(config.features, backbone, "val").at(config.features.depth)
        wrong = head.scores(rows).argmax(1) != self.val_labels
        validation = int(wrong.sum()) / len(wrong)
        metrics = {"left_out_error": left_out, "validation_error": validation}
        if seconds() > timeout_s:
            return TrainingResult(math.nan, Status.TIMEOUT, seconds(), (), metrics)
        n_left, n_val = len(self._labels(parts)), len(self.val_labels)
        error = (left_out * n_left + validation * n_val) / (n_left + n_val)

        def of_both(change: float) -> float:
            return min(max(error + change, 0.0), 1.0)

        report(0, error)
        if config.tuning is None:
            model = self._model(config.features, backbone, head) if keep else None
            return TrainingResult(error, Status.OK, seconds(), ((0, error),), metrics, model)
        assert isinstance(head, LinearHead)  # noqa: S101  fine-tuning starts from ridge
        body = open_network(backbone, size=config.features.image_size, device=self.device)
        network = TunedNetwork(body, head, config.features.depth).to(self.device)
        size = config.features.image_size
        images = np.concatenate([self._pictures(size, part) for part in parts])
        data = TuningImages(images, self._labels(parts), self._pictures(size, "val"), self.val_labels, wrong)
        tuning = config.tuning
        if math.isfinite(wall) and budget.name == "time":
            budget, seconds = replace(budget, amount=max(wall - time.monotonic() + began, _LEAST_S)), time.monotonic
            tuning = replace(tuning, steps=steps_at_the_end(tuning.steps))
        done = fine_tune(
            network, data, tuning, budget=budget, seed=seed, seconds=seconds, timeout_s=timeout_s,
            report=lambda step, change: report(step, of_both(change)),
        )  # fmt: skip
        final = {Status.OK: of_both(done.change), Status.DIVERGED: self.constant_error()}.get(done.status, math.nan)
        if math.isfinite(done.change):
            metrics["validation_error"] = validation + done.change
        curve = tuple((step, of_both(change)) for step, change in done.curve)
        tuned = TransferModel(body, network.linear_head(), network.depth, size, _origin(backbone, tuned=True))
        model = tuned if keep and done.status is Status.OK else None  # one that diverged is of no use
        return TrainingResult(final, done.status, seconds(), ((0, error), *curve), metrics, model)

    def constant_error(self) -> float:
        """Compute the validation error of the most frequent training class."""
        majority = int(np.bincount(self._labels(self._training)).argmax())
        return int((self.val_labels != majority).sum()) / len(self.val_labels)

    def combine(
        self,
        members: Sequence[Member],
        models: Sequence[object],
        *,
        error: float | None = None,
        leading: int | None = None,
    ) -> Classifier:
        """Join models; their probabilities are averaged."""
        own = [model for model in models if isinstance(model, TransferModel)]
        size = max(model.image_size for model in own)
        images = self._pictures(size, "val")
        made = TransferClassifier(
            members, own, classes=self.dataset.class_names, channels=images.shape[3], error=error or 0.0,
            training_images=len(self._labels(self._training)), votes=_votes(len(own), leading),
        )  # fmt: skip
        if error is None:
            pairs = zip(members, own, strict=True)
            of_each = [self._probabilities(member, model, images) for member, model in pairs]
            made.validated = made.average(of_each)
            made.error, made.first_error = self._error(made.validated), self._error(of_each[0])
        return made

    def _error(self, probabilities: NDArray[np.float64]) -> float:
        """Return the share of wrong answers among the validation images."""
        return int((probabilities.argmax(1) != self.val_labels).sum()) / len(self.val_labels)

    def _probabilities(self, member: Member, model: TransferModel, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Compute what a model says of the validation images, by features that are there already where it is frozen."""
        if model.origin["tuned"] or model.image_size != images.shape[1]:
            return model.probabilities(images)
        features = TransferConfig.of(member.config).features
        rows = self._of(features, find_backbone(features.backbone), "val").at(features.depth)
        return model.head.probabilities(rows)

    def refit(self, member: Member, model: object, *, budget: Budget, seconds: float = math.inf) -> object:
        """Fit the head to all images that nobody keeps for later, and fine-tune on them; as it is where that diverges."""
        config, own = TransferConfig.of(member.config), replace(own_budget(budget), curve_points=1)
        parts: tuple[Split, ...] = (*self._training, "val")
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            result = self._train(config, own, member.seed, _nobody, math.inf, parts=parts, keep=True, wall=seconds)
        return model if result.model is None or result.status is not Status.OK else result.model

    @property
    def _training(self) -> tuple[Split, ...]:
        """Return the parts that are trained on."""
        return ("train", "test") if self.dataset.test_is_spare else ("train",)

    def _labels(self, parts: Sequence[Split]) -> NDArray[np.int64]:
        return np.concatenate([self.dataset.labels[self.dataset.rows(part)] for part in parts])

    def _head(self, config: TransferConfig, backbone: Backbone, *, parts: tuple[Split, ...]) -> tuple[Head, float]:
        """Fit the head that a configuration asks for, and return its error among those images left out."""
        features = config.features
        labels = self._labels(parts)
        copies = (False, True) if features.flip_copies else (False,)
        rows = np.vstack(
            [
                self._of(features, backbone, part, flipped=flipped).at(features.depth)
                for flipped in copies
                for part in parts
            ]
        )
        kinds: dict[str, tuple[HeadKind, ...]] = {
            "auto": ("ridge",) if config.tuning else ("ridge", "knn", "centroid"),
            "ridge": ("ridge",),
            "knn": ("knn",),
            "centroid": ("centroid",),
            "logistic": ("logistic",),
        }
        data = TrainingFeatures(rows, labels, len(self.dataset.class_names))
        search = HeadSearch(data, head_specs(kinds[config.head]))
        return search.fit(), int(search.error_counts().min()) / len(labels)

    def _of(self, features: FeatureSet, backbone: Backbone, part: Split, *, flipped: bool = False) -> Features:
        """Return features of a part of the images: from memory, from the disk, or computed."""
        which = {"part": part, "size": features.image_size, "flipped": flipped, "device": self.device.type}
        key = f"{self.dataset.fingerprint()} {backbone.key()} {sorted(which.items())}"
        if key not in self._features:
            found = self.cache.get(key)
            if found is None:
                images = self._pictures(features.image_size, part)
                found = compute_features(self._network(backbone, features.image_size), images, flipped=flipped)
                self.cache.put(key, found)
            self._features[key] = found
            while len(self._features) > 1 and sum(each.nbytes for each in self._features.values()) > _FEATURE_BYTES:
                del self._features[next(iter(self._features))]
        return self._features[key]

    def _pictures(self, size: int, part: Split) -> NDArray[np.uint8]:
        """Return the images of a part at a size, kept for the next configuration."""
        if (size, part) not in self._images:
            self._images[size, part] = self.dataset.images(size)[self.dataset.rows(part)]
            for oldest in dict.fromkeys(kept for kept, _ in self._images if kept != size):
                if sum(each.nbytes for each in self._images.values()) <= _PICTURE_BYTES:
                    break
                self._images = {key: images for key, images in self._images.items() if key[0] != oldest}
        return self._images[size, part]

    def _network(self, backbone: Backbone, size: int) -> FeatureNetwork:
        """Return the pretrained network, kept for the next configuration."""
        if (backbone.name, size) not in self._networks:
            _make_room(self._networks)
            self._networks[backbone.name, size] = open_network(backbone, size=size, device=self.device)
        return self._networks[backbone.name, size]

    def _model(self, features: FeatureSet, backbone: Backbone, head: Head) -> TransferModel:
        network = self._network(backbone, features.image_size)
        return TransferModel(network, head, features.depth, features.image_size, _origin(backbone, tuned=False))


def _votes(n: int, leading: int | None) -> list[float]:
    """Give each of n models a vote, and the leading one as many as the others together."""
    return [float(max(n - 1, 1)) if place == leading else 1.0 for place in range(n)]


def _origin(backbone: Backbone, *, tuned: bool) -> dict[str, Any]:
    return {
        "architecture": backbone.architecture,
        "weights": backbone.key(),
        "licence": backbone.licence(),
        "tuned": tuned,
    }


def _make_room(kept: dict[Any, Any]) -> None:
    while len(kept) >= _KEPT:
        del kept[next(iter(kept))]


def _nobody(step: int, error: float) -> None:
    """Hear a report and do nothing."""
