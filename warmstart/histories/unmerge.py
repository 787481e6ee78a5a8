"""Take a merged bundle out of a history again."""

from pathlib import Path

from warmstart.histories.merge import MergePlan, carry_out, plan_merge
from warmstart.histories.merged import contributed_line, current_ids, dataset_of, read_merged, with_ids
from warmstart.history_store.bundle.file import Bundle, read_bundle
from warmstart.history_store.bundle.records import Described, SharedRun, parse
from warmstart.history_store.errors import UsageError
from warmstart.history_store.history import History
from warmstart.history_store.wording import in_shell


def remove_bundle(history: "History", bundle: str) -> MergePlan:
    """Remove what a bundle brought: its runs, and features and descriptions of datasets that no other run is on.

    Args:
        history: open for writing.
        bundle: the file that was merged, or the history that contributed it: the 12 digits in ``(from ...)`` behind origins.

    Raises:
        UsageError: nothing of it is in the history.
    """
    merged = read_merged(history)
    new_ids = current_ids([info for info in history.datasets if info.name not in merged.datasets], merged.lines)
    ids = {name: new_ids.get(key, key) for name, key in merged.ids(history).items()}
    rows = (contributed_line(run, ids[run.dataset]) for run in history.evaluations())
    lines = {*(with_ids(line, new_ids) for line in merged.lines), *(line for line in rows if line is not None)}
    records = {line: parse(line, "record") for line in lines}
    is_file = Path(bundle).is_file()
    named = {with_ids(line, new_ids) for line in read_bundle(bundle).lines} if is_file else set[str]()
    gone = {
        line
        for line, record in records.items()
        if (line in named and not isinstance(record, Described))
        or (isinstance(record, SharedRun) and record.by == bundle)
    }
    if not gone:
        msg = f"expected a bundle that was merged, its file or the 12 digits of the history that contributed it, got {bundle!r}. `warmstart history show {in_shell(history.path)}` shows where its runs are from."
        raise UsageError(msg, param="bundle")
    remaining = {
        dataset_of(line) for line, record in records.items() if isinstance(record, SharedRun) and line not in gone
    }
    gone |= {
        line
        for line, record in records.items()
        if not isinstance(record, SharedRun) and dataset_of(line) not in remaining
    }
    plan = plan_merge(history, Bundle(frozenset()), without=gone)
    carry_out(history, plan)
    return plan
