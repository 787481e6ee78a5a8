"""Methods on tables where the right answer is known, and on which nothing leaks."""

import numpy as np
import pytest

from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.regret import random_curve, regret_curve
from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.bo.transfer.strategies.noise import USUAL_NOISE
from warmstart.history_store.errors import DataError, UsageError
from warmstart.training.evaluation.methods import (
    Case,
    Method,
    choose_methods,
    make_methods,
    make_paper_methods,
    nearest_name,
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


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_every_method_gives_a_falling_curve_of_the_horizon(world, missing):
    errors = world.errors.copy()
    errors[np.random.default_rng(1).random(errors.shape) < missing] = np.nan
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


def test_the_portfolio_is_best_where_one_configuration_wins_everywhere():
    errors = np.random.default_rng(0).uniform(0.5, 1.0, (M, C))
    errors[:, 7] = 0.0
    outcome = play(make_table(errors), "portfolio", "average-rank", "random")
    np.testing.assert_array_equal(curve(outcome, "portfolio"), 0.0)
    assert curve(outcome, "random").mean() > 0.1


def test_random_is_its_exact_expectation(world):
    outcome = play(world, "random")
    for row, one in enumerate(outcome.results):
        np.testing.assert_allclose(one.curves["random"][0], random_curve(world.errors[row], H))


def test_strategies_ask_the_other_groups_alone(world):
    outcome = play(world, "nearest-given", "portfolio")
    others = [row for row in range(M) if GROUPS[row] != "a"]
    for name, distances in (("nearest-given", world.distances["given"][0, others]), ("portfolio", None)):
        strategy = name.partition("-")[0]
        groups = [GROUPS[row] for row in others]
        rows = initial_designs(world.errors[others], distances, H, strategy=strategy, groups=groups, noise=USUAL_NOISE)
        np.testing.assert_allclose(outcome.results[0].curves[name][0], regret_curve(world.errors[0], rows))


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


def test_a_leak_would_be_seen(world):
    """A sibling with the query's very errors changes everything in-source and nothing when sources are left out."""
    errors = world.errors.copy()
    errors[2] = errors[0]
    distances = world.distances["given"].copy()
    distances[0, 2] = distances[2, 0] = 0.0
    leaky = make_table(errors, distances={"given": distances})
    names = (
        "nearest-given",
        "portfolio",
        "average-rank",
        "oracle-nearest",
        *(set(STRATEGIES) - {"nearest", "portfolio", "average-rank"}),
    )
    before, after = (play(table, *names, only=["d0"]).results[0].curves for table in (world, leaky))
    for name in names:
        np.testing.assert_array_equal(before[name], after[name])
    found = play(leaky, "nearest-given", "oracle-nearest", only=["d0"], protocol="in-source").results[0]
    assert found.curves["nearest-given"][0, 0] == found.curves["oracle-nearest"][0, 0] == 0.0


def test_arbitrary_neighbours_are_worth_the_mean_of_the_others_bests(world):
    outcome = play(world, "arbitrary", repeats=60)
    for row in (0, 3):
        others = [j for j in range(M) if GROUPS[j] != GROUPS[row]]
        chance = np.mean([regret_curve(world.errors[row], [int(world.errors[j].argmin())])[0] for j in others])
        assert outcome.results[row].curves["arbitrary"][:, 0].mean() == pytest.approx(chance, abs=0.05)


def test_a_search_goes_on_from_the_designs(world):
    outcome = play(world, "portfolio", "portfolio-10+gp", horizon=13, repeats=2, surrogate="gp-map")
    for one in outcome.results:
        for repeat in one.curves["portfolio-10+gp"]:
            np.testing.assert_array_equal(repeat[:10], one.curves["portfolio"][0, :10])


def test_the_answer_depends_on_the_seed_and_on_nothing_else(world):
    names = ("latin", "arbitrary", "cold-gp", "nearest-given")
    whole = play(world, *names, surrogate="gp-map")
    for other in (
        play(world, *names, surrogate="gp-map", workers=2),
        play(world, *reversed(names), "portfolio", surrogate="gp-map", only=["d3"]),
    ):
        for one in other.results:
            for name in names:
                np.testing.assert_array_equal(one.curves[name], whole.results[one.row].curves[name])
    assert not np.array_equal(curve(play(world, "arbitrary", seed=1), "arbitrary"), curve(whole, "arbitrary"))


def test_a_table_without_configurations_or_distances_has_fewer_methods():
    found = make_methods([], None, has_unit=False)
    assert list(found) == ["random", "portfolio", "average-rank", "arbitrary", *(n for n in found if "oracle" in n)]


def test_the_papers_runs():
    runs = make_paper_methods({"ADF": "adf", "Bi-LSTM": "bilstm"})
    assert len(runs) == 10
    assert {acquisition for acquisition, _ in runs} == {"ei", "lcb"}
    assert all(method.search_after == 3 and method.acquisition == key[0] for key, method in runs.items())


def test_unknown_names_and_numbers_are_told(world):
    with pytest.raises(UsageError, match=r"methods: expected names among random, .*got magic"):
        play(world, "magic")
    with pytest.raises(UsageError, match="only: expected datasets of t, got nobody"):
        play(world, "random", only=["nobody"])
    with pytest.raises(UsageError, match="repeats: expected at least 1, got 0"):
        play(world, "random", repeats=0)
    bad = make_table(world.errors, distances={"given": np.full((M, M), np.nan)})
    with pytest.raises(DataError, match="given: expected distances of 0 or more"):
        play(bad, nearest_name("given"))


class TestSnap:
    def test_each_point_takes_the_nearest_row_left(self):
        unit = np.array([[0.0, 0.0], [0.1, 0.0], [1.0, 1.0]])
        assert snap_to_nearest_config(np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), unit) == [0, 1, 2]

    def test_an_inactive_hyperparameter_is_no_gap(self):
        unit = np.array([[0.5, np.nan], [0.4, 0.9], [0.0, 0.0]])
        assert snap_to_nearest_config(np.array([[0.5, 0.1]]), unit) == [0]

    def test_a_whole_table_is_used_up(self):
        unit = np.random.default_rng(0).random((12, 3))
        assert sorted(snap_to_nearest_config(np.random.default_rng(1).random((12, 3)), unit)) == list(range(12))


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
    from warmstart.bo.transfer.strategies.sources import number_groups

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
