"""A named number in what a script prints: `val_acc 71.2%`, `val_acc: 0.712`, `{"val_acc": 0.712}`, `Acc@1 71.2 (70.9)`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

_NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
_BETWEEN = (
    r"""["'`)\]]*\s*(?:[:=|│┃]|=>|->|is\b|of\b|was\b)?\s*["'`(\[]*\s*(?:(?:tensor|float\d*|np\.float\d+)\()?\s*"""
)
_PHRASE = r"(?:\s+(?:of|on|for|after|over)\b[^:=|]*(?=[:=|]))?"
"""As in "accuracy of the network on 10000 images: 71 %"."""
_EPOCH = re.compile(
    r"""\b(?:epoch|step|round|iter(?:ation)?)s?["']?\s*[:=#\[(]?\s*["']?(\d+(?:\.\d+)?)(?![\d%])""", re.IGNORECASE
)
_BAR = re.compile(r"\d+%\s*\||\bit/s\b|\bs/it\b|\bms/step\b.*\r|[━╸█▏▎▍▌▋▊▉]{3}")
"""What a progress bar looks like, which prints a number again and again."""


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A value as it is printed.

    Attributes:
        number: as printed.
        is_percent: whether it is in per cent: a % follows, or it is a share, as 9150/10000.
        step: of the line, if it names an epoch or a step.
        is_bar: whether the line is a progress bar, which may print a value again and again.
    """

    number: float
    is_percent: bool
    step: float | None
    is_bar: bool


def named_value(line: str, name: str) -> NamedValue | None:
    """Find the last value of a name in a line; None if there is none.

    Case does not matter, nor what separates the words of the name: `val_acc` is found as `Val Acc` and `val/acc`. A
    longer name that ends with it, as `best_val_acc`, is another one.
    """
    words = [re.escape(word) for word in re.split(r"[\s_/.-]+", name.strip()) if word]
    spelled = r"(?<![\w/.@-])" + r"[\s_/.-]?".join(words) + r"(?![\w@])"
    matches = list(
        re.finditer(rf"{spelled}{_PHRASE}{_BETWEEN}({_NUMBER})(?!\w)(?:\s*/\s*(\d+)\b)?\s*(%?)", line, re.IGNORECASE)
    )
    if not matches:
        return None
    number, out_of, percent = matches[-1].groups()
    epoch = _EPOCH.search(line)
    step = None if epoch is None else float(epoch[1])
    if out_of and float(out_of):
        return NamedValue(100 * float(number) / float(out_of), is_percent=True, step=step, is_bar=False)
    return NamedValue(float(number), bool(percent), step, bool(_BAR.search(line)))


@dataclass(slots=True)
class NamedValues:
    """The values of one name in the output of one trial: per cent as fractions, unless the scale of the metric is per cent.

    Attributes:
        name: of the number.
        is_score: whether per cent is recognised without its sign: a score is at most 1, or at most 100.
        keeps_percent: whether the scale is per cent: 71.2% is 71.2 then, else 0.712.
        was_percent: whether earlier trials printed per cent; None = not known.
        latest: value; None before the first.
        is_percent: whether this trial printed per cent; None = not known.
    """

    name: str
    is_score: bool
    keeps_percent: bool = False
    was_percent: bool | None = None
    latest: float | None = None
    is_percent: bool | None = None
    _step: float = field(default=-math.inf)

    def read(self, line: str) -> tuple[float, float] | None:
        """Read a line; return the step and the value if they are a report.

        A line that names no epoch is the next step. One of the same epoch as before, and a progress bar that shows the
        same value as before, are no reports.

        Raises:
            ValueError: a score above 1 after trials of which none had one.
        """
        found = named_value(line, self.name)
        if found is None:
            return None
        value, before = self._fraction(found), self.latest
        self.latest = value
        step = found.step if found.step is not None else max(self._step, 0) + 1
        if step <= self._step or (found.is_bar and value == before):
            return None
        self._step = step
        return step, value

    def _fraction(self, found: NamedValue) -> float:
        if found.is_percent:
            self.is_percent = True
            return found.number if self.keeps_percent else found.number / 100
        if not self.is_score or not math.isfinite(found.number):
            return found.number
        if found.number > 1:
            if self.was_percent is False:
                msg = f"expected {self.name} of at most 1, as in the trials before, got {found.number:g}. Give `scale`."
                raise ValueError(msg)
            self.is_percent = True
        if self.is_percent or self.was_percent:
            return found.number / 100
        self.is_percent = False if found.number else None
        return found.number
