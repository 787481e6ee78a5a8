"""The confidence of an answer: reasons to doubt it, and the verdict by distances and pictures."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.novelty import (
    CHANCE_SCORE,
    FEW_GROUPS,
    TYPICAL_PERCENTILE,
    judge_novelty,
    signal_limit,
    white_limit,
)
from warmstart.history_store.readers.tree import split_of
from warmstart.history_store.wording import some_of
from warmstart.metafeat.sample_statistics import SampleStatistics
from warmstart.suggestions.records import Confidence
from warmstart.suggestions.references import Norms, References

if TYPE_CHECKING:
    from warmstart.suggestions.embedded_history import EmbeddedHistory

LEAST_DISTINCT = 0.5
"""Least share of distinct pictures; a few copies are common in real datasets."""
LEAST_PAIRED = 0.1
"""Least share of pictures with another of their class; below it classes cannot be learned."""
LEAST_CORRELATION = 0.2
"""Least correlation of neighbouring pixels in a row: noise has 0, small print 0.1, the shipped history's datasets at least 0.4."""
ENLARGED = 0.25
"""The same for pictures whose spectrum rises nowhere by `RISE` (printed words do): slightly enlarged noise stays below it."""
RISE = 0.08
PUBLIC_DATASETS = frozenset(
    [
        "mnist",
        "emnist",
        "kmnist",
        "qmnist",
        "fashionmnist",
        "notmnist",
        "svhn",
        "usps",
        "cifar",
        "cifar10",
        "cifar100",
        "imagenet",
        "tinyimagenet",
        "imagenette",
        "imagewoof",
        "caltech101",
        "caltech256",
        "coco",
        "mscoco",
        "voc",
        "pascalvoc",
        "voc2007",
        "voc2012",
        "celeba",
        "lfw",
        "stl10",
        "gtsrb",
        "omniglot",
        "food101",
        "flowers102",
        "oxfordpets",
        "stanfordcars",
        "stanforddogs",
        "cub200",
        "cub2002011",
        "aircraft",
        "dtd",
        "sun397",
        "places365",
        "eurosat",
        "ucmerced",
        "pacs",
        "officehome",
        "domainnet",
        "vlcs",
        "pcam",
        "medmnist",
        "chestmnist",
        "isic",
        "ham10000",
        "fer2013",
        "coil20",
        "coil100",
        "semeion",
    ]
)
"""Well-known image sets, in lower case without punctuation."""
_NUMBERED = re.compile(r"(fold|split|part|batch|shard|subset|chunk|set)[\s._-]*\d+", re.IGNORECASE)


class Code(StrEnum):
    """Stable codes of the reasons; `docs/expectations.md` explains each."""

    NOT_COMPARED = "not_compared"
    FAR = "far_from_history"
    SMALL_HISTORY = "small_history"
    FEW_IMAGES = "few_images"
    FEW_IMAGES_PER_CLASS = "few_images_per_class"
    REPEATED_IMAGES = "repeated_images"
    NO_CLASS_INFORMATION = "no_class_information"
    SHUFFLED_PIXELS = "shuffled_pixels"
    SPLITS_AS_CLASSES = "splits_as_classes"
    DATASETS_AS_CLASSES = "datasets_as_classes"


DISTANCES_UNRELIABLE = frozenset(
    {
        Code.NOT_COMPARED,
        Code.FAR,
        Code.REPEATED_IMAGES,
        Code.NO_CLASS_INFORMATION,
        Code.SHUFFLED_PIXELS,
    }
)
"""With one of these codes the nearest datasets are no better than others: the portfolio is used."""
NO_EXPECTED_ERROR = frozenset({Code.FEW_IMAGES_PER_CLASS, Code.REPEATED_IMAGES})
"""With one of these codes no error is predicted: there is nothing to learn, or nothing to measure it on."""
UNCERTAIN_ERROR = frozenset({Code.FEW_IMAGES, Code.NO_CLASS_INFORMATION, Code.SHUFFLED_PIXELS})
"""With one of these codes ranges of errors are `WIDER` times as wide: the forecast was fitted to no such dataset."""
WIDER = 2.0


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason to doubt an answer: its code and one sentence."""

    code: Code
    text: str


def find_doubts(
    sample: SampleStatistics | None, class_names: Sequence[str], names: Collection[str], norms: Norms
) -> tuple[Doubt, ...]:
    """Return the reasons to doubt an answer, other than its distances.

    Args:
        sample: statistics of the query's pictures; None = unknown, without doubts about them.
        class_names: of the query.
        names: of datasets, which are no classes.
        norms: of the datasets used; without references generic limits hold, and pixels are compared with noise alone.

    Returns: the reasons, in the order of `Code`.
    """
    of_pictures: tuple[Doubt | None, ...] = ()
    if sample is not None:
        of_size = _doubt_size(sample, norms.fewest_images)
        of_pictures = (
            *of_size,
            _doubt_repeats(sample),
            _doubt_signal(sample, norms.references),
            _doubt_pixels(sample, norms.references),
        )
    doubts = (_small_history(norms), *of_pictures, *doubt_class_names(class_names, names))
    return tuple(doubt for doubt in doubts if doubt is not None)


def _small_history(norms: Norms) -> Doubt | None:
    n, m = norms.n_groups, norms.n_datasets
    if n >= FEW_GROUPS:
        return None
    text = f"The history is small: {m} {'dataset' if m == 1 else 'datasets'} of {n} {'group' if n == 1 else 'groups'}, fewer than the {FEW_GROUPS} groups it takes to tell what is typical."
    return Doubt(Code.SMALL_HISTORY, text)


def _doubt_size(sample: SampleStatistics, fewest_images: int) -> tuple[Doubt | None, Doubt | None]:
    few = unpaired = None
    if sample.n_images < fewest_images:
        text = f"Few images: {sample.n_images} can be looked at, and the history knows nothing of fewer than {fewest_images}."
        few = Doubt(Code.FEW_IMAGES, text)
    if sample.paired < LEAST_PAIRED:
        text = f"Few images a class: {100 * (1 - sample.paired):.0f} % of the images are alone in their class, so nothing can be learned of most classes."
        unpaired = Doubt(Code.FEW_IMAGES_PER_CLASS, text)
    return few, unpaired


def _doubt_repeats(sample: SampleStatistics) -> Doubt | None:
    if sample.distinct > LEAST_DISTINCT:
        return None
    text = f"Repeated images: {sample.n_images} were looked at, {round(sample.distinct * sample.n_images)} of them different."
    return Doubt(Code.REPEATED_IMAGES, text)


def _doubt_signal(sample: SampleStatistics, references: References | None) -> Doubt | None:
    # Every limit is below CHANCE_SCORE.
    if sample.signal.score >= CHANCE_SCORE:
        return None
    limit = signal_limit(sample.signal.weight, () if references is None else references.effects)
    if sample.signal.score >= limit:
        return None
    text = f"No class information: images of one class are no more alike than chance allows (score {sample.signal.score:z.1f}, at least {limit:z.1f} is expected). Are the labels right?"
    return Doubt(Code.NO_CLASS_INFORMATION, text)


def _doubt_pixels(sample: SampleStatistics, references: References | None) -> Doubt | None:
    """Doubt pixels without order."""
    if references is not None and (references.pixels.shape[1:] != sample.pixels.shape or not references.names):
        # Computed at another image size.
        references = None
    limit = white_limit(() if references is None else references.pixels[:, -len(sample.falls[1:]) :])
    disorder = _pixel_disorder(sample, limit, is_generic=references is None)
    if disorder is None:
        return None
    text = (
        f"Pixels without order, as in noise or shuffled pixels: {disorder}. Look at some images: are they read rightly?"
    )
    return Doubt(Code.SHUFFLED_PIXELS, text)


def _pixel_disorder(sample: SampleStatistics, limit: float, *, is_generic: bool) -> str | None:
    """Describe the disorder of pixels, as in noise; None for ordinary pictures.

    One flat octave is ordinary: printed words have one, between the scales of letters and of lines.
    """
    falls, correlation = np.abs(sample.falls), sample.neighbour_correlation
    rises = falls.size > 1 and sample.falls[1:].min() < -RISE
    least = LEAST_CORRELATION if rises else ENLARGED
    uncorrelated = (
        f"neighbouring pixels are hardly alike (correlation {correlation:z.2f}, at least {least:g} is expected)"
    )
    # The faintest frequencies may be white by right: the noise of a camera.
    if is_generic:
        return uncorrelated if falls.size > 1 and falls[1:].max() < limit else None
    if falls.size < 2 or falls[1:].min() >= limit:
        return None
    if correlation < least:
        return uncorrelated
    # No structure larger than the pieces that were put out of order.
    if falls[:2].mean() < limit:
        return "distant parts of an image have nothing to do with each other (the spectrum is flat at low frequencies)"
    return None


def doubt_class_names(class_names: Sequence[str], names: Collection[str]) -> tuple[Doubt | None, Doubt | None]:
    """Doubt classes that are named like splits or like datasets, public ones or the history's."""
    if len(class_names) < 2:
        return None, None
    splits = [
        name for name in class_names if split_of(name.rstrip("0123456789")) is not None or _NUMBERED.fullmatch(name)
    ]
    dataset_names = (PUBLIC_DATASETS | _plain_names(re.sub("@.*", "", "\n".join(names)))) - {""}
    datasets = [name for name in class_names if _plain_name(name) in dataset_names]
    as_splits = as_datasets = None
    if len(splits) >= 2 and 2 * len(splits) >= len(class_names):
        text = f"Are these classes? They are named like splits: {some_of(splits, 4)}. If they are, give the folder that holds them with class folders inside, or one of them."
        as_splits = Doubt(Code.SPLITS_AS_CLASSES, text)
    if len(datasets) >= 2 and 2 * len(datasets) >= len(class_names):
        text = f"Are these classes? They are named like datasets: {some_of(datasets, 4)}. If they are, ask about one at a time."
        as_datasets = Doubt(Code.DATASETS_AS_CLASSES, text)
    return as_splits, as_datasets


def _plain_name(name: str) -> str:
    """Reduce a dataset's name to lower-case letters and digits, without "dataset", "data" or "images"."""
    return next(iter(_plain_names(name.replace("\n", ""))))


def _plain_names(names: str) -> frozenset[str]:
    """Reduce many names at once, one per line; as `_plain_name`."""
    letters = re.sub(r"[^a-z0-9\n]", "", names.lower())
    return frozenset(re.sub(r"(dataset|data|images)$", "", letters, flags=re.MULTILINE).split("\n"))


LEAST_GROUPS = 3
"""With fewer groups nothing is called far."""


def judge_query(
    embedded: "EmbeddedHistory",
    rows: NDArray[np.int64],
    near: NDArray[np.int64],
    distances: NDArray[np.float64],
    *,
    sample: SampleStatistics | None,
    class_names: Sequence[str],
) -> Confidence:
    """Judge how typical a query is for a history, by its nearest distance and its picture statistics.

    Args:
        embedded: the history.
        rows: its datasets that count.
        near: the nearest of them.
        distances: to these.
        sample: statistics of the query's pictures; None = the distance alone counts.
        class_names: of the query.
    """
    norms = embedded.norms_of(rows)
    names = [embedded.names[row] for row in near.tolist()]
    # Between two groups there is one distance, which says nothing of how far others may lie.
    verdict = judge_novelty(float(distances.min()), norms.nearest if norms.n_groups >= LEAST_GROUPS else ())
    nearest = f"{names[int(distances.argmin())]!r} at distance {verdict.nearest:.3g}"
    doubts = find_doubts(sample, class_names, names, norms)
    slack = embedded.references.slack(sample.n_images) if embedded.references and sample else 0.0
    is_far = verdict.limit is not None and verdict.nearest > verdict.limit + slack
    if is_far and not embedded.ignores_distances:
        allowed = f", and so few images may add {slack:.2g} to a distance" if slack else ""
        text = (
            f"Far from everything: the nearest dataset is {nearest}. Of the history's own, "
            f"{TYPICAL_PERCENTILE:.0f} % have one nearer than {verdict.limit:.3g}{allowed}."
        )
        doubts = (Doubt(Code.FAR, text), *doubts)
    if not doubts and embedded.ignores_distances:
        note = "Typical: no check objects. Near datasets of this history do no better than others, so all of them answer alike."
        return Confidence(typical=True, distance_percentile=verdict.percentile, note=note)
    if not doubts:
        is_within = verdict.limit is None or verdict.nearest <= verdict.limit
        allowed = "" if is_within else f" where so few images may add {slack:.2g} to a distance"
        note = (
            f"Typical: in how configurations fare, the nearest dataset, {nearest}, is as near as the history's own are to "
            f"each other{allowed} (percentile {verdict.percentile:.0f})."
        )
        return Confidence(typical=True, distance_percentile=verdict.percentile, note=note)
    codes = tuple(doubt.code.value for doubt in doubts)
    texts = [doubt.text for doubt in doubts]
    if verdict.percentile is None:
        texts.append(
            f"Confidence unknown: it takes {LEAST_GROUPS} groups to tell what is far; the nearest dataset is {nearest}."
        )
    elif not DISTANCES_UNRELIABLE.isdisjoint(codes):
        texts.append("Its neighbours' configurations say little; the portfolio does well on all datasets.")
    else:
        texts.append(f"The nearest dataset is {nearest} (percentile {verdict.percentile:.0f} of the history's own).")
    if not NO_EXPECTED_ERROR.isdisjoint(codes):
        texts.append("No expected error is given for such images.")
    elif not UNCERTAIN_ERROR.isdisjoint(codes):
        texts.append("The ranges of expected errors are twice as wide for such images.")
    return Confidence(typical=False, distance_percentile=verdict.percentile, note=" ".join(texts), reasons=codes)
