"""The board's own problems and its sums; searches are the samplers' affair."""

import json

import numpy as np
import pytest
from board import MEASURES, Cell, read, report, run


def test_sums_are_paired_by_problem():
    """Regrets 0.1 and 0.01 against 1 on two functions; a search without its peer does not count."""
    rows = []
    for function, ours in ((1, 0.1), (2, 0.01)):
        for instance in (1, 2):
            cell = {"suite": "bbob", "function": function, "d": 2, "instance": instance, "evaluations": 10, "cpu": 0.5}
            rows += [{**cell, "sampler": "warmstart", "falls": [[0, 0.0], [1, np.log10(ours)]]}]
            rows += [{**cell, "sampler": other, "falls": [[0, 0.0]]} for other in ("gpsampler", "tpe")]
    rows.append({**rows[0], "function": 3})
    found = report(rows)
    assert found["mean ranks, all"]["problems"] == 4
    assert found["mean ranks, all"]["warmstart"] == dict.fromkeys(MEASURES, 1.0)
    assert found["mean ranks, all"]["tpe"]["last"] == 2.5
    difference = found["ours less tpe, log10 regret"]["separable"]
    assert difference["functions"] == 2
    assert difference["last"] == pytest.approx(
        [-1.5, 12.706 * 0.5], rel=1e-4
    )  # t of one degree of freedom, standard error 0.5
    assert found["ours less smac, log10 regret"] == {}
    json.dumps(found)


def test_a_board_goes_on_where_it_stopped(tmp_path, monkeypatch):
    searched = []
    found = {"evaluations": 1, "falls": [[0, 0.0]], "cpu": 0.1}
    monkeypatch.setattr("board.search", lambda **job: searched.append(Cell(**job)) or found)
    wanted = [Cell("bbob", f, 2, 1, sampler) for f in (1, 2, 3) for sampler in ("tpe", "smac")]
    run(tmp_path, wanted[:3], 1.0)
    assert len(read(tmp_path, wanted)) == 3
    run(tmp_path, wanted, 1.0)
    assert searched == wanted
    assert {path.name for path in tmp_path.iterdir()} == {"tpe.jsonl", "smac.jsonl"}
    run(tmp_path, [Cell("bbob", 4, 2, 1, "tpe")], 0.0)
    assert searched == wanted
    assert [row["function"] for row in read(tmp_path, wanted[:2])] == [1, 1]
    with (tmp_path / "tpe.jsonl").open("a") as file:
        file.write('{"job": {"suite"')
    assert len(read(tmp_path, wanted)) == 6
