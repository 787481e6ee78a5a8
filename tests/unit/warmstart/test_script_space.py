"""Spaces proposed from the arguments of scripts, in the style in which people write them."""

import re
import shlex

import pytest
from ConfigSpace import CategoricalHyperparameter, UniformFloatHyperparameter, UniformIntegerHyperparameter

from warmstart.history_store.errors import DataError
from warmstart.history_store.space_yaml import parse_space
from warmstart.script_space import propose_space
from warmstart.studies.objectives.command import CommandObjective

SCRIPT = """
import argparse
import torch  # not there: the script is read, not run

def get_args():
    parser = argparse.ArgumentParser(description="Train")
    parser.add_argument("data", help="path to dataset")
    parser.add_argument("-b", "--batch-size", default=256, type=int, metavar="N", help="mini-batch size (default: 256)")
    parser.add_argument("--lr", "--learning-rate", default=0.1, type=float, dest="lr")
    parser.add_argument("--wd", type=float, default=1e-4, help="weight decay # L2")
    group = parser.add_argument_group("model")
    group.add_argument("--arch", choices=["resnet18", "resnet-50", "on"], default="resnet18")
    group.add_argument("--hidden", default=128, type=int)
    group.add_argument("--max-depth", type=int, default=4)
    group.add_argument("--dropout", type=float, default=0.6)
    group.add_argument("--kernel", type=int, choices=[3, 5, 7], default=5)
    parser.add_argument("--nesterov", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--epochs", default=90, type=int)
    parser.add_argument("--seed", default=None, type=int)
    parser.add_argument("--betas", type=float, nargs=2, default=[0.9, 0.999])
    parser.add_argument("--output-dir", default="runs")
    parser.add_argument("--num-classes", type=int, default=10)
    parser.add_argument("--project", required=True)
    parser.add_argument("--clip", type=float, default=float("inf"))
    return parser.parse_args()
"""


def proposed(tmp_path, text=SCRIPT):
    (tmp_path / "train.py").write_text(text)
    return propose_space(tmp_path / "train.py")


def test_types_defaults_and_scales_are_kept(tmp_path):
    found = proposed(tmp_path)
    space = parse_space(found.text)
    rates = {name: item for name, item in space.items() if isinstance(item, UniformFloatHyperparameter)}
    assert {name: (item.lower, item.upper, item.log, item.default_value) for name, item in rates.items()} == {
        "lr": (0.001, 1.0, True, 0.1),
        "wd": (1e-6, 0.01, True, 1e-4),
        "dropout": (0.0, 0.6, False, 0.6),
    }
    whole = {name: item for name, item in space.items() if isinstance(item, UniformIntegerHyperparameter)}
    assert {name: (item.lower, item.upper, item.log) for name, item in whole.items()} == {
        "hidden": (32, 512, True),
        "max_depth": (2, 8, False),
    }
    assert (space["batch_size"].sequence, space["batch_size"].default_value) == ((64, 128, 256, 512, 1024), 256)
    assert (space["kernel"].sequence, space["kernel"].default_value) == ((3, 5, 7), 5)
    assert space["arch"].choices == ("resnet18", "resnet-50", "on")
    assert isinstance(space["nesterov"], CategoricalHyperparameter)
    assert (
        "# Left out: data, --amp, --epochs, --seed, --betas, --output-dir, --num-classes, --project, --clip."
        in found.text
    )
    assert "  # --batch-size: mini-batch size (default: 256)" in found.text


def test_the_command_is_one_that_a_study_takes(tmp_path):
    found = proposed(tmp_path)
    CommandObjective(found.command, found.names)
    words = shlex.split(found.command)
    assert words[2] == "DATA"
    assert words[words.index("--learning-rate") + 1] == "{lr}"
    assert words[words.index("--output-dir") + 1] == "{warmstart.dir}"
    assert words[words.index("--seed") + 1] == "{warmstart.seed}"
    assert words[words.index("--project") + 1] == "PROJECT"
    assert "{nesterov}" in words
    assert "--nesterov" not in words
    (shown,) = re.findall(r"^# warmstart tune .* --command (.*)$", found.text, re.MULTILINE)
    assert shlex.split(shown) == [found.command]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("print(1", r"train\.py: expected a Python script, got SyntaxError"),
        ("import click", r"expected arguments of argparse .*, got no call of add_argument\. .*`warmstart space init`"),
        ("p.add_argument('--epochs', type=int)", r"got --epochs\."),
    ],
)
def test_a_script_without_arguments_to_search_is_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        proposed(tmp_path, text)


def test_the_example_of_init_is_a_space():
    from warmstart.cli.space import _EXAMPLE

    assert len(parse_space(_EXAMPLE)) == 9
