"""Names of two spaces."""

from __future__ import annotations

import pytest

from history_store.errors import UsageError
from history_store.pairing import last_part, pair_names, split_logarithm


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("rate", "rate"),
        ("learningRate", "learning_rate"),
        ("Learning-Rate", "learning_rate"),
        ("learning_rate", "log10_learning_rate"),
        ("log10_learning_rate", "learning_rate"),
        ("ln_C", "log2_c"),
        ("lr", "learning_rate"),
        ("lr", "log10_learning_rate"),
        ("dropout", "dropout_rate"),
        ("optimizer/lr", "learning_rate"),
        ("model.depth", "depth"),
        ("bs", "batch_size"),
        ("wd", "log10_weight_decay"),
    ],
)
def test_one_name_for_another(there: str, here: str) -> None:
    assert pair_names([there, "other"], ["nothing", here], rename={}) == ({here: there}, {})


@pytest.mark.parametrize(("there", "here"), [("rate", "learning_rate"), ("logistic", "log10_istic"), ("x", "y")])
def test_what_is_no_pair(there: str, here: str) -> None:
    assert pair_names([there], [here], rename={}) == ({}, {})


def test_the_better_name_wins() -> None:
    pairs, rivals = pair_names(["lr", "learning_rate", "LearningRate"], ["learning_rate"], rename={})
    assert pairs == {"learning_rate": "learning_rate"}
    assert rivals == {}


def test_two_that_fit_alike_are_left_to_the_person() -> None:
    pairs, rivals = pair_names(["a/depth", "b/depth"], ["depth"], rename={})
    assert pairs == {}
    assert rivals == {"a/depth": "depth", "b/depth": "depth"}
    pairs, rivals = pair_names(["a/depth", "b/depth"], ["depth"], rename={"b/depth": "depth"})
    assert pairs == {"depth": "b/depth"}
    assert rivals == {}


@pytest.mark.parametrize("rename", [{"no": "depth"}, {"a": "no"}, {"a": "depth", "b": "depth"}])
def test_a_wrong_rename_is_refused(rename: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"rename: expected a name of the source and one of the space .*, got '"):
        pair_names(["a", "b"], ["depth"], rename=rename)


def test_parts_of_names() -> None:
    assert split_logarithm("log10_rate") == ("log10", "rate")
    assert split_logarithm("log10_") == ("", "log10_")
    assert split_logarithm("ln_x") == ("ln", "x")
    assert split_logarithm("login_x") == ("", "login_x")
    assert (last_part("a/b.c"), last_part("a/"), last_part("a")) == ("c", "a/", "a")
