"""Files in which one thing is odd, with structure and checksums that are right: for searches for faults."""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import os
import re
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]
ODD = (None, True, -1, 0, 1, 7, 2**31, 2**63, 2**64, 10**400, 0.5, -0.5, 1e308, float("nan"), float("inf"), "", "x", "..", "a/b", "a::b", "x" * 300, "\0", "ok", "digits", [], [1], {}, {"x": 1}, DEEP)  # fmt: skip
TEXTS = ("", "nan", "-inf", "1e400", "-0", "True", "null", "9" * 30, "1,5", "50 %", "0x1F", "1_000", "\N{NO-BREAK SPACE}1", "\0", "\ufeff", "\N{FULLWIDTH DIGIT SEVEN}", "../../etc/passwd", "/", "C:\\x\\y.png", "é", "e\u0301", "'", '"', "{a: [", "&a [*a]", "!!python/object:os.system", "- - -", "=1+1", "\r", "\n\n", "[" * 500, "~", "1:2:3", "2001-01-01", "\u202e", "x" * 5000)  # fmt: skip
BYTES = (
    b"",
    b"\0",
    b"\xff" * 8,
    b"\x80",
    b"\n",
    b",",
    b'"',
    b"{",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\x00\x00\x00\x00\x00\x00\x00\x80",
    b"\r",
)
NAMES = ("", ".", "..", "../x.png", "/x.png", "a\\b.png", "./a/x.png", "a//x.png", "é/x.png", "e\u0301/x.png", "x" * 250 + ".png", "train/x/y.png", "con", "x.png/", "\0.png", "a/\n.png", "labels.csv", "metadata.jsonl", "x.cls", "a.b.c.png", "\udcff.png")  # fmt: skip


def nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the places of a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from nodes(inner, (*path, key))


def altered(value: Any, leaf: int, number: int) -> Any:
    """Put something odd at a place of a JSON value, or nothing."""
    places = list(nodes(value))
    path = places[leaf % len(places)]
    odd = ODD[number % len(ODD)]
    if not path:
        return odd
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    if number % 7 == 6:
        del inner[path[-1]]
    elif number % 7 == 5 and isinstance(inner, list):
        inner.append(inner[path[-1]])
    else:
        inner[path[-1]] = odd
    return value


def odd_json(data: bytes, rng: Random) -> bytes:
    """Alter a JSON value; text of JSON inside a text of it, too."""
    value = altered(json.loads(data), rng.randrange(10**6), rng.randrange(10**6))
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def odd_lines(data: bytes, rng: Random) -> bytes:
    """Alter a line of JSON lines, or drop, double or swap lines."""
    lines = data.splitlines()
    at = rng.randrange(len(lines))
    how = rng.randrange(6)
    if how == 0:
        del lines[at]
    elif how == 1:
        lines.insert(rng.randrange(len(lines)), lines[at])
    elif how == 2:
        lines.insert(at, rng.choice(BYTES))
    else:
        lines[at] = odd_json(lines[at], rng)
    return b"\n".join(lines)


def odd_csv(data: bytes, rng: Random) -> bytes:
    """Alter a cell, the head or the form of a table."""
    rows = list(csv.reader(io.StringIO(data.decode())))
    row = rng.choice((0, rng.randrange(len(rows))))
    column = rng.randrange(max(1, len(rows[row])))
    how = rng.randrange(9)
    if how == 0:
        del rows[row]
    elif how == 1:
        rows = [each[:column] + each[column + 1 :] for each in rows]
    elif how == 2:
        rows = [[*each, *each[column : column + 1]] for each in rows]
    elif how == 3:
        rows[row] = rows[row] * 2
    elif how == 4:
        rows = [*rows[: row + 1], [], *rows[row + 1 :]]
    elif rows[row]:
        rows[row][column] = rng.choice(TEXTS)
    text = io.StringIO()
    csv.writer(text, delimiter=rng.choice(",,,;\t"), lineterminator=rng.choice(("\n", "\r\n"))).writerows(rows)
    return text.getvalue().encode(rng.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16")), "replace")


def odd_text(data: bytes, rng: Random) -> bytes:
    """Put something odd in the place of a word."""
    words = list(re.finditer(rb"[^\s:,]+", data))
    if not words or rng.random() < 0.2:
        return odd_bytes(data, rng)
    start, end = rng.choice(words).span()
    return data[:start] + rng.choice(TEXTS).encode() + data[end:]


def odd_bytes(data: bytes, rng: Random) -> bytes:
    """Cut, alter, repeat or insert bytes."""
    if not data:
        return rng.choice(BYTES)
    at = rng.choice((rng.randrange(len(data)), rng.randrange(min(64, len(data))), rng.randrange(max(0, len(data) - 64), len(data))))  # fmt: skip
    how = rng.randrange(5)
    if how == 0:
        return data[:at]
    if how == 1:
        return data[:at] + data[min(len(data), at + rng.randrange(200)) :]
    if how == 2:
        return data[:at] + data[at : at + rng.randrange(200)] + data[at:]
    odd = rng.choice(BYTES)
    return data[:at] + odd + data[at + (len(odd) if how == 3 else 0) :]


def odd_gzip(data: bytes, rng: Random) -> bytes:
    """Alter what was packed, with a checksum that is right."""
    return gzip.compress(odd_bytes(gzip.decompress(data), rng), mtime=0)


def odd_zip(data: bytes, rng: Random) -> bytes:
    """Alter a member of an archive, or its name; checksums are right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    at = rng.randrange(len(members))
    out = io.BytesIO()
    how = rng.randrange(5)
    with zipfile.ZipFile(out, "w", rng.choice((0, 8, 12, 14))) as archive:
        for number, (info, content) in enumerate(members):
            name, new = info.filename, content
            if number == at and how == 0:
                continue
            if number == at and how == 1:
                name = rng.choice(NAMES) or "x"
            elif number == at and how > 1:
                new = odd_file(info.filename, content, rng)
            written = zipfile.ZipInfo(name.encode("utf-8", "replace").decode())
            written.external_attr = info.external_attr if number != at or how != 2 else rng.getrandbits(32)
            archive.writestr(written, new)
            if number == at and how == 4:
                archive.writestr(written, new)
    return out.getvalue()


def odd_tar(data: bytes, rng: Random) -> bytes:
    """Alter a member of an archive: its bytes, name, kind or claimed size; checksums are right."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as read, tarfile.open(fileobj=out, mode="w", format=rng.choice((0, 1, 2))) as write:  # fmt: skip
        members = read.getmembers()
        at = rng.randrange(len(members))
        how = rng.randrange(6)
        for number, info in enumerate(members):
            content = read.extractfile(info).read() if info.isreg() else b""
            if number == at:
                if how == 0:
                    continue
                if how == 1:
                    info.name = rng.choice(NAMES)
                elif how == 2:
                    info.type = rng.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE, b"Z"))  # fmt: skip
                    info.linkname = rng.choice(NAMES)
                elif how == 3:
                    info.mtime, info.uid, info.mode = rng.choice((0, -1, 2**33, 1e300)), rng.getrandbits(21), rng.getrandbits(16)  # fmt: skip
                else:
                    content = odd_file(info.name, content, rng)
                info.size = len(content)
            try:
                write.addfile(info, io.BytesIO(content))
                if number == at and how == 4:
                    write.addfile(info, io.BytesIO(content))
            except (ValueError, OverflowError, struct.error):  # a name that a tar cannot hold
                continue
    return out.getvalue()


def odd_array(data: bytes, rng: Random) -> bytes:
    """Alter the kind, the shape or a value of an array, or the bytes of its file."""
    how = rng.randrange(6)
    if how == 0:
        return odd_bytes(data, rng)
    array = np.load(io.BytesIO(data), allow_pickle=False)
    if how == 1:
        head = rng.choice(
            ("<f2", "<f8", ">f4", "<c8", "<i1", ">u2", "<u8", "|b1", "<U3", "|S2", "<M8[s]", "|V4", "<f4")
        )
        with np.errstate(all="ignore"):
            try:
                array = array.astype(np.dtype(head))
            except (TypeError, ValueError):
                array = np.zeros(array.shape, np.dtype(head))
    elif how == 2:
        array = rng.choice((array[:0], array[:1], array.reshape(-1), array[None], array[..., None], np.asfortranarray(array), array.T, array[::2]))  # fmt: skip
    elif how == 3 and array.size:
        array = array.astype(rng.choice((array.dtype, np.dtype("<f8"))))
        if array.dtype.kind == "f":
            array.reshape(-1)[rng.randrange(array.size)] = rng.choice((np.nan, np.inf, -1.0, 1e308, 256.0))
        elif array.dtype.kind in "iu":
            array.reshape(-1)[rng.randrange(array.size)] = np.iinfo(array.dtype).max
    else:
        text = str(rng.choice((array.shape, (2**40, 4), (-1,), (), (10**30,), (2,) * 70)))
        head = f"{{'descr': {rng.choice((array.dtype.str, '|O', '<i9', '<U99999999', 'x'))!r}, 'fortran_order': {rng.choice(('True', 'False', '1'))}, 'shape': {text}, }}"
        head += " " * (-(len(head) + 11) % 64) + "\n"
        return b"\x93NUMPY\x01\0" + struct.pack("<H", len(head) & 0xFFFF) + head.encode() + array.tobytes()
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def odd_table(data: bytes, rng: Random) -> bytes:
    """Alter a column of a table of Parquet or Arrow: its kind, a cell, its name, what is said of it; or bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if rng.random() < 0.3:
        return odd_bytes(data, rng)
    is_parquet = data[:4] == b"PAR1"
    table = pq.read_table(io.BytesIO(data)) if is_parquet else pa.ipc.open_stream(io.BytesIO(data)).read_all()
    at = rng.randrange(table.num_columns)
    name, values = table.column_names[at], table.column(at).to_pylist()
    how = rng.randrange(8)
    n = table.num_rows
    columns = (
        pa.nulls(n), pa.array([[1]] * n), pa.array([{"a": 1}] * n), pa.array([b"\xff"] * n), pa.array(["x"] * n).dictionary_encode(), pa.array([1.5] * n), pa.array([2**63] * n, pa.uint64()),
        pa.array([0] * n, pa.timestamp("ns")), pa.array([0] * n, pa.duration("s")), pa.array([True] * n), pa.array([[("k", 1)]] * n, pa.map_(pa.string(), pa.int64())), pa.array([""] * n, pa.large_string()),
        pa.array([float("nan")] * n), pa.array([b"1234"] * n, pa.binary(4)), pa.array([0] * n, pa.date32()), pa.array(["1"] * n).cast(pa.decimal128(5, 2)), pa.array([{"bytes": None, "path": "/etc/passwd"}] * n),
        pa.array([{"bytes": b"", "path": None}] * n), pa.array([None] * n, pa.struct([("bytes", pa.binary()), ("path", pa.string())])), pa.array([[[0, 255]]] * n),
    )  # fmt: skip
    if how < 3:
        table = table.set_column(at, name, rng.choice(columns))
    elif how == 3:
        table = table.set_column(at, name, pa.array([None if rng.random() < 0.2 else value for value in values], table.column(at).type))  # fmt: skip
    elif how == 4:
        table = table.rename_columns([rng.choice((*table.column_names, "", "x", "image", "label", "\n")) if i == at else each for i, each in enumerate(table.column_names)])  # fmt: skip
    elif how == 5:
        table = rng.choice(
            (table.slice(0, 0), table.slice(0, 1), table.remove_column(at), pa.concat_tables([table, table]))
        )
    else:
        about = {key: (odd_json(value, rng) if rng.random() < 0.7 else odd_bytes(value, rng)) for key, value in (table.schema.metadata or {b"huggingface": b"{}"}).items()}  # fmt: skip
        table = table.replace_schema_metadata(about)
    out = io.BytesIO()
    if is_parquet:
        pq.write_table(table, out, row_group_size=rng.choice((1, 10, 1000)), compression=rng.choice(("snappy", "none", "gzip", "zstd")))  # fmt: skip
    else:
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
    return out.getvalue()


def odd_database(data: bytes, rng: Random) -> bytes:
    """Alter a cell of an SQLite database, drop a column or a table; or bytes."""
    if rng.random() < 0.3:
        return odd_bytes(data, rng)
    with sqlite3.connect(":memory:") as base:
        base.deserialize(data)
        base.execute("PRAGMA foreign_keys=OFF")
        tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        table = rng.choice(tables)
        column = rng.choice([row[1] for row in base.execute(f"PRAGMA table_info('{table}')")])
        value = rng.choice((None, "", "x", -1, 2**62, 1e308, float("inf"), b"\xff\0", "[" * 300, "{}", '{"a": NaN}', "\0", "9" * 400))  # fmt: skip
        how = rng.randrange(8)
        statement, values = (
            (f"DELETE FROM '{table}'", ()) if how == 0
            else (f"DROP TABLE '{table}'", ()) if how == 1
            else (f"ALTER TABLE '{table}' RENAME COLUMN '{column}' TO 'x y'", ()) if how == 2
            else (f"UPDATE '{table}' SET '{column}' = ? WHERE rowid % 3 = ?", (value, rng.randrange(3)))
        )  # fmt: skip
        try:
            base.execute(statement, values)
        except sqlite3.Error:
            return odd_bytes(data, rng)
        base.commit()
        return base.serialize()


def crc_of_record(data: bytes) -> bytes:
    """Return the masked CRC-32C by which TensorFlow guards a record."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def odd_events(data: bytes, rng: Random) -> bytes:
    """Alter a record of a log of TensorBoard, with checksums that are right."""
    records, at = [], 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        records.append(data[at : at + 16 + length])
        at += 16 + length
    place = rng.randrange(len(records))
    body = odd_bytes(records[place][12:-4], rng)
    length = struct.pack("<Q", len(body))
    records[place] = length + crc_of_record(length) + body + crc_of_record(body)
    return b"".join(records)


def odd_tensors(data: bytes, rng: Random) -> bytes:
    """Alter the header of a safetensors file, or JSON in its metadata."""
    (length,) = struct.unpack("<Q", data[:8])
    head, tensors = json.loads(data[8 : 8 + length]), data[8 + length :]
    how = rng.randrange(8)
    if how == 0:
        return odd_bytes(data, rng)
    if how == 1:
        head = altered(head, rng.randrange(10**6), rng.randrange(10**6))
    elif how == 2:
        values = np.frombuffer(tensors[: len(tensors) // 4 * 4], "<f4").copy()
        values[rng.randrange(len(values))] = rng.choice((np.nan, np.inf, -1.0, 1e38, 0.0))
        tensors = values.tobytes() + tensors[len(values) * 4 :]
    elif how == 3:
        names = [name for name in head if name != "__metadata__"]
        one, other = rng.choice(names), rng.choice(names)
        head[one], head[other] = head[other], head[one]
    else:
        key = rng.choice(list(head["__metadata__"]))
        head["__metadata__"][key] = odd_json(head["__metadata__"][key].encode(), rng).decode("utf-8", "replace")
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + tensors


ALTER: dict[str, Callable[[bytes, Random], bytes]] = {".json": odd_json, ".jsonl": odd_lines, ".csv": odd_csv, ".tsv": odd_csv, ".yaml": odd_text, ".txt": odd_text, ".gz": odd_gzip, ".zip": odd_zip, ".npz": odd_zip, ".tar": odd_tar, ".npy": odd_array, ".parquet": odd_table, ".arrow": odd_table, ".db": odd_database, ".safetensors": odd_tensors, ".journal": odd_lines}  # fmt: skip


def odd_file(name: str, data: bytes, rng: Random) -> bytes:
    """Alter a file as what its name says it is."""
    how = odd_events if "tfevents" in name else ALTER.get(Path(name).suffix.lower(), odd_text if len(data) < 200 else odd_bytes)  # fmt: skip
    if rng.random() < 0.1:
        how = odd_bytes
    try:
        return how(data, rng)
    except Exception:  # noqa: BLE001  altered before, so that it is no longer what its name says
        return odd_bytes(data, rng)


def alter_folder(root: Path, rng: Random) -> None:
    """Alter a file below a folder, or a name: a file gone, empty, a link, a pipe, one more."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    if not files:
        return
    # Tables and headers are few among many pictures, and as likely.
    few = [path for path in files if path.suffix != ".png"]
    path = rng.choice(few if few and rng.random() < 0.7 else files)
    how = rng.randrange(20 if len(files) > 3 else 60)
    if how > 7:
        path.write_bytes(odd_file(path.name, path.read_bytes(), rng))
    elif how < 3:
        path.unlink()
        if how == 1:
            path.symlink_to(rng.choice((path.name, "nowhere", "..", "/dev/zero", "/dev/null", str(root))))
        elif how == 2:
            rng.choice((os.mkfifo, os.mkdir))(path)
    elif how == 3:
        path.write_bytes(b"")
    elif how == 4:
        path.rename(path.parent / (rng.choice(NAMES).replace("/", "_").replace("\0", "_").strip(".") or "x"))
    elif how == 5:
        path.parent.joinpath(rng.choice(("x.csv", "x.json", "x.png", "metadata.csv", "labels.csv", "Thumbs.db", "x.tar", "x.zip", "x.parquet", "train", ".x"))).write_bytes(rng.choice(BYTES) * rng.randrange(3))  # fmt: skip
    elif how == 6:
        again = path.parent / "again"
        again.unlink(missing_ok=True)  # of an earlier call
        again.symlink_to(rng.choice((".", "..", str(root))))
    else:
        path.write_bytes(path.read_bytes() * 2)
