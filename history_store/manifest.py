"""Manifests: one TOML file a source, with its description and how to obtain it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from warmstart.history_store.errors import ManifestError, MissingPathError
from warmstart.history_store.wording import in_words

ObtainKind = Literal["folder", "file", "torchvision", "download"]
SplitKind = Literal["stratified", "own"]

_NAME = re.compile(r"[^\W_][\w.-]*")
_FINGERPRINT = re.compile(r"content:[0-9a-f]{16,64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LIKE = {
    _NAME: "a name of letters, digits, '.', '_' and '-', a letter or digit first",
    _FINGERPRINT: "a text like content: and 16 to 64 hex digits",
    _SHA256: "a text like 64 hex digits",
}
# What each way of obtaining needs, and what it may say besides.
_OBTAIN: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "folder": (frozenset({"path"}), frozenset({"url", "note"})),
    "file": (frozenset({"path"}), frozenset({"url", "note", "sha256"})),
    "torchvision": (frozenset({"dataset"}), frozenset({"note"})),
    "download": (frozenset({"path", "url", "sha256", "max_bytes"}), frozenset({"unpack", "note"})),
}


@dataclass(frozen=True, slots=True)
class Obtain:
    """How the images of a source come to a machine.

    Attributes:
        kind: ``folder`` or ``file``: the person has them, at `path` below a root they name; ``torchvision``: the
            class `dataset` of torchvision.datasets; ``download``: `url` is fetched to `path` when the person asks.
        path: below the root; empty for torchvision.
        dataset: class of torchvision.datasets; empty otherwise.
        url: where to fetch it; for a folder or a file only told to the person.
        sha256: of the file, 64 hex digits, or empty.
        max_bytes: a download that grows beyond is given up.
        unpack: the download is an archive; `path` is the folder that it is unpacked to.
        note: further information for people.
    """

    kind: ObtainKind
    path: str = ""
    dataset: str = ""
    url: str = ""
    sha256: str = ""
    max_bytes: int = 0
    unpack: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Splits:
    """Training, validation and test part of a source.

    Attributes:
        kind: ``own``: the source's parts, a missing validation part taken from training; ``stratified``: drawn.
        fractions: shares of training, validation and test images.
        seed: of the drawing.
    """

    kind: SplitKind = "stratified"
    fractions: tuple[float, float, float] = (0.6, 0.2, 0.2)
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """Description of a source and of how to obtain it.

    Attributes:
        name: of the dataset in a history.
        group: sibling group; sources of one group share images, drawers or a source.
        what: content of the images, in one line.
        source: of the images.
        licence: as the source states it.
        obtain: way to a machine.
        splits: training, validation and test part.
        fingerprint: ``content:...``, or empty where it is not known.
        n_images: number of images, or None where it is not known.
        n_classes: number of classes, or None.
        classes: their names in the order of the labels; may be empty.
        published: counts in publications, by name; they may differ from what is obtained.
    """

    name: str
    group: str
    what: str
    source: str
    licence: str
    obtain: Obtain
    splits: Splits = Splits()
    fingerprint: str = ""
    n_images: int | None = None
    n_classes: int | None = None
    classes: tuple[str, ...] = ()
    published: Mapping[str, int] | None = None


def read_manifest(path: str | Path) -> Manifest:
    """Read one manifest.

    Raises:
        MissingPathError: when there is no such file.
        ManifestError: when it is no TOML or does not fit the schema; the message names the file and every key that is
            wrong.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError) as error:
        msg = f"{path}: expected a manifest, got {'a folder' if path.is_dir() else 'no such file'}. Check the path."
        raise MissingPathError(msg) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path}: expected TOML, got {in_words(error)}. Correct the file."
        raise ManifestError(msg) from error
    return _Table(content, str(path)).manifest()


def load_manifests(paths: str | Path | Iterable[str | Path]) -> tuple[Manifest, ...]:
    """Read manifests from files and folders (their ``*.toml``, by name).

    Args:
        paths: one or several files or folders.

    Returns: the manifests in the order given, names distinct.

    Raises:
        MissingPathError: when a path does not exist.
        ManifestError: when a file does not fit the schema, a folder holds none, or two have one name.
    """
    files: list[Path] = []
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        toml_files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
        if not toml_files:
            msg = f"{path}: expected manifests (*.toml), got a folder without any. Name another folder."
            raise ManifestError(msg)
        files += toml_files
    manifests: dict[str, Manifest] = {}
    for file in files:
        manifest = read_manifest(file)
        if manifest.name in manifests:
            msg = f"{file}: expected a name of its own, got {manifest.name!r} again. Leave one of the two out."
            raise ManifestError(msg)
        manifests[manifest.name] = manifest
    return tuple(manifests.values())


class _Table:
    """A TOML table whose keys are taken one by one and checked; faults are collected, to be reported together."""

    def __init__(self, content: Mapping[str, Any], location: str, gaps: list[str] | None = None) -> None:
        self.content = dict(content)
        self.location = location
        self.gaps: list[str] = [] if gaps is None else gaps

    def manifest(self) -> Manifest:
        """Read the manifest.

        Raises:
            ManifestError: with everything that is wrong.
        """
        name, group = self.text("name", pattern=_NAME), self.text("group", pattern=_NAME)
        about = {key: self.text(key) for key in ("what", "source", "licence")}
        obtain, splits, published = self._obtain(), self._splits(), self.table("published")
        manifest = Manifest(
            name=name,
            group=group,
            **about,
            obtain=obtain,
            splits=splits,
            fingerprint=self.text("fingerprint", default="", pattern=_FINGERPRINT),
            n_images=self.count("n_images"),
            n_classes=self.count("n_classes"),
            classes=self._classes(),
            published={key: count for key in ("n_images", "n_classes") if (count := published.count(key)) is not None},
        )
        published.finish()
        self.finish()
        if manifest.classes and manifest.n_classes not in (None, len(manifest.classes)):
            self.refuse("classes", f"{manifest.n_classes} names as n_classes says", f"{len(manifest.classes)}")
        if self.gaps:
            msg = f"{'; '.join(self.gaps)}. Correct the manifest (see research/collecting.md)."
            raise ManifestError(msg)
        return manifest

    def _obtain(self) -> Obtain:
        table = self.table("obtain")
        kind = table.choice("kind", get_args(ObtainKind))
        # The other keys depend on the kind.
        if kind is None:
            return Obtain("folder")
        needed, allowed = _OBTAIN[kind]
        for key in table.content:
            if key not in needed | allowed:
                table.refuse(key, f"one of {', '.join(sorted(needed | allowed))} for kind {kind!r}", "this key")
        empty = {key for key in needed if key not in table.content}
        texts = {key: table.text(key, default="") for key in ("path", "dataset", "url", "note")}
        sha256 = table.text("sha256", default="", pattern=_SHA256)
        max_bytes, unpack = table.count("max_bytes") or 0, table.content.pop("unpack", False)
        empty |= {key for key in needed if texts.get(key) == ""}
        for key in sorted(empty):
            table.refuse(key, f"a value for kind {kind!r}", "none")
        if not isinstance(unpack, bool):
            table.refuse("unpack", "true or false", repr(unpack))
        path = Path(texts["path"])
        if path.is_absolute() or ".." in path.parts:
            table.refuse("path", "a path below the root", repr(texts["path"]))
        return Obtain(kind=kind, sha256=sha256, max_bytes=max_bytes, unpack=bool(unpack), **texts)

    def _splits(self) -> Splits:
        if "splits" not in self.content:
            return Splits()
        table = self.table("splits")
        kind = table.choice("kind", get_args(SplitKind))
        fractions = table.content.pop("fractions", list(Splits().fractions))
        numbers = isinstance(fractions, list) and all(isinstance(x, int | float) and x >= 0 for x in fractions)
        if not numbers or len(fractions) != 3 or abs(sum(fractions) - 1) > 1e-9:
            table.refuse("fractions", "three numbers of 0 or more that sum to 1", repr(fractions))
            fractions = Splits().fractions
        seed = table.content.pop("seed", 0)
        if type(seed) is not int or seed < 0:
            table.refuse("seed", "an integer of 0 or more", repr(seed))
            seed = 0
        table.finish()
        train, val, test = map(float, fractions)
        return Splits(kind or "stratified", (train, val, test), seed)

    def _classes(self) -> tuple[str, ...]:
        classes = self.content.pop("classes", [])
        if not isinstance(classes, list) or not all(isinstance(name, str) and name for name in classes):
            self.refuse("classes", "a list of names", repr(classes)[:80])
            return ()
        if len(set(classes)) < len(classes):
            self.refuse("classes", "names that differ", "one of them twice")
        return tuple(classes)

    def table(self, key: str) -> _Table:
        content = self.content.pop(key, {})
        if not isinstance(content, dict):
            self.refuse(key, "a table", repr(content))
            content = {}
        return _Table(content, f"{self.location}:{key}", self.gaps)

    def text(self, key: str, *, default: str | None = None, pattern: re.Pattern[str] | None = None) -> str:
        value = self.content.pop(key, default)
        if value == default and default is not None:
            return default
        if not isinstance(value, str) or not value.strip():
            self.refuse(key, "a text", "nothing" if value is None else repr(value))
            return ""
        if pattern is not None and not pattern.fullmatch(value):
            self.refuse(key, _LIKE[pattern], repr(value))
        return value

    def count(self, key: str) -> int | None:
        value = self.content.pop(key, None)
        if value is not None and (type(value) is not int or value < 1):
            self.refuse(key, "a number of at least 1", repr(value))
            return None
        return value

    def choice(self, key: str, choices: tuple[Any, ...]) -> Any:
        """Take a key's value after checking that it is among some; None if it is another."""
        value = self.content.pop(key, None)
        if value not in choices:
            self.refuse(key, f"one of {', '.join(choices)}", "nothing" if value is None else repr(value))
            return None
        return value

    def finish(self) -> None:
        for key in self.content:
            self.refuse(key, "a key of the schema", "an unknown one")

    def refuse(self, key: str, expected: str, got: str) -> None:
        """Record a fault of a key."""
        self.gaps.append(f"{self.location}:{key}: expected {expected}, got {got}")
