"""The board's own problems and its sums; searches are the samplers' affair."""

import json

import numpy as np
import pytest
from board import Cell, cells, report, run
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
    assert {c.function for c in cells("develop", list(FAST)) if c.suite == "bbob"}.isdisjoint(HELD_OUT)
    assert {c.function for c in cells("final", list(SAMPLERS)) if c.sampler in ("smac", "botorch")} == set(THIRD)
    assert [class_of("bbob", f) for f in (5, 6, 14, 15, 24)] == ["separable", "moderate", "ill-conditioned", "multimodal", "weak structure"]  # fmt: skip


def test_sums_are_paired_by_problem():
    """Regrets 0.1 and 0.01 against 1 on two functions; a search without its peer does not count."""
    rows = []
    for function, ours in ((1, 0.1), (2, 0.01)):
        for instance in (1, 2):
            cell = {
                "suite": "bbob",
                "function": function,
                "d": 2,
                "instance": instance,
                "minimum": 5.0,
                "cpu a suggestion": 0.5,
            }
            rows += [{**cell, "sampler": "warmstart", "errors": [6.0] + [5.0 + ours] * 9}]
            rows += [{**cell, "sampler": other, "errors": [6.0] * 10} for other in ("gpsampler", "tpe")]
    rows.append({**rows[0], "function": 3})
    found = report(rows)
    assert found["mean ranks, all"]["problems"] == 4
    assert found["mean ranks, all"]["warmstart"] == {"last": 1.0, "anytime": 1.0}
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
    monkeypatch.setattr("board.search", lambda cell: searched.append(cell) or {"of": cell.file})
    wanted = [Cell("bbob", f, 2, 1, "tpe") for f in (1, 2, 3)]
    run(tmp_path, wanted[:2], 1.0)
    run(tmp_path, wanted, 1.0)
    assert searched == wanted
    assert {path.name for path in tmp_path.iterdir()} == {cell.file for cell in wanted}
    run(tmp_path, [Cell("bbob", 4, 2, 1, "tpe")], 0.0)
    assert searched == wanted
