"""The file of a bundle: one content, one digest; whatever is damaged is told; no path gets out."""

import gzip
import json
import random

import histories
import pytest

from warmstart.history_store.bundle.file import Bundle, read_bundle, write_bundle
from warmstart.history_store.bundle.records import (
    canonical,
    dataset_id,
    dataset_line,
    parse,
    run_line,
    shared_origin,
    space_line,
    split_origin,
    with_contributor,
    without_mark,
    without_paths,
)
from warmstart.history_store.errors import (
    DataError,
    HistoryDamagedError,
    HistoryVersionError,
    MissingPathError,
    UsageError,
)
from warmstart.history_store.limits import Limit
from warmstart.history_store.records import Evaluation

BY = "0123456789ab"


@pytest.fixture
def bundle() -> Bundle:
    info = histories.info("ants", fingerprint="content:a")
    runs = [Evaluation("ants", config, 0.25, seed=n, origin="x") for n, config in enumerate(histories.configs(4))]
    lines = {run_line(run, dataset_id(info), BY) for run in runs}
    return Bundle(frozenset({*lines, dataset_line(info), space_line(histories.space_json())}))


@pytest.mark.parametrize("name", ["a.gz", "a.txt"])
def test_what_is_written_is_read(bundle, tmp_path, name):
    path = write_bundle(bundle, tmp_path / name)
    assert read_bundle(path) == bundle
    assert write_bundle(bundle, path) == path  # the same again is no error
    with pytest.raises(UsageError, match="nothing lies"):
        write_bundle(Bundle(frozenset()), path)


def test_every_damaged_byte_and_every_end_is_told(bundle, tmp_path):
    whole, path, rng = bundle.to_bytes(), tmp_path / "b", random.Random(0)
    for position in rng.sample(range(len(whole)), 60):
        changed = bytearray(whole)
        changed[position] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        with pytest.raises((HistoryDamagedError, HistoryVersionError)):
            read_bundle(path)
    packed = gzip.compress(whole, mtime=0)
    for text in (whole, packed):
        for end in rng.sample(range(len(text)), 20):
            path.write_bytes(text[:end])
            with pytest.raises(HistoryDamagedError, match="fetch it again"):
                read_bundle(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(HistoryDamagedError):
        read_bundle(path)


def sealed(*lines: str) -> bytes:
    """A file whose digest is right, whatever it holds."""
    return Bundle(frozenset(lines)).to_bytes()


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "1",
        '{"kind":"code","run":"os.system"}',
        "[" * 5000,
        '{"kind":"run"}',
        '{"kind":"space","space":[1]}',
        '{"dataset":"0123456789abcdef","effect":1e999,"features":[1.0],"kind":"features","pixels":[1.0],"size":32}',
        '{"dataset":"../../etc/passwd","effect":0.1,"features":[1.0],"kind":"features","pixels":[1.0],"size":32}',
        '{"dataset":"0123456789abcdef","kind":"embedding","model":"../x","vector":[1.0]}',
        '{"dataset":"0123456789abcdef","kind":"embedding","model":"x","vector":["a"]}',
    ],
)
def test_records_that_are_none_are_refused_though_the_digest_fits(tmp_path, line):
    path = tmp_path / "b"
    path.write_bytes(sealed(line))
    with pytest.raises(DataError, match="expected"):
        read_bundle(path)


def test_a_run_is_checked(bundle, tmp_path):
    run = json.loads(next(line for line in bundle.lines if '"kind":"run"' in line))
    for change in ({"error": 1.5}, {"error": "0.5"}, {"by": "me"}, {"origin": "x (from 0123456789ab)"}, {"config": [1]},
                   {"seed": -1}, {"seed": 2**70}, {"more": 1}, {"curve": [[2, 0.5], [1, 0.5]]}, {"config": {"a": [1]}}):  # fmt: skip
        path = tmp_path / "b"
        path.write_bytes(sealed(space_line(histories.space_json()), canonical({**run, **change})))
        with pytest.raises(DataError, match="expected"):
            read_bundle(path)


def test_what_unpacks_to_too_much_is_refused(bundle, tmp_path, monkeypatch):
    path = write_bundle(bundle, tmp_path)
    monkeypatch.setenv("WARMSTART_MAX_BUNDLE_BYTES", "500")
    with pytest.raises(DataError, match="WARMSTART_MAX_BUNDLE_BYTES"):
        read_bundle(path)
    assert isinstance(Limit("X", 1, "x"), Limit)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(b"{" * (1 << 24)))
    with pytest.raises(HistoryDamagedError):
        read_bundle(bomb)


def test_versions_and_paths(bundle, tmp_path):
    (tmp_path / "new").write_bytes(bundle.to_bytes().replace(b'"version":1', b'"version":2', 1))
    with pytest.raises(HistoryVersionError, match="Upgrade"):
        read_bundle(tmp_path / "new")
    for name in ("none", "."):
        with pytest.raises(MissingPathError):
            read_bundle(tmp_path / name)
    with pytest.raises(MissingPathError, match="Make it first"):
        write_bundle(bundle, tmp_path / "no" / "b.gz")
    with pytest.raises(MissingPathError, match="bundles: expected a folder to write into, got none there"):
        write_bundle(bundle, f"{tmp_path}/bundles/")
    assert not (tmp_path / "bundles").exists()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/ann/photos", "photos"),
        ("from /home/ann/x.csv, and ~/y/z.csv", "from x.csv, and z.csv"),
        (r"C:\Users\ann\a.jpg", "a.jpg"),
        (r"\\server\share\a.jpg", "a.jpg"),
        ("import/timm//home/ann/run", "import/timm/run"),
        ("collect/own:/home/ann/train.py", "collect/own:train.py"),
        ("file:///home/ann/x", "x"),
        ("tune/python '/home/Jane Doe/train.py' --lr {lr}", "tune/python 'train.py' --lr {lr}"),
        ("python \"/home/Jane Doe/a b.py\" '~/x y/z'", "python \"a b.py\" 'z'"),
        (r"C:\Users\Jane Doe\x.py --lr 1", "x.py --lr 1"),
        ("Ann's '/' and Ben's 'a/b'", "Ann's '/' and Ben's 'a/b'"),
        ("https://example.org/a/b c", "https://example.org/a/b c"),
        ("cats/dogs, 3/4 of them", "cats/dogs, 3/4 of them"),
        ("collect/compact-400", "collect/compact-400"),
        ("GitHub repository a/b", "GitHub repository a/b"),
    ],
)
def test_paths_are_left_out(text, left):
    assert without_paths(text) == left
    assert without_paths(left) == left


def test_the_origin_of_a_long_command_can_be_read_again():
    command = "tune/python /home/ann/train.py \\\n " + " ".join(f"--option{n} {{option{n}}}" for n in range(20))
    run = Evaluation("a", histories.configs(1)[0], 0.1, origin=command)
    parsed = parse(run_line(run, "0" * 16, BY), "here").run
    assert parsed.origin.startswith("tune/python train.py ")
    assert len(parsed.origin) == 200
    assert shared_origin(parsed.origin) == parsed.origin
    assert shared_origin(command + " ") != parsed.origin
    assert run_line(parsed, "0" * 16, BY) == run_line(run, "0" * 16, BY)


@pytest.mark.parametrize(
    "mark", [" [ann@team.org:key0]", " [loopback:]", " [ann:a[b]]", " [a:b] [ann]", " [a:b] [ann:k]"]
)
def test_the_token_of_a_server_is_not_shared(mark):
    assert shared_origin("record" + mark) == "record" == without_mark("record" + mark)
    run = Evaluation("a", histories.configs(1)[0], 0.1, origin="record" + mark)
    old = parse(run_line(run, "0" * 16, BY), "here")  # as bundles of version 0.2 have it
    assert old.run.origin == "record" + mark


def test_a_space_with_a_path_is_refused():
    space = histories.space_json().replace('"sgd"', '"/home/ann/sgd"')
    with pytest.raises(DataError, match="path"):
        space_line(space)


def test_origins_say_who_contributed():
    assert split_origin(with_contributor("collect/a", BY)) == ("collect/a", BY)
    assert split_origin("collect/a") == ("collect/a", None)
    assert split_origin("a (from me)") == ("a (from me)", None)
