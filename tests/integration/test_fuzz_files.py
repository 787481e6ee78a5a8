"""Files that say anything, with checksums that are right: each is read, or refused with an error of ours."""

import json
import struct
import tempfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import histories
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd_files import altered

import warmstart
from warmstart.history_store.errors import WarmstartError
from warmstart.history_store.file.journal import line
from warmstart.history_store.file.layout import write_text
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation
from warmstart.history_store.verify import verify
from warmstart.locations import history_path, model_path
from warmstart.metafeat.weights import read_model

CORPUS = Path(__file__).parent / "corpus"
NUMBERS = (0, 1, -1, 2, 99, 2**31 - 1, -(2**31), 2**62, 0.5, float("nan"), float("inf"), -float("inf"), 1e300)
PLACE, LEAF, VALUE = st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6)
LONG = settings(max_examples=4000, deadline=None, suppress_health_check=list(HealthCheck))
IMAGES = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)


def alter_history(path: Path, place: int, leaf: int, number: int) -> None:
    """Alter one element of an HDF5 file and give it the checksum that it then needs."""
    with h5py.File(path, "r+") as file:
        found: list[str] = []
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        name = found[place % len(found)]
        element, parent, key = file[name], file[name].parent, name.rpartition("/")[2]
        if element.dtype.kind == "S":
            value = altered(json.loads(bytes(element[()])), leaf, number)
            text = json.dumps(value)
            del parent[key]
            write_text(parent, key, text or " ")
            return
        values = element[()]
        kind = number % 5
        if kind == 0:
            values = values[: len(values) // 2]
        elif kind == 1:
            with np.errstate(invalid="ignore"):  # NaN as an integer
                values = values.astype("<f4" if values.dtype.kind != "f" else "<i4")
        elif kind == 2:
            values = values.reshape(-1, 1)
        else:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                odd = np.array(NUMBERS[number % len(NUMBERS)]).astype(values.dtype)
            if values.size:
                values.reshape(-1)[leaf % values.size] = odd
        attributes = dict(element.attrs)
        del parent[key]
        element = parent.create_dataset(key, data=values)
        for attribute, text in attributes.items():
            element.attrs[attribute] = text
        element.attrs["crc32"] = np.uint32(zlib.crc32(np.ascontiguousarray(values).tobytes()))


def use_history(path: Path) -> None:
    """Do all that is done with a history; only errors of ours may come."""
    verify(path)
    try:
        with History.open(path) as history:
            for info in history.datasets:
                if history.has_images(info.name):
                    history.images(info.name).sample(np.random.default_rng(0), 3)
            history.evaluations()
            assert history.errors.shape == history.failed.shape
            for model in history.model_hashes:
                history.embeddings(model)
            for key in list(history._content.results):
                history.get_result(key)
        with History.open(path, write=True) as history:
            names, configs = history.names, history.configs
            if names and configs:
                history.append(Evaluation(names[0], configs[0], 0.5, seed=123456))
            history.compact()
        assert verify(path).ok is not None
    except WarmstartError as error:
        assert str(error).rstrip().endswith(".")  # noqa: PT017


def attack_history(place: int, leaf: int, number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "h.h5"
        path.write_bytes(whole_history())
        alter_history(path, place, leaf, number)
        use_history(path)


def attack_shipped(place: int, leaf: int, number: int) -> None:
    """Ask an altered copy of the shipped history, with its calibration and embeddings."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "h.h5"
        path.write_bytes(history_path(None).read_bytes())
        alter_history(path, place, leaf, number)
        try:
            found = warmstart.answer(images=IMAGES, labels=np.arange(60) % 3, history=path, explain=True)
            json.dumps(found.to_dict(), allow_nan=False)
        except WarmstartError as error:
            assert str(error).rstrip().endswith(".")  # noqa: PT017


def attack_journal(place: int, leaf: int, number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "h.h5"
        path.write_bytes(whole_history())
        with History.open(path, write=True) as history:
            history.compact()
            history.append(Evaluation("digits", histories.configs(1)[0], 0.5, seed=7, curve=((1, 0.5),)))
            history.append(Evaluation("digits", histories.configs(16)[15], 0.5))
            history.add_dataset(histories.info("more"))
            history.set_result("k", {"v": [1, None]})
        log = path.with_name("h.h5.journal")
        lines = log.read_bytes().splitlines()
        at = place % len(lines)
        value = altered(json.loads(lines[at][9:]), leaf, number)
        lines[at] = line(json.dumps(value))[:-1]
        log.write_bytes(b"\n".join(lines) + b"\n")
        use_history(path)


def attack_model(place: int, leaf: int, number: int) -> None:
    data = model_path(None).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + length])
    if place % 2:
        head = altered(head, leaf, number)
    else:
        about = {key: json.loads(value) for key, value in head["__metadata__"].items()}
        about = altered(about, leaf, number)
        head["__metadata__"] = {key: json.dumps(value) for key, value in about.items()} if isinstance(about, dict) else about  # fmt: skip
    text = json.dumps(head).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
        for use in (read_model, lambda path: warmstart.suggest(images=IMAGES, labels=np.arange(60) % 3, model=path)):
            try:
                use(path)
            except WarmstartError as error:
                assert str(error).rstrip().endswith(".")  # noqa: PT017


_whole: list[bytes] = []


def whole_history() -> bytes:
    """Return a history with everything in it, made once."""
    if not _whole:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "h.h5"
            with histories.filled(path) as history:
                history.add_datasets([(histories.info("new"), histories.pictures(10, size=32), None)])
                history.set_embeddings("abc", {"digits": np.ones(4, np.float32)})
                history.set_result("key", {"value": [1, 2]})
                history.compact()
            _whole.append(path.read_bytes())
    return _whole[0]


ATTACKS: dict[str, Callable[[int, int, int], None]] = {
    "history": attack_history,
    "shipped": attack_shipped,
    "journal": attack_journal,
    "model": attack_model,
}


@pytest.mark.parametrize("kind", ATTACKS)
def test_the_corpus(kind: str) -> None:
    for case in json.loads((CORPUS / f"{kind}.json").read_text(encoding="utf-8")):
        ATTACKS[kind](*case)


@pytest.mark.campaign
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("kind", ATTACKS)
def test_many_files_that_say_anything(kind: str) -> None:
    given(PLACE, LEAF, VALUE)(LONG(ATTACKS[kind]))()


QUICK = settings(max_examples=8, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("kind", ["history", "journal"])
def test_some_files_that_say_anything(kind: str) -> None:
    given(PLACE, LEAF, VALUE)(QUICK(ATTACKS[kind]))()
