"""Names of two spaces."""

from __future__ import annotations

import pytest

from warmstart.history_store.errors import UsageError
from warmstart.history_store.hyperparameter_names import pair_names, pairing_rule


def test_two_that_fit_alike_are_left_to_the_person() -> None:
    pairs, rivals = pair_names(["a/depth", "b/depth"], ["depth"], rename={})
    assert pairs == {}
    assert rivals == {"a/depth": "depth", "b/depth": "depth"}
    pairs, rivals = pair_names(["a/depth", "b/depth"], ["depth"], rename={"b/depth": "depth"})
    assert pairs == {"depth": "b/depth"}
    assert rivals == {}


@pytest.mark.parametrize(
    ("rename", "told"),
    [
        ({"no": "depth"}, r"a name of the source \(a, b\), got 'no'"),
        ({"a": "no"}, r"a name of the space \(depth\), got 'no'"),
        ({"a": "depth", "b": "depth"}, "each name of the space once, got 'depth' for 'a' and for 'b'"),
    ],
)
def test_a_wrong_rename_is_refused(rename: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=f"rename: expected {told}"):
        pair_names(["a", "b"], ["depth"], rename=rename)


@pytest.mark.parametrize(
    ("there", "here", "rule"),
    [
        ("lr", "lr", "same name"),
        ("learningRate", "learning_rate", "same letters"),
        ("log10_learning_rate", "learning_rate", "same name but for its scale"),
        ("log10_learning_rate", "lr", "common name"),
        ("dropout_rate", "p_drop", "common name"),
        ("log10_learning_rate", "optimizer.lr", "last part of the name"),
        ("batch_size", "train:bs", "last part of the name"),
        ("num_layers_conv", "n_layers", "broader name"),
    ],
)
def test_the_rule_of_a_pair(there: str, here: str, rule: str) -> None:
    assert pairing_rule(there, here) == rule
    assert pair_names([there, "other"], ["nothing", here], rename={}, guess=True) == ({here: there}, {})


def test_a_broader_name_is_a_guess_that_gives_way() -> None:
    both = ["num_layers_conv", "num_layers_fc"]
    assert pair_names(both, ["n_layers"], rename={})[0] == {}
    assert pair_names(both, ["n_layers"], rename={}, guess=True)[0] == {"n_layers": "num_layers_conv"}
    assert pair_names(both, ["depth", "n_conv"], rename={}, guess=True)[0] == {"n_conv": "num_layers_conv"}


@pytest.mark.parametrize(
    "here", ["weight_decay", "wd", "l2", "weight.decay_rate", "decay", "optimizer.weight_decay", "ema"]
)
def test_the_decay_of_the_learning_rate_is_no_weight_decay(here: str) -> None:
    assert pair_names(["log10_decay_rate"], [here], rename={}, guess=True)[0] == {}


def test_names_that_are_never_together_share_one() -> None:
    names = ["sgd.lr", "adam.lr"]
    assert pair_names(["lr"], names, rename={}, exclusive=lambda _: True)[0] == dict.fromkeys(names, "lr")
    assert pair_names(["lr"], names, rename={}, exclusive=lambda _: False)[0] == {}
