"""Text shards: durable lines, several sittings, files that people have edited."""

from __future__ import annotations

import json
import math
from pathlib import Path

import histories
import pytest

from warmstart.history_store.errors import DataError, HistoryVersionError, MissingPathError, UsageError
from warmstart.history_store.history import History
from warmstart.history_store.records import Evaluation, Status
from warmstart.history_store.shards import (
    add_shard,
    append_shard,
    create_shards,
    history_from_shards,
    merge_shards,
    read_shards,
    write_shards,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shards"
    create_shards(folder, histories.space_json(), configs=histories.configs(3), budget={"epochs": 2}, seed=5)
    add_shard(folder, histories.info("digits"))
    return folder


def one(seed: int, name: str = "digits", config: int = 0) -> Evaluation:
    return Evaluation(name, histories.configs(3)[config], 0.5, seed=seed, curve=((1, 0.5),), origin="o")


def test_lines_are_added_and_read(folder: Path) -> None:
    append_shard(folder, 2, one(0, config=2))
    append_shard(folder, 0, Evaluation("digits", histories.configs(1)[0], math.nan, Status.OOM))
    shards = read_shards(folder)
    assert (shards.budget, shards.seed, shards.stored_size) == ({"epochs": 2}, 5, 32)
    assert json.loads(shards.space_json) == json.loads(histories.space_json())
    assert shards.configs == tuple(histories.configs(3))
    assert [run.status.value for run in shards.evaluations["digits"]] == ["ok", "oom"]
    assert shards.evaluations["digits"][0] == one(0, config=2)
    lines = (folder / "digits.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["dataset"]["name"] == "digits"
    assert json.loads(lines[1]) == {
        "config": 2,
        "error": 0.5,
        "status": "ok",
        "duration": None,
        "seed": 0,
        "curve": [[1, 0.5]],
        "origin": "o",
    }


def test_every_byte_prefix_of_a_shard(folder: Path) -> None:
    for seed in range(3):
        append_shard(folder, 0, one(seed))
    path = folder / "digits.jsonl"
    data = path.read_bytes()
    for n in range(0, len(data) + 1, 7):
        path.write_bytes(data[:n])
        lines = data[:n].count(b"\n")
        assert len(read_shards(folder).evaluations.get("digits", ())) == max(lines - 1, 0)
        if lines and n % 97 == 0:
            append_shard(folder, 0, one(9))
            assert [run.seed for run in read_shards(folder).evaluations["digits"]] == [*range(lines - 1), 9]


def test_several_sittings_add_up(folder: Path, tmp_path: Path) -> None:
    append_shard(folder, 0, one(0))
    with history_from_shards(folder, tmp_path / "a.h5") as history:
        assert history.notes == {"budget": '{"epochs": 2}', "seed": "5"}
        history.add_dataset(histories.info("Ä/ö"))
        history.append(one(1))
        history.append(one(1, "Ä/ö"))
        history.append(Evaluation("digits", histories.configs(4)[3], 0.25, seed=1))
        append_shard(folder, 1, one(7, config=1))  # someone else, meanwhile
        assert write_shards(history, folder, budget={"epochs": 2}, seed=5) == 3
        assert write_shards(history, folder, budget={"epochs": 2}, seed=5) == 0
        assert merge_shards(history, folder) == 1
        assert merge_shards(history, folder) == 0
        assert history.n_evaluations == 5
    assert len(read_shards(folder).configs) == 4
    assert (folder / "%C3%84%2F%C3%B6.jsonl").exists()
    with history_from_shards(folder, tmp_path / "b.h5") as history:
        assert history.n_evaluations == 5
        assert set(history.names) == {"digits", "Ä/ö"}


def test_another_collection_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected the same collection, got another seed"):
        create_shards(folder, histories.space_json(), configs=histories.configs(3), budget={"epochs": 2}, seed=6)
    with pytest.raises(DataError, match="got another budget, configs"):
        create_shards(folder, histories.space_json(), configs=histories.configs(3)[::-1], seed=5)
    with pytest.raises(DataError, match="expected the shard of 'digits' as described"):
        add_shard(folder, histories.info("digits", 11))
    with History.create(tmp_path / "h.h5", histories.space_json()) as history:
        history.add_dataset(histories.info("digits", 11))
        with pytest.raises(DataError, match=r"expected 'digits' as .* describes it"):
            merge_shards(history, folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", r"digits\.jsonl:2: expected a line of JSON, got b'nonsense'"),
        ("[1]", "expected a JSON object"),
        ('{"config": 3, "error": 0.5}', "expected the index of one of 3 configurations, got config=3"),
        ('{"config": true, "error": 0.5}', "expected the index of one of 3 configurations, got config=True"),
        ('{"error": 0.5}', "got config=None"),
        ('{"config": 0, "error": 0.5, "odd": 1}', "got odd"),
        ('{"config": 0, "error": 0.5, "status": "fine"}', "expected a status among ok, .* got 'fine'"),
        ('{"config": 0, "error": "low"}', "expected an evaluation"),
        ('{"config": 0, "error": 0.5, "seed": 1.5}', "seed 1.5 is no whole number"),
        ('{"config": 0, "error": 2}', r"expected an error in \[0, 1\]"),
    ],
)
def test_lines_that_people_have_broken(folder: Path, text: str, message: str) -> None:
    with (folder / "digits.jsonl").open("a") as file:
        file.write(text + "\n")
    with pytest.raises(DataError, match=message):
        read_shards(folder)


def test_files_that_people_have_broken(folder: Path) -> None:
    whole = (folder / "digits.jsonl").read_bytes()
    (folder / "digits.jsonl").write_text('{"dataset": {"name": "digits"}}\n')
    with pytest.raises(DataError, match=r"digits\.jsonl:1: expected the fields of a dataset"):
        read_shards(folder)
    (folder / "digits.jsonl").write_bytes(whole)
    (folder / "more.jsonl").write_bytes(whole)
    with pytest.raises(DataError, match="expected one file a dataset, got 'digits' a second time"):
        read_shards(folder)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{", DataError, "expected JSON, got"),
        ("{}", DataError, "expected format 'warmstart-shards'"),
        ('{"format": "warmstart-shards", "version": 2}', HistoryVersionError, 'expected version "1", got "2"'),
        ('{"format": "warmstart-shards", "version": 1}', DataError, "got a wrong or no space, configs"),
    ],
)
def test_collections_that_cannot_be_read(folder: Path, text: str, error: type[Exception], message: str) -> None:
    (folder / "collection.json").write_text(text)
    with pytest.raises(error, match=message):
        read_shards(folder)


def test_what_is_not_there(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingPathError, match="expected a folder of shards, got none there"):
        read_shards(tmp_path / "none")
    with pytest.raises(MissingPathError, match=r"expected the shard of 'other', got nothing there\. Start it"):
        append_shard(folder, 0, one(0, "other"))
    (tmp_path / "h.h5").touch()
    with pytest.raises(UsageError, match="expected nothing there yet"):
        history_from_shards(folder, tmp_path / "h.h5")
