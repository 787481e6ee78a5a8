"""The report of a study: all of it as JSON, and what a person reads first as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.history_store.errors import StorageError, StorageFullError
from warmstart.history_store.space import shown
from warmstart.history_store.wording import counted, in_short
from warmstart.metafeat.files import replace_file
from warmstart.prediction import Predictions
from warmstart.studies.results.summary import JointResult, SavedModel, TuneResult
from warmstart.studies.state.spec import StudySpec, WarmConfig
from warmstart.suggestions.formats import with_config

if TYPE_CHECKING:
    from warmstart.bo.transfer.expected_error import ExpectedError

SHOWN = 10
"""Best trials, and failures, in the Markdown."""
RETRAINED = ", before the saved file was trained on these images too"


TITLE, JOINT_TITLE = "# Study ", "# Datasets tuned together: "
"""How reports begin."""


def write_report(path: Path, found: TuneResult, plan: StudySpec) -> None:
    """Write a report: Markdown at the path, JSON beside it.

    Raises:
        OSError: when that is not possible.
    """
    document = {**found.to_dict(), "settings": settings_of(plan), "all": [asdict(trial) for trial in found.trials]}
    _write_json(path.with_suffix(".json"), document)
    _write(path, _markdown(found, plan))


def add_classifier(path: Path, said: Predictions, saved: SavedModel) -> None:
    """Add to a report what the saved classifier says of the validation part: who is taken for whom, and its worst errors.

    Args:
        path: of the report.
        said: of the validation part.
        saved: what was written.

    Raises:
        OSError: when that is not possible.
    """
    worst = [
        {"image": row.image, "truth": row.truth, "answer": row.label, "probability of the truth": row.of_truth}
        for row in said.worst(SHOWN)
    ]
    summary = {"model": said.model, "error": said.error, "confusion": said.confusion(), "worst": worst}
    summary["trained_on_validation"] = saved.retrained
    since = RETRAINED if saved.retrained else ""
    place = path.with_suffix(".json")
    document = {
        **json.loads(place.read_text(encoding="utf-8")),
        "saved_model": saved.to_dict(),
        "classifier": summary,
    }
    _write_json(place, document)
    lines = [
        "",
        "## The saved classifier",
        "",
        f"`{said.model}`, on the {len(said.rows)} images of the validation part: error {said.error:.4g}{since}. A row for each true class, a column for each answer:",
        "",
        *_table(said.confusion()),
        "",
        "Its worst errors:",
        "",
        *_table(worst),
    ]
    _write(path, path.read_text(encoding="utf-8") + "\n".join(lines) + "\n")


def write_joint_report(path: Path, title: str, found: JointResult, plans: Sequence[StudySpec]) -> None:
    """Write a report on several datasets: what each got and gained, then each by itself; Markdown at the path, JSON beside it.

    Raises:
        OSError: when that is not possible.
    """
    document = found.to_dict()
    for entry, study, plan in zip(document["studies"], found.studies, plans, strict=True):
        entry |= {"settings": settings_of(plan), "all": [asdict(trial) for trial in study.trials]}
    _write_json(path.with_suffix(".json"), document)
    counts = found.counts_line or "none"
    lines = [
        f"{JOINT_TITLE}{title}",
        "",
        f"- kept in: `{found.storage}`",
        f"- trials: {counts}; split by {found.split}",
        "",
        *_table(joint_rows(found)),
        "",
    ]
    parts = [
        re.sub("^#", "##", _markdown(study, plan), flags=re.MULTILINE)
        for study, plan in zip(found.studies, plans, strict=True)
    ]
    _write(path, "\n".join([*lines, *parts]))


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    _write(path, json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all; in a folder that takes no other file, into the one that is there. Raises `OSError`."""
    place, content = path.resolve(), text.encode("utf-8", "backslashreplace")  # names of files may be no text
    try:
        replace_file(place, content, durable=False)
    except StorageError as error:
        if isinstance(error, StorageFullError) and isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        place.write_bytes(content)


def joint_rows(found: JointResult) -> list[dict[str, Any]]:
    """Return a row a dataset: its trials, its best error, and what the trials after the design gained."""
    return [
        {
            "dataset": study.dataset,
            "trials": len(study.trials),
            "error": None if study.best is None else study.best.error,
            **({} if study.metric.is_plain else {study.metric.name: study.best_value}),
            "gain": gain,
            "trial": None if study.best is None else study.best.number,
        }
        for study, gain in zip(found.studies, found.gains, strict=True)
    ]


def settings_of(plan: StudySpec) -> dict[str, Any]:
    """Return what a study was begun with as JSON has it."""
    record: dict[str, Any] = json.loads(plan.to_json())
    left_out = ("schema_version", "space", "configs", "meta_feature", "expectation")
    return {name: value for name, value in record.items() if name not in left_out} | {
        "space": json.loads(plan.space),
        "tasks": [each.summary() for each in plan.tasks],
    }


def _markdown(found: TuneResult, plan: StudySpec) -> str:
    counts = found.counts_line or "none"
    known = [trial.duration for trial in found.trials if trial.duration is not None]
    what = plan.measured
    lines = [
        f"{TITLE}{found.study}",
        "",
        f"- kept in: `{found.storage}`",
        f"- dataset: {f'`{found.dataset}`' if found.dataset else 'none'}",
        f"- objective: `{what}`",
        *([] if found.metric.is_plain else [f"- metric: {_metric_text(found)}"]),
        f"- search: {plan.surrogate}, {plan.acquisition}, seed {plan.seed}, pruner {plan.pruner}",
        f"- trials: {counts}; {sum(known):.1f} s in all",
        f"- {found.comparison_line}" if found.comparison is not None else "",
        "",
        "## Best",
        "",
        *_table(best_rows(found)),
        "",
        "## Warm configurations",
        "",
        *_warm(found, plan),
        *_promised(found),
    ]
    if found.related:
        lines += ["", "## Related datasets", "", *_table([each.summary() for each in found.related])]
    failures = [trial for trial in found.trials if trial.note]
    if failures:
        lines += ["", "## What went wrong", "", f"{counted(len(failures), 'trial')}; the last of them:", ""]
        lines += [f"- trial {t.number}, {t.status.value}: {t.note}" for t in failures[-SHOWN:]]
    return "\n".join(lines) + "\n"


def best_rows(found: TuneResult) -> list[dict[str, Any]]:
    """Return a row each of the best trials: its metric, its error where that is another number, its configuration."""
    trials = [trial for trial in found.trials if trial.error is not None and trial.feasible]
    trials.sort(key=lambda trial: trial.error or 0.0)
    name = found.metric.name
    judged = [
        {"trial": trial.number, **({} if name == "error" else {"error": trial.error}), name: found.value(trial)}
        for trial in trials[:SHOWN]
    ]
    return [with_config(row, shown(trial.config)) for row, trial in zip(judged, trials, strict=False)]


def _metric_text(found: TuneResult) -> str:
    """Say what the trials are judged by, and which error it stands for."""
    metric = found.metric
    way = "larger is better" if metric.maximize else "smaller is better"
    at = f"; best {found.best_value:.6g}" if found.best_value is not None else ""
    errors = "; errors are fractions" if metric.scale == "percent" else ""
    if metric.maximize:
        errors = "; errors are what the study minimises for it"
    return f"{metric.name}, {way}{at}{errors}"


def _warm(found: TuneResult, plan: StudySpec) -> list[str]:
    """Tell where the warm configurations came from and what became of them."""
    if not found.warm:
        return ["None: the study began cold."]
    values = {_key(trial.config): found.value(trial) for trial in reversed(found.trials) if trial.error is not None}
    name, to_value, rows = found.metric.name, found.metric.to_value, []
    for each in found.warm:
        there = (
            "not measured" if not each.measured else None if each.source_error is None else to_value(each.source_error)
        )
        row = {
            "from": "you" if plan.initial else each.origin if plan.history else plan.workload,
            f"{name} there": there,
            **_promise(each, to_value),
            f"{name} here": values.get(_key(each.config)),
        }
        config = {head: value for head, value in with_config(row, shown(each.config)).items() if head not in row}
        rows.append({**config, **row})
    history = plan.history
    if plan.initial:
        origin = "Given"
    elif history is None:
        origin = f"The usual ones of {plan.workload}"
    else:
        origin = f"From `{history.get('path')}`, revision {history.get('revision')}"
    return [f"{origin}; they count as `--warm {plan.warm}`.", "", *_table(rows)]


def _promised(found: TuneResult) -> list[str]:
    """Tell what error was promised, and what came, trial by trial as far as the history spoke of them."""
    if found.expected is None:
        return []
    to_value = found.metric.to_value

    def shown(error: ExpectedError) -> str:
        return _with_range(error.value, error.low, error.high, to_value)

    rows = [
        {
            "trial": each.trial,
            "expected": "" if each.expected is None else shown(each.expected),
            "came": None if each.came is None else to_value(each.came),
            "best expected after it": shown(each.best),
        }
        for each in found.expected.telling
    ]
    return ["", "## Promised and came", "", found.expected_line, "", *_table(rows)]


def _promise(warm: WarmConfig, to_value: Callable[[float], float]) -> dict[str, str]:
    """Return the column of what to expect, where that is known."""
    if (error := warm.expected_error) is None:
        return {}
    return {"promised": _with_range(error["value"], error["low"], error["high"], to_value)}


def _with_range(value: float, low: float, high: float, to_value: Callable[[float], float]) -> str:
    """Write an error and its interval as the metric has them."""
    ends = sorted(map(to_value, (low, high)))
    return f"{to_value(value):.3f} ({ends[0]:.3f} to {ends[1]:.3f})"


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["None."]
    heads = list(dict.fromkeys(head for row in rows for head in row))
    cells = [[_cell(row.get(head)) for head in heads] for row in rows]
    return [_row(heads), _row(["---"] * len(heads)), *map(_row, cells)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: object) -> str:
    return "" if value is None else in_short(value).replace("|", "\\|")
