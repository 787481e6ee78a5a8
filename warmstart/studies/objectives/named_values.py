"""A named number in what a script prints: `val_acc 71.2%`, `val_acc: 0.712`, `{"val_acc": 0.712}`, `Acc@1 71.2 (70.9)`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cache

_VALUE = re.compile(
    r"""
    (?P<unit>\s*+(?:[(\[]\s?%\s?[)\]]|\bin\s%))?+
    (?:\s(?:of|on|for|after|over)\b[^:=|]{0,80}(?=[:=|]|\b(?:is|was)\b))?  # as in "accuracy of the network on cats: 71 %"
    [\s"'`)\]]*+                                      # ends of quotes and brackets round the name
    (?:=>|-+>|→|[:=|│┃]|\.{2,}+|[-–—](?=\s)|(?:is|of|was)\b)?+
    (?P<open>[\s"'`(\[]*+)
    (?:(?:tensor|(?:np\.)?float\d*)\(\s*+)?+
    (?P<number>(?>[-+]?(?:(?:\d++\.\d*+|\d++(?!,\d)|\.\d+)(?:e[-+]?\d+)?|nan|inf(?:inity)?)))(?![\w.]*\w)
    (?:\s*+/\s*+(?P<out_of>\d+)\b)?                  # as in 9150/10000
    \s*+(?P<sign>%?)
    (?P<is_bar>\s*+[━╸█▏▎▍▌▋▊▉]|\|(?:\s\s|[█▏▎▍▌▋▊▉\#]))?  # as in "val_acc:  40%|███", where the name is a progress bar's
    (?:\s*+\(\s*+(?P<average>\d++\.?\d*+)\s*+\))?    # as in "[3/9] Acc@1: 71.2 (70.9)"
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""What follows a name; no number with a decimal comma. Repeats are possessive (`*+`): a line of a megabyte takes no longer than its length."""
_LIST = re.compile(r"\s*,\s*[-+.]?\d")
"""What follows the first number of several in brackets, which are no value of the name."""
_BATCH = re.compile(r"\[\s*+(\d+)\s*+/\s*+(\d+)")
"""The batch of an epoch, in a line of running averages."""
_EPOCH = re.compile(
    r"""\b(?:epoch|step|round|iter(?:ation)?)s?["']?\s*+[:=#\[(]?\s*+["']?(\d{1,3}(?:,\d{3})++|\d{1,15}(?:\.\d+)?)(?![\d%])""",
    re.IGNORECASE,
)
_BAR = re.compile(r"\d%\s*+\||\bit/s\b|\bs/it\b|[━╸█▏▎▍▌▋▊▉]{3}")
"""What a progress bar looks like, which prints a number again and again."""


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A value as it is printed.

    Attributes:
        number: as printed.
        is_percent: whether it is in per cent: a % is there, or it is a share, as 9150/10000.
        is_partial: whether it is an average over the first batches of an epoch.
    """

    number: float
    is_percent: bool
    is_partial: bool = False


def named_value(line: str, name: str) -> NamedValue | None:
    """Find the last value of a name in a line; None if there is none.

    Case does not matter, nor what separates the words of the name: `val_acc` is found as `Val Acc` and `val/acc`. A
    longer name that ends with it, as `best_val_acc`, is another one.
    """
    match = None
    for spelling in _spellings(name).finditer(line):
        candidate = _VALUE.match(line, spelling.end())
        if candidate is None or candidate["is_bar"]:
            continue
        is_list = re.search(r"[\[(]", candidate["open"]) and _LIST.match(line, candidate.end("number"))
        match = match if is_list else candidate
    if match is None:
        return None
    number, out_of, average = match["number"], match["out_of"], match["average"]
    if out_of and float(out_of):
        return NamedValue(100 * float(number) / float(out_of), is_percent=True)
    is_percent = bool(match["sign"] or match["unit"])
    batch = None if average is None else _BATCH.search(line)
    if batch is not None:
        return NamedValue(float(average), is_percent, is_partial=int(batch[1]) < int(batch[2]))
    return NamedValue(float(number), is_percent)


@cache
def _spellings(name: str) -> re.Pattern[str]:
    """Return the pattern of a name, by its words."""
    words = [re.escape(word) for word in re.split(r"[\s_/.-]+", name.strip()) if word]
    return re.compile(r"(?<![\w/.@-])" + r"[\s_/.-]?".join(words) + r"(?!-?[\w@])", re.IGNORECASE)


@dataclass(slots=True)
class LineSteps:
    """The steps of reports that are lines of text: the epoch that a line names, else the next one.

    Attributes:
        latest: step; minus infinity before the first.
    """

    latest: float = -math.inf
    _value: float | None = None

    def pass_over(self, line: str) -> None:
        """Take note of a line without the value: after the head of an epoch, the same value again is another one."""
        if _EPOCH.search(line):
            self._value = None

    def report(self, line: str, value: float) -> tuple[float, float] | None:
        """Return step and value of a line that has a value.

        Returns: None for a further line of an epoch, and for a progress bar that shows the same value as before.
        """
        epoch = _EPOCH.search(line)
        step = max(self.latest, 0) + 1 if epoch is None else float(epoch[1].replace(",", ""))
        is_repeated = value == self._value and bool(_BAR.search(line))
        self._value = value
        if step <= self.latest or is_repeated:
            return None
        self.latest = step
        return step, value


@dataclass(slots=True)
class NamedValues:
    """The values of one name in the output of one trial: per cent as fractions, unless the scale of the metric is per cent.

    Attributes:
        name: of the number.
        is_score: whether per cent is recognised without its sign: a score is at most 1, or at most 100.
        keeps_percent: whether the scale is per cent: 71.2% is 71.2 then, else 0.712.
        was_percent: whether earlier trials printed per cent; None = not known.
        latest: value; None before the first.
        unread: the latest line with the name and no value of it; empty without one.
        is_percent: whether this trial printed per cent; None = not known.
        steps: of the reports.
    """

    name: str
    is_score: bool
    keeps_percent: bool = False
    was_percent: bool | None = None
    latest: float | None = None
    unread: str = ""
    is_percent: bool | None = None
    steps: LineSteps = field(default_factory=LineSteps)

    def read(self, line: str, number: float | None = None) -> tuple[float, float] | None:
        """Read a line; return the step and the value if they are a report.

        Args:
            line: that was printed.
            number: of the name in it, where that is read otherwise, as in nested JSON.

        Raises:
            ValueError: a score above 100, or above 1 after trials of which none had one.
        """
        printed = named_value(line, self.name) if number is None else NamedValue(number, is_percent=False)
        if printed is None:
            self.steps.pass_over(line)
            if _spellings(self.name).search(line):
                self.unread = line
            return None
        self.latest = self._fraction(printed)
        return None if printed.is_partial else self.steps.report(line, self.latest)

    def _fraction(self, printed: NamedValue) -> float:
        if printed.is_percent:
            self.is_percent = True
            return printed.number if self.keeps_percent else printed.number / 100
        if not self.is_score or not math.isfinite(printed.number):
            return printed.number
        if printed.number > 100 or (printed.number > 1 and self.was_percent is False):
            most = "1 (or 100, in per cent)" if printed.number > 100 else "1, as in the trials before"
            msg = f"expected {self.name} of at most {most}, got {printed.number:g}. Give `scale` any, fraction or percent."
            raise ValueError(msg)
        if printed.number > 1:
            self.is_percent = True
        if self.is_percent or self.was_percent:
            return printed.number / 100
        self.is_percent = False if printed.number else None
        return printed.number
