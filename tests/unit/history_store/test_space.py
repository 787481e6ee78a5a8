"""Search spaces: the two of the target network, shared Sobol configurations, JSON, unit vectors."""

import numpy as np
import pytest
from ConfigSpace import (
    Categorical,
    Configuration,
    ConfigurationSpace,
    Constant,
    EqualsCondition,
    Float,
    ForbiddenAndConjunction,
    ForbiddenEqualsClause,
    ForbiddenGreaterThanRelation,
    InCondition,
    Integer,
    Normal,
    OrdinalHyperparameter,
)

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.numbering import sobol_configs, to_unit
from warmstart.history_store.space import dump_space, load_space, natural
from warmstart.training.workloads.cnn.space import target_space


def mixed_space() -> ConfigurationSpace:
    """Every kind of hyperparameter, two conditions, two forbidden clauses."""
    space = ConfigurationSpace(name="mixed")
    kernel = Categorical("kernel", ["linear", "poly", "rbf"])
    degree, gamma = Integer("degree", (2, 10)), Float("gamma", (1e-4, 10.0), log=True)
    size = OrdinalHyperparameter("size", ["s", "m", "l"])
    low, high = Integer("low", (0, 9)), Integer("high", (0, 9))
    space.add(
        kernel,
        degree,
        gamma,
        size,
        low,
        high,
        Float("C", (1e-5, 1e3), log=True),
        Integer("units", (4, 512), log=True),
        Categorical("shrink", [True, False]),
        Float("bell", (-3.0, 3.0), distribution=Normal(0, 1)),
        Constant("version", 3),
    )
    space.add(EqualsCondition(degree, kernel, "poly"), InCondition(gamma, kernel, ["poly", "rbf"]))
    space.add(
        ForbiddenAndConjunction(ForbiddenEqualsClause(kernel, "linear"), ForbiddenEqualsClause(size, "l")),
        ForbiddenGreaterThanRelation(low, high),
    )
    return space


SPACES = {"compact": target_space, "paper": lambda: target_space("paper"), "mixed": mixed_space}


@pytest.fixture(params=SPACES)
def space(request) -> ConfigurationSpace:
    return SPACES[request.param]()


class TestSobolConfigs:
    def test_fewer_are_the_first_of_more(self, space):
        longest = sobol_configs(space, 70)
        for n in (1, 63, 64, 65):
            assert sobol_configs(space, n) == longest[:n]

    def test_inactive_values_are_absent(self):
        for config in sobol_configs(mixed_space(), 100):
            assert ("degree" in config) == (config["kernel"] == "poly")
            assert ("gamma" in config) == (config["kernel"] != "linear")

    def test_forbidden_ones_are_passed_over(self):
        for config in sobol_configs(mixed_space(), 100):
            assert not (config["kernel"] == "linear" and config["size"] == "l")
            assert config["low"] <= config["high"]

    def test_integers_and_choices_get_equal_shares(self):
        space = ConfigurationSpace()
        space.add(Integer("i", (1, 9)), Categorical("c", ["a", "b"]), OrdinalHyperparameter("o", [1, 2, 4]))
        space.add(Float("x", (0.0, 1.0)))
        configs = sobol_configs(space, 576)
        for name, n_values in (("i", 9), ("c", 2), ("o", 3)):
            counts = np.unique([config[name] for config in configs], return_counts=True)[1]
            assert len(counts) == n_values
            assert abs(counts - 576 / n_values).max() <= 4

    def test_forbidden_clauses_shrink_a_finite_space(self):
        space = ConfigurationSpace()
        space.add(Integer("a", (1, 3)), Categorical("b", ["x", "y"]))
        space.add(ForbiddenEqualsClause(space["a"], 1))
        assert len(sobol_configs(space, 4)) == 4
        with pytest.raises(UsageError, match="at least 5 distinct configurations, got 4"):
            sobol_configs(space, 5)
        with pytest.raises(UsageError, match="at least 7 distinct configurations, got at most 6"):
            sobol_configs(space, 7)

    def test_refusals(self):
        with pytest.raises(UsageError, match="got n=0"):
            sobol_configs(target_space(), 0)
        with pytest.raises(UsageError, match="got at most 0"):
            sobol_configs(ConfigurationSpace(), 1)


class TestJson:
    def test_round_trip(self):
        text = dump_space(mixed_space())
        assert load_space(text) == mixed_space()
        assert dump_space(load_space(text)) == text

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "{}",
            '{"hyperparameters": 3}',
            '{"hyperparameters": [{"type": "zzz", "name": "a"}]}',
        ],
    )
    def test_other_texts_are_refused(self, text):
        with pytest.raises(DataError, match=r"^my\.json: expected ConfigSpace JSON"):
            load_space(text, "my.json")


class TestToUnit:
    def test_decodes_back(self, space):
        configs = sobol_configs(space, 60)
        for row, config in zip(to_unit(space, configs), configs, strict=True):
            decoded = dict(Configuration(space, vector=row))
            assert decoded == {k: pytest.approx(v, rel=1e-9) if isinstance(v, float) else v for k, v in config.items()}

    def test_hand_values(self):
        config = {
            "log10_learning_rate": -2.5,
            "log10_decay_rate": -8.0,
            "batch_size": 32,
            "num_layers_conv": 5,
            "num_layers_fc": 2,
            "dropout_rate": 0.45,
        }
        unit = dict(zip(target_space(), to_unit(target_space(), [config])[0], strict=True))
        assert unit["log10_learning_rate"] == pytest.approx(0.5)
        assert unit["log10_decay_rate"] == 0.0
        assert unit["dropout_rate"] == pytest.approx(0.5)
        assert unit["batch_size"] == pytest.approx(1.0, abs=0.03)

    @pytest.mark.parametrize(
        "change", [{"batch_size": 400}, {"batch_size": 8.5}, {"colour": "red"}, {"dropout_rate": "x"}]
    )
    def test_a_configuration_of_another_space_is_refused(self, change):
        config = {**sobol_configs(target_space(), 1)[0], **change}
        with pytest.raises(DataError, match="expected one that the space 'target-cnn-compact' allows"):
            to_unit(target_space(), [config])

    def test_a_forbidden_one_is_refused(self):
        config = next(config for config in sobol_configs(mixed_space(), 50) if config["kernel"] == "linear")
        with pytest.raises(DataError, match="expected one that the space 'mixed' allows"):
            to_unit(mixed_space(), [{**config, "size": "l"}])


def test_natural_gives_the_values_behind_logarithms():
    config = {"log10_learning_rate": -2.9, "batch_size": 264, "log10_note": "none"}
    assert natural(config) == {"learning_rate": pytest.approx(0.00126, rel=1e-2)}


def test_natural_values_are_taken_for_their_logarithms_and_shown():
    from warmstart.history_store.space import shown, with_logarithms

    names = ["log10_learning_rate", "momentum"]
    assert with_logarithms({"learning_rate": 0.01, "momentum": 0.9}, names) == {
        "log10_learning_rate": -2.0,
        "momentum": 0.9,
    }
    both = {"learning_rate": 0.01, "log10_learning_rate": -2.0001}
    assert with_logarithms(both, names) == {"log10_learning_rate": -2.0001}
    assert with_logarithms({"rate": 3}, names) == {"rate": 3}, "what the space does not have is told by it"
    assert shown({"log10_learning_rate": -2.0, "momentum": 0.9}) == {"learning_rate": 0.01, "momentum": 0.9}
    assert shown({"log10_a": -2.0, "a": 7}) == {"log10_a": -2.0, "a": 7}, "two hyperparameters"
    assert shown({"suffix": "", "n": 0}) == {"suffix": '""', "n": 0}, "told from one that is not active"


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"learning_rate": 0.01, "log10_learning_rate": -3}, r"expected learning_rate to be 10\^log10_learning_rate, got 0.01 and -3"),
        ({"learning_rate": 0}, "expected learning_rate > 0, got 0"),
        ({"learning_rate": "fast"}, "expected learning_rate > 0, got 'fast'"),
        ({"learning_rate": True}, "expected learning_rate > 0, got True"),
        ({"learning_rate": 0.01, "log10_learning_rate": "low"}, "got 0.01 and 'low'"),
    ],
)  # fmt: skip
def test_natural_values_that_contradict_are_refused(config, match):
    from warmstart.history_store.errors import UsageError
    from warmstart.history_store.space import with_logarithms

    with pytest.raises(UsageError, match=match):
        with_logarithms(config, ["log10_learning_rate"])
