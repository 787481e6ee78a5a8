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
from warmstart.metafeat.pretrained.depths import Features
from warmstart.metafeat.pretrained.features import (
    FeatureCache,
    FeatureNetwork,
    compute_features,
    open_network,
)
from warmstart.metafeat.pretrained.heads import (
    Head,
    HeadKind,
    HeadSearch,
    LinearHead,
    Matrix,
    TrainingFeatures,
    best_scale,
    head_specs,
)
from warmstart.metafeat.pretrained.logistic import CurvePoint, learning_curve
from warmstart.training.workloads.base import (
    Budget,
    Classifier,
    Examination,
    Member,
    Prepared,
    Report,
    TrainingResult,
)
from warmstart.training.workloads.dataset import Dataset
from warmstart.training.workloads.familiar import MOST, Familiar
from warmstart.training.workloads.transfer.budget import TransferBudget, transfer_budget
from warmstart.training.workloads.transfer.classifier import TransferClassifier, TransferModel
from warmstart.training.workloads.transfer.config import MORE, FeatureSet, TransferConfig
from warmstart.training.workloads.transfer.finetune import (
    TrainingClock,
    TunedNetwork,
    TuningImages,
    fine_tune,
    process_seconds,
)
from warmstart.training.workloads.transfer.members import (
    answered,
    choose_members,
    error_interval,
    mean_of_known,
    votes,
    wrong_answers,
)

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
        self._n_channels: int | None = None
        self._picture_s: float | None = None

    def train(
        self,
        config: Config,
        *,
        seed: int,
        budget: Budget,
        report: Report | None = None,
        timeout_s: float = math.inf,
        keep: bool = False,
        until: float = math.inf,
    ) -> TrainingResult:
        """Fit the heads to all images that are not held out, or fine-tune from a linear head on the training images.

        The error is always of images that the model has not seen: a head's of all images, each left out in turn (by
        folds for logistic regression); that of a fine-tuning of the validation images. Its curve starts with the error of
        the head there. Metrics: ``validation_error`` and the head's ``left_out_error`` on the training images alone.
        """
        parsed, checked_budget = TransferConfig.of(config), transfer_budget(budget)
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            train = self._fit_head if parsed.tuning is None else self._fine_tune
            return train(parsed, checked_budget, seed, report or _ignore_report, timeout_s, keep=keep, until=until)

    def _fit_head(
        self,
        config: TransferConfig,
        budget: TransferBudget,  # noqa: ARG002  one signature
        seed: int,  # noqa: ARG002
        report: Report,
        timeout_s: float,
        *,
        keep: bool,
        until: float,  # noqa: ARG002
    ) -> TrainingResult:
        seconds, features, self._picture_s = process_seconds(self.device), config.features, None
        backbone = find_backbone(features.backbone)
        head, answers = self._head(config, backbone, parts=self._seen)
        wrong = wrong_answers(answers, self._labels(self._seen))
        n_val = len(self.val_labels)
        metrics = {"left_out_error": float(wrong[:-n_val].mean()), "validation_error": float(wrong[-n_val:].mean())}
        metrics |= self._pass_seconds()
        if seconds() > timeout_s:
            return TrainingResult(math.nan, Status.TIMEOUT, seconds(), (), metrics)
        error = float(wrong.mean())
        report(0, error)
        model = None
        if keep:
            network, origin = self._network(backbone, features.image_size), _origin(backbone, tuned=False)
            model = TransferModel(
                network, head, features.depth, features.image_size, origin, answers, self._channels(features)
            )
        return TrainingResult(error, Status.OK, seconds(), ((0, error),), metrics, model)

    def _fine_tune(
        self,
        config: TransferConfig,
        budget: TransferBudget,
        seed: int,
        report: Report,
        timeout_s: float,
        *,
        keep: bool,
        until: float,
    ) -> TrainingResult:
        assert config.tuning is not None  # noqa: S101  of configurations with steps
        seconds, features, tuning = process_seconds(self.device), config.features, config.tuning
        backbone, size = find_backbone(features.backbone), features.image_size
        head, answers = self._head(config, backbone, parts=self._training)
        assert isinstance(head, LinearHead)  # noqa: S101  fine-tuning starts from a linear one
        rows = self._of(features, backbone, "val").at(features.depth)
        validation = float(wrong_answers(head.scores(rows), self.val_labels).mean())
        left_out = float(wrong_answers(answers, self._labels(self._training)).mean())
        metrics = {"left_out_error": left_out, "validation_error": validation}
        if seconds() > timeout_s:
            return TrainingResult(math.nan, Status.TIMEOUT, seconds(), (), metrics)
        report(0, validation)
        body = open_network(backbone, size=size, device=self.device)
        network = TunedNetwork(body, head, features.depth).to(self.device)
        images = np.concatenate([self._pictures(size, part) for part in self._training])
        data = TuningImages(images, self._labels(self._training), self._pictures(size, "val"), self.val_labels)
        if math.isfinite(until):
            tuning = replace(tuning, steps=max(tuning.steps, MORE))
        clock = TrainingClock(seconds, timeout_s, until)
        outcome = fine_tune(network, data, tuning, budget=budget, seed=seed, report=report, clock=clock)
        final = {Status.OK: outcome.error, Status.DIVERGED: self.constant_error()}.get(outcome.status, math.nan)
        model = None
        if outcome.outputs is not None:
            metrics["validation_error"] = outcome.error
            scale = best_scale(outcome.outputs, self.val_labels)
            tuned_head = replace(network.linear_head(), scale=scale)
            known = np.full((len(self._labels(self._seen)), len(self.dataset.class_names)), np.nan)
            known[-len(self.val_labels) :] = tuned_head.of_scores(outcome.outputs)
            origin = _origin(backbone, tuned=True)
            model = TransferModel(body, tuned_head, features.depth, size, origin, known, self._channels(features))
        curve = ((0, validation), *outcome.curve)
        return TrainingResult(final, outcome.status, seconds(), curve, metrics, model if keep else None)

    def constant_error(self) -> float:
        """Compute the validation error of the most frequent training class."""
        majority = int(np.bincount(self._labels(self._training)).argmax())
        return int((self.val_labels != majority).sum()) / len(self.val_labels)

    def combine(self, members: Sequence[Member], models: Sequence[object], *, error: float | None = None) -> Classifier:
        """Join models to a classifier, which averages their probabilities.

        An unknown error is that of the images that no model has seen.
        """
        transfer_models = [model for model in models if isinstance(model, TransferModel)]
        kept = transfer_models if error is not None else [replace(model, answers=None) for model in transfer_models]
        classifier = TransferClassifier(
            members, kept, classes=self.dataset.class_names, channels=transfer_models[0].channels, error=error or 0.0,
            training_images=len(self._labels(self._training)), votes=votes([bool(model.origin["tuned"]) for model in kept]),
        )  # fmt: skip
        if error is None:
            answers = [self._answers(model) for model in transfer_models]
            rows, labels = np.flatnonzero(answered(answers)), self._labels(self._seen)
            classifier.validated = classifier.average([each[rows] for each in answers])
            seen = np.concatenate([self.dataset.rows(part) for part in self._seen])[rows]
            classifier.validated_rows = self._rows_of_source(seen)
            wrong = int(wrong_answers(classifier.validated, labels[rows]).sum())
            classifier.error, classifier.interval = wrong / len(rows), error_interval(wrong, len(rows))
        return classifier

    def examine(self, models: Sequence[object], members: Sequence[Member], n: int, *, seconds: float) -> Examination:
        """Return answers to all images that some model has not seen, and the errors with fewer images."""
        transfer_models = [model for model in models if isinstance(model, TransferModel)]
        answers = [self._answers(model) for model in transfer_models]
        tuned = [bool(model.origin["tuned"]) for model in transfer_models]
        joined = mean_of_known(answers[:n], votes(tuned[:n]))
        joined = np.where(np.isfinite(joined), joined, mean_of_known(answers, votes(tuned)))
        rows = np.concatenate([self.dataset.rows(part) for part in self._seen])
        names = self.dataset.class_names
        counts = np.bincount(self.dataset.labels, minlength=len(names)).tolist()
        growth = self._growth(members, seconds)
        return Examination(
            self._rows_of_source(rows),
            joined,
            growth,
            dict(zip(names, counts, strict=True)),
            self._familiar(models[:n], members[:n]),
        )

    def _familiar(self, models: Sequence[object], members: Sequence[Member]) -> Familiar:
        """Return the comparison of other images with these, by a network that was not tuned where there is one."""
        transfer_models = [model for model in models if isinstance(model, TransferModel)]
        number = next((i for i, model in enumerate(transfer_models) if not model.origin["tuned"]), 0)
        model, draw = transfer_models[number], np.random.default_rng(0).permutation
        size = model.image_size
        if model.origin["tuned"]:  # it has seen the training images, so that others resemble them less
            rows, others = (draw(self.dataset.rows(part))[: MOST // 2] for part in ("train", "val"))
            pair = [model.features(self.dataset.some_images(part, size)).full for part in (rows, others)]
            return Familiar.of(pair[0], pair[1], model=number)
        features = TransferConfig.of(members[number].config).features
        stored = [self._stored(features, find_backbone(features.backbone), part) for part in self._seen]
        if all(part is not None for part in stored):
            full = np.vstack([part.full for part in stored if part is not None])
            return Familiar.of(full[draw(len(full))[:MOST]], None, model=number)
        rows = draw(np.concatenate([self.dataset.rows(part) for part in self._seen]))[: MOST // 2]
        return Familiar.of(model.features(self.dataset.some_images(rows, size)).full, None, model=number)

    def _rows_of_source(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows if self.dataset.sampled_rows is None else self.dataset.sampled_rows[rows]

    def _growth(self, members: Sequence[Member], seconds: float) -> Sequence[CurvePoint]:
        """Measure the errors of heads with fewer images, on features that are there; empty without any."""
        configs = sorted((TransferConfig.of(member.config) for member in members), key=lambda c: c.tuning is not None)
        for features in (config.features for config in configs):
            backbone = find_backbone(features.backbone)
            parts = [self._stored(features, backbone, part) for part in self._seen]
            if all(part is not None for part in parts):
                rows = np.vstack([part.at(features.depth) for part in parts if part is not None])
                n_classes, rng = len(self.dataset.class_names), np.random.default_rng(0)
                return learning_curve(rows, self._labels(self._seen), n_classes=n_classes, rng=rng, seconds=seconds)
        return ()

    def select(self, models: Sequence[object], most: int) -> list[int]:
        """Choose all models but the clearly worse ones, by answers to images that they had not seen."""
        transfer_models = [model for model in models if isinstance(model, TransferModel)]
        tuned = [bool(model.origin["tuned"]) for model in transfer_models]
        answers = [self._answers(model) for model in transfer_models]
        return choose_members(answers, tuned, self._labels(self._seen), most=most)

    def _answers(self, model: TransferModel) -> Matrix:
        """Return the probabilities of the images by a model that has not seen them."""
        if model.answers is None:
            msg = f"{self.dataset.location}: expected a model of its training, got one without answers. Train it with `keep`."
            raise ValueError(msg)
        return model.answers

    def _pass_seconds(self) -> dict[str, float]:
        """Return the wall seconds of a picture's features, for plans of time; empty if none were computed."""
        return {} if self._picture_s is None else {"picture_seconds": self._picture_s}

    def _channels(self, features: FeatureSet) -> int:
        """Return the channels of the images, 1 or 3."""
        return self.dataset.images(features.image_size).shape[3] if self._n_channels is None else self._n_channels

    @property
    def _seen(self) -> tuple[Split, ...]:
        """Return the parts that are not held out, validation last."""
        return (*self._training, "val")

    @property
    def _training(self) -> tuple[Split, ...]:
        """Return the parts for training, with the test part if it is spare."""
        return ("train", "test") if self.dataset.test_is_spare else ("train",)

    def _labels(self, parts: Sequence[Split]) -> NDArray[np.int64]:
        return np.concatenate([self.dataset.labels[self.dataset.rows(part)] for part in parts])

    def _head(self, config: TransferConfig, backbone: Backbone, *, parts: tuple[Split, ...]) -> tuple[Head, Matrix]:
        """Fit the head of a configuration; return it with probabilities of its images by heads that have not seen them."""
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
            "auto": ("logistic", "ridge") if config.tuning else ("logistic", "ridge", "knn", "centroid"),
            "ridge": ("ridge",),
            "knn": ("knn",),
            "centroid": ("centroid",),
            "logistic": ("logistic",),
        }
        data = TrainingFeatures(rows, labels, len(self.dataset.class_names))
        search = HeadSearch(data, head_specs(kinds[config.head]))
        return search.fit(), search.cross_fitted()

    def _of(self, features: FeatureSet, backbone: Backbone, part: Split, *, flipped: bool = False) -> Features:
        """Return features of a part of the images, from memory, from disk, or computed."""
        stored = self._stored(features, backbone, part, flipped=flipped)
        if stored is not None:
            return stored
        images = self._pictures(features.image_size, part)
        network, began = self._network(backbone, features.image_size), time.monotonic()
        computed = compute_features(network, images, flipped=flipped)
        self._picture_s = (time.monotonic() - began) / len(images)
        key = self._feature_key(features, backbone, part, flipped=flipped)
        self.cache.put(key, computed)
        return self._remember(key, computed)

    def _stored(
        self, features: FeatureSet, backbone: Backbone, part: Split, *, flipped: bool = False
    ) -> Features | None:
        """Return features from memory or from disk; None if they were not computed."""
        key = self._feature_key(features, backbone, part, flipped=flipped)
        if key in self._features:
            return self._features[key]
        cached = self.cache.get(key)
        return None if cached is None else self._remember(key, cached)

    def _feature_key(self, features: FeatureSet, backbone: Backbone, part: Split, *, flipped: bool) -> str:
        variant = {"part": part, "size": features.image_size, "flipped": flipped, "device": self.device.type}
        return f"{self.dataset.fingerprint()} {backbone.key()} {sorted(variant.items())}"

    def _remember(self, key: str, features: Features) -> Features:
        """Keep features in memory, and the others as far as there is room."""
        self._features[key] = features
        while len(self._features) > 1 and sum(entry.nbytes for entry in self._features.values()) > _FEATURE_BYTES:
            del self._features[next(iter(self._features))]
        return features

    def _pictures(self, size: int, part: Split) -> NDArray[np.uint8]:
        """Return the images of a part at a size, cached for the next configuration."""
        if (size, part) not in self._images:
            images = self.dataset.images(size)
            self._n_channels = images.shape[3]
            self._images[size, part] = images[self.dataset.rows(part)]
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
