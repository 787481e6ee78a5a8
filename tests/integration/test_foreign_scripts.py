"""Training scripts as people write them (`tests/foreign_scripts`) are tuned by one command, without a change."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "foreign_scripts"
EPOCHS = 6
RATES = (0.03, 0.02, 0.04, 0.025, 0.035, 1e-6, 1e-7)
"""Five good learning rates, which the median of Optuna waits for, then two with which nothing is learned."""
CASES = {
    "sklearn": ("sklearn_digits.py {lr}", "accuracy", "sklearn"),
    "torch": ("torch_mnist.py --lr {lr}", "Accuracy", "torch"),
    "lightning": ("lightning_digits.py --learning_rate {lr}", "val_acc", "lightning"),
    "keras": ("keras_digits.py {lr}", "val_accuracy", "keras"),
    "trainer": ("trainer_digits.py --learning_rate {lr}", "eval_accuracy", "transformers"),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CASES)
def test_a_script_is_tuned_as_it_is(case, tmp_path, cli, monkeypatch):
    arguments, score, package = CASES[case]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.chdir(tmp_path)
    Path("lr.yaml").write_text("lr: {log: [1e-7, 0.1]}\n")
    Path("start.json").write_text(json.dumps([{"lr": lr} for lr in RATES]))
    command = f"{sys.executable} {SCRIPTS}/{arguments}"
    wanted = ("--command", command, "--score", score, "--pruner", "median")
    run = cli(
        "tune", "--space", "lr.yaml", "--initial", "start.json", "--trials", len(RATES), *wanted, "--format", "json"
    )
    assert run.code == 0, run.err
    trials = json.loads(Path(json.loads(run.out)["report"]).with_suffix(".json").read_text())["all"]
    assert [trial["status"] for trial in trials] == ["ok"] * 5 + ["pruned"] * 2, trials
    n_reports = [len(trial["curve"]) for trial in trials[:5]]
    if (
        case == "lightning"
    ):  # its bar shows the value of an epoch during the next one: the same value twice is one report
        assert all(EPOCHS - 2 <= n <= EPOCHS for n in n_reports), n_reports
    else:
        assert n_reports == [EPOCHS] * 5, "each epoch is a report"
    assert all(len(trial["curve"]) < EPOCHS for trial in trials[5:]), "and the hopeless trials are stopped"
    best = json.loads(run.out)["best"]
    assert best["value"] == pytest.approx(100 * (1 - best["error"])) or best["value"] == pytest.approx(
        1 - best["error"]
    )
    assert best["error"] < 0.2
