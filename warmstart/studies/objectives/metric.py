"""Metrics: where to read the number, which direction is better, and its conversion to an error."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from warmstart.history_store.errors import UsageError
from warmstart.history_store.wording import in_short, in_words, of_100

Scale = Literal["fraction", "percent", "any"]
"""Range of a metric: 0 to 1, 0 to 100, or any number."""
LAST = "last"
LARGER = frozenset(
    [
        "acc",
        "accuracy",
        "auc",
        "auroc",
        "auprc",
        "dice",
        "f1",
        "iou",
        "map",
        "mcc",
        "precision",
        "r2",
        "recall",
        "reward",
        "score",
        "top1",
        "top5",
    ]
)
SMALLER = frozenset(
    ["bce", "ce", "error", "err", "fid", "loss", "mae", "mse", "nll", "perplexity", "ppl", "rmse", "wer"]
)
REGEX, FILE, NAMED = "regex:", "file:", "named:"


def is_larger_better(name: str) -> bool:
    """Tell whether a name is of a metric of which more is better."""
    return bool(_words(name) & LARGER) and not _words(name) & SMALLER


def _words(name: str) -> set[str]:
    return set(re.split(r"[\W_]+", name.lower()))


def plain_number(value: object) -> float | None:
    """Return a value as a float; None if it is not one number."""
    value = python_value(value)
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str | bytes):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def python_value(value: object) -> object:
    """Return the Python value of a number or one-element array of numpy or torch; other values unchanged."""
    try:
        return value.item()  # type: ignore[attr-defined]  # what has none is no such number
    except (AttributeError, ValueError, RuntimeError, TypeError):
        return value


class ContradictionError(ValueError):
    """A number outside the range of its metric."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The number that a study optimises.

    Attributes:
        spec: ``KEY`` of a JSON object, dots for objects in it; ``last`` number printed; ``regex:PATTERN``, whose first group, or
            all of it, is the number, the last match counting; ``file:PATH:KEY`` of a file of JSON, lines of JSON or CSV that the trial
            writes; None = the number that the objective returns; ``named:NAME`` = the number that a command prints after a name.
        maximize: whether larger is better.
        scale: its range; None = ``any``, but at most 1 if larger is better.
    """

    spec: str | None = None
    maximize: bool = False
    scale: Scale | None = None

    def __post_init__(self) -> None:
        """Check the spec and the scale, and that the name does not contradict the direction.

        Raises:
            UsageError: one of them is wrong.
        """
        spec: object = self.spec
        if spec is not None and not (isinstance(spec, str) and spec.strip()):
            msg = (
                f"expected a key, last, regex:PATTERN or file:PATH:KEY, got {spec!r}. Leave it out for a number alone."
            )
            raise UsageError(msg, param="metric")
        maximize: object = self.maximize
        if not isinstance(maximize, bool):
            msg = f"expected true or false, got {maximize!r}. Leave it out where less is better."
            raise UsageError(msg, param="maximize")
        if self.scale is not None and self.scale not in get_args(Scale):
            msg = f"expected one of {', '.join(get_args(Scale))}, got {self.scale!r}. Leave it out for the default."
            raise UsageError(msg, param="scale", given=self.scale, choices=get_args(Scale))
        if self.pattern is not None:
            _check_pattern(self.pattern)
        if self.file is not None and not all(self.file):
            msg = f"expected file:PATH:KEY, got {self.spec!r}. Write file:metrics.json:accuracy."
            raise UsageError(msg, param="metric")
        if not self.maximize and is_larger_better(self.name):
            step = "Add `maximize`" if self.printed_name is None else "Give it as `score`"
            msg = f"expected a metric of which less is better, got {self.name!r}. {step}."
            raise UsageError(msg, param="metric")
        if self.maximize and _words(self.name) & SMALLER:
            msg = f"expected a metric of which more is better, got {self.name!r}. "
            msg += "Leave `maximize` out." if self.printed_name is None else "Give it as `loss`."
            raise UsageError(msg, param="metric")

    @property
    def is_plain(self) -> bool:
        """Tell whether the number is the error itself."""
        return self == PLAIN

    @property
    def key(self) -> str | None:
        """Return the key in the objective's result; None if the number is elsewhere."""
        is_elsewhere = self.spec is None or self.spec == LAST or self.spec.startswith((REGEX, FILE, NAMED))
        return None if is_elsewhere else self.spec

    @property
    def pattern(self) -> str | None:
        """Return the regular expression, or None."""
        return self.spec.removeprefix(REGEX) if self.spec is not None and self.spec.startswith(REGEX) else None

    @property
    def printed_name(self) -> str | None:
        """Return the name after which a command prints the number, or None."""
        return self.spec.removeprefix(NAMED) if self.spec is not None and self.spec.startswith(NAMED) else None

    @property
    def file(self) -> tuple[str, str] | None:
        """Return path and key of the file, or None."""
        if self.spec is None or not self.spec.startswith(FILE):
            return None
        path, _, key = self.spec.removeprefix(FILE).rpartition(":")
        return path, key

    @property
    def name(self) -> str:
        """Return the metric's name for people."""
        if self.file is not None:
            return self.file[1]
        return self.printed_name or self.key or ("score" if self.maximize else "error")

    @property
    def is_converted(self) -> bool:
        """Tell whether errors are other numbers than the metric."""
        return self.maximize or self.scale == "percent"

    @property
    def direction_note(self) -> str:
        """Return a hint on how the number is read: that less is better, if no name says so, or on per cent; else empty."""
        if self.printed_name is not None and self.maximize and self.scale is None:
            return f"{self.name}: above 1, or with %, it is per cent."
        is_open = self.spec == LAST or (self.pattern is not None and not _words(self.pattern) & SMALLER)
        return (
            f"The least number that {self.spec} finds is the best: add `maximize` where larger is better."
            if is_open and not self.maximize
            else ""
        )

    @property
    def least_error(self) -> float:
        """Return the lower bound of the error; minus infinity for an unbounded metric."""
        is_bound = self.scale in ("fraction", "percent") or (self.scale is None and self.maximize)
        return 0.0 if is_bound else -math.inf

    def to_error(self, value: float) -> float:
        """Return the error of a value: 1 - value where larger is better, percent as a fraction, - value on scale ``any``.

        Raises:
            ContradictionError: it is outside its scale.
        """
        top = 100.0 if self.scale == "percent" else 1.0
        is_bound = self.scale in ("fraction", "percent")
        is_beyond = self.scale is None and self.maximize and value > top
        if math.isfinite(value) and (is_beyond or (is_bound and not 0 <= value <= top)):
            range_ = f"in [0, {top:g}]" if is_bound else "of at most 1 with `maximize`"
            hint = "percent" if self.scale != "percent" and 1 < value <= 100 else "any"
            msg = f"expected {self.name} {range_}, got {value:g}. Correct the objective, or give `scale` {hint}."
            raise ContradictionError(msg)
        return self.error_of(value)

    def error_of(self, value: float) -> float:
        """Return the error of a value, whether or not it is within its scale."""
        top = 100.0 if self.scale == "percent" else 1.0
        if not self.maximize:
            return value / top
        return -value if self.scale == "any" or not math.isfinite(value) else 1 - value / top

    def to_value(self, error: float) -> float:
        """Return the value that an error stands for, rounded to 12 digits: 1 - (1 - 0.9) is not 0.9."""
        if self.is_plain:
            return error
        top = 100.0 if self.scale == "percent" else 1.0
        score = -error if self.scale == "any" else (1 - error) * top
        return float(f"{score if self.maximize else error * top:.12g}")

    def shown(self, *, is_classifier: bool) -> Metric:
        """Return the metric as people read it: of the error of a classifier, wrong answers of 100."""
        return _WrongOf100() if is_classifier and self.is_plain else self

    def said(self, error: float) -> str:
        """Write the value that an error stands for, with its name if it has one."""
        return f"{'' if self.is_plain else self.name + ' '}{in_short(self.to_value(error))}"

    def result(self, result: object) -> object:
        """Return an objective's result with the error added, for `read_result`."""
        if isinstance(result, Mapping):
            status = result.get("status", "ok")
            if status not in ("ok", "diverged"):
                return result
            if self.key is None:
                return failed(f"expected a number, got {short_repr(result)}. Name its key with `metric`.")
            value = nested_value(result, self.key)
            if value is None:
                return failed(f"expected {self.key!r} in the result, got {short_repr(result)}")
        else:
            value, result = result, {}
        number = plain_number(value)
        if number is None or not math.isfinite(number):
            return failed(f"expected {self.name} that is one finite number, got {short_repr(value)}")
        try:
            return {**result, self.name: number, "error": self.to_error(number)}
        except ContradictionError as problem:
            return failed(str(problem))


class _WrongOf100(Metric):
    """The error of a classifier, for people."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Return what the number counts."""
        return "wrong of 100"

    def to_value(self, error: float) -> float:
        """Return the number of wrong answers of 100."""
        return round(100 * error, 1)

    def said(self, error: float) -> str:
        """Write an error."""
        return f"{of_100(error)} of 100 wrong"


PLAIN = Metric()
"""The error itself."""


def nested_value(document: Any, key: str | None) -> Any:
    """Return the value of a key, whose dots stand for nested objects; None if there is none."""
    if not isinstance(document, Mapping) or key is None:
        return None
    if key in document:
        return document[key]
    head, dot, tail = key.partition(".")
    return nested_value(document.get(head), tail) if dot else None


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        msg = f"expected a regular expression after regex:, got {pattern!r}, {in_words(error)}. Write regex:acc=([0-9.]+)."
        raise UsageError(msg, param="metric") from error


def failed(note: str) -> dict[str, object]:
    """Return the result of a trial that failed."""
    return {"status": "failed", "note": note}


def short_repr(value: object) -> str:
    """Write a value in at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
