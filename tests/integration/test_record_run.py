"""Plain calls of `history record`, which are read without Typer, mean what they mean to Typer."""

import json
import shutil
import subprocess
import sys
from dataclasses import asdict

import pytest
import typer
from bad_inputs import GOOD_CONFIG

from warmstart.cli import evaluations
from warmstart.cli.app import app
from warmstart.cli.record_run import FLAGS, VALUES, plain_call

PLAIN = ["history", "record", "mine.h5", "--dataset", "photos", "--config", "{}"]


def as_typer_reads(args, monkeypatch):
    calls = []
    monkeypatch.setattr(evaluations, "record_run", calls.append)
    app(args=args, prog_name="warmstart", standalone_mode=False)
    return calls[0]


@pytest.mark.parametrize(
    "more",
    [
        ["--error", "0.5"],
        ["--error", "12", "--duration", "3600.25", "--origin", "somebody's own"],
        ["--status=oom", "--format", "json", "-v"],
        ["--curve", "[[1, 0.5]]", "-f", "csv", "--error", "0.1"],
        ["--origin", "a=b", "--status", "ok\n"],
    ],
    ids=" ".join,
)
def test_a_plain_call_is_what_typer_reads(more, monkeypatch):
    args = [*PLAIN, *more]
    found = plain_call(args)
    assert found is not None
    assert asdict(found) == asdict(as_typer_reads(args, monkeypatch))


@pytest.mark.parametrize(
    "more",
    [
        ["--help"],
        ["--error"],
        ["--error", "nan"],
        ["--error", "٣"],
        ["--seed", "99999999999999999999"],
        ["--dataset", "twice"],
        ["-dphotos"],
        ["-qv"],
        ["--format", "JSON"],
        ["--origin", "-x"],
        ["second.h5"],
    ],
    ids=" ".join,
)
def test_anything_else_is_left_to_typer(more):
    assert plain_call([*PLAIN, *more]) is None


def test_every_option_of_the_command_is_known():
    command = typer.main.get_command(app).commands["history"].commands["record"]
    options = {name: each.name for each in command.params if each.param_type_name == "option" for name in each.opts}
    options.pop("--help", None)
    assert options == {name: argument for table in (VALUES, FLAGS) for name, (argument, _) in table.items()}


def test_a_plain_call_loads_neither_typer_nor_numpy_nor_hdf5(tiny, tmp_path):
    copy = shutil.copy(tiny.history, tmp_path / "copy.h5")
    run = ["history", "record", str(copy), "-d", "stripes1", "--config", json.dumps(GOOD_CONFIG), "--error", "0.5"]
    code = f"import sys; from warmstart.cli import main; code = main({run!r}); print(sorted({{'typer', 'numpy', 'h5py', 'pydantic'}} & sys.modules.keys()), code)"
    first, second = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert first.stdout.splitlines()[-1].endswith(" 0")  # makes the backup and the index, if the configuration is new
    assert second.stdout.splitlines()[-1] == "[] 0"
    assert second.stderr == ""
