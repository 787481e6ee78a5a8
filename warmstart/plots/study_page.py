"""The HTML report of studies: one file with tables and pictures, without a network."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warmstart.exports import START
from warmstart.history_store.canonical import images_of, without_arrangement
from warmstart.history_store.errors import WarmstartError
from warmstart.history_store.extras import has_extra, missing_extra
from warmstart.history_store.quoting import in_markup, with_config
from warmstart.history_store.wording import counted
from warmstart.metafeat.files import replace_file
from warmstart.plots.classifier_page import STYLE, classifier_section, classifier_title
from warmstart.plots.read_study import read_json
from warmstart.plots.study import PICTURES, study_pictures
from warmstart.plots.style import drawn, styled
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.results.study_record import StudyRecord, records_of_report
from warmstart.studies.results.trial import Trial
from warmstart.tables import table

_MAX_ROWS = 10
_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --line: #d5d5d5; --soft: #6b6b6b; --good: #0072B2 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #16181b; --line: #3a3d42; --soft: #a0a0a0; --good: #56B4E9 } figure img.drawn { filter: invert(.9) hue-rotate(180deg) } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1, h2 { line-height: 1.2 } h2 { margin-top: 2.2rem } dt { color: var(--soft) } dd { margin: 0 0 .4rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 13px } caption { text-align: left; color: var(--soft); padding-bottom: .3rem }
th, td { text-align: left; padding: .2rem .7rem .2rem 0; border-bottom: 1px solid var(--line); white-space: nowrap }
figure { margin: 1rem 0 } figure img { border-radius: 6px; max-width: 100%; height: auto } figure img.drawn { background: #fff } figcaption { color: var(--soft) }
@media (max-width: 45rem) { figure { overflow-x: auto } figure img.drawn { min-width: 36rem } }
@media print {
  :root { color-scheme: light; --ink: #1a1a1a; --paper: #fff; --line: #d5d5d5; --soft: #6b6b6b }
  body { max-width: none; margin: 0 } figure { break-inside: avoid; overflow: visible } figure img.drawn { min-width: 0; filter: none }
  .wide { overflow: visible } table { font-size: 10px } th, td { white-space: normal; overflow-wrap: anywhere }
}
"""


def write_page(
    path: Path,
    studies: Sequence[StudyRecord],
    *,
    title: str,
    seed: int = 0,
    classifier: Mapping[str, Any] | None = None,
) -> list[str]:
    """Write the HTML page of one or several studies, whole or not at all.

    Without matplotlib the page has only tables, and the pictures of a saved classifier's worst errors.

    Args:
        path: of the page.
        studies: to report.
        title: of the page.
        seed: of the surrogate fitted for the pictures.
        classifier: part of a report on the saved classifier of the first study.

    Returns: notes on missing pictures.

    Raises:
        StorageError: the file cannot be written.
    """
    notes: list[str] = []
    parts = [_section(record, notes, seed) for record in studies]
    if classifier is not None:
        dataset, n_trials = studies[0].dataset, sum(len(record.trials) for record in studies)
        name = studies[0].name if dataset is None else _name_of(dataset)
        title = classifier_title(classifier, name)
        search = f"<details><summary>The search: {counted(n_trials, 'trial')}</summary>{''.join(parts)}</details>"
        parts = [classifier_section(classifier, dataset), search]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{in_markup(title)}</title>'
    heading = f"<h1>{in_markup(name if classifier is not None else title)}</h1>"
    page = f"{START}{head}<style>{_STYLE}{STYLE}</style></head><body>{heading}{''.join(parts)}</body></html>\n"
    replace_file(path, page.encode("utf-8", "backslashreplace"), durable=False)
    return list(dict.fromkeys(notes))


def _name_of(dataset: str) -> str:
    """Return the name of a dataset for people: its folder's or file's."""
    path = images_of(without_arrangement(dataset))
    return path.name or str(path)


def classifier_of_report(path: Path) -> Mapping[str, Any] | None:
    """Return the part of a report on the saved classifier; None without it, or without a report.

    Args:
        path: of the report's JSON.
    """
    if not path.is_file():
        return None
    classifier: Mapping[str, Any] | None = read_json(path, expected="the report of a study").get("classifier")
    return classifier


def write_report_page(report: Path, page: Path | None = None) -> list[str]:
    """Write the HTML page of a report of `tune`, next to its Markdown if left out, from its JSON; as `write_page`."""
    document = read_json(report.with_suffix(".json"), expected="the report of a study")
    studies = records_of_report(document, str(report))
    title = f"Study {studies[0].name}" if len(studies) == 1 else f"{len(studies)} datasets tuned together"
    target = report.with_suffix(".html") if page is None else page
    return write_page(target, studies, title=title, classifier=document.get("classifier"))


def _section(record: StudyRecord, notes: list[str], seed: int) -> str:
    best = record.best
    counts = record.counts_line or "none"
    facts: dict[str, Any] = {
        "Kept in": record.storage,
        "Dataset": None if record.dataset is None else without_arrangement(record.dataset),
        "Objective": record.evaluated or None,
        "Trials": counts,
        "Best": None if best is None else f"{record.metric.name} {record.value(best):.5g}, trial {best.number}",
        "Expected": record.expected_line,
        "Search": ", ".join(f"{name} {value}" for name, value in (record.settings or {}).items()),
    }
    lines = "".join(f"<dt>{in_markup(name)}</dt><dd>{in_markup(value)}</dd>" for name, value in facts.items() if value)
    parts = [f"<h2>{in_markup(record.name)}</h2><dl>{lines}</dl>", _figures(record, notes, seed)]
    for caption, rows in (("Best trials", _best_rows(record)), ("Warm configurations", _warm_rows(record)), ("What went wrong", _failures(record))):  # fmt: skip
        if rows:
            parts.append(f'<div class="wide">{table(caption, rows)}</div>')
    return "".join(parts)


def _figures(record: StudyRecord, notes: list[str], seed: int) -> str:
    if not has_extra("plots"):
        notes.append(missing_extra("plots", "A page with pictures").message)
        return ""
    parts = []
    try:
        with styled():
            for picture in study_pictures(record, notes=notes, seed=seed):
                caption = PICTURES[picture.name]
                parts.append(f'<figure><img class="drawn" alt="{in_markup(caption)}" src="{_data_url(picture.figure)}"><figcaption>{in_markup(caption)}</figcaption></figure>')  # fmt: skip
    except WarmstartError as error:
        notes.append(str(error))
    return "".join(parts)


def _data_url(figure: Any) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn(figure, 'svg')).decode('ascii')}"


def _best_rows(record: StudyRecord) -> Sequence[Mapping[str, Any]]:
    trials = sorted((t for t in record.trials if t.error is not None and t.feasible), key=lambda t: t.error or 0.0)
    judged = [
        {"trial": t.number, record.metric.name: record.value(t), "warm": "yes" if record.warm_of(t) else None}
        for t in trials[:_MAX_ROWS]
    ]
    return [with_config(row, trial.config) for row, trial in zip(judged, trials, strict=False)]


def _warm_rows(record: StudyRecord) -> Sequence[Mapping[str, Any]]:
    rows = []
    for warm in record.warm:
        tried = [
            trial for trial in record.trials if record.warm_of(trial) is warm
        ]  # repeated if the first was cut by the time limit
        chosen = min(tried, key=lambda trial: trial.error is None, default=None)
        row = {
            "from": warm.origin,
            "promised": None if warm.promised is None else record.metric.to_value(warm.promised),
            "expected": _expected(record, chosen),
            "measured": None if chosen is None else record.value(chosen),
            "trial": None if chosen is None else chosen.number,
        }
        rows.append(with_config(row, warm.config))
    return rows


def _expected(record: StudyRecord, trial: Trial | None) -> str | None:
    """Format the error expected of a trial before it ran."""
    interval = None if record.expected is None or trial is None else record.expected.of(trial.number)
    if interval is None:
        return None
    low, high = sorted(map(record.metric.to_value, (interval.low, interval.high)))
    return f"{low:.3g} to {high:.3g}"


def _failures(record: StudyRecord) -> Sequence[Mapping[str, Any]]:
    went_wrong = [t for t in record.trials if t.note and t.status is not TrialStatus.PRUNED]
    return [{"trial": t.number, "status": t.status.value, "note": t.note} for t in went_wrong][-_MAX_ROWS:]
