"""The contract of strategies; inherit `StrategyContract` and name the tested strategy."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import pytest

from warmstart.bo.transfer.designs import designs, initial_designs
from warmstart.bo.transfer.regret import regret_curve
from warmstart.bo.transfer.strategies import STRATEGIES, Choice, Query

M, C = 9, 24


def make_errors(seed: int, *, missing: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    errors = np.clip(rng.random((M, 1)) * 0.4 + rng.random(C) * 0.3 + rng.random((M, C)) * 0.3, 0, 1)
    errors[rng.random((M, C)) < missing] = np.nan
    return errors


def make_distances(seed: int) -> np.ndarray:
    return np.random.default_rng(seed + 1000).random(M)


HIDDEN = {
    "at random": lambda shape, share, rng: rng.random(shape) < share,
    "the second half": lambda shape, share, rng: (
        (rng.random(shape[0]) < min(1.8 * share, 0.9))[:, None] & (np.arange(shape[1]) >= shape[1] // 2)
    ),
    "a stretch of each": lambda shape, share, rng: (
        (np.arange(shape[1]) - rng.integers(shape[1], size=(shape[0], 1))) % shape[1] < share * shape[1]
    ),
    "most of some configurations": lambda shape, share, rng: (
        (rng.random(shape) < 0.8) & (rng.random(shape[1]) < share / 0.8)
    ),
}


class StrategyContract(ABC):
    """A strategy on small tables of errors, whole and with missing cells."""

    sees_through_gaps: ClassVar[bool] = False
    """Whether missing cells hardly change its choice, also if they depend on the level of a dataset's errors."""

    @pytest.fixture
    @abstractmethod
    def strategy(self) -> str:
        """Return the strategy's name in `warmstart.bo.transfer.strategies.STRATEGIES`."""

    @pytest.mark.parametrize(("missing", "k"), [(0.0, 1), (0.4, M), (0.4, M + 1), (0.9, C)])
    def test_gives_k_distinct_plain_rows(self, strategy, missing, k):
        for seed in range(5):
            rows = initial_designs(make_errors(seed, missing=missing), make_distances(seed), k, strategy=strategy)
            assert isinstance(rows, list)
            assert all(type(row) is int and 0 <= row < C for row in rows)
            assert len(set(rows)) == len(rows) == k

    def test_answers_for_itself_with_at_most_k(self, strategy):
        for seed in range(5):
            choices = STRATEGIES[strategy](Query(make_errors(seed, missing=0.7), make_distances(seed), 12))
            assert len(choices) <= 12
            assert all(isinstance(choice, Choice) for choice in choices)

    def test_fewer_are_the_first_of_more(self, strategy):
        errors, distances = make_errors(0, missing=0.2), make_distances(0)
        longest = initial_designs(errors, distances, M, strategy=strategy)
        for k in range(1, M):
            assert initial_designs(errors, distances, k, strategy=strategy) == longest[:k]

    def test_is_deterministic_and_leaves_its_input_alone(self, strategy):
        errors, distances = make_errors(1, missing=0.2), make_distances(1)
        copies = errors.copy(), distances.copy()
        first = designs(errors, distances, 7, strategy=strategy)
        assert designs(errors, distances, 7, strategy=strategy) == first
        np.testing.assert_array_equal(errors, copies[0])
        np.testing.assert_array_equal(distances, copies[1])

    def test_reports_where_a_row_comes_from(self, strategy):
        errors, distances = make_errors(2, missing=0.3), make_distances(2)
        for choice in designs(errors, distances, C, strategy=strategy):
            assert [choice.neighbour is None, choice.distance is None, choice.source_error is None].count(True) in (
                0,
                3,
            )
            if choice.neighbour is not None:
                assert type(choice.neighbour) is int
                assert choice.distance == distances[choice.neighbour]
                assert choice.source_error == errors[choice.neighbour, choice.row]

    def test_ignores_the_scale_of_errors_and_distances(self, strategy):
        errors, distances = make_errors(3, missing=0.2), make_distances(3)
        reference = initial_designs(errors, distances, 8, strategy=strategy)
        assert initial_designs(errors * 0.25, distances * 64, 8, strategy=strategy) == reference

    def test_follows_a_permutation_of_datasets(self, strategy):
        errors, distances = make_errors(4, missing=0.2), make_distances(4)
        order = np.random.default_rng(0).permutation(M)
        reference = initial_designs(errors, distances, 8, strategy=strategy)
        assert initial_designs(errors[order], distances[order], 8, strategy=strategy) == reference

    def test_follows_a_permutation_of_configurations(self, strategy):
        errors, distances = make_errors(5), make_distances(5)
        order = np.random.default_rng(0).permutation(C)
        reference = initial_designs(errors, distances, 8, strategy=strategy)
        permuted = initial_designs(errors[:, order], distances, 8, strategy=strategy)
        assert [int(order[row]) for row in permuted] == reference

    def test_never_measured_configurations_come_last(self, strategy):
        errors = make_errors(6)
        errors[:, [0, 7, 11]] = np.nan
        assert initial_designs(errors, make_distances(6), C, strategy=strategy)[-3:] == [0, 7, 11]

    def test_stands_a_dataset_without_any_error(self, strategy):
        errors, distances = make_errors(7), make_distances(7)
        errors[int(np.argmin(distances))] = np.nan
        assert len(initial_designs(errors, distances, 5, strategy=strategy)) == 5

    def test_a_dataset_without_any_error_equals_none(self, strategy):
        errors, distances, groups = make_errors(7, missing=0.2), make_distances(7), ["a", "a", *range(M - 2)]
        nearest = int(np.argmin(distances))
        errors[nearest] = np.nan
        rest = [row for row in range(M) if row != nearest]
        actual = designs(errors, distances, 8, strategy=strategy, groups=groups)
        expected = designs(errors[rest], distances[rest], 8, strategy=strategy, groups=[groups[row] for row in rest])
        assert [choice.row for choice in actual] == [choice.row for choice in expected]
        back = [None if choice.neighbour is None else rest[choice.neighbour] for choice in expected]
        assert [choice.neighbour for choice in actual] == back

    @pytest.mark.parametrize(("how", "share"), list(zip(HIDDEN, (0.6, 0.3, 0.6, 0.1), strict=True)))
    def test_missing_cells_move_no_choice_where_datasets_agree_but_for_scale(self, strategy, how, share):
        if not self.sees_through_gaps:
            pytest.skip("takes errors as they are")
        for seed in range(3):
            rng = np.random.default_rng(seed)
            errors = rng.random((16, 1)) + rng.uniform(0.2, 1, (16, 1)) * rng.random(40)
            mask = HIDDEN[how](errors.shape, share, rng)
            mask[:, (~mask).sum(axis=0) == 0] = False
            distances = rng.random(16)
            hidden = np.where(mask, np.nan, errors)
            full = initial_designs(errors, distances, 5, strategy=strategy)
            assert initial_designs(hidden, distances, 5, strategy=strategy) == full

    @pytest.mark.parametrize(("how", "share"), list(zip(HIDDEN, (0.6, 0.3, 0.6, 0.1), strict=True)))
    def test_missing_cells_cost_next_to_nothing_where_datasets_differ(self, strategy, how, share):
        if not self.sees_through_gaps:
            pytest.skip("takes errors as they are")

        costs = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            # Good configurations come late, so that who measured the first half alone must not speak for them.
            quality = np.linspace(0.5, 0.0, 40) + 0.4 * rng.random(40)
            errors = rng.random((30, 1)) + rng.uniform(0.2, 1, (30, 1)) * (
                quality + 0.12 * rng.standard_normal((30, 40))
            )
            distances = rng.random(20)
            mask = HIDDEN[how]((20, 40), share, rng)
            mask[:2] = False  # what nobody measured cannot be chosen
            hidden = np.where(mask, np.nan, errors[:20])
            full = initial_designs(errors[:20], distances, 3, strategy=strategy)
            ours = initial_designs(hidden, distances, 3, strategy=strategy)
            costs += [regret_curve(row, ours)[-1] - regret_curve(row, full)[-1] for row in errors[20:]]
        by_seed = np.reshape(costs, (12, 10)).mean(axis=1)
        assert by_seed.mean() < 0.01 + 2 * by_seed.std(ddof=1) / np.sqrt(12)
        assert by_seed.mean() < 0.04

    def test_stands_constant_errors_and_a_single_cell(self, strategy):
        assert initial_designs(np.full((3, 4), 0.5), np.zeros(3), 4, strategy=strategy) == [0, 1, 2, 3]
        assert initial_designs([[np.nan, 0.2, np.nan]], [0.0], 3, strategy=strategy) == [1, 0, 2]

    def test_works_without_distances(self, strategy):
        assert len(initial_designs(make_errors(8), None, 5, strategy=strategy)) == 5

    def test_its_first_design_is_the_best_where_all_datasets_agree(self, strategy):
        errors = np.tile(np.random.default_rng(0).random(C), (M, 1))
        assert initial_designs(errors, make_distances(0), 1, strategy=strategy) == [int(np.argmin(errors[0]))]

    def test_beats_random_where_datasets_resemble_each_other(self, strategy):

        ours, chance = [], []
        for seed in range(20):
            errors = make_errors(seed)
            rows = initial_designs(errors[1:], make_distances(seed)[1:], 3, strategy=strategy)
            ours.append(regret_curve(errors[0], rows)[-1])
            chance.append(regret_curve(errors[0], np.random.default_rng(seed).choice(C, 3, replace=False).tolist())[-1])
        assert np.mean(ours) < 0.8 * np.mean(chance)
