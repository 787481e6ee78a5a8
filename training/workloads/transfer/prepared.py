"""Dataset prepared for the transfer workload: features by backbone, size and flip, computed once."""

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
from warmstart.training.workloads.transfer.budget import TransferBudget, transfer_budget
from warmstart.training.workloads.transfer.classifier import TransferClassifier, TransferModel
from warmstart.training.workloads.transfer.config import FeatureSet, TransferConfig, final_steps
from warmstart.training.workloads.transfer.finetune import (
    TunedNetwork,
    TuningImages,
    fine_tune,
    process_seconds,
)

_LEAST_S = 1.0
"""Least seconds of a fine-tuning, also with little time left."""
_MOST_NETWORKS = 2
"""Most networks in memory."""
_PICTURE_BYTES = 1_000_000_000
"""Most bytes of decoded pictures in memory; the oldest sizes are dropped first."""
_FEATURE_BYTES = 1_000_000_000
"""Most bytes of features in memory; others come from the disk cache, or are computed again."""


class PreparedTransfer(Prepared):
    """Dataset with the features of its training and validation images.

    A spare test part is used for training, too.

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
        """Fit the heads, and fine-tune from the ridge head if the configuration has steps.

        The error of a head is its share of wrong answers among the validation images and the left-out training images.
        These are several times as many images as the validation part alone, so chance decides less between
        configurations. Fine-tuning adds its change on the validation part. The curve starts with the head's error at
        step 0. Metrics: ``validation_error`` and the head's ``left_out_error``, of either part alone.
        """
        parsed, checked_budget = TransferConfig.of(config), transfer_budget(budget)
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            return self._train(
                parsed, checked_budget, seed, report or _ignore_report, timeout_s, parts=self._training, keep=keep
            )

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
        """Train on parts of the images; with `wall`, a budget of time counts wall seconds."""
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
            tuning = replace(tuning, steps=final_steps(tuning.steps))
        outcome = fine_tune(
            network, data, tuning, budget=budget, seed=seed, seconds=seconds, timeout_s=timeout_s,
            report=lambda step, change: report(step, of_both(change)),
        )  # fmt: skip
        final = {Status.OK: of_both(outcome.change), Status.DIVERGED: self.constant_error()}.get(
            outcome.status, math.nan
        )
        if math.isfinite(outcome.change):
            metrics["validation_error"] = validation + outcome.change
        curve = tuple((step, of_both(change)) for step, change in outcome.curve)
        tuned = TransferModel(body, network.linear_head(), network.depth, size, _origin(backbone, tuned=True))
        model = tuned if keep and outcome.status is Status.OK else None  # a diverged one is useless
        return TrainingResult(final, outcome.status, seconds(), ((0, error), *curve), metrics, model)

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
        """Join models to a classifier, which averages their probabilities."""
        transfer_models = [model for model in models if isinstance(model, TransferModel)]
        size = max(model.image_size for model in transfer_models)
        images = self._pictures(size, "val")
        classifier = TransferClassifier(
            members, transfer_models, classes=self.dataset.class_names, channels=images.shape[3], error=error or 0.0,
            training_images=len(self._labels(self._training)), votes=_votes(len(transfer_models), leading),
        )  # fmt: skip
        if error is None:
            pairs = zip(members, transfer_models, strict=True)
            by_model = [self._probabilities(member, model, images) for member, model in pairs]
            classifier.validated = classifier.average(by_model)
            classifier.error, classifier.first_error = self._error(classifier.validated), self._error(by_model[0])
        return classifier

    def _error(self, probabilities: NDArray[np.float64]) -> float:
        """Return the share of wrong answers among the validation images."""
        return int((probabilities.argmax(1) != self.val_labels).sum()) / len(self.val_labels)

    def _probabilities(self, member: Member, model: TransferModel, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Compute a model's probabilities of the validation images; a frozen model uses cached features."""
        if model.origin["tuned"] or model.image_size != images.shape[1]:
            return model.probabilities(images)
        features = TransferConfig.of(member.config).features
        rows = self._of(features, find_backbone(features.backbone), "val").at(features.depth)
        return model.head.probabilities(rows)

    def refit(self, member: Member, model: object, *, budget: Budget, seconds: float = math.inf) -> object:
        """Fit head and fine-tuning to all images outside a test part; return the old model if that diverges."""
        config, sparse_budget = TransferConfig.of(member.config), replace(transfer_budget(budget), curve_points=1)
        parts: tuple[Split, ...] = (*self._training, "val")
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            result = self._train(
                config, sparse_budget, member.seed, _ignore_report, math.inf, parts=parts, keep=True, wall=seconds
            )
        return model if result.model is None or result.status is not Status.OK else result.model

    @property
    def _training(self) -> tuple[Split, ...]:
        """Return the parts for training, with the test part if it is spare."""
        return ("train", "test") if self.dataset.test_is_spare else ("train",)

    def _labels(self, parts: Sequence[Split]) -> NDArray[np.int64]:
        return np.concatenate([self.dataset.labels[self.dataset.rows(part)] for part in parts])

    def _head(self, config: TransferConfig, backbone: Backbone, *, parts: tuple[Split, ...]) -> tuple[Head, float]:
        """Fit the head of a configuration, and return it with its leave-one-out error."""
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
        """Return features of a part of the images, from memory, from disk, or computed."""
        variant = {"part": part, "size": features.image_size, "flipped": flipped, "device": self.device.type}
        key = f"{self.dataset.fingerprint()} {backbone.key()} {sorted(variant.items())}"
        if key not in self._features:
            computed = self.cache.get(key)
            if computed is None:
                images = self._pictures(features.image_size, part)
                computed = compute_features(self._network(backbone, features.image_size), images, flipped=flipped)
                self.cache.put(key, computed)
            self._features[key] = computed
            while len(self._features) > 1 and sum(entry.nbytes for entry in self._features.values()) > _FEATURE_BYTES:
                del self._features[next(iter(self._features))]
        return self._features[key]

    def _pictures(self, size: int, part: Split) -> NDArray[np.uint8]:
        """Return the images of a part at a size, cached for the next configuration."""
        if (size, part) not in self._images:
            self._images[size, part] = self.dataset.images(size)[self.dataset.rows(part)]
            for oldest in dict.fromkeys(stored_size for stored_size, _ in self._images if stored_size != size):
                if sum(array.nbytes for array in self._images.values()) <= _PICTURE_BYTES:
                    break
                self._images = {key: images for key, images in self._images.items() if key[0] != oldest}
        return self._images[size, part]

    def _network(self, backbone: Backbone, size: int) -> FeatureNetwork:
        """Return the pretrained network, cached for the next configuration."""
        if (backbone.name, size) not in self._networks:
            _make_room(self._networks)
            self._networks[backbone.name, size] = open_network(backbone, size=size, device=self.device)
        return self._networks[backbone.name, size]

    def _model(self, features: FeatureSet, backbone: Backbone, head: Head) -> TransferModel:
        network = self._network(backbone, features.image_size)
        return TransferModel(network, head, features.depth, features.image_size, _origin(backbone, tuned=False))


def _votes(n: int, leading: int | None) -> list[float]:
    """Return the votes of n models: one each, for the leading one as many as all others together."""
    return [float(max(n - 1, 1)) if index == leading else 1.0 for index in range(n)]


def _origin(backbone: Backbone, *, tuned: bool) -> dict[str, Any]:
    return {
        "architecture": backbone.architecture,
        "weights": backbone.key(),
        "licence": backbone.licence(),
        "tuned": tuned,
    }


def _make_room(networks: dict[Any, Any]) -> None:
    while len(networks) >= _MOST_NETWORKS:
        del networks[next(iter(networks))]


def _ignore_report(step: int, error: float) -> None:
    """Accept a report of progress, and do nothing."""
