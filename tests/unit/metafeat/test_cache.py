import logging
import os

import numpy as np
import pytest

from warmstart.metafeat.cache import EmbeddingCache

VECTOR = np.random.default_rng(0).normal(size=256).astype(np.float32)


@pytest.fixture
def cache(tmp_path):
    cache = EmbeddingCache(tmp_path / "new" / "cache")
    cache.put("listing:1", "m1", "r=10", VECTOR)
    return cache


def entry(cache):
    (path,) = cache.folder.iterdir()
    return path


def test_comes_back_bit_for_bit_and_writable(cache):
    got = cache.get("listing:1", "m1", "r=10")
    assert got.tobytes() == VECTOR.tobytes()
    got[0] = 1


@pytest.mark.parametrize("key", [("listing:2", "m1", "r=10"), ("listing:1", "m2", "r=10"), ("listing:1", "m1", "r=9")])
def test_every_part_of_the_key_counts(cache, key):
    assert cache.get(*key) is None


def test_every_damage_counts_as_absent(cache, caplog):
    caplog.set_level(logging.DEBUG, "warmstart.metafeat.cache")
    path = entry(cache)
    content = path.read_bytes()
    for damaged in (
        b"",
        content[:5],
        content[:-1],
        content[:-4],
        content + b"\0\0\0\0",
        content[:50] + b"!" + content[51:],
    ):
        path.write_bytes(damaged)
        assert cache.get("listing:1", "m1", "r=10") is None
        assert "damaged entry" in caplog.text
        caplog.clear()
    cache.put("listing:1", "m1", "r=10", VECTOR)
    assert cache.get("listing:1", "m1", "r=10") is not None


def test_a_place_that_cannot_hold_a_folder_works_without_cache(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "warmstart.metafeat.cache")
    (tmp_path / "file").write_text("")
    cache = EmbeddingCache(tmp_path / "file" / "cache")
    cache.put("f", "m", "k", VECTOR)
    assert cache.get("f", "m", "k") is None
    assert "not cached" in caplog.text


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_special_file_counts_as_absent(tmp_path, kind):
    cache = EmbeddingCache(tmp_path)
    path = cache._path("d", "m", "k")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    assert cache.get("d", "m", "k") is None
    cache.put("d", "m", "k", np.zeros(3, np.float32))


def test_a_full_disk_works_without_cache(tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    cache = EmbeddingCache(tmp_path)
    monkeypatch.setattr("warmstart.metafeat.files.os.fdopen", fail)
    cache.put("f", "m", "k", VECTOR)
    monkeypatch.undo()
    assert cache.get("f", "m", "k") is None
    assert list(tmp_path.iterdir()) == []
