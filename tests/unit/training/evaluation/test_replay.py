"""Methods on tables where the right answer is known, and on which nothing leaks."""

import numpy as np
import pytest

from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.regret import random_curve, regret_curve
from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.bo.transfer.strategies.scenarios import USUAL_NOISE
from warmstart.history_store.errors import DataError
from warmstart.training.evaluation.methods import (
    Case,
    Method,
    choose_methods,
    make_methods,
    make_paper_methods,
    snap_to_nearest_config,
)
from warmstart.training.evaluation.metrics import given_metric
from warmstart.training.evaluation.replay import CHEAP, Replay, ReplaySettings, Task, evaluate
from warmstart.training.evaluation.table import ErrorTable

GROUPS = ("a", "b", "a", "c", "d", "e", "d", "f")
M, C, H = len(GROUPS), 24, 6
NAMES = tuple(f"d{i}" for i in range(M))
SEARCHES = {
    name for name, method in make_methods(["given"], "given", has_unit=True).items() if method.search_after is not None
}


def make_table(errors, **more) -> ErrorTable:
    unit = np.random.default_rng(9).random((errors.shape[1], 2))
    return ErrorTable("t", errors, NAMES, GROUPS, **{"unit": unit, **more})


@pytest.fixture
def world() -> ErrorTable:
    """Errors that follow a hidden trait; its distances are the metric `given`."""
    rng = np.random.default_rng(0)
    traits, optima = rng.random((M, 2)), rng.random((C, 2))
    errors = np.linalg.norm(traits[:, None] - optima[None], axis=2) / 1.5
    return make_table(errors, unit=optima, distances={"given": np.linalg.norm(traits[:, None] - traits[None], axis=2)})


def play(table, *names, has_unit=True, **more):
    metrics = {name: given_metric(matrix) for name, matrix in table.distances.items()}
    methods = make_methods(list(metrics), next(iter(metrics), None), has_unit=has_unit)
    options = {"protocol": "leave-source-out", "horizon": H, "repeats": 1, **more}
    return evaluate(table, choose_methods(methods, names), metrics=metrics, settings=ReplaySettings(**options))


def curve(outcome, name) -> np.ndarray:
    return np.array([one.curves[name].mean(axis=0) for one in outcome.results])


def test_every_method_gives_a_falling_curve_of_the_horizon(world):
    errors = world.errors.copy()
    errors[np.random.default_rng(1).random(errors.shape) < 0.3] = np.nan
    outcome = play(make_table(errors, distances=world.distances), surrogate="gp-map")
    assert set(outcome.methods) >= {"random", "uniform", "latin", "halton", "cold-gp", "portfolio", "average-rank"}
    assert set(outcome.methods) >= {"arbitrary", "oracle-nearest", "portfolio-10+gp", *(set(STRATEGIES) - {"nearest"})}
    for one in outcome.results:
        for name, curves in one.curves.items():
            assert curves.shape == (CHEAP if name in ("uniform", "latin", "halton", "arbitrary") else 1, H)
            assert np.all(np.diff(curves, axis=1) <= 1e-12)
            assert np.all((curves >= 0) & (curves <= 1))
            assert 1 <= one.evaluations[name] <= H + 1


def test_the_oracle_has_no_regret_where_every_dataset_has_a_twin():
    rng = np.random.default_rng(0)
    base = rng.random((4, C))
    table = ErrorTable("t", np.concatenate([base, 0.5 * base + 0.2]), NAMES, tuple("abcdefgh"))
    outcome = play(table, "oracle-nearest", "random")
    np.testing.assert_array_equal(curve(outcome, "oracle-nearest"), 0.0)  # the twin differs in scale alone
    assert {one.evaluations["oracle-nearest"] for one in outcome.results} == {1.0}


def test_random_is_its_exact_expectation(world):
    outcome = play(world, "random")
    for row, one in enumerate(outcome.results):
        np.testing.assert_allclose(one.curves["random"][0], random_curve(world.errors[row], H))


def spy_methods(seen: list[Case]) -> dict[str, Method]:
    """Let every method say what it was shown."""

    def watch(method):
        def design(case, t, rng):
            seen.append(case)
            return method.design(case, t, rng)

        return Method(
            method.about,
            method.kind,
            design,
            method.search_after,
            is_random=method.is_random,
            metric=method.metric,
            is_calibrated=method.is_calibrated,
        )

    methods = make_methods(["given"], "given", has_unit=True)
    return {
        name: watch(method) for name, method in methods.items() if method.design is not None and name not in SEARCHES
    }


@pytest.mark.parametrize(("protocol", "answering"), [("leave-source-out", 6), ("in-source", 7)])
def test_no_method_is_shown_a_sibling_or_the_query(world, protocol, answering):
    seen = []
    metrics = {"given": given_metric(world.distances["given"])}
    settings = ReplaySettings(protocol=protocol, horizon=3, repeats=1, only=["d0"])
    evaluate(world, spy_methods(seen), metrics=metrics, settings=settings)
    hidden = {tuple(world.errors[row]) for row in ([0, 2] if protocol == "leave-source-out" else [0])}
    assert seen
    for case in seen:
        assert {tuple(row) for row in case.errors} == {tuple(row) for row in world.errors} - hidden
        assert len(case.errors) == len(case.groups) == answering
        assert all(len(distances) == answering for distances in case.distances.values())
        assert all(matrix.shape == (answering, answering) for matrix in case.between.values())
        assert ("a" in case.groups) == (protocol == "in-source")


def test_the_answer_depends_on_the_seed_and_on_nothing_else(world):
    names = ("latin", "cold-gp")
    whole = play(world, *names, surrogate="gp-map")
    for other in (
        play(world, *names, surrogate="gp-map", workers=2),
        play(world, *reversed(names), "portfolio", surrogate="gp-map", only=["d3"]),
    ):
        for one in other.results:
            for name in names:
                np.testing.assert_array_equal(one.curves[name], whole.results[one.row].curves[name])
    assert not np.array_equal(curve(play(world, "latin", seed=1), "latin"), curve(whole, "latin"))


class TestSnap:
    def test_each_point_takes_the_nearest_row_left(self):
        unit = np.array([[0.0, 0.0], [0.1, 0.0], [1.0, 1.0]])
        assert snap_to_nearest_config(np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), unit) == [0, 1, 2]

    def test_an_inactive_hyperparameter_is_no_gap(self):
        unit = np.array([[0.5, np.nan], [0.4, 0.9], [0.0, 0.0]])
        assert snap_to_nearest_config(np.array([[0.5, 0.1]]), unit) == [0]


def test_evaluations_of_a_drawn_design_are_averaged_over_its_draws(world):
    case = Case(world.errors[1:], {}, world.unit)
    method = Method("x", "baseline", lambda case, t, rng: rng.permutation(C)[:t], is_random=True)
    played = Replay({"x": method}, H, 2, 0, "gp")(Task(0, case, world.errors[0]))
    reached = [np.flatnonzero(np.append(one, 0.0) <= 0.05)[0] + 1 for one in played.curves["x"]]
    assert played.evaluations["x"] == pytest.approx(np.mean(reached))


def test_a_promise_comes_from_those_who_answer_alone(world):
    from warmstart.bo.transfer.calibration import calibrate
    from warmstart.bo.transfer.strategies import Query
    from warmstart.bo.transfer.strategies.joint import expected_regrets
    from warmstart.bo.transfer.strategies.query import number_groups

    outcome, groups = play(world, "joint", "portfolio"), np.array(GROUPS)
    matrix = world.distances["given"]
    for one in outcome.results:
        rest = np.flatnonzero(groups != groups[one.row])
        found = calibrate(world.errors[rest], matrix[np.ix_(rest, rest)], groups[rest].tolist())
        sources = number_groups(groups[rest].tolist())
        query = Query(world.errors[rest], matrix[one.row, rest], H, reach=found.reach, groups=sources)
        rows = initial_designs(
            query.errors, query.distances, H, calibration=found, groups=sources.tolist(), noise=USUAL_NOISE
        )
        np.testing.assert_allclose(one.promised["joint"], found.promise(expected_regrets(query, rows)))
        np.testing.assert_allclose(one.curves["joint"][0], regret_curve(world.errors[one.row], rows))
        assert set(one.promised) == {"joint"}


def test_a_failed_run_is_seen_as_error_one_and_one_never_made_is_not():
    errors = np.full((M, C), np.nan)
    errors[:, :3] = [0.2, 0.5, 0.6]
    failed = np.zeros((M, C), dtype=bool)
    failed[:, 3] = True
    known = make_table(errors, failed=failed).known_errors()
    np.testing.assert_array_equal(known[0, :5], [0.2, 0.5, 0.6, 1.0, np.nan])


def test_a_dataset_is_asked_about_what_was_measured_on_it(world):
    errors = world.errors.copy()
    errors[0, :20] = np.nan
    few = make_table(errors, distances=world.distances)
    outcome = play(few, "portfolio", "joint", "random", only=("d0",))
    alone = ErrorTable("t", errors[:, 20:], NAMES, GROUPS, unit=world.unit[20:], distances=world.distances)
    expected = play(alone, "portfolio", "joint", "random", only=("d0",))
    for name in ("portfolio", "joint", "random"):
        curves = outcome.results[0].curves[name]
        assert curves.shape == (1, H), "longer than there are configurations"
        np.testing.assert_allclose(curves[:, :4], expected.results[0].curves[name])
        assert curves[0, 3:].tolist() == [0, 0, 0]


def test_a_dataset_that_shares_no_configuration_is_refused(world):
    errors = np.full((M, C), np.nan)
    errors[0, :3] = 0.5, 0.4, 0.6
    errors[1:, 3:] = world.errors[1:, 3:]
    with pytest.raises(DataError, match="expected other datasets that share a configuration with d0, got none"):
        play(make_table(errors, distances=world.distances), "portfolio")


def test_the_papers_runs():
    runs = make_paper_methods({"ADF": "adf", "Bi-LSTM": "bilstm"})
    assert len(runs) == 10
    assert {acquisition for acquisition, _ in runs} == {"ei", "lcb"}
    assert all(method.search_after == 3 and method.acquisition == key[0] for key, method in runs.items())
