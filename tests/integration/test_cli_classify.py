"""`warmstart classify` as a shell sees it."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("timm", reason="needs timm: pip install 'warmstart[pictures]'")


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Draw pictures of three classes, which differ in colour and stripes; one is no picture, one is there twice."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    _, x = np.mgrid[:64, :64]
    for label, name in enumerate(("narrow", "usual", "wide")):
        folder = Path("photos", name)
        folder.mkdir(parents=True)
        for number in range(16):
            wave = 128 + 100 * np.sin(x / (2 + 3 * label) + rng.uniform(0, 6))
            pixels = wave[..., None] * rng.uniform(0.5, 1, 3) + rng.normal(0, 25, (64, 64, 3))
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{number:02}.png")
    Image.open("photos/wide/00.png").save("photos/wide/copy.png")
    Path("photos/usual/broken.png").write_bytes(b"no picture")
    return Path("photos")


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("nowhere",), 2, "got a path that does not exist"),
        (("photos/wide",), 3, "expected one folder a class"),
        (("photos", "--strict"), 3, "got 1 broken of 50 read: usual/broken.png (not a picture)"),
        (("photos", "--out", "no/p.safetensors"), 2, "--out: expected a file in a folder that is there"),
        (("photos", "--time", "9"), 2, "--time: expected a length of time with its unit, got '9'. `9m` or `9s`?"),
    ],
)
def test_a_wrong_call_is_one_line_and_leaves_nothing(photos, cli, args, code, told):
    run = cli("classify", "-q", *args)
    assert (run.code, run.out) == (code, "")
    assert told in run.err
    assert len(run.err.splitlines()) == 1
    assert [path.name for path in Path().iterdir()] == ["photos"]


@pytest.mark.slow
def test_a_folder_in_a_classifier_out(photos, cli):
    run = cli("classify", "photos/", "--time", "2m", "--test", "photos", "--format", "json")
    assert run.code == 0, run.err
    assert "1 left out (cannot be read): usual/broken.png." in run.err
    assert "2 that are equal or nearly equal to another are kept together." in run.err
    assert "at most 2 min left" in run.err
    found = json.loads(run.out)
    assert (found["classifier"], found["report"], found["study"]) == ("photos.safetensors", "photos.html", "photos-transfer")  # fmt: skip
    assert found["right_of_100"] > 60 > found["always"]["right_of_100"]
    assert found["range"][0] < found["right_of_100"] <= found["range"][1]
    assert found["test"]["n"] == 49
    assert "photos.safetensors" in Path("photos.html").read_text()
    assert cli("studies", "list", "--format", "json").json()["studies"][0]["dataset"].startswith("photos")
    before = Path("photos.safetensors").read_bytes()

    Image.open("photos/wide/00.png").rotate(90).save("photos/wide/more.png")
    run = cli("classify", "./photos", "--time", "2m")
    assert run.code == 0, run.err
    assert "50 pictures" not in run.err
    assert "it is kept as photos-1.safetensors" in run.err
    assert Path("photos-1.safetensors").read_bytes() == before
    assert run.out.startswith("Right: about ")
    assert cli("predict", "photos.safetensors", "photos/wide/00.png", "--format", "json").code == 0
