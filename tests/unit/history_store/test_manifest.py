from pathlib import Path

import pytest

from warmstart.history_store.errors import ManifestError, MissingPathError
from warmstart.history_store.manifest import Splits, load_manifests, read_manifest

SHIPPED = Path(__file__).resolve().parents[3] / "data_manifests"
BASE = {
    "name": '"shapes"',
    "group": '"shapes"',
    "what": '"drawn shapes"',
    "source": '"a program"',
    "licence": '"MIT"',
    "obtain": '{ kind = "file", path = "shapes.npz" }',
}


def write(folder: Path, *, file: str = "m.toml", **changes: str | None) -> Path:
    lines = {**BASE, **changes}
    path = folder / file
    path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items() if value is not None))
    return path


def test_reads_everything(tmp_path: Path) -> None:
    manifest = read_manifest(
        write(
            tmp_path,
            fingerprint=f'"content:{"ab" * 20}"',
            n_images="6",
            n_classes="2",
            classes='["circle", "square"]',
            splits='{ kind = "own", fractions = [0.75, 0.25, 0], seed = 3 }',
            published="{ n_images = 7, n_classes = 2 }",
            obtain=f'{{ kind = "download", path = "x", url = "https://x.org/x.zip", sha256 = "{"0" * 64}", max_bytes = 9, unpack = true, note = "big" }}',
        )
    )
    assert manifest.splits == Splits("own", (0.75, 0.25, 0.0), 3)
    assert manifest.classes == ("circle", "square")
    assert manifest.published == {"n_images": 7, "n_classes": 2}
    assert manifest.obtain.unpack
    assert manifest.obtain.max_bytes == 9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": None}, r"m\.toml:name: expected a text, got nothing\. Correct the manifest"),
        ({"name": "3"}, "m.toml:name: expected a text, got 3"),
        ({"name": '"../up"'}, "m.toml:name: expected a name of letters, digits, .*, got '../up'"),
        ({"group": '""'}, "m.toml:group: expected a text, got ''"),
        ({"colour": '"red"'}, "m.toml:colour: expected a key of the schema, got an unknown one"),
        ({"fingerprint": '"abc"'}, "m.toml:fingerprint: expected a text like content:"),
        ({"n_images": "0"}, "m.toml:n_images: expected a number of at least 1, got 0"),
        ({"n_images": "true"}, "m.toml:n_images: expected a number of at least 1, got True"),
        ({"classes": '"a"'}, "m.toml:classes: expected a list of names"),
        ({"classes": '["a", "a"]'}, "m.toml:classes: expected names that differ"),
        ({"classes": '["a", "b"]', "n_classes": "3"}, "m.toml:classes: expected 3 names as n_classes says, got 2"),
        ({"obtain": None}, "m.toml:obtain:kind: expected one of folder, file, torchvision, download, got nothing"),
        ({"obtain": '"file"'}, "m.toml:obtain: expected a table, got 'file'"),
        ({"obtain": '{ kind = "ftp" }'}, "obtain:kind: expected one of folder, file, torchvision, download, got 'ftp'"),
        ({"obtain": '{ kind = "file" }'}, "obtain:path: expected a value for kind 'file', got none"),
        ({"obtain": '{ kind = "file", path = "/etc" }'}, "obtain:path: expected a path below the root, got '/etc'"),
        ({"obtain": '{ kind = "file", path = "../x" }'}, "obtain:path: expected a path below the root"),
        ({"obtain": '{ kind = "file", path = "x", dataset = "Y" }'}, "obtain:dataset: expected one of note, path, sha256, url"),
        ({"obtain": '{ kind = "download", path = "x", url = "https://x" }'}, "obtain:max_bytes: expected a value for kind"),
        ({"obtain": '{ kind = "file", path = "x", sha256 = "12" }'}, "obtain:sha256: expected a text like"),
        ({"splits": '{ kind = "random" }'}, "splits:kind: expected one of stratified, own, got 'random'"),
        ({"splits": '{ kind = "own", fractions = [1, 1, 1] }'}, "splits:fractions: expected three numbers"),
        ({"splits": '{ kind = "own", seed = -1 }'}, "splits:seed: expected an integer of 0 or more, got -1"),
        ({"splits": '{ kind = "own", shuffle = true }'}, "splits:shuffle: expected a key of the schema"),
        ({"published": "{ images = 3 }"}, "published:images: expected a key of the schema"),
    ],
)  # fmt: skip
def test_refuses_and_names_the_key(tmp_path: Path, changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        read_manifest(write(tmp_path, **changes))


def test_loads_files_and_folders_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("b", "a"):
        write(folder, file=f"{name}.toml", name=f'"{name}"')
    single = write(tmp_path, name='"single"')
    assert [m.name for m in load_manifests([single, folder])] == ["single", "a", "b"]
    assert [m.name for m in load_manifests(folder)] == ["a", "b"]


def test_refuses_one_name_twice(tmp_path: Path) -> None:
    paths = [write(tmp_path, file=file) for file in ("x.toml", "y.toml")]
    with pytest.raises(ManifestError, match=r"y\.toml: expected a name of its own, got 'shapes' again"):
        load_manifests(paths)


def test_shipped_manifests_fit_the_schema() -> None:
    manifests = {manifest.name: manifest for manifest in load_manifests(SHIPPED)}
    assert len(manifests) >= 62
    for name, manifest in manifests.items():
        assert (manifest.obtain.kind, manifest.obtain.path) == ("file", f"{name}.npz")
        assert manifest.fingerprint.startswith("content:")
        assert manifest.n_images
        assert len(manifest.classes) == manifest.n_classes


def test_all_gaps_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, licence=None, what=None, n_images='"many"', obtain='{ kind = "download" }', colour='"red"')
    with pytest.raises(ManifestError) as caught:
        read_manifest(path)
    message = str(caught.value)
    for gap in (
        f"{path}:what: expected a text, got nothing",
        f"{path}:licence: expected a text, got nothing",
        f"{path}:obtain:path: expected a value for kind 'download', got none",
        f"{path}:obtain:url: expected a value for kind 'download', got none",
        f"{path}:n_images: expected a number of at least 1, got 'many'",
        f"{path}:colour: expected a key of the schema",
    ):
        assert gap in message
    assert message.count("Correct the manifest") == 1


def test_what_is_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(MissingPathError, match="expected a manifest, got a folder"):
        read_manifest(tmp_path)
    with pytest.raises(MissingPathError, match="expected a manifest, got no such file"):
        read_manifest(tmp_path / "none.toml")
    with pytest.raises(ManifestError, match=r"expected manifests \(\*\.toml\), got a folder without any"):
        load_manifests(tmp_path)
    (tmp_path / "m.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(ManifestError, match=r"m\.toml: expected TOML, got "):
        read_manifest(tmp_path / "m.toml")
