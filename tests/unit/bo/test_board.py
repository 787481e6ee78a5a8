"""The board's own problems and its sums; searches are the samplers' affair."""

import json

import numpy as np
import pytest
from board import MEASURES, report


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
