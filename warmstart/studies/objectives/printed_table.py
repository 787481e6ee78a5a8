"""Tables in what a script prints: a head with names, and a row an epoch, as of fastai, skorch, Ultralytics, or CSV."""

from __future__ import annotations

import re

_STEPS = frozenset(["e", "ep", "epoch", "epochs", "iter", "iteration", "round", "step", "steps"])
_KINDS = frozenset(["class", "classes"])
"""First names of a table: of an epoch a row, and of a class a row, of which `all` alone is read."""
_TOTAL = "all"
_BAR = re.compile(r":\s*\d{1,3}%.*$")
"""A progress bar behind a head or a row."""
_NUMBER = re.compile(r"[-+]?(?:\d[\d.:/]*(?:e[-+]?\d+)?|\.\d+|nan|inf)[%A-Za-z]?", re.IGNORECASE)
"""A cell that is a number, a time or `1/20`."""
_LONGEST_LINE = 1_000


class PrintedTable:
    """The latest table that was printed, whose rows are turned into text with the names of the head."""

    def __init__(self) -> None:
        self._head: list[str] = []

    def sentence(self, line: str) -> str:
        """Return `epoch 3 loss: 0.4 acc: 0.8` for a row below a head with these names, and any other line unchanged."""
        cells = _cells(line) if len(line) <= _LONGEST_LINE else []
        if len(cells) < 2:
            return line
        first = cells[0].lower()
        if first in _STEPS | _KINDS and not any(map(_NUMBER.fullmatch, cells)):
            self._head = [cell.strip("()") for cell in cells]
        elif len(cells) == len(self._head) and all(map(_NUMBER.fullmatch, cells[1:])):
            is_of_classes = self._head[0].lower() in _KINDS
            if first == _TOTAL if is_of_classes else _NUMBER.fullmatch(first):
                values = [f"{name}: {cell}" for name, cell in zip(self._head[1:], cells[1:], strict=True)]
                return " ".join([_TOTAL if is_of_classes else f"epoch {first}", *values])
        return line


def _cells(line: str) -> list[str]:
    """Split a line at its separators, else where it has several spaces, else at each space."""
    line = _BAR.sub("", line).strip(" |│┃")
    for separator in (r"\s*[|│┃]\s*", r"\s*[,;\t]\s*", r"\s\s+", r"\s"):
        if len(cells := re.split(separator, line)) > 1:
            return cells
    return [line]
