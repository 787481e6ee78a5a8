"""`plot map | ccov | regret | run` and `history show NAME` end to end on the tiny history."""

import json
import shutil
import sys

import numpy as np
import pytest

from warmstart.history_store.history import History


@pytest.fixture(autouse=True)
def _defaults(use_tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_map_shows_the_query_among_the_datasets(cli, photos, tiny, tmp_path):
    run = cli("plot", "map", "--dataset", photos, "--out", "map.svg", "--format", "json")
    found = run.json()
    assert found["files"] == ["map.svg"]
    assert (found["n_datasets"], found["n_groups"]) == (6, 3)
    assert 0 < found["share_shown"] <= 1
    neighbours = cli("neighbours", "--dataset", photos, "-k", 3, "--format", "json").json()["neighbours"]
    assert [near["name"] for near in found["nearest"]] == [near["name"] for near in neighbours]
    assert [near["distance"] for near in found["nearest"]] == pytest.approx([near["distance"] for near in neighbours])
    text = (tmp_path / "map.svg").read_text()
    assert all(f">{name}<" in text for name in (*tiny.names, "photos"))
    assert text.count("<image") == 1 + 7  # the colour bar, and a strip of pictures each


def test_ccov_of_all_and_of_named_datasets(cli, tiny, tmp_path):
    assert cli("plot", "ccov", "--out", "all.svg", "--format", "json").json()["datasets"] == list(tiny.names)
    found = cli("plot", "ccov", "stripes3", "stripes1", "--out", "two.svg", "--format", "json").json()
    assert (found["datasets"], found["files"]) == (["stripes3", "stripes1"], ["two.svg"])
    text = (tmp_path / "two.svg").read_text()
    assert "stripes3" in text
    assert "stripes2" not in text
    run = cli("plot", "ccov", "stripes3", "nobody")
    assert run.code == 2
    assert "nobody" in run.err
    for configs in (0, 8):
        assert cli("history", "create", f"empty{configs}.h5", "--configs", configs).code == 0
        run = cli("plot", "ccov", "--history", f"empty{configs}.h5")
        assert (run.code, f"expected datasets and configurations, got 0 and {configs}." in run.err) == (3, True)


def test_regret_of_a_file(cli, tmp_path):
    curve = {"mean": [0.5, 0.2], "low": [0.4, 0.1], "high": [0.6, 0.3]}
    head = {"schema_version": 1, "protocol": "p", "n_datasets": 2, "n_groups": 2, "n_configs": 4, "horizon": 2}
    head |= {"times": [1, 2]}
    report = head | {"rivals": {"ours": {"kind": "strategy", "curve": curve}}, "differences": []}
    (tmp_path / "e.json").write_text(json.dumps(report))
    (tmp_path / "sub").mkdir()
    found = cli("plot", "regret", "e.json", "--out", "sub/r.svg", "--format", "json").json()
    assert found["files"] == ["sub/r.svg"]
    assert ">ours<" in (tmp_path / "sub" / "r.svg").read_text()
    both = [report | {"table": name} for name in ("one.npz", "default history")]
    (tmp_path / "two.json").write_text(json.dumps({"schema_version": 1, "reports": both}))
    found = cli("plot", "regret", "two.json", "--format", "json").json()
    assert found["files"] == ["regret-one.png", "regret-default history.png"]
    assert cli("plot", "regret", "none.json").code == 2
    assert cli("plot", "regret", "e.json", "--method", "x").code == 2
    (tmp_path / "e.json").write_text("{}")
    assert cli("plot", "regret", "e.json").code == 3


def test_a_run_of_the_optimiser(cli, tmp_path):
    from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float

    from warmstart.bo import Optimizer

    space = ConfigurationSpace()
    space.add(Categorical("kind", ["a", "b"]), Float("x", (0.0, 1.0)))
    space.add(EqualsCondition(space["x"], space["kind"], "a"))
    optimizer = Optimizer(space, surrogate="gp-map", n_startup_trials=6)
    for turn, config in enumerate(optimizer.ask(6)):
        optimizer.tell(config, config.get("x", 0.5))
        if turn in (0, 5):
            (tmp_path / f"{turn}.json").write_text(json.dumps(optimizer.to_dict()))
    run = cli("plot", "run", "5.json", "--out", "a.svg", "--format", "json")
    names = ["a.svg", "a-fit.svg", "a-slices.svg", "a-sensitivity.svg", "a-architectures.svg"]
    assert run.json() == {"schema_version": 1, "run": "5.json", "files": names}
    assert all((tmp_path / name).is_file() for name in names)
    young = cli("plot", "run", "0.json", "--format", "json")
    assert young.json()["files"] == ["run.png", "run-architectures.png"]
    assert "expected enough valid evaluations for the surrogate, got 1" in young.err
    assert cli("plot", "run", "none.json").code == 2
    (tmp_path / "e.json").write_text("{}")
    assert cli("plot", "run", "e.json").code == 3


def test_show_describes_a_dataset(cli, tiny):
    found = cli("history", "show", "stripes2", "--format", "json").json()
    with History.open(tiny.history) as history:
        errors, configs, model = history.errors[2], history.configs, history.model_hashes[0]
        vectors = history.embeddings(model)
    best = np.argsort(errors)[:3]
    assert [one["error"] for one in found["best_configs"]] == errors[best].tolist()
    assert [one["config"] for one in found["best_configs"]] == [configs[i] for i in best]
    assert found["best_config"] == found["best_configs"][0]["config"]
    assert found["best_error"] == errors.min()
    assert found["errors"]["median"] == pytest.approx(np.median(errors))
    assert (found["errors"]["configs"], found["errors"]["missing"]) == (8, 0)
    assert found["siblings"] == ["stripes3"]
    assert found["images"] is True
    far = {
        name: float(np.linalg.norm(vectors[name] - vectors["stripes2"])) for name in tiny.names if name != "stripes2"
    }
    assert [near["name"] for near in found["nearest"]] == sorted(far, key=far.get)
    assert {near["name"] for near in found["nearest"] if near["sibling"]} == {"stripes3"}
    assert set(found["ccov_in_words"]) == set(found["ccov"]) == set(configs[0])


def test_show_takes_the_embeddings_of_the_named_model(cli, tiny, tmp_path):
    from warmstart.metafeat.model import MetaFeatureModel
    from warmstart.metafeat.model_file import read_header

    copy = shutil.copy(tiny.history, tmp_path / "copy.h5")
    other = tmp_path / "other.safetensors"
    model = MetaFeatureModel.load(tiny.model)
    with History.open(copy, write=True) as history:
        vectors = history.embeddings(history.model_hashes[0])
        MetaFeatureModel.random(model.spec, seed=5).save(other, {})
        history.set_embeddings(
            read_header(other).hash, {name: np.full(256, i, np.float32) for i, name in enumerate(vectors)}
        )
    call = ["history", "show", "stripes0", "--history", copy, "--format", "json"]
    named = cli(*call, "--model", other).json()["nearest"]
    assert [near["name"] for near in named] == [f"stripes{i}" for i in range(1, 6)]
    assert named[0]["distance"] == pytest.approx(16)
    assert cli(*call).json()["nearest"] == cli("history", "show", "stripes0", "--format", "json").json()["nearest"]
    assert cli(*call, "--model", "none.safetensors").code == 2


def test_show_tells_people_in_tables(cli):
    out = cli("history", "show", "stripes2").out
    for part in (
        "siblings",
        "Errors over the configurations",
        "Best configurations",
        "Where errors gather",
        "It resembles",
    ):
        assert part in out
    assert "learning_rate" in out


@pytest.mark.parametrize("command", [["map"], ["ccov"], ["regret", "e.json"], ["run", "r.json"]], ids=" ".join)
def test_what_cannot_be_drawn_is_a_wrong_call(cli, command, monkeypatch, tmp_path):
    assert cli("plot", *command, "--out", "a.pdf").code == 2
    assert cli("plot", *command, "--out", "none/a.png").code == 2
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run = cli("plot", *command, "--format", "json")
    assert run.code == 2
    assert "pip install 'warmstart[plots]'" in json.loads(run.err)["error"]["message"]
    assert list(tmp_path.iterdir()) == []
