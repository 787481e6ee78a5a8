"""The trials of a study as a table of HTML: sorted, filtered, in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from warmstart.history_store.quoting import in_markup, with_config
from warmstart.history_store.space import shown
from warmstart.history_store.wording import counted, in_short
from warmstart.service.frame import address_of, sort_heads
from warmstart.service.problems import ProblemError

if TYPE_CHECKING:
    from warmstart.studies.results.study_record import StudyRecord

Row = dict[str, Any]
PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class TrialQuery:
    """What is shown: trials with a text, in a state, sorted, a part of them."""

    text: str = ""
    state: str = ""
    sort: str = "-trial"
    part: int = 1

    def choose(self, rows: Sequence[Row], heads: Sequence[str]) -> list[Row]:
        """Return the rows that are shown, of all parts, sorted; those without a value come last.

        Raises:
            ProblemError: 422, an unknown column to sort by.
        """
        key = self.sort.removeprefix("-")
        if key not in heads:
            detail = f"expected a column to sort by, such as {', '.join(heads[:3])}, got {key[:40]!r}. Leave it out."
            raise ProblemError(422, "No such column", detail, pointer="/query/sort")
        word = self.text.lower()
        chosen = [
            row
            for row in rows
            if (not self.state or row["state"] == self.state)
            and (not word or any(word in in_short(value).lower() for value in row.values() if value is not None))
        ]
        with_value = [row for row in chosen if row.get(key) is not None]
        # Numbers before texts.
        with_value.sort(
            key=lambda row: (0, row[key]) if isinstance(row[key], int | float) else (1, str(row[key]).lower()),
            reverse=self.sort.startswith("-"),
        )
        return with_value + [row for row in chosen if row.get(key) is None]

    def link(self, **changes: object) -> str:
        """Return the address of the page with another query."""
        query = {"q": self.text, "state": self.state, "sort": self.sort, "part": self.part} | changes
        return "?" + urlencode(query) + "#trials"


def trial_rows(record: StudyRecord) -> list[Row]:
    """Return a row a trial, those under way among them: values by heads."""
    metric, workers = record.shown_metric, {span.number: span.worker for span in record.spans}
    rows = [
        with_config(
            {
                "trial": trial.number,
                "state": "infeasible" if trial.status.value == "ok" and not trial.feasible else trial.status.value,
                metric.name: None if trial.error is None else metric.to_value(trial.error),
                "seconds": trial.duration,
                "by": workers.get(trial.number),
                "note": trial.note or None,
            },
            shown(trial.config),
        )
        for trial in record.trials
    ]
    rows += [
        with_config(
            {
                "trial": span.number,
                "state": span.state,
                metric.name: None,
                "seconds": None,
                "by": span.worker,
                "note": None,
            },
            shown(span.config),
        )
        for span in record.spans
        if span.end is None
    ]
    return sorted(rows, key=lambda row: int(row["trial"]))


def trial_table(record: StudyRecord, query: TrialQuery) -> str:
    """Return the form and the table of a study's trials; raises as `TrialQuery.choose`."""
    rows = trial_rows(record)
    if not rows:
        return '<section id="trials"><h2>Trials</h2><p class="hint">None yet.</p></section>'
    every = dict.fromkeys(head for row in rows for head in row)
    first = ["trial", "state", record.shown_metric.name]
    last = [head for head in ("seconds", "by", "note") if any(row.get(head) is not None for row in rows)]
    heads = [*first, *(head for head in every if head not in (*first, "seconds", "by", "note")), *last]
    chosen = query.choose(rows, heads)
    n_parts = max(1, -(-len(chosen) // PAGE_SIZE))
    part = min(query.part, n_parts)
    states = "".join(
        f'<option value="{in_markup(state)}"{" selected" if state == query.state else ""}>{in_markup(state or "all")}</option>'
        for state in ("", *sorted({row["state"] for row in rows}))
    )
    form = (
        '<form class="row filter" action="#trials"><label>Search <input name="q" type="search" '
        f'value="{in_markup(query.text)}"></label><label>State <select name="state">{states}</select></label>'
        f'<input type="hidden" name="sort" value="{in_markup(query.sort)}"><button>Apply</button></form>'
    )
    link = "?" + urlencode({"q": query.text, "state": query.state})
    numeric = {head for head in heads if all(isinstance(row.get(head), int | float | None) for row in rows)}
    top = sort_heads({head: head for head in heads}, query.sort, f"{link}&sort=", "#trials", numeric)
    body = "".join(_line(row, heads, numeric, record) for row in chosen[(part - 1) * PAGE_SIZE : part * PAGE_SIZE])
    turns = "".join(
        f'<a href="{in_markup(query.link(part=number))}">{text}</a>'
        for number, text in ((part - 1, "Before"), (part + 1, "Next"))
        if 1 <= number <= n_parts
    )
    where = f", part {part} of {n_parts}" if n_parts > 1 else ""
    caption = f"{counted(len(chosen), 'trial')} of {len(rows)}{where}"
    return (
        f'<section id="trials"><h2>Trials</h2>{form}<div class="live" id="trial-list"><div class="scroll" tabindex="0" '
        f'role="region" aria-label="Trials"><table><caption>{caption}</caption><thead><tr>{top}</tr></thead><tbody>{body}'
        f'</tbody></table></div><p class="turns">{turns}<a href="{address_of(record.name)}/trials.csv">All as CSV</a></p></div></section>'
    )


def _line(row: Row, heads: Sequence[str], numeric: set[str], record: StudyRecord) -> str:
    best = record.best
    mark = ' class="best"' if best is not None and row["trial"] == best.number else ""
    return f"<tr{mark}>{''.join(_cell(row.get(head), head in numeric) for head in heads)}</tr>"


def _cell(value: Any, is_number: bool) -> str:  # noqa: FBT001
    text = "" if value is None else in_short(value)
    kind = ' class="number"' if is_number else ' class="wrap"' if len(text) > 40 else ""
    return f"<td{kind}>{in_markup(text)}</td>"
