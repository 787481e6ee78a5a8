"""Read the metric of one trial from what its command prints, and from the file that it writes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warmstart.history_store.csv_table import numbered_rows
from warmstart.history_store.json_text import parse_json
from warmstart.history_store.wording import in_words
from warmstart.studies.objectives.guessed_metric import GuessedMetric, better_guess
from warmstart.studies.objectives.metric import (
    LAST,
    ContradictionError,
    Metric,
    failed,
    nested_value,
    plain_number,
    short_repr,
)
from warmstart.studies.objectives.named_values import LineSteps, NamedValues
from warmstart.studies.objectives.printed_table import PrintedTable

_LAST_HINT = "`metric` last takes the last number printed; add `maximize` where larger is better"
_DIGITS = r"(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?"
_NUMBER = re.compile(rf"(?<![\w.])[-+]?{_DIGITS}(?![\w.]*\w)")
"""A number in a line of text."""
_ANY_NUMBER = re.compile(rf"(?<![\w.])[-+]?(?:{_DIGITS}|(?i:nan|inf(?:inity)?))(?![\w.]*\w)")
"""A number, or NaN or infinity as programs print them."""


class MetricReader:
    """Reader of the metric from the output and the file of one trial.

    Attributes:
        named: values of a metric that is read by its name; None for another one.
        guess: of a metric by its name, where the error is awaited as JSON; None without one.
    """

    def __init__(self, metric: Metric, file: Path | None = None, *, was_percent: bool | None = None) -> None:
        """Record the state of the file, before the trial begins.

        Args:
            metric: to find.
            file: that the trial writes, if the metric is in a file.
            was_percent: whether earlier trials printed a named metric in per cent; None = not known.
        """
        self.named = None
        if metric.printed_name is not None:
            is_score, keeps_percent = metric.maximize and metric.scale is None, metric.scale == "percent"
            self.named = NamedValues(metric.printed_name, is_score, keeps_percent, was_percent)
        self._metric, self._file, self._state_before = metric, file, _file_state(file)
        self.guess: GuessedMetric | None = None
        self._steps, self._table = LineSteps(), PrintedTable()
        self._value: object = None
        self._last_line = ""

    def read(self, line: str) -> tuple[object, object] | None:
        """Read a line of the trial's output; return its step and metric if it is a report.

        A report is a JSON object with `step` and the metric under its name, also if the result is read elsewhere; where there
        is none, each line that its pattern matches. Of a named metric it is each line with the name, or row of a table.
        """
        metric, self._last_line, is_match = self._metric, line, False
        sentence = self._table.sentence(line)
        try:
            document: Any = parse_json(line)
        except (ValueError, RecursionError):
            document = None
        if metric.is_plain:
            self.guess = better_guess(sentence, self.guess)
            is_report = isinstance(document, dict) and {"step", "error"} <= document.keys()
            return (document["step"], document["error"]) if is_report else None
        if self.named is not None:
            return self._read_named(sentence, document, self.named)
        if metric.pattern is not None:
            for match in re.finditer(metric.pattern, line):
                self._value = _number(match[1] if match.re.groups else match[0])
                is_match = True
        elif metric.spec == LAST:
            for match in _ANY_NUMBER.finditer(line):
                self._value = float(match[0])
        else:
            self._take_json(document)
        value = nested_value(document, metric.name)
        if value is not None and "step" in document:
            self._steps.latest = math.inf
            return document["step"], value
        return self._steps.report(line, self._value) if is_match and isinstance(self._value, float) else None

    def _read_named(self, line: str, document: object, named: NamedValues) -> tuple[object, object] | None:
        try:
            pair = named.read(line, plain_number(nested_value(document, named.name)))
        except ValueError as problem:
            raise ContradictionError(str(problem)) from None
        self._value = named.latest
        return pair

    def result(self) -> object:
        """Return the trial's result with its error."""
        metric = self._metric
        if metric.is_plain:
            return self._plain_result()
        if metric.file is not None:
            assert self._file is not None  # noqa: S101  given with it
            if _file_state(self._file) == self._state_before:
                return failed(f"expected {self._file} to be written by the trial, got none of it")
            try:
                content = value_of_file(self._file, metric.file[1])
            except (OSError, ValueError, RecursionError) as problem:
                return failed(f"expected {self._file} as {_kind_of_file(self._file)}, got {in_words(problem)}")
            if content is None:
                return failed(f"expected {metric.file[1]!r} in {self._file}, got none")
            return metric.result(content if metric.key is None else {metric.key: content})
        if self._value is None:
            label = f"{metric.printed_name!r} and its value" if metric.printed_name else f"{metric.spec!r}"
            label = {LAST: "a number", None: "a number as the last JSON line"}.get(metric.spec, label)
            got = f"none; the last line is {short_repr(self._last_line)}" if self._last_line else "no line"
            if self.named is not None and self.named.unread:
                got = short_repr(self.named.unread)
            return failed(f"expected {label} in what it prints, got {got}{self._hint()}")
        if isinstance(self._value, Mapping):
            self._value = {name: value for name, value in self._value.items() if name != "step"}
        return metric.result(self._value)

    def _plain_result(self) -> object:
        """Return the JSON of the last line; a failure names the option that would read a number."""
        line = self._last_line
        try:
            result = parse_json(line)
        except (ValueError, RecursionError):
            note = f"expected the error as JSON on the last line of its output, got {repr(line[:80]) if line else 'no line'}"
            if self.guess is not None:
                note += f"; `{self.guess.option}` {self.guess.name} reads {self.guess.text!r}"
            elif _NUMBER.search(line):
                note += f"; {_LAST_HINT}"
            elif line:
                note += "; `score` NAME, or `loss` NAME, takes what it prints after a name"
            return failed(note)
        if isinstance(result, dict):
            result.pop("step", None)
        return result

    def _hint(self) -> str:
        """Return a hint which metric would read the last line; empty if none would."""
        number, key = _NUMBER.search(self._last_line), self._metric.key
        if number is None:
            return ""
        if key is not None and key in self._last_line and not self._last_line.startswith("{"):
            return f"; `{'score' if self._metric.maximize else 'loss'}` {key} takes that number"
        return f"; {_LAST_HINT}" if self._metric.spec is None else ""

    def _take_json(self, document: object) -> None:
        """Take a JSON value as the result, if it has the metric or is a number."""
        if isinstance(document, dict):
            key = self._metric.key
            if key is None or nested_value(document, key) is not None or "status" in document:
                self._value = document
        elif isinstance(document, int | float) and not isinstance(document, bool):
            self._value = document


def value_of_file(path: Path, key: str) -> Any:
    """Return the value of a key in a file: JSON, lines of JSON, or CSV; the last one that is there, None without one.

    Raises:
        OSError: it cannot be read.
        ValueError: it is neither.
    """
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix.lower() == ".csv":
        rows = [row for _, row in numbered_rows("\n".join(text.splitlines()))]
        column = [name.strip() for name in rows[0]].index(key) if rows else 0
        cells = [row[column].strip() for row in rows[1:] if len(row) > column and row[column].strip()]
        return float(cells[-1]) if cells else None
    try:
        return nested_value(parse_json(text), key)
    except ValueError:
        lines = text.strip().splitlines()
        if len(lines) < 2:
            raise
    values = [value for line in lines if line.strip() and (value := nested_value(parse_json(line), key)) is not None]
    return values[-1] if values else None


def _kind_of_file(path: Path) -> str:
    return "CSV with that column" if path.suffix.lower() == ".csv" else "JSON"


def _number(text: str | None) -> object:
    """Return text as a number if possible, else unchanged."""
    try:
        return float(text or "")
    except ValueError:
        return text


def _file_state(file: Path | None) -> tuple[int, ...] | None:
    """Return time, size and inode of a file, which change when it is written; None if it does not exist."""
    try:
        status = None if file is None else file.stat()
    except OSError:
        return None
    return None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino)
