"""What every command has, and what the start-up costs."""

import json
import re
import subprocess
import sys

import pytest
import typer

from warmstart.cli.app import app
from warmstart.locations import shipped_history

HEAVY = {
    "torch",
    "torchvision",
    "numpy",
    "h5py",
    "pandas",
    "optuna",
    "scipy",
    "sklearn",
    "ConfigSpace",
    "faiss",
    "rich",
}
NOT_FOR_SUGGEST = {"torchvision", "pandas", "optuna", "scipy", "sklearn", "ConfigSpace"}


def commands(group=None, path=()):
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        elif not command.hidden:
            yield (*path, name), command


COMMANDS = dict(commands())


def test_the_commands_are_those_of_the_contract():
    history = [
        "create",
        "add",
        "record",
        "collect",
        "import",
        "export",
        "list",
        "show",
        "remove",
        "verify",
        "compact",
        "upgrade",
    ]
    assert {
        ("suggest",),
        ("neighbours",),
        ("fit-similarity",),
        ("evaluate",),
        *(("history", name) for name in history),
    } <= set(COMMANDS)
    assert {name for group, *name in COMMANDS if group == "plot" for name in name} == {"map", "ccov", "regret", "run"}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example_and_the_common_options(path, cli):
    run = cli(*path, "--help")
    assert run.code == 0
    assert f"Example:\n    warmstart {' '.join(path)}" in run.out
    run = cli(*path, "--help-all")
    assert run.code == 0
    for option in ("--format", "--quiet", "--verbose", "-q", "-v"):
        assert option in run.out
    assert "--seed" in {name for param in COMMANDS[path].params for name in param.opts}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_examples_in_help_name_options_that_exist(path):
    command = COMMANDS[path]
    known = {name for param in command.params for name in param.opts}
    text = re.sub('"[^"]*"', "", command.epilog)  # in quotes: a script's own
    used = {word for word in text.split() if word.startswith("-") and not word[1].isdigit()}
    assert used <= known


def test_version_is_the_installed_one(cli):
    from importlib.metadata import version

    assert cli("--version").out == f"warmstart {version('warmstart')}\n"


def test_no_command_shows_the_help_and_is_a_wrong_call(cli):
    run = cli()
    assert run.code == 2
    assert run.out == ""
    assert "warmstart classify photos/" in run.err
    assert "warmstart --help" in run.err
    assert cli("history").code == 2


@pytest.mark.parametrize("spelling", [["--format", "json"], ["--format=json"], ["-f", "json"], ["-fjson"]])
def test_errors_are_one_json_object_on_stderr(spelling, cli, use_tiny):
    run = cli("suggest", "--dataset", "nowhere", *spelling)
    error = json.loads(run.err)["error"]
    assert (run.code, run.out) == (2, "")
    assert error["type"] == "MissingPathError"
    assert error["exit_code"] == 2
    assert "nowhere: expected" in error["message"]


def test_a_traceback_comes_under_vv_alone(cli, use_tiny):
    assert "Traceback" not in cli("suggest", "--dataset", "nowhere", "-v").err
    assert "Traceback" in cli("suggest", "--dataset", "nowhere", "-vv").err
    assert "Traceback" in cli("suggest", "--dataset", "nowhere", "-v", "-v").err


def test_an_unexpected_error_has_code_1_and_asks_for_a_report(cli, monkeypatch):
    monkeypatch.setattr("warmstart.default_workload.measured_history", lambda *given: 1 / 0)
    run = cli("history", "list")
    assert run.code == 1
    assert run.err == "error: unexpected ZeroDivisionError: division by zero. Run again with -vv and report it.\n"


def test_an_interrupt_has_code_130(cli, monkeypatch):
    def interrupt(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("warmstart.default_workload.measured_history", interrupt)
    run = cli("history", "list", "--format", "json")
    assert run.code == 130
    assert json.loads(run.err)["error"]["exit_code"] == 130


def test_the_default_history_is_told_missing_where_none_was_shipped(cli, monkeypatch, tmp_path):
    monkeypatch.setattr("warmstart.locations._DEFAULTS", tmp_path)
    run = cli("history", "list")
    assert run.code == 4
    assert "expected the shipped history, got nothing" in run.err
    assert "expected the shipped model" in cli("suggest", "--dataset", "x", "--history", tmp_path / "h.h5").err


def modules_after(*args):
    """Run a command in a process and list what it imported."""
    code = f"import sys; from warmstart.cli import main; code = main({[str(arg) for arg in args]!r}); print('\\n'.join(sys.modules), file=sys.stderr); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize(
    "args", [["--help"], ["--version"], ["suggest", "--help"], ["history", "--help"]], ids=" ".join
)
def test_help_and_version_import_nothing_heavy(args):
    assert modules_after(*args) & HEAVY == set()


def test_history_list_imports_no_torch(use_tiny):
    assert (
        modules_after("history", "list", "--format", "json") & (NOT_FOR_SUGGEST | {"torch", "faiss", "rich"}) == set()
    )


def test_suggest_imports_torch_only_where_it_must(use_tiny, photos, tmp_path, monkeypatch):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path))
    call = ("suggest", "--dataset", photos, "--format", "json")
    cold, cached = modules_after(*call), modules_after(*call)
    assert "torch" in cold
    assert cold & NOT_FOR_SUGGEST == set()
    assert cached & (NOT_FOR_SUGGEST | {"torch"}) == set()


def test_the_shipped_model_needs_no_torch(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path))
    shipped = ("--history", shipped_history())
    found = modules_after("suggest", "--dataset", photos, *shipped, "--format", "json", "--no-cache")
    assert found & (NOT_FOR_SUGGEST | {"torch"}) == set()


def test_a_reader_that_leaves_is_no_error(use_tiny):
    command = f"{sys.executable} -m warmstart history list | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("0\n")
    assert done.stderr == ""


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_plain_help_shows_at_most_ten_options_and_a_seed_has_the_same_limits_everywhere(path, cli):
    shown = [line for line in cli(*path, "--help").out.partition("\nOutput:")[0].splitlines() if line.startswith("  -")]
    assert len(shown) <= 10
    (seed,) = [param for param in COMMANDS[path].params if "--seed" in param.opts]
    run = cli(*path, "--seed", -1)
    assert run.code == 2, seed


def test_the_name_of_0_2_works_and_says_the_present_one(cli):
    run = cli("train", "--help")
    assert run.code == 0
    assert "Usage: warmstart fit-similarity " in run.out
    assert run.err == "`train` is called `fit-similarity` now; the old name goes with the next version.\n"
    assert "train" not in cli("--help").out.split()
