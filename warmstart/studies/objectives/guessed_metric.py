"""The metric that a script seems to print: a word such as `val_acc` before a number."""

from __future__ import annotations

import re
from dataclasses import dataclass

from warmstart.studies.objectives.metric import LARGER, SMALLER
from warmstart.studies.objectives.named_values import named_value

_LONGEST_LINE, _SHOWN = 1_000, 50
"""Characters of a line that is read, and of one that is shown."""
_PARTS = frozenset(["val", "valid", "validation", "test", "eval", "dev", "average", "mean", "best"])
_UNSEEN = _PARTS - {"average", "mean", "best"}
"""Words of data that are not trained on."""
_NAME = re.compile(r"(?<![\w@/.-])[A-Za-z][\w@/.-]*")


@dataclass(frozen=True, slots=True)
class GuessedMetric:
    """A number in the output of a script that looks like a metric.

    Attributes:
        name: as printed.
        is_score: whether larger is better.
        text: of the output, from the name on.
        is_unseen: whether the name says that it is of data that are not trained on.
    """

    name: str
    is_score: bool
    text: str
    is_unseen: bool

    @property
    def option(self) -> str:
        """Return the option that takes the name."""
        return "score" if self.is_score else "loss"


def better_guess(line: str, before: GuessedMetric | None) -> GuessedMetric | None:
    """Return the metric of a line if it is a better guess than the one before, else that one.

    A metric of unseen data is better than another one, then a score than a loss, then the earlier one.
    """
    best = before
    for guess in _guesses(line) if len(line) <= _LONGEST_LINE else ():
        if best is None or _rank(guess) > _rank(best) or guess.name == best.name:
            best = guess
    return best


def _rank(guess: GuessedMetric) -> tuple[bool, bool]:
    return guess.is_unseen, guess.is_score


def _guesses(line: str) -> list[GuessedMetric]:
    guesses, before = [], ""
    for match in _NAME.finditer(line):
        parts = set(re.split(r"[\W\d_]+", match[0].lower())) | {match[0].lower()}
        if parts & (LARGER | SMALLER):
            is_alone = not parts & _PARTS and before.lower() in _PARTS
            name = f"{before}_{match[0]}" if is_alone and named_value(line, f"{before}_{match[0]}") else match[0]
            words = parts | set(name.lower().split("_"))
            if named_value(line, name) is not None and words.isdisjoint({"best"}):
                start = match.end() - len(name)
                text = line[start : start + _SHOWN]
                guesses.append(GuessedMetric(name, not parts & SMALLER, text, bool(words & _UNSEEN)))
        before = match[0]
    return guesses
