"""Configurations that a person wants evaluated first: read from what `suggest` wrote, put into the space of a study."""

import csv
import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.history_store.hyperparameter_names import meaning_of
from warmstart.history_store.records import Value
from warmstart.suggestions.formats import BESIDE, PREFIX

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.bo.space.completion import Completion
    from warmstart.suggestions.answer import InitialDesign
    from warmstart.suggestions.translation import Translation

    Given = str | os.PathLike[str] | Iterable[Mapping[str, Value] | InitialDesign]

_LOG = "log10_"
_MOVED = "Moved to the nearest value that your space allows"
_VARIED = "Not given, so varied over the initial configurations"
_WITHOUT = "Not in your space"
_EXAMPLE = "Write one with `warmstart suggest --format json`."


@dataclass(frozen=True, slots=True)
class InitialConfigs:
    """Configurations of a space, in the order given.

    Attributes:
        configs: no two alike.
        notes: what a person should hear: values that were moved, filled or left out.
    """

    configs: tuple[dict[str, Value], ...]
    notes: tuple[str, ...]


def read_initial(given: "Given") -> list[dict[str, Any]]:
    """Read configurations.

    Args:
        given: a file that ``suggest --format json``, ``yaml``, ``csv``, ``ray`` or ``configspace`` wrote, a list of
            configurations in JSON or YAML, or a CSV table of them; or configurations or suggestions themselves. Of a value
            and its logarithm (`learning_rate`, `log10_learning_rate`) one is enough.

    Returns: at least one configuration, as named there; of a value and its logarithm, the logarithm alone.

    Raises:
        MissingPathError: no such file.
        DataError: a file that holds no configurations.
        UsageError: a value that is not that of its logarithm, or no configurations.
    """
    if isinstance(given, str | os.PathLike):
        where = os.fspath(given)
        found = _read_file(Path(given))
    elif isinstance(given, Mapping) or not isinstance(given, Iterable):
        msg = f"expected a file of configurations, or a list of them, got {given!r}. {_EXAMPLE}"
        raise UsageError(msg, param="initial")
    else:
        where, found = "initial", [getattr(each, "config", each) for each in given]
    if not found or not all(isinstance(each, Mapping) and each for each in found):
        got = "none" if not found else repr(next(each for each in found if not isinstance(each, Mapping) or not each))
        msg = f"expected configurations, names of hyperparameters with their values, got {got[:80]} in {where}. {_EXAMPLE}"
        raise UsageError(msg, param="initial")
    for number, config in enumerate(found, start=1):
        _check_values(config, number, where)
    return [_one_scale(dict(config), number, where) for number, config in enumerate(found, start=1)]


def put_into(
    space: "ConfigurationSpace", configs: Sequence[Mapping[str, Any]], *, rename: Mapping[str, str], seed: int
) -> InitialConfigs:
    """Put configurations into a space: common names are told, values moved to the nearest allowed, what is missing varied.

    Args:
        space: of the study.
        configs: at least one.
        rename: names of the space by theirs, where these are among them.
        seed: of what is varied.

    Raises:
        UsageError: a configuration that the space cannot express.
    """
    from warmstart.bo.space.completion import Completion
    from warmstart.suggestions.translation import translate_configs

    completion = Completion(space, n=len(configs), rng=np.random.default_rng(seed))
    found: list[dict[str, Value]] = []
    lines: dict[str, dict[str, None]] = {text: {} for text in (_MOVED, _VARIED, _WITHOUT)}
    for number, given in enumerate(configs, start=1):  # each may have names of its own
        known = {old: new for old, new in rename.items() if old in given or f"{_LOG}{old}" in given}
        translation = translate_configs([given], None, space, rename=known)
        _check_one_meaning(given, translation, {name: meaning_of(name) for name in given}, number)
        values = translation.known(0)
        is_fit = bool(translation.columns) and not translation.lost[0] and not translation.unfit
        config = completion.complete(values) if is_fit else None
        lines[_WITHOUT] |= {str(match.there): None for match in translation.matches if match.here is None}
        if config is not None:
            found.append(config)
            lines[_MOVED] |= {name: None for name, rows in translation.moved.items() if rows[0] and name in config}
            free = (name for name in config if not hasattr(space[name], "value"))
            lines[_VARIED] |= {name: None for name in free if name not in values}
        elif not (is_fit and _is_allowed(completion, values)):
            raise _misfit(space, translation, number, given)
    notes = [f"{text}: {', '.join(names)}." for text, names in lines.items() if names]
    if len(found) < len(configs):
        notes.append(f"{len(configs) - len(found)} of {len(configs)} initial configurations repeat another one.")
    return InitialConfigs(tuple(found), tuple(notes))


def _misfit(
    space: "ConfigurationSpace", translation: "Translation", number: int, given: Mapping[str, Any]
) -> UsageError:
    """Make the error of a configuration that a space cannot express."""
    unfit = translation.unfit
    lost = [f"{match.there}: {match.reason}" for match in translation.matches if match.lost or match in unfit]
    if lost:
        why = "; ".join(lost)
    elif translation.columns:
        why = "a combination that the space forbids"
    else:
        why = f"none of the space's hyperparameters {', '.join(space)}; `rename` says which is which"
    msg = f"expected configurations of the space, got number {number}, {dict(given)} ({why}). Correct it, or leave it out."
    return UsageError(msg, param="initial")


def _is_allowed(completion: "Completion", values: Mapping[str, Value]) -> bool:
    """Tell whether a configuration that was not completed is one that was given before, rather than forbidden."""
    points = completion.encoding.sample(1, design="sobol", rng=np.random.default_rng(0))
    fixed = completion.fixed(points, values)
    return bool(completion.encoding.valid(fixed)[0])


def _read_file(path: Path) -> list[Any]:
    if not path.is_file():
        msg = f"expected a file of configurations, got {str(path)!r}, which is not there. {_EXAMPLE}"
        raise MissingPathError(msg, param="initial")
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    if path.suffix.lower() == ".csv":
        try:
            rows = list(csv.DictReader(io.StringIO(text)))
        except csv.Error as error:
            msg = f"expected a CSV file of configurations, got one that cannot be read ({error}). Save it as CSV."
            raise DataError(msg, param="initial") from error
        return [_cells(row, f"{path}, line {line}") for line, row in enumerate(rows, 2)]
    from warmstart.history_store.space_yaml import read_yaml

    document = read_yaml(text, str(path), expected="configurations in JSON or YAML")[0]
    found = listed_configs(document)
    if found is None:
        shown = repr(document)
        msg = f"{path}: expected configurations, got {shown[:60]}{'...' if len(shown) > 60 else ''}. {_EXAMPLE}"
        raise DataError(msg)
    return found


def listed_configs(document: Any) -> list[Any] | None:
    """Find the configurations of a document of ours, or of a list; None where there are none."""
    if isinstance(document, Mapping):
        for key in ("suggestions", "configurations"):
            if key in document:
                document = document[key]
                break
        else:
            best = document.get("best")
            document = [best if isinstance(best, Mapping) else document]
    if not isinstance(document, list):
        return None
    found = [each.get("config", each) if isinstance(each, Mapping) else each for each in document]
    return found if all(isinstance(each, Mapping) for each in found) else None


def _cells(row: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Read one row of a table: empty cells are absent; where `suggest` wrote it, so is what it says beside the hyperparameters."""
    from warmstart.history_store.space_yaml import plain_value

    if None in row:
        msg = f"{where}: expected as many cells as the head has, got {len(row[None])} more. Put texts with commas in quotes."
        raise DataError(msg)
    beside = BESIDE if {"rank", "from"} <= row.keys() else ()
    return {name.removeprefix(PREFIX): plain_value(text) for name, text in row.items() if text and name not in beside}


def _check_values(config: Mapping[str, Any], number: int, where: str) -> None:
    """Refuse what is no value of a hyperparameter; null is a value that is not given."""
    for name, value in config.items():
        if not isinstance(value, str | bool | int | float | np.generic | None):
            msg = f"expected a number, a text, true or false for each name, got {name!s}={value!r} in configuration {number} of {where}. Write one value."
            raise UsageError(msg, param="initial")


def _check_one_meaning(
    given: Mapping[str, Any], translation: "Translation", meanings: Mapping[str, str], number: int
) -> None:
    """Refuse two names of one thing with two values, of which only one could be taken."""
    pairs = [(match.there, match.here) for match in translation.matches if match.there is not None]
    kept = {meanings[there]: there for there, here in pairs if here is not None}
    for name in (there for there, here in pairs if here is None):
        other = kept.get(meanings[name], name)
        if given[name] != given[other]:
            msg = f"expected one value for {other} and {name}, which name one thing, got {given[other]!r} and {given[name]!r} in configuration {number}. Give one of the two."
            raise UsageError(msg, param="initial")


def _one_scale(config: dict[str, Any], number: int, where: str) -> dict[str, Any]:
    """Leave out natural values beside their logarithms, which must agree."""
    for name in [name for name in config if f"{_LOG}{name}" in config]:
        natural, logarithm = config.pop(name), config[f"{_LOG}{name}"]
        try:
            is_same = math.isclose(float(natural), 10.0 ** float(logarithm), rel_tol=1e-3)
        except (TypeError, ValueError, OverflowError):
            is_same = False
        if not is_same:
            msg = f"expected {name} to be 10^{_LOG}{name}, got {natural!r} and {logarithm!r} in configuration {number} of {where}. Give one of the two."
            raise UsageError(msg, param="initial")
    return config
