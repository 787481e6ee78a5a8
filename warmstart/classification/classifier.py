"""The result of `classify`: a saved classifier, and how good it is."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.history_store.images import BrokenImage
from warmstart.history_store.quoting import in_markup
from warmstart.history_store.wording import counted, in_shell
from warmstart.locations import PathLike
from warmstart.prediction import predict
from warmstart.studies.results.judgement import Judgement
from warmstart.studies.results.trial import Trials
from warmstart.tables import table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from warmstart.prediction import Predictions
    from warmstart.studies.results.summary import TuneResult


@dataclass(frozen=True, slots=True)
class Tested:
    """A final judgement.

    Attributes:
        path: of the pictures.
        n: their number.
        wrong: wrong answers.
        predictions: of each.
    """

    path: str
    n: int
    wrong: int
    predictions: Predictions

    @property
    def line(self) -> str:
        """Return the judgement as a line."""
        return f"On {self.path}: {self.n - self.wrong} of {self.n} right ({round(100 * (1 - self.wrong / self.n))} of 100)."


@dataclass(frozen=True, slots=True)
class LabelChecks:
    """Labels to check.

    Attributes:
        n_doubted: labels that the answers contradict.
        n_copies: groups of equal pictures whose labels or parts contradict each other.
        table: of all labels, these first, to correct and give back; None = not written.
    """

    n_doubted: int = 0
    n_copies: int = 0
    table: Path | None = None

    @property
    def line(self) -> str:
        """Return a line; empty without labels to check."""
        parts = [counted(self.n_doubted, "picture")] if self.n_doubted else []
        parts += [counted(self.n_copies, "group") + " of equal pictures"] if self.n_copies else []
        file = "" if self.table is None else f" ({self.table})"
        return f"Labels to check: {', '.join(parts)}{file}." if parts else ""


@dataclass(frozen=True, slots=True, repr=False)
class ImageClassifier:
    """A saved classifier of pictures.

    Attributes:
        path: of its file.
        study: the study that found it.
        judgement: how good it is on pictures that it was not trained on.
        report: page.
        broken: pictures that were left out.
        n_alike: pictures that were kept together, since they are equal or nearly so.
        stays: whether the file of an earlier call stayed, since no better one was found.
        tested: a final judgement; None without one.
        checks: labels to check.
        seconds: of the call.
    """

    path: Path
    study: TuneResult
    judgement: Judgement
    report: Path
    broken: tuple[BrokenImage, ...] = ()
    n_alike: int = 0
    stays: bool = False
    tested: Tested | None = None
    checks: LabelChecks = LabelChecks()
    seconds: float = 0.0

    @property
    def trials(self) -> Trials:
        """Return the networks that were compared; `trials.to_frame()` is a table of them."""
        return Trials(self.study.trials)

    def to_frame(self) -> Any:
        """Return the networks that were compared as a table of pandas."""
        return self.trials.to_frame()

    def plot(self) -> Any:
        """Return a picture of the networks that were compared, and of the best so far."""
        return self.study.plot()

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes."""
        return tuple(sorted(each.name for each in self.judgement.classes))

    def predict(self, images: PathLike | Sequence[PathLike] | NDArray[Any], **options: Any) -> Predictions:
        """Name the class of pictures: files, folders, or an array; see `warmstart.predict`."""
        return predict(self.path, images, **options)

    def save(self, path: PathLike) -> Path:
        """Copy the classifier to another file; return its path."""
        return Path(shutil.copyfile(self.path, path))

    @property
    def lines(self) -> list[str]:
        """Return the lines that end the command: how good, by class, what to try, where to look."""
        stays = f"No better one was found: {self.path} stays." if self.stays else ""
        tried = f"Try it: warmstart predict {in_shell(self.path)} NEW/"
        tested = "" if self.tested is None else self.tested.line
        return [
            *filter(None, [stays, *self.judgement.lines, self.checks.line, tested]),
            tried,
            f"Report: {self.report}",
        ]

    def __repr__(self) -> str:
        """Return the lines of `lines`."""
        return "\n".join([f"ImageClassifier: {self.path}", *(f"  {line}" for line in self.lines)])

    def _repr_html_(self) -> str:
        """Return HTML for a notebook."""
        rows = [{"class": each.name, "right of 100": each.of_100, "judged by": each.n, "taken for": each.taken_for or ""} for each in self.judgement.classes]  # fmt: skip
        return "".join(f"<p>{in_markup(line)}</p>" for line in self.lines) + table("By class, hardest first", rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the document of ``warmstart classify --format json``."""
        tested = None if self.tested is None else {"dataset": self.tested.path, "n": self.tested.n, "wrong": self.tested.wrong}  # fmt: skip
        return {
            "schema_version": 1,
            "classifier": str(self.path),
            **self.judgement.to_dict(),
            "report": str(self.report),
            "labels_to_check": {
                "doubted": self.checks.n_doubted,
                "equal_pictures": self.checks.n_copies,
                "table": None if self.checks.table is None else str(self.checks.table),
            },
            "stays": self.stays,
            "left_out": [{"image": picture.path, "reason": picture.reason} for picture in self.broken],
            "kept_together": self.n_alike,
            "test": tested,
            "study": self.study.study,
            "storage": self.study.storage,
            "trials": self.study.counts,
            "seconds": self.seconds,
        }
