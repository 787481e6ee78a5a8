"""Every picture, drawn from made-up data: it comes without a warning, holds the names, and is the same twice."""

import json
import re

import numpy as np
import pytest

from warmstart.bo.diagnostics import Diagnosis, Fit, Sensitivity, Shares, Slice
from warmstart.histories.ccov import Centres, describe_centre
from warmstart.history_store.errors import DataError, MissingPathError, UsageError
from warmstart.plots.ccov import FEW, draw_ccov
from warmstart.plots.map import DatasetMap, QueryPoint, draw_map
from warmstart.plots.read_study import read_reports
from warmstart.plots.regret import choose_methods, draw_regret
from warmstart.plots.run import draw_run

ODD = ("Ä/ö ☃", "数字", "$x$ & <y>", "a_very_long_name_of_a_dataset_that_says_everything_about_it")


def text_of(path):
    """Return the words of an SVG."""
    from html import unescape

    return unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))))


def a_map(names, *, seed=0, pictures=False, query=False, groups=None):
    rng = np.random.default_rng(seed)
    images = {name: rng.integers(0, 256, (4, 8, 8, 1 + 2 * (i % 2)), dtype=np.uint8) for i, name in enumerate(names)}
    asked = QueryPoint("mine", rng.normal(size=2), [(name, 0.1) for name in names[:3]], images[names[0]])
    return DatasetMap(
        names,
        groups or [f"group {i // 2}" for i in range(len(names))],
        rng.normal(size=(len(names), 2)) * [1, 0.3],
        np.where(np.arange(len(names)) == 1, np.nan, rng.random(len(names))),
        0.9,
        "a title",
        images=images if pictures else {},
        query=asked if query else None,
    )


@pytest.mark.parametrize(("pictures", "query"), [(False, True), (True, False)])
def test_the_map_names_everything_and_is_the_same_twice(tmp_path, pictures, query):
    found = a_map([f"set{i}" for i in range(30)], pictures=pictures, query=query)
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    for path in (first, second):
        draw_map(found, path)
    assert first.read_bytes() == second.read_bytes()
    text = text_of(first)
    assert all(re.search(rf"\b{name}\b", text) for name in found.names)
    assert "90%" in text
    assert ("mine" in text) == query
    assert first.read_text().count("<image") == 1 + 30 * pictures + query  # the colour bar is one


def centres(count, *, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.2, 0.8, (count, 3))
    values[0, 1] = np.nan
    names = tuple(f"set{i}" for i in range(count))
    return Centres(
        names,
        ("log10_learning_rate", "depth", "share_of_one$"),
        values,
        np.full((count, 3), 0.52),
        np.where(np.isnan(values), np.nan, 0.1),
    )


@pytest.mark.parametrize("count", [1, FEW + 1])
def test_centres_are_drawn_with_words_at_the_axis(tmp_path, count):
    found = centres(count)
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    for path in (first, second):
        draw_ccov(found, path)
    assert first.read_bytes() == second.read_bytes()
    text = text_of(first)
    assert all(re.search(rf"\b{name}\b", text) for name in found.names)
    for words in ("errors gather at low", "high values", "learning", "(log)", "one$", "chance"):
        assert words in text


def test_centres_in_words():
    found = Centres(
        ("a",),
        tuple("wxyz"),
        np.array([[0.7, 0.31, 0.55, 0.5]]),
        np.full((1, 4), 0.5),
        np.array([[0.05, 0.05, 0.05, 0.0]]),
    )
    assert found.clear.tolist() == [[True, True, False, False]]
    assert describe_centre(0.7, 0.5, clear=True) == "errors gather at high values; low ones do better on average"
    assert describe_centre(0.3, 0.5, clear=True) == "errors gather at low values; high ones do better on average"
    assert describe_centre(0.505, 0.5, clear=True) == "hardly any difference"
    assert describe_centre(0.7, 0.5, clear=False) == "no clear side: chance explains it"
    assert describe_centre(np.nan, 0.5, clear=False).startswith("not defined")


KINDS = {
    "ours": "strategy",
    "portfolio": "baseline",
    "random": "baseline",
    "oracle": "oracle",
    "cold GP": "search",
    "any": "control",
}


def a_report(kinds=KINDS, *, figures=True):
    rng = np.random.default_rng(0)
    methods = {}
    for level, (name, kind) in enumerate(kinds.items(), start=1):
        mean = level * np.exp(-0.2 * np.arange(20))
        methods[name] = {
            "about": name,
            "kind": kind,
            "curve": {"mean": list(mean), "low": list(mean * 0.8), "high": list(mean * 1.2)},
        }
    differences = [
        {
            "first": "ours",
            "second": name,
            "measure": measure,
            "mean": -far,
            "low": -far - 0.1,
            "high": 0.1 - far,
            "two_standard_errors": far > 0.1,
        }
        for measure in ("regret@3", "regret@10", "evaluations_to_0.05")
        for far, name in zip((0.02, 5.0, -0.01, 0.3, 0.15), list(kinds)[1:], strict=False)
    ]
    curve = {part: list(rng.random(20)) for part in ("mean", "low", "high")}
    panels = {start: {f"set{i}": curve for i in range(5)} for start in ("uniform", "latin", "warm")}
    head = {
        "schema_version": 1,
        "protocol": "leave-source-out",
        "n_datasets": 5,
        "n_groups": 4,
        "n_configs": 16,
        "times": [1, 3, 5, 10, 20],
        "horizon": 20,
    }
    return (
        head
        | {"rivals": methods, "differences": differences}
        | ({"figures": {"fig3": {"ei": panels, "ucb": panels}}} if figures else {})
    )


def test_a_report_gives_its_pictures(tmp_path):
    report = a_report()
    files = draw_regret(report, tmp_path, stem="a", suffix=".svg")
    assert [path.name for path in files] == ["a.svg", "a-differences.svg", "a-fig3-ei.svg", "a-fig3-ucb.svg"]
    curves, differences, *panels = map(text_of, files)
    assert all(name in curves for name in KINDS)
    assert all(name in differences for name in KINDS)
    for words in ("regret after 3", "regret after 10", "evaluations to 0.05", "−5"):
        assert words in differences
    assert all(f"set{i}" in text and "warm" in text for i in range(5) for text in panels)


def test_what_is_not_defined_is_left_out(tmp_path):
    report = a_report(figures=False)
    for one, part in zip(report["differences"], ("mean", "low", "high"), strict=False):
        one[part] = None
    report["rivals"]["any"]["curve"]["mean"][3] = None
    report["rivals"]["random"]["curve"]["low"] = report["rivals"]["random"]["curve"]["high"] = [None] * 20
    curves, _ = draw_regret(report, tmp_path, suffix=".svg")
    assert "any" not in text_of(curves)
    assert "random" in text_of(curves)
    with pytest.raises(DataError, match="expected a curve that is defined everywhere, got none"):
        draw_regret(report, tmp_path, methods=["any"])


def test_eight_telling_methods_in_order_of_their_regret():
    others = {f"{kind}{i}": kind for i in range(9) for kind in ("baseline", "strategy", "oracle")}
    names = others | KINDS | {"cold-gp": "search", "nearest-handcrafted": "baseline"}
    chosen = choose_methods(a_report(names))
    assert {"ours", "strategy0", "oracle0", "portfolio", "nearest-handcrafted", "cold-gp", "baseline0"} < set(chosen)
    assert len(chosen) == 8
    assert len([name for name in chosen if names[name] == "oracle"]) == 1
    assert chosen == [name for name in names if name in chosen]


def test_methods_and_times_can_be_chosen(tmp_path):
    report = a_report(figures=False)
    curves, differences = draw_regret(report, tmp_path, suffix=".svg", methods=["ours", "any"], times=[3])
    assert "portfolio" not in text_of(curves)
    assert "regret after 3" in text_of(differences)
    assert "regret after 10" not in text_of(differences)
    with pytest.raises(UsageError, match=r"method: expected methods of the report \(ours, .*got nobody"):
        draw_regret(report, tmp_path, methods=["nobody"])
    with pytest.raises(UsageError, match="time: expected some of 1, 3, 5, 10, 20, got 4"):
        draw_regret(report, tmp_path, times=[4])


def test_what_is_no_report_is_refused(tmp_path):
    path = tmp_path / "report.json"
    with pytest.raises(MissingPathError, match=r"report\.json: expected a report"):
        read_reports(path)
    for text, said in (
        ("{", "text that is no JSON"),
        ("[1]", "without rivals"),
        ('{"schema_version": 1, "rivals": []}', "without rivals"),
        ('{"schema_version": 1, "reports": [{}]}', "without rivals"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=said):
            read_reports(path)
    path.write_text(json.dumps(a_report() | {"schema_version": 2}))
    with pytest.raises(DataError, match="schema_version 1, got 2"):
        read_reports(path)
    path.write_text(json.dumps(a_report()))
    assert read_reports(path) == [a_report()]
    path.write_text(json.dumps({"schema_version": 1, "reports": [a_report(), a_report(figures=False)]}))
    assert read_reports(path) == [a_report(), a_report(figures=False)]
    broken = a_report()
    del broken["rivals"]["any"]["curve"]
    with pytest.raises(DataError, match=r"plot regret: expected a report .* without rivals/any/curve/mean"):
        draw_regret(broken, tmp_path)
    for key in ("horizon", "rivals"):
        with pytest.raises(DataError, match=f"without {key}"):
            draw_regret({name: value for name, value in a_report().items() if name != key}, tmp_path)
    broken = a_report()
    del broken["differences"][1]["low"]
    with pytest.raises(DataError, match="without differences/1/low"):
        draw_regret(broken, tmp_path)


def a_band(mean, sd):
    return mean, sd, mean - 2.0 * sd, mean + 2.0 * sd


def a_run(names=ODD, n=30, *, shares=3, lost=False):
    """Say all that can be said of a run of made-up numbers."""
    rng = np.random.default_rng(0)
    unit = (np.arange(20) + 0.5) / 20
    cuts = [
        Slice(
            *a_band(0.3 + (unit - 0.5) ** 2, 0.02 + unit / 10),
            name=name,
            unit=unit,
            value=[["low", "high"][int(u > 0.5)] for u in unit] if place == 1 else (10.0 ** (4 * unit - 4)).tolist(),
            acquisition=np.where(unit > 0.9, np.nan, -50 * unit**2),
            best=0.525,
            observed=np.where(rng.random(n) < 0.2, np.nan, rng.random(n)),
        )
        for place, name in enumerate(names)
    ]
    errors = rng.gamma(2.0, 0.1, n) + 1.0 / np.arange(1, n + 1)
    errors[-1] = 1e6
    if lost:
        errors[::5] = np.nan
    known = np.flatnonzero(np.isfinite(errors))
    held_out = a_band(errors[known] + rng.normal(0, 0.1, len(known)), np.full(len(known), 0.08))
    return Diagnosis(
        errors,
        "ei-per-second",
        Fit(*held_out, number=known, error=errors[known]),
        cuts,
        Sensitivity(names, rng.gamma(2.0, 1.0, (10, len(names))), np.arange(n, n - len(names), -1)),
        Shares([f"kind {i}" for i in range(shares)], rng.integers(shares, size=n)) if shares else None,
        [],
    )


def test_a_run_is_drawn_in_five_pictures(tmp_path):
    files = draw_run(a_run(lost=True), tmp_path, suffix=".svg")
    assert [file.name for file in files] == [
        f"run{part}.svg" for part in ("", "-fit", "-slices", "-sensitivity", "-architectures")
    ]
    trace, fit, slices, matters, share = map(text_of, files)
    assert "failed or invalid" in trace
    assert "far above" in trace
    assert re.search(r"best error [\d.]+ at evaluation \d+ of 30", trace)
    assert "% within the 95 % bands" in fit
    assert "(1 evaluations lie outside)" in fit
    assert all(name in slices for name in ODD[:3])
    assert "log EI per second" in slices
    assert "low" in slices
    assert "(29 of 30)" in matters
    assert "kind 2" in share


@pytest.mark.parametrize(("n", "count"), [(1, 1), (60, 9)])
def test_runs_of_any_length_and_width_are_drawn(n, count, tmp_path):
    names = [f"hyperparameter_{i}" for i in range(count)]
    files = draw_run(a_run(names, n, shares=12), tmp_path, stem="x")
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
    assert len(files) == 5
