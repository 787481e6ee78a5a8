"""Initial configurations of a study: read from a file of `suggest` or a list, and converted to the study's space."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warmstart.bo.space.completion import Completion
from warmstart.history_store.csv_table import read_csv
from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.history_store.hyperparameter_names import meaning_of
from warmstart.history_store.quoting import PREFIX, from_csv, plain_value
from warmstart.history_store.records import Value
from warmstart.history_store.space_yaml import read_yaml
from warmstart.suggestions.answer import RESULT_COLUMNS
from warmstart.suggestions.translation import translate_configs

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.suggestions.records import InitialDesign
    from warmstart.suggestions.translation import Translation

    InitialInput = str | os.PathLike[str] | Iterable[Mapping[str, Value] | InitialDesign]

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
        notes: for people: values moved, filled or left out.
    """

    configs: tuple[dict[str, Value], ...]
    notes: tuple[str, ...]


def read_initial(source: "InitialInput") -> list[dict[str, Any]]:
    """Read initial configurations from a file or a list.

    Args:
        source: a file that ``suggest --format json``, ``yaml``, ``csv``, ``ray`` or ``configspace`` wrote, a list of
            configurations in JSON or YAML, or a CSV table of them; or configurations or suggestions themselves. Of a value
            and its logarithm (`learning_rate`, `log10_learning_rate`) one is enough.

    Returns: at least one configuration, as named there; of a value and its logarithm, the logarithm alone.

    Raises:
        MissingPathError: no such file.
        DataError: a file that holds no configurations.
        UsageError: a value that is not that of its logarithm, or no configurations.
    """
    if isinstance(source, str | os.PathLike):
        origin = os.fspath(source)
        configs = _read_file(Path(source))
    elif isinstance(source, Mapping) or not isinstance(source, Iterable):
        msg = f"expected a file of configurations, or a list of them, got {source!r}. {_EXAMPLE}"
        raise UsageError(msg, param="initial")
    else:
        origin, configs = "initial", [getattr(item, "config", item) for item in source]
    if not configs or not all(isinstance(item, Mapping) and item for item in configs):
        got = (
            "none" if not configs else repr(next(item for item in configs if not isinstance(item, Mapping) or not item))
        )
        msg = f"expected configurations, names of hyperparameters with their values, got {got[:80]} in {origin}. {_EXAMPLE}"
        raise UsageError(msg, param="initial")
    for number, config in enumerate(configs, start=1):
        _check_values(config, number, origin)
    return [_drop_natural_values(dict(config), number, origin) for number, config in enumerate(configs, start=1)]


def convert_initial(
    space: "ConfigurationSpace", configs: Sequence[Mapping[str, Any]], *, rename: Mapping[str, str], seed: int
) -> InitialConfigs:
    """Convert configurations to a space: match names, move values to the nearest allowed, vary missing ones.

    Args:
        space: of the study.
        configs: at least one.
        rename: names of the space by theirs, where these are among them.
        seed: of the varied values.

    Raises:
        UsageError: a configuration that the space cannot express.
    """
    completion = Completion(space, n=len(configs), rng=np.random.default_rng(seed))
    converted: list[dict[str, Value]] = []
    # Dicts serve as ordered sets of names.
    lines: dict[str, dict[str, None]] = {text: {} for text in (_MOVED, _VARIED, _WITHOUT)}
    # One by one, as each may have its own names.
    for number, source in enumerate(configs, start=1):
        renames = {old: new for old, new in rename.items() if old in source or f"{_LOG}{old}" in source}
        translation = translate_configs([source], None, space, rename=renames)
        _check_synonyms(source, translation, {name: meaning_of(name) for name in source}, number)
        values = translation.values_of(0)
        is_fit = bool(translation.columns) and not translation.lost[0] and not translation.unfit
        config = completion.complete(values) if is_fit else None
        lines[_WITHOUT] |= {str(match.there): None for match in translation.matches if match.here is None}
        if config is not None:
            converted.append(config)
            lines[_MOVED] |= {name: None for name, rows in translation.moved.items() if rows[0] and name in config}
            free = (name for name in config if not hasattr(space[name], "value"))
            lines[_VARIED] |= {name: None for name in free if name not in values}
        elif not (is_fit and _is_allowed(completion, values)):
            raise _misfit_error(space, translation, number, source)
    notes = [f"{text}: {', '.join(names)}." for text, names in lines.items() if names]
    if len(converted) < len(configs):
        notes.append(f"{len(configs) - len(converted)} of {len(configs)} initial configurations repeat another one.")
    return InitialConfigs(tuple(converted), tuple(notes))


def _misfit_error(
    space: "ConfigurationSpace", translation: "Translation", number: int, config: Mapping[str, Any]
) -> UsageError:
    """Return the error for a configuration that a space cannot express."""
    unfit = translation.unfit
    lost = [f"{match.there}: {match.reason}" for match in translation.matches if match.lost or match in unfit]
    if lost:
        why = "; ".join(lost)
    elif translation.columns:
        why = "a combination that the space forbids"
    else:
        why = f"none of the space's hyperparameters {', '.join(space)}; `rename` says which is which"
    msg = f"expected configurations of the space, got number {number}, {dict(config)} ({why}). Correct it, or leave it out."
    return UsageError(msg, param="initial")


def _is_allowed(completion: "Completion", values: Mapping[str, Value]) -> bool:
    """Tell whether a configuration that could not be completed is valid, and so a repeat of an earlier one."""
    points = completion.encoding.sample(1, design="sobol", rng=np.random.default_rng(0))
    fixed = completion.fixed(points, values)
    return bool(completion.encoding.valid(fixed)[0])


def _read_file(path: Path) -> list[Any]:
    if not path.is_file():
        msg = f"expected a file of configurations, got {str(path)!r}, which is not there. {_EXAMPLE}"
        raise MissingPathError(msg, param="initial")
    if path.suffix.lower() in (".csv", ".tsv"):
        columns = read_csv(path, "a CSV file of configurations").numeric_columns()
        return [_cells(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]

    text = path.read_text(encoding="utf-8-sig", errors="replace")
    document = read_yaml(text, str(path), expected="configurations in JSON or YAML")[0]
    configs = find_configs(document)
    if configs is None:
        excerpt = repr(document)
        msg = f"{path}: expected configurations, got {excerpt[:60]}{'...' if len(excerpt) > 60 else ''}. {_EXAMPLE}"
        raise DataError(msg)
    return configs


def find_configs(document: Any) -> list[Any] | None:
    """Return the configurations in a JSON document of warmstart, or in a list; None if there are none."""
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
    configs = [item.get("config", item) if isinstance(item, Mapping) else item for item in document]
    return configs if all(isinstance(item, Mapping) for item in configs) else None


def _cells(row: Mapping[str, str]) -> dict[str, Any]:
    """Parse a CSV row as a configuration, without empty cells and without the other columns of `suggest`."""
    result_columns = RESULT_COLUMNS if {"rank", "from"} <= row.keys() else ()
    return {
        from_csv(name).removeprefix(PREFIX): plain_value(from_csv(text.strip()))
        for name, text in row.items()
        if text.strip() and name not in result_columns
    }


def _check_values(config: Mapping[str, Any], number: int, origin: str) -> None:
    """Refuse values that are not a number, text, bool or null; null means no value."""
    for name, value in config.items():
        if not isinstance(value, str | bool | int | float | np.generic | None):
            msg = f"expected a number, a text, true or false for each name, got {name!s}={value!r} in configuration {number} of {origin}. Write one value."
            raise UsageError(msg, param="initial")


def _check_synonyms(
    config: Mapping[str, Any], translation: "Translation", meanings: Mapping[str, str], number: int
) -> None:
    """Refuse two names of one hyperparameter with different values."""
    pairs = [(match.there, match.here) for match in translation.matches if match.there is not None]
    name_of = {meanings[there]: there for there, here in pairs if here is not None}
    for name in (there for there, here in pairs if here is None):
        synonym = name_of.get(meanings[name], name)
        if config[name] != config[synonym]:
            msg = f"expected one value for {synonym} and {name}, which name one thing, got {config[synonym]!r} and {config[name]!r} in configuration {number}. Give one of the two."
            raise UsageError(msg, param="initial")


def _drop_natural_values(config: dict[str, Any], number: int, origin: str) -> dict[str, Any]:
    """Drop natural values whose logarithm is there too; the two must agree."""
    for name in [name for name in config if f"{_LOG}{name}" in config]:
        natural, logarithm = config.pop(name), config[f"{_LOG}{name}"]
        try:
            is_same = math.isclose(float(natural), 10.0 ** float(logarithm), rel_tol=1e-3)
        except (TypeError, ValueError, OverflowError):
            is_same = False
        if not is_same:
            msg = f"expected {name} to be 10^{_LOG}{name}, got {natural!r} and {logarithm!r} in configuration {number} of {origin}. Give one of the two."
            raise UsageError(msg, param="initial")
    return config
