"""`warmstart tune` as a shell sees it."""

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))

from studies import write_space  # noqa: E402


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder with an objective and its space."""
    write_space(tmp_path)
    shutil.copy(HERE / "studies.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tune(folder, cli):
    """Tune the objective of the folder, quickly."""

    def run(*args, objective="studies:objective", trials=3):
        settings = ("--space", "space.json", "--trials", trials, "--surrogate", "gp-map", "--study", "s")
        return cli("tune", *settings, "--objective", objective, *args)

    return run


def test_the_result_alone_is_on_stdout(tune, folder):
    run = tune("--format", "json", "-v")
    assert run.code == 0
    found = json.loads(run.out)
    assert found["schema_version"] == 1
    assert sum(found["trials"].values()) == 3
    assert found["best"]["config"]
    assert found["storage"] == str(folder / "warmstart-studies.db")
    assert found["report"] == str(folder / "warmstart-studies-reports" / "s" / "report.md")
    assert json.loads(Path(found["report"]).with_suffix(".json").read_text())["best"] == found["best"]
    lines = run.err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["trial 0", "trial 1", "trial 2"]
    again = tune("--format", "json", "-v")
    assert (again.code, again.err) == (
        0,
        "All 3 trials are there already: none was run.\nA larger --trials adds more.\n",
    )
    assert json.loads(again.out)["best"] == found["best"]
    (row,) = csv.DictReader(io.StringIO(tune("--format", "csv").out))
    assert float(row["error"]) == found["best"]["error"]
    assert yaml.safe_load(tune("--format", "yaml").out)["best"] == found["best"]
    table = tune("--report", "elsewhere.md").out
    assert "s in warmstart-studies.db: " in table
    assert "Against uniform configurations: cannot tell from" in table
    assert "Report: elsewhere.md" in table
    assert Path("elsewhere.md").is_file()


def test_the_built_in_network_from_a_warm_start(use_tiny, tiny, cli, folder, trials_here):
    """From images to a tuned network, each part as it will be used."""
    dataset = f"{tiny.history}::stripes0"
    command = ("tune", "--dataset", dataset, "--budget", "4", "--device", "cpu", "--pruner", "median")
    run = cli(*command, "--trials", "3", "-k", "2", "--format", "json", "--no-cache")
    assert run.code == 0, run.err
    found = json.loads(run.out)
    suggested = json.loads(cli("suggest", "--dataset", dataset, "-k", "2", "--format", "json", "--no-cache").out)
    assert [warm["config"] for warm in found["warm"]] == [each["config"] for each in suggested["suggestions"]]
    assert found["dataset"] == dataset
    assert 0 <= found["best"]["error"] <= 1
    assert "learning_rate" in found["best"]["natural"]


def test_configurations_to_begin_with_and_names(folder, cli, use_tiny, photos):
    """`suggest` writes, `tune` begins with it; and asks by itself under the same names."""
    Path("own.yaml").write_text("rate: {log: [1e-5, 0.1]}\nkind: [a, b, c]\n")
    Path("mine.py").write_text("def objective(config):\n    return config['rate'] + len(config['kind'])\n")
    asked = ("--dataset", photos, "--space", "own.yaml", "--rename", "learning_rate=rate")
    run = cli("suggest", *asked, "--format", "csv", "--no-cache")
    assert run.code == 0, run.err
    Path("start.csv").write_text(run.out)
    settings = ("--space", "own.yaml", "--objective", "mine:objective", "--surrogate", "gp-map", "--trials", 3)
    settings += ("--format", "json")
    given = cli("tune", *settings, "--initial", "start.csv", "--study", "given")
    assert given.code == 0, given.err
    warm = cli("tune", *settings, *asked, "--study", "warm")
    assert warm.code == 0, warm.err
    assert "Known from the history: rate (from log10_learning_rate" in warm.err
    first, second = (json.loads(each.out)["warm"] for each in (given, warm))
    assert [each["config"] for each in first] == [each["config"] for each in second]
    assert [each["source"] for each in first] == [None] * 3
    assert None not in [each["source"] for each in second]
    refused = cli("tune", *settings, "--initial", "none.csv", "--study", "x")
    assert refused.code == 2
    assert (
        "--initial: expected a file of configurations, got 'none.csv'"
        in json.loads(refused.err.splitlines()[-1])["error"]["message"]
    )
