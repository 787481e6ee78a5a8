"""Small things that a person meets first: help, names that are nearly right, completion."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def test_the_dataset_may_be_positional(photos, use_tiny, cli):
    for command in ("suggest", "neighbours"):
        named, plain = (cli(command, *how, photos, "--format", "json") for how in (("--dataset",), ()))
        assert (plain.code, plain.json()) == (0, named.json())
        assert cli(command, photos, "--dataset", photos, "--format", "json").json() == named.json()
        assert "expected one dataset, got 'a' and --dataset 'b'" in cli(command, "a", "-d", "b").err
        run = cli(command)
        assert (run.code, "Give your images: `warmstart suggest photos/`." in run.err) == (2, True)


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("suggest", "cifar10"), "torchvision:CIFAR10"),
        (("suggest", "Digits"), "sklearn:digits"),
        (("sugest", "x"), "'suggest'"),
        (("suggest", "sklearn:digits", "--format", "jsn"), "json"),
        (("tune", "--pruner", "hyperbnd"), "hyperband"),
        (("evaluate", "--rivals", "randm"), "random"),
    ],
)
def test_did_you_mean(args, hint, cli, use_tiny):
    run = cli(*args)
    assert run.code == 2
    assert run.err.rstrip().endswith(f"Did you mean {hint}?")
    assert "Value error" not in run.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("suggest", "x", "-k", "abc"), "error: -k: expected a whole number, got 'abc'. Correct it."),
        (("tune", "--trials", "2", "--trials=0"), "error: --trials: expected at least 1, got '0'. Correct it."),
        (
            ("history", "collect", "h.h5", "x.toml", "--budget", "soon"),
            "error: --budget: expected a length of time above 0, got 'soon'. Write 3h, 90m, 1h30m or a number of seconds.",
        ),
        (("tune", "--trials"), "error: --trials: expected a value, got none. Write it after that."),
        (("suggest", "a", "b"), "error: expected nothing more, got b. Put what has spaces in quotes."),
        (("history", "add"), "error: HISTORY: expected a value, got none. `--help` tells of it."),
        (("cache", "--xyz"), "error: expected an option of the command, got --xyz. `--help` lists them."),
        (("suggest", "x", "-f", "jsn"), "got 'jsn'. Correct it. Did you mean json?"),
        (("tune", "--no-warm=3"), "error: --no-warm: expected no value, got one. Leave it out."),
    ],
)
def test_a_wrong_call_is_told_in_our_words(args, said, cli):
    run = cli(*args)
    assert run.code == 2
    assert run.err.rstrip().endswith(said)


def test_a_shell_completes_commands_and_options():
    program = Path(sys.executable).with_name("warmstart")
    words = {"COMP_WORDS": "warmstart sug", "COMP_CWORD": "1", "_WARMSTART_COMPLETE": "complete_bash"}
    done = subprocess.run([program], env=os.environ | words, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "suggest" in done.stdout
    assert done.stderr == ""


def test_a_rehearsal_names_the_command_to_go_on_with_and_makes_no_study(tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text("lr: {log: [1e-3, 0.1]}")
    run = cli("tune", "--rehearse", "--space", "s.yaml", "--command", "echo val acc {lr}", "--trials", "3")
    assert (run.code, "metric   val_acc 0.01, larger is better" in run.out) == (0, True)
    assert "without --rehearse, and --score val_acc" in run.err
    failed = cli("tune", "--rehearse", "--space", "s.yaml", "--command", "cat missing {lr}")
    assert (failed.code, "  | cat: " in failed.out) == (5, True)
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


def test_the_cache_is_cut_to_a_limit_and_killed_calls_are_cleaned_up(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, new, left, used = (tmp_path / name for name in ("cache/features/old.features", "cache/features/new.features", "warmstart-networks-a/n", "warmstart-networks-b/n"))  # fmt: skip
    for number, file in enumerate((left, old, new, used)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(600_000))
        for path in (file, file.parent):
            os.utime(path, (number * 1e6, number * 1e6) if file is not used else None)
    run = cli("cache", "--limit", "1", "--format", "json")
    assert "Freed 1.2 MB." in run.err
    assert [(row["files"], row["MB"]) for row in run.json()["kept"]] == [(0, 0.0), (1, 0.6), (0, 0.0)]
    assert [file.exists() for file in (old, new, left, used)] == [False, True, False, True]
