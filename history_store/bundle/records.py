"""The records of a bundle: canonical lines of JSON, and what they say.

A record is named by the SHA-256 of its line, so equal records are one record wherever they come from. A dataset is named
by what it is made of (content, parts, classes), not by what somebody calls it; a run by its dataset, its configuration and
all that came of it, with the history that measured it.
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
_MADE_OF = ("fingerprint", "n_train", "n_val", "n_test", "n_classes", "class_counts", "fraction", "split_seed")
_SPACE_ASIDE = frozenset({"name", "meta", "format_version", "python_module_version"})
_ANYWHERE = ("http://", "https://", "hf://", "s3://", "gs://", "sklearn:", "torchvision:")
_URL = re.compile(r"(?!file:)\b[a-z][a-z0-9+.-]*://[^\s]+", re.IGNORECASE)
_ROOT = r"""(?:file:/{1,3}|(?<![\w./~])/{1,3}|(?<=\w)//+|(?<![\w~])~[\w.-]*/|(?<!\w)[A-Za-z]:[\\/]|\\\\)"""
"""How a path of a machine begins."""
_PATH = re.compile(
    rf"""(?<=')(?<!\w'){_ROOT}[^'\n]+(?=')|(?<="){_ROOT}[^"\n]+(?=")"""
    rf"""|(?<!\w)[A-Za-z]:\\[^\n"'`,;:()<>|]*\\[^\s"'`,;:()<>|]+|{_ROOT}[^\s"'`,;:()<>|]+"""
)
"""A path: all that is in its quotes; one of Windows to its last folder, blanks in between; else up to a blank."""
_ORIGIN = 200
"""Characters in an origin, at most."""
MOST_NUMBERS = 65_536
"""Numbers in one vector, at most."""
FORMERLY = "formerly"
"""In what a description says besides: the name by which alone the dataset was known before its images came."""


@dataclass(frozen=True, slots=True)
class Described:
    """What somebody says of a dataset, under the id that all call it by."""

    id: str
    info: DatasetInfo


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What a dataset is like, computed from images that stayed where they are.

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
        """Return what the record goes by."""
        return record_id(self.line)


@dataclass(frozen=True, slots=True)
class SharedSpace:
    """The space that all runs of a bundle are over."""

    text: str


Record = Described | Features | Embedding | SharedRun | SharedSpace


def canonical(values: Mapping[str, Any]) -> str:
    """Write a record as its one line: keys sorted, no blanks, the shortest digits that give each number back."""
    return json.dumps(values, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def record_id(line: str) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a record's line."""
    return sha256(line.encode()).hexdigest()[:16]


def dataset_id(info: DatasetInfo) -> str:
    """Name a dataset by what it is made of; one of which runs alone are known by its name."""
    if not info.fingerprint:
        return _id_by_name(info.name)
    values = encode_info(info)
    return record_id(canonical({key: values[key] for key in _MADE_OF}))


def former_id(info: DatasetInfo) -> str | None:
    """Return the id that a dataset had while runs alone were known of it; None where its images came first."""
    name = info.extra.get(FORMERLY)
    return None if name is None or not info.fingerprint else _id_by_name(name)


def describe_known(known: DatasetInfo, found: DatasetInfo) -> DatasetInfo:
    """Describe a dataset of which runs alone were known by its images; what an import said of it besides stays."""
    extra = {**known.extra, **found.extra} | ({} if known.fingerprint else {FORMERLY: known.name})
    return replace(found, what=found.what or known.what, manifest=found.manifest or known.manifest, extra=extra)


def _id_by_name(name: str) -> str:
    return record_id(canonical({"name": without_paths(name)}))


def dataset_line(info: DatasetInfo) -> str:
    """Write the record of a dataset, without places of this machine."""
    return canonical({"kind": "dataset", "id": dataset_id(info), "info": encode_info(shareable(info))})


def run_line(run: Evaluation, dataset: str, by: str) -> str:
    """Write the record of a run that was measured in the history `by`."""
    values = encode_run(replace(run, origin=_in_short(run.origin)))
    config = {name: _plain(value) for name, value in native(run.config).items()}
    return canonical({"kind": "run", "dataset": dataset, "config": config, "by": by, **values})


def features_line(of: Features) -> str:
    """Write the record of what a dataset is like."""
    numbers = {"features": _rounded(of.features, 5), "effect": round(of.effect, 4), "pixels": _rounded(of.pixels, 4)}
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
    space = {key: value for key, value in json.loads(space_json).items() if key not in _SPACE_ASIDE}
    for text in _texts(space):
        if without_paths(text) != text:
            msg = f"space: expected choices that mean the same on every machine, got the path {text!r}. Name the choice without a path."
            raise DataError(msg)
    return canonical({"kind": "space", "space": space})


def _texts(value: Any) -> Iterator[str]:
    """Give all texts in what JSON holds, names too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in (*value, *value.values()):
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)


def shareable(info: DatasetInfo) -> DatasetInfo:
    """Leave out of a description where the dataset lies on this machine."""
    is_public = info.manifest is not None or info.source.startswith(_ANYWHERE)
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
    """Leave of every path of this machine its last part alone; addresses in the web stay."""
    found, start = [], 0
    for address in _URL.finditer(text):
        found += [_PATH.sub(_last_part, text[start : address.start()]), address.group()]
        start = address.end()
    return "".join((*found, _PATH.sub(_last_part, text[start:])))


def _last_part(found: re.Match[str]) -> str:
    inside = found.start() > 0 and found.string[found.start() - 1].isalnum()
    return ("/" if inside else "") + re.split(r"[/\\]", found.group().rstrip("/\\"))[-1]


def shared_origin(origin: str) -> str:
    """Write the origin of a run of one's own as bundles have it: see `without_mark`, and without paths, short, on one line."""
    return _in_short(without_mark(origin))


def without_mark(origin: str) -> str:
    """Leave out the token and the key that a server puts behind an origin, so that it knows a repeated request again."""
    return _MARK.sub("", origin)


def _in_short(origin: str) -> str:
    """Leave paths out and put all on one line; a long command is cut, and told from others by its digest."""
    text = "".join(char if char.isprintable() else " " for char in without_paths(origin))
    return text if len(text) <= _ORIGIN else f"{text[: _ORIGIN - 14]}… {sha256(text.encode()).hexdigest()[:12]}"


def with_contributor(origin: str, by: str) -> str:
    """Say in an origin which history contributed the run."""
    return f"{origin} (from {by})"


def split_origin(origin: str) -> tuple[str, str | None]:
    """Take an origin apart: who measured, and the history that contributed it; None = this one."""
    found = _CONTRIBUTED.fullmatch(origin)
    return (origin, None) if found is None else (found.group(1), found.group(2))


def to_line(record: Record) -> str:
    """Write a record as its line again."""
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


def parse(line: str, where: str) -> Record:
    """Read a record.

    Raises:
        DataError: it is not what a record is.
    """
    try:
        values = json.loads(line, parse_constant=_refuse)
        kind = values.pop("kind")
        if kind not in KINDS:
            msg = f"kind {kind!r}"
            raise ValueError(msg)  # noqa: TRY301  one message for all that is wrong
        found = _PARSERS[kind](values, line, where)
        if to_line(found) != line:
            msg = "numbers or fields written otherwise"
            raise ValueError(msg)  # noqa: TRY301
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        msg = f"{where}: expected a record as `warmstart history bundle` writes it, got {line[:80]!r} ({type(error).__name__}: {str(error)[:80]}). Ask for the bundle again."
        raise DataError(msg) from error
    return found


def _parse_dataset(values: dict[str, Any], _line: str, where: str) -> Described:
    info = decode_info(values["info"], where)
    check_info(info, where)
    if values["id"] != dataset_id(info):
        msg = f"{where}: expected the id of what {info.name!r} is made of, got {values['id']!r:.40}. Ask for the bundle again."
        raise DataError(msg)
    if shareable(info) != info:
        msg = f"{where}: expected a description without places of a machine, got some of {info.name!r}. Write the bundle with `warmstart history bundle`."
        raise DataError(msg)
    return Described(values["id"], info)


def _parse_features(values: dict[str, Any], _line: str, where: str) -> Features:
    effect = _vector([values["effect"]], where)
    found = _vector(values["features"], where), float(effect[0]), _vector(values["pixels"], where)
    return Features(_named(values["dataset"], _ID, where), int(values["size"]), *found)


def _parse_embedding(values: dict[str, Any], _line: str, where: str) -> Embedding:
    model = str(values["model"])
    if not model.isascii() or not model.isalnum() or len(model) > 64:
        msg = f"{where}: expected the hash of a model, got {model[:80]!r}. Ask for the bundle again."
        raise DataError(msg)
    vector = _vector(values["vector"], where).astype(np.float32)
    return Embedding(_named(values["dataset"], _ID, where), model, vector)


def _parse_run(values: dict[str, Any], line: str, where: str) -> SharedRun:
    dataset, by = _named(values.pop("dataset"), _ID, where), _named(values.pop("by"), _BY, where)
    config: Config = values.pop("config")
    if not isinstance(config, dict) or not all(
        isinstance(value, int | float | str | bool) for value in config.values()
    ):
        msg = f"{where}: expected a configuration of numbers and texts, got {config!r:.80}. Ask for the bundle again."
        raise DataError(msg)
    run = decode_run(values, dataset, config, where)
    if len(run.origin) > _ORIGIN or not run.origin.isprintable() or split_origin(run.origin)[1] is not None:
        msg = f"{where}: expected an origin of at most {_ORIGIN} printable characters, got {run.origin[:80]!r}. Ask for the bundle again."
        raise DataError(msg)
    return SharedRun(by, run, line)


def _parse_space(values: dict[str, Any], _line: str, _where: str) -> SharedSpace:
    return SharedSpace(json.dumps(dict(values["space"]), sort_keys=True))


_PARSERS: Mapping[str, Callable[[dict[str, Any], str, str], Record]] = {
    "dataset": _parse_dataset,
    "embedding": _parse_embedding,
    "features": _parse_features,
    "run": _parse_run,
    "space": _parse_space,
}


def _named(value: object, pattern: re.Pattern[str], where: str) -> str:
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        msg = f"{where}: expected hexadecimal digits, got {value!r:.40}. Ask for the bundle again."
        raise DataError(msg)
    return value


def _vector(values: Sequence[Any], where: str) -> NDArray[np.float64]:
    if not isinstance(values, list) or not 0 < len(values) <= MOST_NUMBERS:
        msg = f"{where}: expected 1 to {MOST_NUMBERS:,} numbers, got {type(values).__name__}. Ask for the bundle again."
        raise DataError(msg)
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        msg = f"{where}: expected numbers, got {values!r:.60}. Ask for the bundle again."
        raise DataError(msg)
    found = np.array(values, dtype=np.float64)
    if not (np.abs(found) <= np.finfo(np.float32).max).all():
        msg = f"{where}: expected finite numbers, got {values!r:.60}. Ask for the bundle again."
        raise DataError(msg)
    return found


def _plain(value: Value) -> Value:
    """Write equal numbers alike: a whole one without a point."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _rounded(values: NDArray[np.float64], digits: int) -> list[float]:
    found: list[float] = (np.round(values, digits) + 0.0).tolist()  # no -0.0: equal numbers are written alike
    return found


def _refuse(name: str) -> None:
    msg = f"{name} is no number of JSON"
    raise ValueError(msg)
