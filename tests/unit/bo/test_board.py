"""The board's own problems and its sums; searches are the samplers' affair."""

import json

import numpy as np
import pytest
from board import MEASURES, Cell, cells, curve, read, report, run, search
from board_problems import HELD_OUT, THIRD, class_of, evaluations
from board_samplers import FAST, SAMPLERS
from conditional import CONDITIONAL
from ConfigSpace import Configuration


@pytest.mark.parametrize("name", CONDITIONAL)
@pytest.mark.parametrize("instance", [1, 72])
def test_a_conditional_problem_is_nowhere_less_than_its_minimum(name, instance):
    problem = CONDITIONAL[name](instance)
    problem.space.seed(0)
    best = problem.minimisers[0]
    Configuration(problem.space, values=best)
    assert problem.value(best) == problem.minimum
    values = [problem.value(dict(config)) for config in problem.space.sample_configuration(300)]
    assert problem.minimum <= min(values) < np.median(values)
    moved = {k: v + 0.01 if isinstance(v, float) and v < 0.99 else v for k, v in best.items()}
    assert problem.minimum < problem.value(moved) < problem.minimum + 0.1
    assert evaluations(problem, "conditional") <= 100


def test_functions_are_drawn_from_every_three():
    for some in (HELD_OUT, THIRD):
        assert [(f - 1) // 3 for f in some] == list(range(8))
    assert {c.function for c in cells("develop", list(FAST), [2, 5, 10]) if c.suite == "bbob"}.isdisjoint(HELD_OUT)
    assert {c.function for c in cells("final", list(SAMPLERS), [2, 5, 10]) if c.sampler in ("smac", "botorch")} == set(
        THIRD
    )
    assert {c.d for c in cells("final", ["smac"], [2, 5])} == {2, 5}
    assert [class_of("bbob", f) for f in (5, 6, 14, 15, 24)] == ["separable", "moderate", "ill-conditioned", "multimodal", "weak structure"]  # fmt: skip


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


def test_a_search_is_where_its_regret_falls(monkeypatch):
    problem = next(iter(CONDITIONAL.values()))(1)
    errors = [problem.minimum + regret for regret in (1.0, 10.0, 0.1, 0.1, 0.0)]
    monkeypatch.setattr("board.make", lambda *_: problem)
    monkeypatch.setattr("board.evaluations", lambda *_: 5)
    monkeypatch.setitem(SAMPLERS, "tpe", lambda *_: (errors, 2.0))
    found = search(suite="conditional", function="x", d=0, instance=1, sampler="tpe")
    assert found == {"evaluations": 5, "falls": [[0, 0.0], [2, -1.0], [4, -8.0]], "cpu": 0.4}
    assert curve(found).tolist() == [0.0, 0.0, -1.0, -1.0, -8.0]


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
