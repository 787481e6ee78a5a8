"""How good a classifier is, in right answers of 100, from the pictures that it was judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

_Z = 1.2816
"""Of a range that holds eight times of ten."""


@dataclass(frozen=True, slots=True)
class ClassRight:
    """The right answers of one class.

    Attributes:
        name: of the class.
        n: pictures of it that judged.
        right: of these.
        taken_for: class for which most of the wrong ones were taken; None without any.
    """

    name: str
    n: int
    right: int
    taken_for: str | None

    @property
    def of_100(self) -> int:
        """Return the right answers of 100."""
        return round(100 * self.right / self.n)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Right answers on pictures that a classifier was not trained on.

    Attributes:
        n: these pictures.
        error: share of wrong answers.
        classes: that had pictures, worst first.
        largest: the most frequent class.
        baseline: share of right answers where that is always named.
        interval: of the error; None = by the number of pictures.
    """

    n: int
    error: float
    classes: tuple[ClassRight, ...]
    largest: str
    baseline: float
    interval: tuple[float, float] | None = None

    @classmethod
    def of(
        cls,
        confusion: Sequence[Mapping[str, Any]],
        error: float,
        counts: Mapping[str, int],
        *,
        interval: Sequence[float] | None = None,
    ) -> Judgement:
        """Return the judgement of a confusion matrix.

        Args:
            confusion: a row a true class: ``truth``, and a number an answer.
            error: share of wrong answers.
            counts: pictures by class of the whole dataset.
            interval: of the error; None = by the number of pictures.
        """
        classes = []
        for row in confusion:
            answers = {name: int(n) for name, n in row.items() if name != "truth"}
            wrong = {name: n for name, n in answers.items() if n and name != row["truth"]}
            right, n = answers.get(row["truth"], 0), sum(answers.values())
            classes.append(ClassRight(row["truth"], n, right, max(wrong, key=lambda name: wrong[name], default=None)))
        classes.sort(key=lambda each: (each.right / each.n, each.name))
        largest = max(counts, key=lambda name: counts[name])
        baseline = counts[largest] / sum(counts.values())
        bounds = None if interval is None else (float(interval[0]), float(interval[1]))
        return cls(sum(each.n for each in classes), error, tuple(classes), largest, baseline, bounds)

    @property
    def right(self) -> int:
        """Return the right answers of 100 new pictures."""
        return round(100 * (1 - self.error))

    @property
    def range(self) -> tuple[int, int]:
        """Return the bounds of the right answers of 100, without an interval Wilson's of 80 %."""
        if self.interval is not None:
            return math.floor(100 * (1 - self.interval[1])), math.ceil(100 * (1 - self.interval[0]) - 1e-9)
        share, n, z2 = 1 - self.error, self.n, _Z**2
        middle = (share + z2 / (2 * n)) / (1 + z2 / n)
        half = _Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        return math.floor(100 * (middle - half)), math.ceil(100 * (middle + half) - 1e-9)

    @property
    def lines(self) -> tuple[str, str]:
        """Return two lines: how many are right, and of which class."""
        low, high = self.range
        worst = ", ".join(f"{each.name} {each.of_100}" for each in self.classes[:5])
        others = self.classes[5:]
        least = others[0].of_100 if others else 100
        more = f" and {len(others)} more, all {least}{'' if least == 100 else ' or above'}" if others else ""
        mixed = max(self.classes, key=lambda each: each.n - each.right)
        with_which = f" Most mixed up: {mixed.name}, taken for {mixed.taken_for}." if mixed.taken_for else ""
        return (
            f'Right: about {self.right} of 100 new pictures ({low} to {high}). Always "{self.largest}": {round(100 * self.baseline)}.',
            f"Right of 100, by class, hardest first: {worst}{more}.{with_which}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        low, high = self.range
        classes = [{"class": each.name, **{k: v for k, v in asdict(each).items() if k != "name"}} for each in self.classes]  # fmt: skip
        return {
            "error": self.error,
            "judged_by": self.n,
            "right_of_100": self.right,
            "range": [low, high],
            "always": {"class": self.largest, "right_of_100": round(100 * self.baseline)},
            "classes": classes,
        }
