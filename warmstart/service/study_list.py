"""The list of studies as HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from warmstart.history_store.quoting import in_markup
from warmstart.history_store.wording import counted, in_short
from warmstart.service.frame import address_of, page, sort_heads, time_element

if TYPE_CHECKING:
    from warmstart.service.auth import Token
    from warmstart.studies.results.study_summary import StudySummary

HEADS = {"name": "study", "best": "best", "trials": "trials", "running": "under way", "changed": "changed", "by": "by"}
State = Literal["current", "running", "archived", "all"]
STATES: dict[State, str] = {"current": "not archived", "running": "under way", "archived": "archived", "all": "all"}
Sort = Literal[
    "name", "-name", "best", "-best", "trials", "-trials", "running", "-running", "changed", "-changed", "by", "-by"
]
_KEYS: dict[str, Callable[[StudySummary], Any]] = {
    "name": lambda study: study.name.lower(),
    "best": lambda study: None if study.error is None else study.metric.to_value(study.error),
    "trials": lambda study: study.trials,
    "running": lambda study: study.running,
    "changed": lambda study: study.changed,
    "by": lambda study: study.owner,
}


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What is listed: studies with a text, in a state, sorted."""

    text: str = ""
    state: State = "current"
    sort: Sort = "-changed"

    def choose(self, studies: Sequence[StudySummary]) -> list[StudySummary]:
        """Return the studies that are listed, sorted; those without a value come last."""
        key, word = _KEYS[self.sort.removeprefix("-")], self.text.lower()
        chosen = [
            study
            for study in studies
            if self._has(study) and word in f"{study.name} {study.metric.name} {study.owner or ''}".lower()
        ]
        with_value = [study for study in chosen if key(study) is not None]
        # The newest of equal ones first.
        with_value.reverse()
        with_value.sort(key=key, reverse=self.sort.startswith("-"))
        return with_value + [study for study in reversed(chosen) if key(study) is None]

    def _has(self, study: StudySummary) -> bool:
        if self.state == "running":
            return study.running > 0
        return self.state == "all" or study.is_archived == (self.state == "archived")


def list_page(studies: Sequence[StudySummary], query: ListQuery, token: Token) -> str:
    """Return the page of all studies."""
    body = "<h1>Studies</h1>" + (_list(studies, query, token) if studies else _EMPTY)
    return page("Studies", body, root="./", live_s=10)


_EMPTY = (
    '<div class="empty live" id="list"><p><strong>No study yet.</strong> Begin one on any machine that reaches this '
    'server:</p><pre>warmstart tune --command "python train.py --lr {lr}" --space space.yaml --score val_acc --server '
    '<span class="origin">URL</span></pre><p class="hint">It appears here by itself.</p></div>'
)


def _list(studies: Sequence[StudySummary], query: ListQuery, token: Token) -> str:
    chosen = query.choose(studies)
    options = "".join(
        f'<option value="{state}"{" selected" if state == query.state else ""}>{text}</option>'
        for state, text in STATES.items()
    )
    form = (
        '<form class="row filter" action="studies"><label>Search <input name="q" type="search" '
        f'value="{in_markup(query.text)}"></label><label>Show <select name="state">{options}</select></label>'
        f'<input type="hidden" name="sort" value="{query.sort}"><button>Apply</button></form>'
    )
    link = "studies?" + urlencode({"q": query.text, "state": query.state, "sort": ""})
    has_actions = any(token.allows("run", study.name) for study in studies)
    heads = sort_heads(HEADS, query.sort, link) + ('<th scope="col"></th>' if has_actions else "")
    rows = "".join(_row(study, token, has_actions=has_actions) for study in chosen)
    caption = f"{counted(len(chosen), 'study')} of {len(studies)}"
    table = (
        f'<table class="list"><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    )
    nothing = "" if chosen else '<p class="hint">No study is like that.</p>'
    return f'{form}<div class="scroll live" id="list">{table}{nothing}</div>'


def _row(study: StudySummary, token: Token, *, has_actions: bool) -> str:
    name, address = in_markup(study.name), address_of(study.name)
    link = f'<a href="studies/{address}">{name}</a>'
    if address is None:
        link = f'{name} <span class="unit">no page: no address has a place for this name</span>'
    best = "–"
    if study.error is not None:
        value = in_markup(in_short(study.metric.to_value(study.error)))
        best = f'{value} <span class="unit">{in_markup(study.metric.name)}</span>'
    changed = "" if study.changed is None else time_element(study.changed)
    mark = ' <span class="chip">archived</span>' if study.is_archived else ""
    running = f'<span class="chip busy">{study.running}</span>' if study.running else ""
    cells = (
        f'<th scope="row">{link}{mark}</th><td class="number">{best}</td>'
        f'<td class="number">{study.trials}</td><td class="number">{running}</td><td>{changed}</td>'
        f"<td>{in_markup(study.owner or '')}</td>"
    )
    if has_actions:
        buttons = ""
        if token.allows("run", study.name):
            may_delete = token.allows("admin", study.name)
            buttons = study_actions(study.name, study.trials, is_archived=study.is_archived, may_delete=may_delete)
        cells += f'<td class="actions">{buttons}</td>'
    return f"<tr>{cells}</tr>"


def study_actions(name: str, n_trials: int, *, is_archived: bool, may_delete: bool) -> str:
    """Return the buttons that archive and delete a study."""
    address = address_of(name)
    if address is None:
        return ""
    path = f"v1/studies/{address}"
    word, archived = ("Bring back", "false") if is_archived else ("Archive", "true")
    buttons = f'<button type="button" class="link" data-archive="{path}" data-archived="{archived}">{word}</button>'
    if may_delete:
        question = in_markup(f"Delete {name} with its {counted(n_trials, 'trial')} for ever?")
        buttons += (
            f'<button type="button" class="link danger" data-delete="{path}" data-question="{question}">Delete</button>'
        )
    return buttons
