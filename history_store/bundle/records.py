"""The records of a bundle: canonical lines of JSON and their content.

A record is named by the SHA-256 of its line, so equal records are one record wherever they come from. A dataset is named
by its content, parts and classes, not by its name in a history; a run by its dataset, configuration and results, with
the history that measured it.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.history_store.errors import DataError
from warmstart.history_store.file.codec import decode_info, decode_run, encode_info, encode_run, native
from warmstart.history_store.file.content import check_info
from warmstart.history_store.records import Config, DatasetInfo, Evaluation, Value

KINDS = ("dataset", "embedding", "features", "run", "space")
_ID = re.compile(r"[0-9a-f]{16}")
_BY = re.compile(r"[0-9a-f]{12}")
_CONTRIBUTED = re.compile(r"(.*) \(from ([0-9a-f]{12})\)", re.DOTALL)
_MARK = re.compile(r"(?: \[[^ :]*:[^ ]*\](?: \[[^ :]*\])?)+\Z")
_IDENTITY_FIELDS = ("fingerprint", "n_train", "n_val", "n_test", "n_classes", "class_counts", "fraction", "split_seed")
_IGNORED_SPACE_KEYS = frozenset({"name", "meta", "format_version", "python_module_version"})
_PUBLIC_PREFIXES = ("http://", "https://", "hf://", "s3://", "gs://", "sklearn:", "torchvision:")
_URL = re.compile(r"(?!file:)\b[a-z][a-z0-9+.-]{0,30}://[^\s]+", re.IGNORECASE)
"""A web address; the scheme is short, so that a long text takes no more than a longer while."""
_ROOT = r"""(?:file:/{1,3}|(?<![\w./~])/{1,3}|(?<=\w)//+|(?<![\w~])~[\w.-]*/|(?<!\w)[A-Za-z]:[\\/]|\\\\)"""
"""Beginning of a path of a machine."""
_PATH = re.compile(
    rf"""(?<=')(?<!\w'){_ROOT}[^'\n]+(?=')|(?<="){_ROOT}[^"\n]+(?=")"""
    rf"""|(?<!\w)[A-Za-z]:\\[^\n"'`,;:()<>|]*\\[^\s"'`,;:()<>|]+|{_ROOT}[^\s"'`,;:()<>|]+"""
)
"""A path: everything in quotes; on Windows up to its last folder, with blanks; else up to a blank."""
_ORIGIN = 200
"""Characters in an origin, at most."""
MOST_NUMBERS = 65_536
"""Numbers in one vector, at most."""
LARGEST = 1e12
"""Upper bound of valid features, far above any real one."""
FORMERLY = "formerly"
"""Key in `extra` of a description: the dataset's name before its images came."""


@dataclass(frozen=True, slots=True)
class Described:
    """A description of a dataset, under its common id."""

    id: str
    info: DatasetInfo


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of a dataset, computed from images that are not shared.

    Attributes:
        dataset: id.
        size: of the images, in pixels.
        features: handcrafted features.
        effect: class signal for each unit of weight.
        pixels: pixel statistics.
    """

    dataset: str
    size: int
    features: NDArray[np.float64]
    effect: float
    pixels: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """A dataset's meta-feature by one model."""

    dataset: str
    model: str
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SharedRun:
    """A run, and the history in which it was measured.

    Attributes:
        by: the first 12 digits of the history's id.
        run: with the dataset's id in place of its name.
        line: the record.
    """

    by: str
    run: Evaluation
    line: str

    @property
    def id(self) -> str:
        """Return the id of the record."""
        return record_id(self.line)


@dataclass(frozen=True, slots=True)
class SharedSpace:
    """The space of all runs of a bundle."""

    text: str


def is_sound(record: "Record") -> bool:
    """Return whether the numbers of a record are such as answers can be computed with."""
    match record:
        case Features():
            numbers = np.array([*record.features, *record.pixels, record.effect])
            return bool((np.abs(numbers) < LARGEST).all())
        case Embedding():
            return bool((np.abs(record.vector) < LARGEST).all())
    return True


Record = Described | Features | Embedding | SharedRun | SharedSpace


def canonical(values: Mapping[str, Any]) -> str:
    """Write a record as one line: keys sorted, no blanks, the shortest digits that give each number back."""
    return json.dumps(values, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def record_id(line: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a record's line."""
    return sha256(line.encode()).hexdigest()[:16]


def dataset_id(info: DatasetInfo) -> str:
    """Return the id of a dataset: of its content, or of its name if only runs are known."""
    if not info.fingerprint:
        return _id_by_name(info.name)
    values = encode_info(info)
    return record_id(canonical({key: values[key] for key in _IDENTITY_FIELDS}))


def former_id(info: DatasetInfo) -> str | None:
    """Return the id of a dataset before its images came; None if they came first."""
    name = info.extra.get(FORMERLY)
    return None if name is None or not info.fingerprint else _id_by_name(name)


def describe_dataset(old: DatasetInfo, new: DatasetInfo) -> DatasetInfo:
    """Return the description of a dataset by its images, with the notes of the imports before."""
    extra = {**old.extra, **new.extra} | ({} if old.fingerprint else {FORMERLY: old.name})
    return replace(new, what=new.what or old.what, manifest=new.manifest or old.manifest, extra=extra)


def _id_by_name(name: str) -> str:
    return record_id(canonical({"name": without_paths(name)}))


def dataset_line(info: DatasetInfo) -> str:
    """Write the record of a dataset, without paths of this machine."""
    return canonical({"kind": "dataset", "id": dataset_id(info), "info": encode_info(shareable(info))})


def run_line(run: Evaluation, dataset: str, by: str) -> str:
    """Write the record of a run that was measured in the history `by`."""
    values = encode_run(replace(run, origin=_short_origin(run.origin)))
    config = {name: _shortest_number(value) for name, value in native(run.config).items()}
    return canonical({"kind": "run", "dataset": dataset, "config": config, "by": by, **values})


def features_line(of: Features) -> str:
    """Write the record of a dataset's features."""
    numbers = {
        "features": _round_numbers(of.features, 5),
        "effect": round(of.effect, 4),
        "pixels": _round_numbers(of.pixels, 4),
    }
    return canonical({"kind": "features", "dataset": of.dataset, "size": of.size, **numbers})


def embedding_line(of: Embedding) -> str:
    """Write the record of a dataset's meta-feature; nine digits give every float32 back."""
    vector = [float(f"{value:.9g}") for value in of.vector.tolist()]
    return canonical({"kind": "embedding", "dataset": of.dataset, "model": of.model, "vector": vector})


def space_line(space_json: str) -> str:
    """Write the record of the space.

    Raises:
        DataError: it holds a path of this machine.
    """
    space = {key: value for key, value in json.loads(space_json).items() if key not in _IGNORED_SPACE_KEYS}
    for text in _list_texts(space):
        if without_paths(text) != text:
            msg = f"space: expected choices that mean the same on every machine, got the path {text!r}. Name the choice without a path."
            raise DataError(msg)
    return canonical({"kind": "space", "space": space})


def _list_texts(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in (*value, *value.values()):
            yield from _list_texts(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _list_texts(item)


def shareable(info: DatasetInfo) -> DatasetInfo:
    """Return a description without paths of this machine."""
    is_public = info.manifest is not None or info.source.startswith(_PUBLIC_PREFIXES)
    extra = {without_paths(key): without_paths(value) for key, value in info.extra.items()}
    return replace(
        info,
        name=without_paths(info.name),
        group=without_paths(info.group),
        source=without_paths(info.source) if is_public else "",
        licence=without_paths(info.licence),
        what=without_paths(info.what),
        manifest=None if info.manifest is None else without_paths(info.manifest),
        extra=extra,
    )


def without_paths(text: str) -> str:
    """Replace each path of this machine by its last part; web addresses stay."""
    parts, start = [], 0
    for address in _URL.finditer(text):
        parts += [_PATH.sub(_last_path_part, text[start : address.start()]), address.group()]
        start = address.end()
    return "".join((*parts, _PATH.sub(_last_path_part, text[start:])))


def _last_path_part(match: re.Match[str]) -> str:
    inside = match.start() > 0 and match.string[match.start() - 1].isalnum()
    return ("/" if inside else "") + re.split(r"[/\\]", match.group().rstrip("/\\"))[-1]


def shared_origin(origin: str) -> str:
    """Return the origin of an own run for a bundle: without mark and paths, short, on one line."""
    return _short_origin(without_mark(origin))


def without_mark(origin: str) -> str:
    """Remove the token and the key that a server appends to an origin to recognise repeated requests."""
    return _MARK.sub("", origin)


def _short_origin(origin: str) -> str:
    """Remove paths, put all on one line, and cut a long command, with a digest of the whole."""
    text = "".join(char if char.isprintable() else " " for char in without_paths(origin))
    return text if len(text) <= _ORIGIN else f"{text[: _ORIGIN - 14]}… {sha256(text.encode()).hexdigest()[:12]}"


def with_contributor(origin: str, by: str) -> str:
    """Add to an origin the history that contributed the run."""
    return f"{origin} (from {by})"


def split_origin(origin: str) -> tuple[str, str | None]:
    """Split an origin: who measured, and the history that contributed it; None = this one."""
    match = _CONTRIBUTED.fullmatch(origin)
    return (origin, None) if match is None else (match.group(1), match.group(2))


def to_line(record: Record) -> str:
    """Write a record as its line."""
    match record:
        case Described():
            return dataset_line(record.info)
        case Features():
            return features_line(record)
        case Embedding():
            return embedding_line(record)
        case SharedRun():
            return run_line(record.run, record.run.dataset, record.by)
        case SharedSpace():
            return space_line(record.text)


def parse(line: str, location: str) -> Record:
    """Parse a record.

    Raises:
        DataError: it is not what a record is.
    """
    try:
        values = json.loads(line, parse_constant=_refuse_constant)
        kind = values.pop("kind")
        if kind not in KINDS:
            msg = f"kind {kind!r}"
            raise ValueError(msg)  # noqa: TRY301  one message for all that is wrong
        record = _PARSERS[kind](values, line, location)
        if to_line(record) != line:
            msg = "numbers or fields written otherwise"
            raise ValueError(msg)  # noqa: TRY301
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        msg = f"{location}: expected a record as `warmstart history bundle` writes it, got {line[:80]!r} ({type(error).__name__}: {str(error)[:80]}). Ask for the bundle again."
        raise DataError(msg) from error
    return record


def _parse_dataset(values: dict[str, Any], _line: str, location: str) -> Described:
    info = decode_info(values["info"], location)
    check_info(info, location)
    if values["id"] != dataset_id(info):
        msg = f"{location}: expected the id of what {info.name!r} is made of, got {values['id']!r:.40}. Ask for the bundle again."
        raise DataError(msg)
    if shareable(info) != info:
        msg = f"{location}: expected a description without places of a machine, got some of {info.name!r}. Write the bundle with `warmstart history bundle`."
        raise DataError(msg)
    return Described(values["id"], info)


def _parse_features(values: dict[str, Any], _line: str, location: str) -> Features:
    effect = _vector([values["effect"]], location)
    arrays = _vector(values["features"], location), float(effect[0]), _vector(values["pixels"], location)
    return Features(_check_hexadecimal(values["dataset"], _ID, location), int(values["size"]), *arrays)


def _parse_embedding(values: dict[str, Any], _line: str, location: str) -> Embedding:
    model = str(values["model"])
    if not model.isascii() or not model.isalnum() or len(model) > 64:
        msg = f"{location}: expected the hash of a model, got {model[:80]!r}. Ask for the bundle again."
        raise DataError(msg)
    vector = _vector(values["vector"], location).astype(np.float32)
    return Embedding(_check_hexadecimal(values["dataset"], _ID, location), model, vector)


def _parse_run(values: dict[str, Any], line: str, location: str) -> SharedRun:
    dataset, by = (
        _check_hexadecimal(values.pop("dataset"), _ID, location),
        _check_hexadecimal(values.pop("by"), _BY, location),
    )
    config: Config = values.pop("config")
    if not isinstance(config, dict) or not all(
        isinstance(value, int | float | str | bool) for value in config.values()
    ):
        msg = (
            f"{location}: expected a configuration of numbers and texts, got {config!r:.80}. Ask for the bundle again."
        )
        raise DataError(msg)
    run = decode_run(values, dataset, config, location)
    if len(run.origin) > _ORIGIN or not run.origin.isprintable() or split_origin(run.origin)[1] is not None:
        msg = f"{location}: expected an origin of at most {_ORIGIN} printable characters, got {run.origin[:80]!r}. Ask for the bundle again."
        raise DataError(msg)
    return SharedRun(by, run, line)


def _parse_space(values: dict[str, Any], _line: str, _location: str) -> SharedSpace:
    return SharedSpace(json.dumps(dict(values["space"]), sort_keys=True))


_PARSERS: Mapping[str, Callable[[dict[str, Any], str, str], Record]] = {
    "dataset": _parse_dataset,
    "embedding": _parse_embedding,
    "features": _parse_features,
    "run": _parse_run,
    "space": _parse_space,
}


def _check_hexadecimal(value: object, pattern: re.Pattern[str], location: str) -> str:
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        msg = f"{location}: expected hexadecimal digits, got {value!r:.40}. Ask for the bundle again."
        raise DataError(msg)
    return value


def _vector(values: Sequence[Any], location: str) -> NDArray[np.float64]:
    if not isinstance(values, list) or not 0 < len(values) <= MOST_NUMBERS:
        msg = f"{location}: expected 1 to {MOST_NUMBERS:,} numbers, got {type(values).__name__}. Ask for the bundle again."
        raise DataError(msg)
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        msg = f"{location}: expected numbers, got {values!r:.60}. Ask for the bundle again."
        raise DataError(msg)
    vector = np.array(values, dtype=np.float64)
    if not (np.abs(vector) <= np.finfo(np.float32).max).all():
        msg = f"{location}: expected finite numbers, got {values!r:.60}. Ask for the bundle again."
        raise DataError(msg)
    return vector


def _shortest_number(value: Value) -> Value:
    """Return a whole float as int, so that equal numbers are written alike."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _round_numbers(values: NDArray[np.float64], digits: int) -> list[float]:
    # + 0.0 turns -0.0 into 0.0: equal numbers must be written alike.
    rounded: list[float] = (np.round(values, digits) + 0.0).tolist()
    return rounded


def _refuse_constant(name: str) -> None:
    msg = f"{name} is no number of JSON"
    raise ValueError(msg)
