"""Predictions of a saved classifier."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.broken import SkipBroken, check_few_broken
from warmstart.history_store.errors import (
    BrokenImagesError,
    DataError,
    LabelError,
    MissingPathError,
    UsageError,
    WarmstartError,
)
from warmstart.history_store.images import SPLITS, BrokenImage
from warmstart.history_store.quoting import in_markup
from warmstart.history_store.wording import counted, right_of_100
from warmstart.metafeat.device import open_device, resolve_device
from warmstart.notebook import shows_progress
from warmstart.tables import frame_of, section, table

if TYPE_CHECKING:
    from warmstart.history_store.images import ImageSource
    from warmstart.locations import PathLike
    from warmstart.suggestions.query import Dataset
    from warmstart.training.workloads import Classifier, SourceDataset

SCHEMA = 1
_CHUNK = 256
_MAX_LISTED = 5
_MAX_ROWS = 20
"""Most pictures in an HTML table."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for one picture.

    Attributes:
        image: path of the file, relative to the dataset's folder; a number without files.
        label: the most probable class.
        probability: of that class, in [0, 1].
        probabilities: by class, in the order of the classifier.
        truth: the class in the dataset; None for files.
        part: ``train``, ``val`` or ``test`` of a dataset with its own splits; else None.
        unlike: whether the picture is unlike those that the classifier learned; None = unknown, as with old files.
    """

    image: str
    label: str
    probability: float
    probabilities: dict[str, float]
    truth: str | None = None
    part: str | None = None
    unlike: bool | None = None

    @property
    def of_truth(self) -> float | None:
        """Return the probability of the true class; None if it is unknown."""
        return None if self.truth is None else self.probabilities.get(self.truth, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        fields = {"image": self.image, "class": self.label, "probability": self.probability}
        return {
            **fields,
            "probabilities": self.probabilities,
            **({"truth": self.truth} if self.truth is not None else {}),
            **({"part": self.part} if self.part is not None else {}),
            **({"unlike": self.unlike} if self.unlike is not None else {}),
        }


@dataclass(frozen=True, slots=True)
class Predictions:
    """The predictions for several pictures.

    Attributes:
        model: path of the classifier.
        classes: of the classifier, in its order.
        rows: one prediction per picture, in the order given.
        broken: pictures left out, with reasons.
        tuned_error: validation error of the classifier, if it was tuned on this dataset; else None.
    """

    model: str
    classes: tuple[str, ...]
    rows: tuple[Prediction, ...]
    broken: tuple[tuple[str, str], ...] = ()
    tuned_error: float | None = None

    @property
    def error(self) -> float | None:
        """Return the error on pictures with a known class; None without any."""
        return _error(self.rows)

    @property
    def part_errors(self) -> dict[str, float]:
        """Return the errors by split of the dataset; a classifier may have been trained on all but ``test``."""
        by_part = {part: _error([row for row in self.rows if row.part == part]) for part in SPLITS}
        return {part: error for part, error in by_part.items() if error is not None}

    @property
    def parts_line(self) -> str:
        """Return a line on the errors by split; empty without splits."""
        right = ", ".join(f"{part} {right_of_100(error).split()[0]}" for part, error in self.part_errors.items())
        return f"Right of 100, by part: {right}. The model may have been trained on what is not test." if right else ""

    @property
    def tuned_line(self) -> str:
        """Return a line that warns of a classifier trained on these pictures; empty for others, or with a test split."""
        if self.tuned_error is None or "test" in self.part_errors:
            return ""
        return f"The model was tuned on this dataset and trained on pictures of it: expect fewer right answers on others. Of pictures that it was not trained on, {right_of_100(self.tuned_error)}."

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return remarks on the errors, one line each."""
        return tuple(filter(None, (self.unknown_line, self.parts_line, self.tuned_line, self.unlike_line)))

    @property
    def unlike_line(self) -> str:
        """Return a line on pictures unlike those that the classifier learned; empty without any."""
        n = sum(bool(row.unlike) for row in self.rows)
        verb = "is" if n == 1 else "are"
        return (
            f"{n} of {counted(len(self.rows), 'picture')} {verb} unlike those that it learned: look at the answers."
            if n
            else ""
        )

    @property
    def line(self) -> str:
        """Return a line with the number of pictures and, if known, of wrong predictions."""
        error = self.error
        wrong = sum(row.truth not in (None, row.label) for row in self.rows)
        errors = "" if error is None else f", {wrong} wrong, error {error:.4g}"
        left = f", {len(self.broken)} broken left out" if self.broken else ""
        return f"{counted(len(self.rows), 'picture')} by {self.model}{errors}{left}"

    @property
    def unknown_line(self) -> str:
        """Return a line on true classes that the classifier lacks, and its error without them; empty without any."""
        unknown = sorted({row.truth for row in self.rows if row.truth is not None} - set(self.classes))
        if not unknown:
            return ""
        remainder = replace(self, rows=tuple(row for row in self.rows if row.truth not in unknown))
        more = f", and {len(unknown) - _MAX_LISTED} more" if len(unknown) > _MAX_LISTED else ""
        without = "" if remainder.error is None else f" Without them the error is {remainder.error:.4g}."
        subject = f"{counted(len(self.rows) - len(remainder.rows), 'picture')} of classes that the model does not know"
        return f"{subject} ({', '.join(unknown[:_MAX_LISTED])}{more}): every answer is wrong there.{without}"

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield a row a picture, so that pandas takes them as a table."""
        for row in self.rows:
            known: dict[str, Any] = {} if row.truth is None else {"truth": row.truth}
            known |= {} if row.unlike is None else {"unlike": row.unlike}
            yield {"image": row.image, "class": row.label, "probability": row.probability, **known}

    def to_frame(self) -> Any:
        """Return the predictions as a table of pandas: a row a picture."""
        return frame_of(self)

    def __repr__(self) -> str:
        """Return a few lines: number of pictures, errors, first predictions."""
        first = [f"  {row.image}: {row.label} ({row.probability:.4g})" for row in self.rows[:_MAX_LISTED]]
        more = ["  ..."] if len(self.rows) > _MAX_LISTED else []
        return "\n".join([f"Predictions: {self.line}", *first, *more])

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the confusion matrix if classes are known, else the first predictions."""
        return _html(self)

    def worst(self, n: int) -> list[Prediction]:
        """Return at most n wrong predictions, lowest probability of the true class first."""
        wrong = [row for row in self.rows if row.truth is not None and row.label != row.truth]
        return sorted(wrong, key=lambda row: row.of_truth or 0.0)[:n]

    def confusion(self) -> list[dict[str, Any]]:
        """Return the confusion matrix: a row per true class, a column per predicted or true class of the classifier."""
        counts = Counter((row.truth, row.label) for row in self.rows)
        predicted, true = {label for _, label in counts}, {truth for truth, _ in counts if truth is not None}
        truths = [*(name for name in self.classes if name in true), *sorted(true.difference(self.classes))]
        answers = [name for name in self.classes if name in predicted | true]
        return [{"truth": truth} | {name: counts[truth, name] for name in answers} for truth in truths]

    def to_dict(self) -> dict[str, Any]:
        """Return all predictions and errors as JSON types."""
        document: dict[str, Any] = {"schema_version": SCHEMA, "model": self.model, "classes": list(self.classes)}
        document["predictions"] = [row.to_dict() for row in self.rows]
        if self.error is not None:
            document |= {"error": self.error, "confusion": self.confusion()}
        if self.part_errors:
            document["part_errors"] = self.part_errors
        if self.tuned_error is not None:
            document["tuned_error"] = self.tuned_error
        return document | {"broken": [{"image": image, "reason": reason} for image, reason in self.broken]}


@shows_progress("predicting")
def predict(
    model: PathLike,
    images: PathLike | Sequence[PathLike] | NDArray[Any] = (),
    *,
    dataset: Dataset | None = None,
    skip_broken: SkipBroken = None,
    download: bool = False,
    device: str = "auto",
    progress: Callable[[int, int], object] | None = None,
) -> Predictions:
    """Classify pictures with a saved classifier.

    Args:
        model: a file that ``warmstart tune --save-model`` wrote, also with a release before 0.2.
        images: picture files, and folders of which all pictures are taken, in the order of their names; or
            `n x h x w [x c]` uint8, uint16, bool or floats in [0, 1].
        dataset: labelled pictures instead, in any layout of ``warmstart.suggest``, as ``photos/::labels=labels.csv``,
            ``(images, labels)`` or a torch Dataset; they give the error too.
        skip_broken: leave out pictures that cannot be decoded: all (True), none (False), or up to 5 % of them when left
            out.
        download: let torchvision fetch what is missing of a dataset.
        device: where pretrained networks run: ``auto``, ``cpu``, ``cuda``; others always run on the CPU.
        progress: called with the numbers of pictures classified and of all.

    Raises:
        MissingPathError: a path that is not there.
        UsageError: no pictures, or both kinds, or neither a path nor an array; or the workload of the classifier is not
            installed.
        DataError: pictures that cannot be decoded, or other data.
        ModelError: not such a file, or a damaged one.
    """
    from warmstart.training.workloads import load_classifier

    pixels = np.asarray(images) if hasattr(images, "shape") else None
    paths = [] if pixels is not None else _paths(images)
    if (bool(paths) or pixels is not None) == (dataset is not None):
        got = "neither" if dataset is None else "both"
        msg = f"expected labelled pictures, or else picture files and folders, got {got}. Name the pictures, as in `warmstart predict clf.safetensors photos/`."
        raise UsageError(msg, param="dataset")
    # Refuses a wrong path before torch is loaded.
    pictures = list_pictures(paths)
    tell = progress or _no_progress
    if pictures:
        tell(0, len(pictures))
    classifier = load_classifier(os.fspath(model))
    _move(classifier, device)
    broken: list[tuple[str, str]] = []
    was_tuned_on = False
    if dataset is not None:
        from warmstart.suggestions.query import open_source

        try:
            source = open_source(dataset, download=download)
        except LabelError as error:
            msg = f"{error} Or name the pictures as files, without `dataset`: then no labels are asked for."
            raise LabelError(msg) from error
        rows, broken = _predict_dataset(classifier, source, tell, skip_broken=skip_broken)
        was_tuned_on = classifier.dataset is not None and classifier.dataset == source.fingerprint("listing")
    elif pixels is not None:
        rows = _predict_array(classifier, pixels, tell)
    else:
        rows, broken = _predict_files(classifier, pictures, tell, skip_broken=skip_broken)
    tuned_error = classifier.error if was_tuned_on else None
    return Predictions(os.fspath(model), classifier.classes, tuple(rows), tuple(broken), tuned_error)


def _move(classifier: Classifier, device: str) -> None:
    """Move the pretrained networks of a classifier to a device."""
    networks = [model.network for model in classifier.models if hasattr(model, "network")]
    if networks:
        target = open_device(resolve_device(device))
        for network in networks:
            network.to(target)


def _paths(images: Any) -> list[PathLike]:
    """Return the paths as a list.

    Raises:
        UsageError: something else among them.
    """
    paths = [images] if isinstance(images, str | os.PathLike) else list(images)
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            msg = f"images: expected paths, or one array n x h x w x c, got a {type(path).__name__} among them. Give numpy.stack(...) of pictures of one size, or their files."
            raise UsageError(msg)
    return paths


def predict_validation(
    classifier: Classifier, model: PathLike, dataset: PathLike, *, skip_broken: SkipBroken = None
) -> tuple[Predictions, Predictions | None]:
    """Classify the pictures of a dataset on which `warmstart.tune` measured the error: the validation part, or more.

    Returns: these answers, and those to as many pictures as some model has not seen; None = unknown.

    Args:
        classifier: of the same classes.
        model: path of the classifier.
        dataset: path of the tuned dataset.
        skip_broken: leave out pictures that cannot be decoded, as the tuning did.

    Raises:
        DataError: a dataset that cannot be read.
    """
    from warmstart.suggestions.query import open_path
    from warmstart.training.workloads import SourceDataset
    from warmstart.training.workloads.classifier_images import to_channels

    source = open_path(os.fspath(dataset))
    pictures = SourceDataset(source, skip_broken=skip_broken)
    rows = pictures.rows("val") if classifier.validated_rows is None else classifier.validated_rows
    if (probabilities := classifier.validated) is None:
        images = source.read(pictures.indices[rows], size=classifier.size).images
        probabilities = classifier.predict(to_channels(images, classifier.channels))
    judged = _of_dataset(classifier, model, pictures, rows, probabilities)
    examination = classifier.examination
    if examination is None:
        return judged, None
    has_answer = np.isfinite(examination.answers).all(1)
    left_out = _of_dataset(classifier, model, pictures, examination.rows[has_answer], examination.answers[has_answer])
    return judged, left_out


def _of_dataset(
    classifier: Classifier,
    model: PathLike,
    pictures: SourceDataset,
    rows: NDArray[np.int64],
    probabilities: NDArray[np.float64],
) -> Predictions:
    """Return the predictions for rows of a labelled dataset."""
    names = _names(pictures.source, pictures.indices[rows].tolist())
    truths = [pictures.class_names[label] for label in pictures.labels[rows].tolist()]
    predictions = _predictions(classifier, names, probabilities, None, truths)
    return Predictions(os.fspath(model), classifier.classes, tuple(predictions))


def thumbnails(images: Sequence[str], dataset: PathLike, *, size: int) -> list[NDArray[np.uint8] | None]:
    """Read pictures of a dataset by the names in predictions, each `size x size x c` uint8; None for a missing one.

    Args:
        images: relative paths of files, else numbers.
        dataset: path of the images.
        size: pixels per side.
    """
    from warmstart.suggestions.query import open_path

    pictures: list[NDArray[np.uint8] | None] = [None] * len(images)
    try:
        source = open_path(os.fspath(dataset))
        rows = {name: row for row, name in enumerate(_names(source, range(len(source))))}
        for number, image in enumerate(images):
            if image in rows:
                pictures[number] = source.read([rows[image]], size=size).images[0]
    except (OSError, WarmstartError):
        return pictures
    return pictures


def _names(source: ImageSource, rows: Iterable[int]) -> list[str]:
    """Return the names of a dataset's pictures: files, else numbers."""
    from warmstart.history_store.readers.blobs import BlobSource

    names = source.names if isinstance(source, BlobSource) else getattr(source, "files", None)
    return [str(row if names is None else names[row]) for row in rows]


def _no_progress(completed: int, total: int) -> None:
    """Ignore progress."""


def list_pictures(paths: Sequence[PathLike]) -> list[str]:
    """Return picture files: given files, and those below given folders, sorted by name, without hidden ones.

    Raises:
        MissingPathError: a path that is not there.
        DataError: a folder without pictures, or that cannot be read.
    """
    from warmstart.history_store.picture import SUFFIXES
    from warmstart.history_store.readers.tree import walk

    files: list[str] = []
    for entry in paths:
        path = Path(entry)
        if not path.exists():
            msg = f"{path}: expected a picture or a folder of pictures, got nothing there. Check the path."
            raise MissingPathError(msg)
        if not path.is_dir():
            files.append(str(path))
            continue
        inside = sorted(
            str(path / folder / name) for folder, names in walk(str(path)).pictures.items() for name in names
        )
        if not inside:
            msg = f"{path}: expected pictures ({', '.join(sorted(SUFFIXES)[:6])} ...), got a folder without any. Name another one, or `dataset` for labelled images in other layouts."
            raise DataError(msg)
        files += inside
    return files


def _predict_files(
    classifier: Classifier, files: Sequence[str], tell: Callable[[int, int], object], *, skip_broken: SkipBroken
) -> tuple[list[Prediction], list[tuple[str, str]]]:
    rows: list[Prediction] = []
    broken: list[tuple[str, str]] = []
    for start in range(0, len(files), _CHUNK):
        names: list[str] = []
        read: list[NDArray[np.uint8]] = []
        for file in files[start : start + _CHUNK]:
            picture = _read(file, classifier)
            if isinstance(picture, str):
                broken.append((file, picture))
            else:
                names.append(file)
                read.append(picture)
        if read:
            rows += _predictions(classifier, names, *classifier.answer(np.stack(read)))
        tell(min(start + _CHUNK, len(files)), len(files))
    if broken and not rows:
        named = "; ".join(f"{file} ({reason})" for file, reason in broken[:_MAX_LISTED])
        more = f"; and {len(broken) - _MAX_LISTED} more" if len(broken) > _MAX_LISTED else ""
        msg = f"expected pictures that can be decoded, got {len(broken)} broken of {len(files)}: {named}{more}. Not one is left: check the files; archives and tables are named by `dataset`."
        raise BrokenImagesError(msg, [file for file, _ in broken])
    check_few_broken([BrokenImage(*each) for each in broken], len(files), "", skip_broken=skip_broken)
    return rows, broken


def _predict_array(
    classifier: Classifier, pixels: NDArray[Any], tell: Callable[[int, int], object]
) -> list[Prediction]:
    from warmstart.history_store.picture import opaque, square_arrays, to_uint8
    from warmstart.history_store.readers.arrays import check_pixels
    from warmstart.training.workloads.classifier_images import to_channels

    check_pixels(pixels, "images")
    rows: list[Prediction] = []
    for start in range(0, len(pixels), _CHUNK):
        tell(start, len(pixels))
        part = to_uint8(pixels[start : start + _CHUNK], "images")
        part = square_arrays(opaque(part if part.ndim == 4 else part[..., None]), classifier.size)
        names = [str(number) for number in range(start, start + len(part))]
        rows += _predictions(classifier, names, *classifier.answer(to_channels(part, classifier.channels)))
    tell(len(pixels), len(pixels))
    return rows


def _read(file: str, classifier: Classifier) -> NDArray[np.uint8] | str:
    """Decode one picture for a classifier; return the reason if that fails."""
    from warmstart.history_store.picture import decode, reason_broken
    from warmstart.training.workloads.classifier_images import to_channels

    try:
        # Pillow warns of odd metadata.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picture = decode(file, classifier.size, "pixels")
    except UsageError:  # an invalid limit
        raise
    except Exception as error:  # noqa: BLE001  damaged bytes make decoders raise anything
        return reason_broken(error, file)
    return to_channels(picture if picture.ndim == 3 else picture[..., None], classifier.channels)


def _predict_dataset(
    classifier: Classifier, source: ImageSource, tell: Callable[[int, int], object], *, skip_broken: SkipBroken
) -> tuple[list[Prediction], list[tuple[str, str]]]:
    from warmstart.training.workloads.classifier_images import to_channels

    if not set(source.class_names) & set(classifier.classes):
        msg = f"{source.location}: expected some of the classes {', '.join(classifier.classes[:_MAX_LISTED])}, got {', '.join(source.class_names[:_MAX_LISTED])}. Give pictures as files where their classes are others."
        raise DataError(msg)
    rows: list[Prediction] = []
    broken: list[BrokenImage] = []
    # Chunks without a whole picture: a reader refuses them alone.
    waiting: list[NDArray[np.int64]] = []
    whole: list[int] = []
    parts = source.splits if len(source.splits) > 1 else {}
    part_of = {row: part for part, of_part in parts.items() for row in of_part.tolist()}
    for start in range(0, len(source), _CHUNK):
        tell(start, len(source))
        indices = np.arange(start, min(start + _CHUNK, len(source)))
        try:
            read = source.read(indices, size=classifier.size, skip_broken=skip_broken is not False)
        except BrokenImagesError:
            if skip_broken is False:
                raise
            waiting.append(indices)
            continue
        broken += read.broken
        whole = read.whole(source, indices).tolist()
        truths = [source.class_names[label] for label in read.labels.tolist()]
        answers = classifier.answer(to_channels(read.images, classifier.channels))
        rows += _predictions(classifier, _names(source, whole), *answers, truths, [part_of.get(row) for row in whole])
    # Together with a whole picture the reader gives the reasons; without any it would refuse again.
    for indices in waiting:
        broken += source.read([*whole[:1], *indices], size=classifier.size, skip_broken=True).broken
    check_few_broken(broken, len(source), source.location, skip_broken=skip_broken)
    tell(len(source), len(source))
    return rows, [(picture.path, picture.reason) for picture in broken]


def _predictions(
    classifier: Classifier,
    names: Sequence[str],
    probabilities: NDArray[np.float64],
    unlike: NDArray[np.bool_] | None = None,
    truths: Sequence[str] | None = None,
    parts: Sequence[str | None] | None = None,
) -> Iterator[Prediction]:
    """Yield the predictions for pictures from their probabilities."""
    for i, (name, row) in enumerate(zip(names, probabilities, strict=True)):
        best = int(row.argmax())
        by_class = {
            class_name: round(float(value), 6) for class_name, value in zip(classifier.classes, row, strict=True)
        }
        yield Prediction(
            name,
            classifier.classes[best],
            round(float(row[best]), 6),
            by_class,
            truths[i] if truths else None,
            parts[i] if parts else None,
            None if unlike is None else bool(unlike[i]),
        )


def _error(rows: Sequence[Prediction]) -> float | None:
    """Return the error on pictures with a known class; None without any."""
    labelled = [row for row in rows if row.truth is not None]
    return sum(row.label != row.truth for row in labelled) / len(labelled) if labelled else None


def _html(predictions: Predictions) -> str:
    """Return predictions as HTML: the confusion matrix if classes are known, else the first pictures."""
    parts = [f"<p>{in_markup(predictions.line)}</p>"]
    if predictions.error is not None:
        parts += [f"<p>{in_markup(line)}</p>" for line in predictions.remarks]
        parts.append(table("Answers (columns) by true class (rows)", predictions.confusion()))
        return section(parts)
    rows = [
        {"image": row.image, "class": row.label, "probability": row.probability} for row in predictions.rows[:_MAX_ROWS]
    ]
    return section([*parts, table("First pictures" if len(predictions.rows) > _MAX_ROWS else "Pictures", rows)])
