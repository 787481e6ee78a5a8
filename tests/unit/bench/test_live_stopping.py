"""The summary of the live check of stopping: compute and regret against whole runs, by hand."""

import pytest
from live_stopping import summary


def trial(number, error, share, seconds):
    status = "ok" if share == 1 else "pruned"
    return {
        "number": number, "status": status, "error": error if share == 1 else None,
        "share": share, "epochs": 10 * share, "seconds": seconds,
    }  # fmt: skip


def lines(arm, chosen, *trials, seed=0):
    return {"job": {"dataset": "d", "seed": seed, "arm": arm}, "chosen": chosen, "wall_s": 9.0, "trials": list(trials)}


def test_compute_and_regret_are_those_of_whole_runs():
    whole = [trial(0, 0.3, 1, 30.0), trial(1, 0.2, 1, 10.0)]
    found = summary(
        [
            lines("none", 1, *whole),
            lines("median", 0, whole[0], trial(1, 0.2, 0.5, 1.0)),
            lines("history", 1, *whole),
            *(lines(arm, 1, *whole, seed=1) for arm in ("none", "median", "history")),
        ]
    )
    assert (found["none"]["updates"], found["none"]["regret"], found["none"]["upper"]) == (1.0, 0.0, 0.0)
    first, second = found["median"]["cases"]
    assert (first["updates"], first["epochs"], first["stopped"]) == (0.75, 0.75, 1)
    assert first["seconds"] == pytest.approx(35 / 40), "half of the 10 s that the whole run took"
    assert (first["regret"], second["regret"]) == (pytest.approx(0.1), 0.0)
    assert found["median"]["regret"] == 0.05
    assert found["median"]["upper"] == pytest.approx(0.05 + 1.645 * 0.1 / 2, abs=1e-4)
