"""Networks and studies that 0.1 wrote are opened, asked and tuned on."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import warmstart
from warmstart.history_store.errors import UsageError
from warmstart.studies.state.attributes import PLAN
from warmstart.studies.state.spec import StudySpec
from warmstart.training.workloads import load_classifier

V1 = Path(__file__).parent / "v1"


def unpacked(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(gzip.decompress((V1 / f"{name}.gz").read_bytes()))
    return path


def test_networks_of_0_1_say_what_they_said(tmp_path):
    found = load_classifier(unpacked("networks.safetensors", tmp_path))
    assert (found.classes, found.size, found.channels, found.error) == (("a", "b", "c"), 2, 1, 0.25)
    assert [(m.trial, m.seed, m.error, m.config["num_layers_conv"]) for m in found.members] == [(4, 7, 0.25, 1)]
    images = np.arange(20).reshape(5, 2, 2, 1).astype(np.uint8) * 12
    expected = [
        [0.2793385, 0.3577687, 0.3628927],
        [0.3067282, 0.3502253, 0.3430465],
        [0.343457, 0.3306472, 0.3258958],
        [0.3451383, 0.3314603, 0.3234014],
        [0.352472, 0.3297577, 0.3177704],
    ]  # what 0.1 printed
    np.testing.assert_allclose(found.predict(images), expected, atol=1e-6)
    found.save(tmp_path / "again.safetensors")
    np.testing.assert_array_equal(
        load_classifier(tmp_path / "again.safetensors").predict(images), found.predict(images)
    )


def test_a_study_of_0_1_goes_on_by_the_same_call(tmp_path, trials_here):
    path = unpacked("study.db", tmp_path)
    settings = {"space": "compact", "warm": "none", "budget": 4, "device": "cpu", "n_startup_trials": 4}
    found = warmstart.tune("sklearn:digits", **settings, study="s", storage=f"sqlite:///{path}", trials=3)
    assert [trial.error for trial in found.trials[:2]] == [0.9, 0.8611111111111112]
    assert [trial.status for trial in found.trials] == ["ok"] * 3
    with pytest.raises(UsageError, match=r"`target_budget` paper \(the study has compact-400\)"):
        warmstart.tune(
            "sklearn:digits", **settings, study="s", storage=f"sqlite:///{path}", trials=3, target_budget="paper"
        )


def test_a_plan_of_0_1_names_the_first_workload(tmp_path):
    import optuna

    path = unpacked("study.db", tmp_path)
    text = optuna.load_study(study_name="s", storage=f"sqlite:///{path}").user_attrs[PLAN]
    plan = StudySpec.from_json(text, "study")
    assert (plan.workload, plan.evaluated) == ("cnn", "compact-400")
    assert replace(plan, objective={**plan.objective, "workload": "cnn"}).evaluated == "compact-400"
    other = replace(plan, objective={**plan.objective, "workload": "softmax", "target_budget": "short"})
    assert (other.workload, other.evaluated) == ("softmax", "softmax/short")
    with pytest.raises(UsageError, match=r"`workload` softmax \(the study has cnn\)"):
        plan.check_same(other, "study")
    own = replace(plan, objective={"function": "m:f", "command": None, "target_budget": None})
    assert (own.workload, own.evaluated) == (None, "m:f")
