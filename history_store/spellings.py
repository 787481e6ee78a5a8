"""One hyperparameter under several names: joined run by run, where no run says two things."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from warmstart.history_store.hyperparameter_names import meaning_of, split_logarithm

Columns = Mapping[str, Sequence[object]]


def join_spellings(params: Columns, *, ours: Collection[str], apart: Collection[str]) -> tuple[Columns, dict[str, str]]:
    """Join the columns of names that mean one thing, such as `lr` and `learning_rate`, `epochs` and `Epochs`.

    Columns stay apart where a run has different values under two of the names.

    Args:
        params: `n` values a name, None = not set.
        ours: names of our space; one of these is the name that remains, else the one with the most values.
        apart: names that are left as they are.

    Returns: the columns; and the name that each joined one went to.
    """
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in params:
        if name not in apart:
            groups[split_logarithm(name)[0], meaning_of(name)].append(name)
    joined, target_by_name = dict(params), dict[str, str]()
    for names in groups.values():
        rows = list(zip(*(params[name] for name in names), strict=True))
        values = [{str(value): value for value in row if value is not None} for row in rows]
        if len(names) < 2 or any(len(distinct) > 1 for distinct in values):
            continue
        counts = {name: sum(value is not None for value in params[name]) for name in names}
        target = max(names, key=lambda name: (name in ours, counts[name]))
        if counts[target] == sum(map(bool, values)):
            continue  # no other name adds to it
        joined[target] = [next(iter(distinct.values()), None) for distinct in values]
        for name in names:
            if name != target:
                del joined[name]
                target_by_name[name] = target
    return joined, target_by_name
