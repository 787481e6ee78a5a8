"""Lines, checksums, torn ends."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from warmstart.history_store.errors import HistoryDamagedError, HistoryVersionError, StorageError
from warmstart.history_store.file.journal import JournalWriter, check, header, line, load, parse


def operation(serial: int) -> str:
    return json.dumps({"serial": serial, "op": "touch", "text": "ä" * serial})


@pytest.fixture
def data() -> bytes:
    return header("id") + b"".join(line(operation(serial)) for serial in (1, 2, 3))


def test_a_line_is_checksum_and_json() -> None:
    text = line('{"ä": 1}')
    assert text == b"%08x %s\n" % (zlib.crc32('{"ä": 1}'.encode()), '{"ä": 1}'.encode())


def test_whole_lines_are_read(data: bytes) -> None:
    text = parse(data)
    assert text.header == {"journal": 1, "history": "id"}
    assert [op["serial"] for op in text.operations] == [1, 2, 3]
    assert (text.end, text.torn, text.damaged) == (len(data), False, ())
    assert [op["serial"] for op in text.after(1)] == [2, 3]


def test_nothing_is_an_empty_journal(tmp_path: Path) -> None:
    for text in (parse(b""), load(tmp_path / "none")):
        assert (text.header, text.operations, text.end, text.torn, text.damaged) == (None, (), 0, False, ())


@pytest.mark.parametrize("rest", [b"0", b"01234567 {}", b"\0" * 50, b"\0" * 50 + b"\n", b"1234\0\0\0\n"])
def test_a_torn_line_is_passed_over(data: bytes, rest: bytes) -> None:
    text = parse(data + rest)
    assert text.torn
    assert (text.end, text.damaged, len(text.operations)) == (len(data), (), 3)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_an_altered_line_is_damage(data: bytes, number: int) -> None:
    lines = data.splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b'"', b"'", 1)
    text = parse(b"".join(lines))
    assert text.damaged == (number,)
    with pytest.raises(HistoryDamagedError, match=rf"got altered line {number}\. The way back"):
        check(text, ("id", 0, ""), Path("h.h5.journal"), "The way back")


def test_whose_journal_it_is(data: bytes) -> None:
    check(parse(data), ("id", 0, ""), Path("j"), "")
    check(parse(b""), ("id", 0, "s"), Path("j"), "")
    with pytest.raises(HistoryDamagedError, match="expected the journal of history other, got that of id"):
        check(parse(data), ("other", 0, ""), Path("j"), "")
    with pytest.raises(HistoryVersionError, match=r'expected journal version "2", got "9"\. Upgrade'):
        check(parse(line('{"journal": 9}')), ("id", 0, ""), Path("j"), "")


def test_writing_goes_on_behind_the_last_whole_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(data + b"torn")
    writer = JournalWriter(path, "id", load(path))
    writer.append(operation(4))
    assert writer.size == path.stat().st_size
    writer.close()
    writer.close()
    assert path.read_bytes() == data + line(operation(4))


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (lambda path, data: path.unlink(), "none"),
        (lambda path, data: path.write_bytes(data[:60]), "60 bytes"),
        (lambda path, data: path.write_bytes(data + line(operation(4))), r"\d+ bytes"),
        (lambda path, data: (path.rename(path.with_name("old")), path.write_bytes(data)), "another file"),
    ],
)
def test_a_journal_that_was_changed_since_it_was_read(
    tmp_path: Path, data: bytes, change: Callable[[Path, bytes], object], got: str
) -> None:
    path = tmp_path / "j"
    path.write_bytes(data)
    text = load(path)
    change(path, data)
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(StorageError, match=rf"expected the journal that this writer opened, .* got {got}\. Nothing"):
        JournalWriter(path, "id", text)
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_journal_of_another_copy(data: bytes) -> None:
    salted = parse(header("id", "aa") + line(operation(4)))
    check(salted, ("id", 3, "aa"), Path("j"), "")
    check(salted, ("id", 4, "bb"), Path("j"), "")  # what a writer that was stopped left behind
    for text, salt in ((salted, "bb"), (salted, ""), (parse(data), "aa")):
        with pytest.raises(
            HistoryDamagedError,
            match=r"j: expected the journal of this file .*, got one that goes on from another copy",
        ):
            check(text, ("id", 2, salt), Path("j"), "")


@pytest.mark.parametrize(
    "text",
    [
        '{"op": "touch"}',
        '{"serial": true, "op": "touch"}',
        '{"serial": -1, "op": "touch"}',
        '{"serial": 1e999, "op": "touch"}',
        '{"serial": 99999999999999999999999, "op": "touch"}',
        '{"serial": 4}',
        '{"serial": 4, "op": 7}',
        '{"serial": 4, "op": "touch", "x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
    ids=lambda text: text[:30],
)
def test_whole_lines_that_are_no_operations(data: bytes, text: str) -> None:
    parsed = parse(data + line(text) + line(operation(4)))
    assert parsed.damaged == (5,)
    with pytest.raises(HistoryDamagedError, match="got altered line 5"):
        check(parsed, ("id", 0, ""), Path("j"), "")
    two = parse(data + line(text) + line(operation(4)) + line(text))
    with pytest.raises(HistoryDamagedError, match="got altered lines 5, 7"):
        check(two, ("id", 0, ""), Path("j"), "")
