"""Figures of the pages are those of the JSON that they come from."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
METHODS = ("warmstart", "ridge, lite0", "ridge, lite2", "timm recipe, lite0", "CNN tuned cold")
FAMILIES = ("branin", "hartmann3", "waves2", "bowls4", "rosenbrock3")


def result(name: str) -> Any:
    return json.loads((ROOT / "scripts" / "bench" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def page(name: str) -> str:
    return (ROOT / "research" / f"{name}.md").read_text(encoding="utf-8").replace("−", "-")


@pytest.mark.parametrize("name", ["benchmarks", "meta-features"])
@pytest.mark.parametrize("row", result("siamese")["rows"], ids=lambda row: row["extractor"])
def test_a_siamese_step_is_told_alike_on_both_pages(name: str, row: dict[str, Any]) -> None:
    text = page(name)
    assert f"| {row['plain_s']:.2f} s | {row['fast_s']:.2f} s | {row['ratio']:.3f} |" in text
    gap, stderr, loss = row["final_loss_gap"], row["final_loss_gap_stderr"], row["final_loss_plain"]
    assert f"{gap:+.4f} ± {stderr:.4f} of {loss:.4f}" in text


@pytest.mark.parametrize("kind", ["related", "unrelated"])
@pytest.mark.parametrize("t", [10, 20])
@pytest.mark.parametrize(
    ("key", "surrogate"),
    [
        ("seeds 440-459, the rules that are shipped", "gp"),
        ("seeds 470-479, mt-dngo, judged by a process", "dngo"),
        ("seeds 470-489, mt-bohamiann, judged by a process", "bohamiann"),
    ],
)
def test_what_other_tasks_change_is_that_of_the_runs(key: str, surrogate: str, t: int, kind: str) -> None:
    runs = result("unrelated")[key]
    regrets = {(run["surrogate"], run["family"], run["kind"], run["seed"]): run[f"regret@{t}"] for run in runs}
    seeds = sorted({run["seed"] for run in runs if run["surrogate"] == surrogate})
    pairs = [
        (regrets[f"mt-{surrogate}", family, kind, seed], regrets[surrogate, family, "none", seed])
        for family in FAMILIES
        for seed in seeds
    ]
    ours, alone = np.log10(np.maximum(pairs, 1e-9)).T
    less = ours - alone
    text = page("benchmarks").partition(f"`mt-{surrogate}`")[2]
    row = [line for line in text.splitlines() if f"all {len(less)} pairs" in line][t == 20]
    assert f"{less.mean():+.2f} ± {less.std(ddof=1) / len(less) ** 0.5:.2f}" in row


def test_the_medians_beside_unknown_constraints_are_those_of_the_runs() -> None:
    for run in result("constraints").values():
        row = [f"{run['gramacy'][f'median@{t}']:.2f}" for t in (10, 20, 30)]
        assert f"| {' | '.join(row)} | {run['gramacy']['not valid']:.1f} |" in page("benchmarks")


def test_the_shipped_forecast_of_the_best_error_is_quoted() -> None:
    asked, text = result("transfer-parts")["best reachable error"], " ".join(page("pretrained-networks").split())
    learned = "learned from all, 100, 50"
    whole, of_100, of_50 = (asked[f"asked {size}"][learned] for size in ("all", "100", "50"))
    for found, said in (
        (whole, "RMSE of {rmse:.3f}, and {coverage_80:.0%} of"),
        (of_100, "**misses** that target: it is {rmse:.3f}, and {coverage_80:.0%} hold."),
        (of_50, "For 50 images it is {rmse:.3f}, and {coverage_80:.0%} hold."),
    ):
        assert said.format(**found).replace("%", " %") in text


def test_the_table_of_forecasts_by_the_images_there_are_is_as_measured() -> None:
    text = page("transfer-protocol").replace("−", "-")
    for learned in result("transfer-parts")["best reachable error"].values():
        for found in learned.values():
            row = f"| {found['rmse']:.3f} | {found['bias']:+.3f} | {found['coverage_80']:.0%} | {found['width']:.3f} |"
            assert row.replace("%", " %") in text


@pytest.mark.parametrize("name", ["", "-ten", "-second-ten", "-two-cores"])
def test_the_tables_of_ten_minutes_are_as_played(name: str) -> None:
    text = page("pretrained-networks").replace("**", "")
    for errors in result(f"transfer-live{name}")["errors"].values():
        assert f"| {' | '.join(f'{errors[method]:.3f}' for method in METHODS)} |" in text
