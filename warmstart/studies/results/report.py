"""The report of a study: JSON with everything, and a Markdown summary."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.errors import StorageError, StorageFullError
from warmstart.history_store.quoting import in_code, in_json, in_markdown, with_config
from warmstart.history_store.space import shown
from warmstart.history_store.wording import counted, in_short, right_of_100
from warmstart.metafeat.files import replace_file
from warmstart.studies.results.classifier_record import judgement_of
from warmstart.studies.results.summary import MAX_ROWS, JointResult, SavedModel, TuneResult
from warmstart.studies.state.spec import StudySpec, WarmConfig

TITLE, JOINT_TITLE = "# Study ", "# Datasets tuned together: "
"""First words of reports."""


def write_report(path: Path, result: TuneResult, plan: StudySpec) -> None:
    """Write a report: Markdown at the path, JSON beside it.

    Raises:
        OSError: a file cannot be written.
    """
    document = {**result.to_dict(), "settings": settings_of(plan), "all": [asdict(trial) for trial in result.trials]}
    _write_json(path.with_suffix(".json"), document)
    _write(path, _markdown(result, plan))


def add_classifier(path: Path, record: Mapping[str, Any], saved: SavedModel) -> None:
    """Add the saved classifier to a report: its confusion matrix and worst errors on pictures that it had not seen.

    Args:
        path: of the report.
        record: of `classifier_record`.
        saved: the file.

    Raises:
        OSError: a file cannot be written.
    """
    json_path = path.with_suffix(".json")
    document = {
        **json.loads(json_path.read_text(encoding="utf-8")),
        "saved_model": saved.to_dict(),
        "classifier": record,
    }
    _write_json(json_path, document)
    lines = [
        "",
        "## The saved classifier",
        "",
        f"{in_code(record['model'])}, on {judgement_of(record).n} pictures that it had not seen: {right_of_100(saved.validation_error, saved.interval)}. A row for each true class, a column for each answer:",
        "",
        *_table(record["confusion"]),
        "",
        "Its worst answers:",
        "",
        *_table(record["worst"]),
    ]
    _write(path, path.read_text(encoding="utf-8") + "\n".join(lines) + "\n")


def write_joint_report(path: Path, title: str, joint: JointResult, plans: Sequence[StudySpec]) -> None:
    """Write a report on several datasets: a table of all, then each study; Markdown at the path, JSON beside it.

    Raises:
        OSError: a file cannot be written.
    """
    document = joint.to_dict()
    for entry, study, plan in zip(document["studies"], joint.studies, plans, strict=True):
        entry |= {"settings": settings_of(plan), "all": [asdict(trial) for trial in study.trials]}
    _write_json(path.with_suffix(".json"), document)
    counts = joint.counts_line or "none"
    lines = [
        f"{JOINT_TITLE}{in_markdown(title)}",
        "",
        f"- kept in: {in_code(joint.storage)}",
        f"- trials: {counts}; split by {joint.split}",
        "",
        *_table(joint_rows(joint)),
        "",
    ]
    parts = [
        re.sub("^#", "##", _markdown(study, plan), flags=re.MULTILINE)
        for study, plan in zip(joint.studies, plans, strict=True)
    ]
    _write(path, "\n".join([*lines, *parts]))


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    _write(path, in_json(document) + "\n")


def _write(path: Path, text: str) -> None:
    """Write a file atomically; if the folder takes no new file, overwrite the existing one. Raises `OSError`."""
    target, content = path.resolve(), text.encode("utf-8", "backslashreplace")  # names of files may be no text
    try:
        replace_file(target, content, durable=False)
    except StorageError as error:
        if isinstance(error, StorageFullError) and isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        target.write_bytes(content)


def joint_rows(joint: JointResult) -> list[dict[str, Any]]:
    """Return a row a dataset: its trials, its best error, and the gain after the initial design."""
    return [
        {
            "dataset": study.dataset,
            "trials": len(study.trials),
            "error": None if study.best is None else study.best.error,
            **({} if study.metric.is_plain else {study.metric.name: study.best_value}),
            "gain": gain,
            "trial": None if study.best is None else study.best.number,
        }
        for study, gain in zip(joint.studies, joint.gains, strict=True)
    ]


def settings_of(plan: StudySpec) -> dict[str, Any]:
    """Return the settings of a study, for JSON."""
    record: dict[str, Any] = json.loads(plan.to_json())
    left_out = ("schema_version", "space", "configs", "meta_feature", "expectation")
    return {name: value for name, value in record.items() if name not in left_out} | {
        "space": json.loads(plan.space),
        "tasks": [task.summary() for task in plan.tasks],
    }


def _markdown(result: TuneResult, plan: StudySpec) -> str:
    counts = result.counts_line or "none"
    durations = [trial.duration for trial in result.trials if trial.duration is not None]
    objective = plan.objective_label
    lines = [
        f"{TITLE}{in_markdown(result.study)}",
        "",
        f"- kept in: {in_code(result.storage)}",
        f"- dataset: {in_code(result.dataset) if result.dataset else 'none'}",
        f"- objective: {in_code(objective)}",
        *([] if result.metric.is_plain else [f"- metric: {_metric_text(result)}"]),
        f"- search: {plan.surrogate}, {plan.acquisition}, seed {plan.seed}, pruner {plan.pruner}",
        f"- trials: {counts}; {sum(durations):.1f} s in all",
        *(f"- {in_markdown(line)}" for line in result.tracked_lines),
        f"- {in_markdown(result.comparison_line)}" if result.comparison is not None else "",
        "",
        "## Best",
        "",
        *_table(result.best_rows()),
        "",
        "## Warm configurations",
        "",
        *_warm_lines(result, plan),
        *_expectation_lines(result),
    ]
    if result.related:
        lines += ["", "## Related datasets", "", *_table([dataset.summary() for dataset in result.related])]
    failures = [trial for trial in result.trials if trial.note]
    if failures:
        lines += ["", "## What went wrong", "", f"{counted(len(failures), 'trial')}; the last of them:", ""]
        lines += [f"- trial {t.number}, {t.status.value}: {in_markdown(t.note)}" for t in failures[-MAX_ROWS:]]
    return "\n".join(lines) + "\n"


def _metric_text(result: TuneResult) -> str:
    """Return the metric, its direction and its relation to the error as text."""
    metric = result.metric
    direction = "larger is better" if metric.maximize else "smaller is better"
    best_part = f"; best {result.best_value:.6g}" if result.best_value is not None else ""
    errors = "; errors are fractions" if metric.scale == "percent" else ""
    if metric.maximize:
        errors = "; errors are what the study minimises for it"
    return f"{in_markdown(metric.name)}, {direction}{best_part}{errors}"


def _warm_lines(result: TuneResult, plan: StudySpec) -> list[str]:
    """Return the lines of the warm configurations: their origin, and their errors there and here."""
    if not result.warm:
        return ["None: the study began cold."]
    values = {_key(trial.config): result.value(trial) for trial in reversed(result.trials) if trial.error is not None}
    name, to_value, rows = result.metric.name, result.metric.to_value, []
    for warm in result.warm:
        source_value = (
            "not measured" if not warm.measured else None if warm.source_error is None else to_value(warm.source_error)
        )
        row = {
            "from": "you" if plan.initial else warm.origin if plan.history else plan.workload,
            f"{name} there": source_value,
            **_promised_cell(warm, to_value),
            f"{name} here": values.get(_key(warm.config)),
        }
        config = {head: value for head, value in with_config(row, shown(warm.config)).items() if head not in row}
        rows.append({**config, **row})
    history = plan.history
    if plan.initial:
        origin = "Given"
    elif history is None:
        origin = f"The usual ones of {in_markdown(plan.workload)}"
    else:
        origin = f"From {in_code(history.get('path'))}, revision {history.get('revision')}"
    return [f"{origin}; they count as `--warm {plan.warm}`.", "", *_table(rows)]


def _expectation_lines(result: TuneResult) -> list[str]:
    """Return the lines of expected and actual errors, trial by trial."""
    if result.expected is None:
        return []
    to_value = result.metric.to_value

    def shown(error: ExpectedError) -> str:
        return _with_range(error.value, error.low, error.high, to_value)

    rows = [
        {
            "trial": trial.trial,
            "expected": "" if trial.expected is None else shown(trial.expected),
            "measured": None if trial.error is None else to_value(trial.error),
            "best expected after it": shown(trial.best),
        }
        for trial in result.expected.informative
    ]
    return ["", "## Expected and measured", "", in_markdown(result.expected_line), "", *_table(rows)]


def _promised_cell(warm: WarmConfig, to_value: Callable[[float], float]) -> dict[str, str]:
    """Return the cell of the promised error, by its column; empty if unknown."""
    if (error := warm.expected_error) is None:
        return {}
    return {"expected": _with_range(error["value"], error["low"], error["high"], to_value)}


def _with_range(value: float, low: float, high: float, to_value: Callable[[float], float]) -> str:
    """Return an error and its interval as text, in the metric's unit."""
    ends = sorted(map(to_value, (low, high)))
    return f"{to_value(value):.3f} ({ends[0]:.3f} to {ends[1]:.3f})"


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["None."]
    heads = list(dict.fromkeys(head for row in rows for head in row))
    cells = [[_cell(row.get(head)) for head in heads] for row in rows]
    return [_row(map(in_markdown, heads)), _row(["---"] * len(heads)), *map(_row, cells)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: object) -> str:
    return "" if value is None else in_markdown(in_short(value))
