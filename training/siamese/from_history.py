"""Training of a meta-feature model on the images and errors of a history."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.error_tables import ErrorDistances, fill_failed
from warmstart.history_store.errors import DataError
from warmstart.history_store.history import History
from warmstart.history_store.json_text import finite
from warmstart.metafeat.model import MetaFeatureModel
from warmstart.metafeat.spec import space_digest
from warmstart.training.siamese.labelled_images import LabelledImages
from warmstart.training.siamese.settings import SiameseSettings, preset
from warmstart.training.siamese.train import STREAMS, TrainedSiamese, TrainingProgress, train_siamese


def choose_held_out(names: Sequence[str], groups: Sequence[str], fraction: float, *, seed: int) -> tuple[str, ...]:
    """Choose whole groups of sibling datasets at random until they reach the fraction of all datasets.

    At least two datasets are left for training.

    Args:
        names: `m` datasets.
        groups: `m` groups of siblings.
        fraction: in [0, 1); 0 = none.
        seed: of the choice.
    """
    rng = np.random.default_rng([seed, STREAMS["held_out"]])
    chosen: set[str] = set()
    for group in rng.permutation(sorted(set(groups))):
        if sum(g in chosen for g in groups) >= fraction * len(names):
            break
        if sum(g not in {*chosen, group} for g in groups) >= 2:
            chosen.add(str(group))
    return tuple(name for name, group in zip(names, groups, strict=True) if group in chosen)


def train_from_history(
    history: "History",
    settings: SiameseSettings | None = None,
    *,
    seed: int = 0,
    held_out: Sequence[str] | None = None,
    held_out_fraction: float = 0.2,
    names: Sequence[str] | None = None,
    handcrafted: Mapping[str, NDArray[np.float64]] | None = None,
    checkpoint: Path | None = None,
    progress: Callable[[TrainingProgress], None] | None = None,
    deadline_s: float | None = None,
    device: str = "cpu",
) -> TrainedSiamese:
    """Train a model on the images and errors of a history; its header identifies the history.

    Samples come from each dataset's training split. Target distances use the configurations that at least half of the
    datasets have, so an unfinished collection suffices; a failed run counts as error 1. Two datasets that share fewer
    than half of these configurations are no training pair.

    Args:
        history: open, with images.
        settings: None = preset `modern`; the image size becomes that of the stored images.
        seed: as for `train_siamese`.
        held_out: dataset names for validation; None = random whole groups.
        held_out_fraction: share of datasets in these groups.
        names: datasets to use; None = all.
        handcrafted: `k x p` features of k samples by dataset, to share among runs; None = computed if needed.
        checkpoint: as for `train_siamese`.
        progress: as for `train_siamese`.
        deadline_s: as for `train_siamese`.
        device: as for `train_siamese`.

    Raises:
        ImagesMissingError: when the history has no images of a dataset.
        DataError: when no configuration is common to half of the datasets, or a dataset is in no pair.
        UsageError: as `train_siamese`, and when there is no training pair.
    """
    settings = settings or preset("modern")
    settings = replace(settings, spec=replace(settings.spec, image_size=history.stored_size))
    names = list(history.names) if names is None else list(names)
    if held_out is None:
        groups = dict(zip(history.names, history.groups, strict=True))
        held_out = choose_held_out(names, [groups[name] for name in names], held_out_fraction, seed=seed)
    trained = train_siamese(
        _labelled_images(history, names, handcrafted),
        _target(history, names, settings),
        settings=settings,
        seed=seed,
        held_out=held_out,
        checkpoint=checkpoint,
        progress=progress,
        deadline_s=deadline_s,
        device=device,
    )
    header = _header(history, trained, settings, names=names, held_out=held_out, seed=seed)
    return TrainedSiamese(MetaFeatureModel(trained.model.network, header), trained.curves, trained.quality)


def _labelled_images(
    history: "History", names: Sequence[str], handcrafted: Mapping[str, NDArray[np.float64]] | None
) -> dict[str, LabelledImages]:
    """Return the labelled images of datasets, by name."""
    data = {}
    for name in names:
        stored = history.images(name)
        features = None if handcrafted is None else handcrafted[name]
        data[name] = LabelledImages(stored.array, stored.labels, stored.rows("train"), features)
    return data


def _target(history: "History", names: Sequence[str], settings: SiameseSettings) -> ErrorDistances:
    """Return the target distances of datasets by their common configurations; none for pairs that share too few.

    A configuration is common when at least half of the datasets have it.
    """
    row_of = {name: row for row, name in enumerate(history.names)}
    rows = [row_of[name] for name in names]
    errors = fill_failed(history.errors, history.failed)[rows]
    common = errors[:, np.isfinite(errors).mean(0) >= 0.5]
    target = ErrorDistances(common, settings.spec.target)
    for row in target.alone().tolist():
        msg = f"target distance of {names[row]!r}: expected at least half of the {target.n_configs} common configurations measured on it and another dataset, got none such. Measure more of them, or leave it out."
        raise DataError(msg)
    return target


def _header(
    history: "History",
    trained: TrainedSiamese,
    settings: SiameseSettings,
    *,
    names: Sequence[str],
    held_out: Sequence[str],
    seed: int,
) -> dict[str, Any]:
    """Return the header of a model, which identifies the history of its training."""
    quality = trained.quality
    return {
        "history_id": history.id,
        "history_revision": history.revision,
        "space_digest": space_digest(history.space_json),
        "datasets": [name for name in names if name not in set(held_out)],
        "held_out": list(held_out),
        "quality": None
        if quality is None
        else finite({"loss": quality.loss, "spearman": quality.spearman, "per_query": quality.per_query}),
        "training": settings.to_dict() | {"seed": seed, "steps_done": len(trained.curves.loss)},
    }
