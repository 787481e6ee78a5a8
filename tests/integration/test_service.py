"""The server: answers from a descriptor, and what it refuses."""

import io
import json
import re
import tarfile
import tempfile
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from stripes import pictures, write_folder

from warmstart.history_store.images import DatasetWarning

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

import shutil

from servers import Wire, running
from starlette.testclient import TestClient

from warmstart.client import Client
from warmstart.descriptor import MOST_BYTES
from warmstart.history_store.errors import DataError, MissingPathError, StorageError, UsageError
from warmstart.history_store.history import History
from warmstart.service.app import create_app
from warmstart.service.auth import add_token, remove_token
from warmstart.service.check_config import check_config
from warmstart.service.settings import ServiceSettings
from warmstart.service.upload_file import check_pixels, unpack
from warmstart.suggestions.advisor import Advisor


def opened(**settings):
    app = create_app(ServiceSettings(**settings))
    return TestClient(app, base_url="http://127.0.0.1:8383", raise_server_exceptions=False)


@pytest.fixture
def client(tiny):
    with opened(history=tiny.history, model=tiny.model) as found:
        yield found


@pytest.fixture(scope="module")
def descriptor(tiny):
    return Advisor(tiny.history, tiny.model, cache=False).describe(pictures(1)).descriptor.to_dict()


def test_suggests_what_the_command_line_suggests(client, descriptor, tiny):
    found = client.post("/v1/suggestions", json={"descriptor": descriptor, "k": 2, "explain": True})
    assert found.status_code == 200
    expected = Advisor(tiny.history, tiny.model, cache=False).suggest(pictures(1), 2, explain=True).to_dict()
    got = found.json()
    assert [each["config"] for each in got["suggestions"]] == [each["config"] for each in expected["suggestions"]]
    assert got["confidence"] == expected["confidence"]
    assert got["explanation"] == expected["explanation"]
    assert got["history"] == tiny.history.name  # no folders of the server


@pytest.mark.parametrize(
    ("body", "status", "pointer", "detail"),
    [
        ({}, 422, "/descriptor", "required"),
        ({"k": 0}, 422, "/k", "greater than or equal to 1"),
        ({"k": 100}, 400, "/k", "expected at most 8"),
        ({"k": "3"}, 422, "/k", "integer"),
        ({"strategy": "best"}, 422, "/strategy", "joint"),
        ({"other": 1}, 422, "/other", "Extra"),
        ({"exclude_group": ["nope"]}, 400, "/exclude_group", "expected groups of tiny.h5, got nope"),
        ({"space": "/etc/passwd"}, 400, "/space", "expected compact, paper, transfer or an object"),
        ({"descriptor": {"vector": [1e300]}}, 422, "/descriptor/vector/0", "less than"),
        ({"descriptor": {"extractor": "other"}}, 422, "/descriptor/extractor", "expected a descriptor by model"),
    ],
    ids=lambda value: json.dumps(value)[:30] if isinstance(value, dict) else None,
)
def test_problem_names_the_field(client, descriptor, body, status, pointer, detail):
    given = {"descriptor": descriptor | body.get("descriptor", {})} if body else {}
    found = client.post("/v1/suggestions", json={**body, **given})
    problem = found.json()
    assert (found.status_code, problem["pointer"]) == (status, pointer)
    assert detail in problem["detail"]
    assert found.headers["content-type"] == "application/problem+json"
    assert problem["request_id"] == found.headers["x-request-id"]
    if pointer == "/descriptor/extractor":
        assert problem["accepted"] == [descriptor["extractor"]]


def test_refuses_web_pages(client, descriptor):
    body = {"descriptor": descriptor}
    for headers in (
        {"host": "evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ):
        assert client.post("/v1/suggestions", json=body, headers=headers).status_code == 403
    plain = client.post("/v1/suggestions", content=json.dumps(body), headers={"content-type": "text/plain"})
    assert plain.status_code == 415
    assert client.put("/v1/suggestions", content=b"x").status_code == 405
    own = client.post("/v1/suggestions", json=body, headers={"origin": "http://127.0.0.1:8383"})
    assert own.status_code == 200
    assert "access-control-allow-origin" not in own.headers
    assert own.headers["x-content-type-options"] == "nosniff"
    assert client.options("/v1/suggestions", headers={"origin": "http://evil.example"}).status_code == 403


def test_refuses_large_and_broken_bodies(tiny):
    with opened(history=tiny.history, model=tiny.model, most_bytes=1000) as client:
        as_json = {"content-type": "application/json"}
        assert client.post("/v1/suggestions", content=b" " * 1001, headers=as_json).status_code == 413
        in_parts = client.post("/v1/suggestions", content=(b" " * 500 for _ in range(3)), headers=as_json)
        assert in_parts.status_code == 413
        assert client.post("/v1/suggestions", content=b"{]", headers=as_json).status_code == 400
        assert client.post("/v1/suggestions", content=b"[" * 900, headers=as_json).status_code in (400, 422)


def test_history_in_parts_with_etags(client, tiny):
    first = client.get("/v1/history/datasets", params={"limit": 4}).json()
    rest = client.get("/v1/history/datasets", params={"limit": 4, "cursor": first["next"]}).json()
    assert [each["name"] for each in first["items"] + rest["items"]] == list(tiny.names)
    assert rest["next"] is None
    assert client.get("/v1/history/datasets", params={"cursor": "x"}).status_code == 400
    tag = client.get("/v1/history").headers["etag"]
    assert client.get("/v1/history", headers={"if-none-match": tag}).status_code == 304
    assert client.get("/v1/history/datasets/stripes1").json()["n_evaluations"] == 8
    assert client.get("/v1/history/datasets/nope").status_code == 404
    assert len(client.get("/v1/history/datasets/stripes1/runs").json()["items"]) == 8


def test_records_a_run_once(tiny, tmp_path, cli):
    path = tmp_path / "own.h5"
    shutil.copy(tiny.history, path)
    with History.open(path) as history:
        config, before = dict(history.configs[0]), history.n_evaluations
    with running(history=path, model=tiny.model) as url, Client(url) as client:
        added = client.record("stripes0", config, error=0.25, seed=9, key="run-9")
        again = client.record("stripes0", config, error=0.25, seed=9, key="run-9")
        assert (added["n_evaluations"], again["n_evaluations"]) == (before + 1, before + 1)
        assert (added["replayed"], again["replayed"]) == (False, True)
        with pytest.raises(DataError, match="expected"):
            client.record("stripes0", {"other": 1}, error=0.25)
        with pytest.raises(UsageError, match="expected a dataset of the history"):
            client.record("nope", config, error=0.25)
        typed = ("history", "record", "--dataset", "stripes1", "--config", json.dumps(config), "--error", "0.5")
        assert cli(*typed, "--server", url).code == 0
        for places in ((), (str(path), "--server", url)):
            assert cli(*typed, *places).code == 2
    with History.open(path) as history:
        assert history.n_evaluations == before + 2
        assert history.evaluations("stripes0")[-1].error == 0.25


def test_client_answers_as_the_advisor(tiny, cli, tmp_path):
    write_folder(tmp_path / "photos", *pictures(1))
    with running(history=tiny.history, model=tiny.model) as url:
        options = ("--dataset", str(tmp_path / "photos"), "--model", str(tiny.model))
        ours = cli("suggest", *options, "--history", str(tiny.history))
        theirs = cli("suggest", *options, "--server", url)
        # The next command names the server instead of the history.
        assert (theirs.code, theirs.out.splitlines()[:-2]) == (0, ours.out.splitlines()[:-2])
        assert f"tune {tmp_path / 'photos'} --server {url} --command" in theirs.out
        near = cli("neighbours", *options, "--server", url, "-k", "2", "--format", "json")
        assert len(json.loads(near.out)["neighbours"]) == 2
        both = cli("suggest", *options, "--server", url, "--history", str(tiny.history))
        assert both.code == 2
        assert "--server cannot be used with --history" in both.err
    gone = cli("suggest", *options, "--server", "http://127.0.0.1:9", "-q")
    assert gone.code == 4
    assert "expected a server that answers" in gone.err


def test_no_pixel_path_or_class_name_leaves(tiny, tmp_path):
    folder = tmp_path / "secret-project" / "photos"
    write_folder(folder, *pictures(2))
    for number, place in enumerate(sorted(path for path in folder.iterdir() if path.is_dir())):
        place.rename(folder / f"confidential-class-{number}")
    images, _ = pictures(2)
    with running(history=tiny.history, model=tiny.model) as url:
        wire = Wire(int(url.rpartition(":")[2]))
        with wire.open() as relayed, Client(relayed, advisor=Advisor(model=tiny.model, cache=False)) as client:
            client.suggest(folder)
            client.neighbours((images, np.arange(len(images)) % 2))
    sent = bytes(wire.sent)
    assert sent.count(b"POST /v1/") == 2
    for word in (b"secret", b"project", b"photos", b"confidential", b"class-", str(tmp_path).encode(), b".png"):
        assert word not in sent
    for image in images[:50]:
        row = image[len(image) // 2]
        assert row.tobytes() not in sent
        assert json.dumps(row.ravel()[:6].tolist(), separators=(",", ":"))[1:-1].encode() not in sent
    for part in sent.split(b"\r\n\r\n")[1::1]:
        body = part.partition(b"POST ")[0]
        if body:
            told = json.loads(body)["descriptor"]
            assert len(body) < MOST_BYTES
            numbers = len(told["vector"]) + len(told["class_counts"]) + len(told["sample"]["pixels"])
            assert numbers < 400  # fewer than the pixels of one picture


def test_open_address_needs_tokens(tmp_path):
    with pytest.raises(UsageError, match="host needs `token_file`, as other machines can reach"):
        ServiceSettings(host="0.0.0.0")
    with pytest.raises(MissingPathError, match="which is not there"):
        ServiceSettings(host="0.0.0.0", token_file=tmp_path / "none")
    with pytest.raises(UsageError, match="expected both a certificate and its key"):
        ServiceSettings(tls_cert=tmp_path / "cert.pem")


def test_tokens_and_scopes(tiny, tmp_path, descriptor):
    file = tmp_path / "tokens"
    secrets = {scope: add_token(file, f"{scope}er", scope) for scope in ("read", "run", "admin")}
    assert not any(secret in file.read_text() for secret in secrets.values())
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match=r"which .* has already"):
        add_token(file, "reader", "read")
    with opened(history=tiny.history, model=tiny.model, token_file=file) as client:
        body = {"descriptor": descriptor}
        assert client.get("/v1/healthz").status_code == 200
        assert client.post("/v1/suggestions", json=body).status_code == 401
        assert client.get("/v1", headers={"authorization": "Bearer wrong"}).status_code == 401

        def status(method, path, scope, **more):
            return client.request(
                method, path, headers={"authorization": f"Bearer {secrets[scope]}"}, **more
            ).status_code

        run = {"dataset": "nope", "config": {"a": 1}, "error": 0.5}
        assert status("POST", "/v1/suggestions", "read", json=body) == 200
        assert status("POST", "/v1/history/runs", "read", json=run) == 403
        assert status("POST", "/v1/history/runs", "run", json=run) == 404
        assert status("GET", "/v1/metrics", "run") == 403
        assert status("GET", "/v1/metrics", "admin") == 200
        file.write_text(file.read_text().replace("reader", "other"))  # read again
        assert status("POST", "/v1/suggestions", "read", json=body) == 200
        file.write_text("nonsense\n")
        assert status("GET", "/v1", "read") == 503


def test_limits_the_rate(tiny):
    with opened(history=tiny.history, model=tiny.model, rate=0.001) as client:
        assert client.get("/v1").status_code == 200
        refused = client.get("/v1")
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/v1/healthz").status_code == 200


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_uploaded_dataset_is_looked_at_and_not_kept(client, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    write_folder(tmp_path / "photos", *pictures(1))
    found = {
        str(path.relative_to(tmp_path)): path.read_bytes()
        for path in (tmp_path / "photos").rglob("*")
        if path.is_file()
    }
    as_zip = {"content-type": "application/zip"}
    made = client.post("/v1/descriptors:upload", content=zipped(found | {"photos/note.txt": b"x"}), headers=as_zip)
    assert made.status_code == 200, made.text
    expected = Advisor(tiny.history, tiny.model, cache=False).describe(tmp_path / "photos").descriptor.to_dict()
    told = made.json()["descriptor"]
    np.testing.assert_allclose(
        told.pop("vector"), expected.pop("vector"), rtol=1e-4, atol=1e-6
    )  # threads add in any order
    assert told == expected
    near = client.post("/v1/neighbours", json={"descriptor": made.json()["id"], "k": 1})
    assert near.json()["neighbours"][0]["name"] == "stripes1"
    refused = client.post("/v1/descriptors:upload", content=b"PK", headers=as_zip)
    assert refused.status_code == 422
    assert "expected a zip archive" in refused.json()["detail"]
    assert client.post("/v1/descriptors:upload", json={}).status_code == 415
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_picture_is_decoded_apart_and_named(tmp_path, monkeypatch):
    from safetensors.numpy import save

    from warmstart.service.core import Service
    from warmstart.training.workloads.classifier_file import to_metadata

    def answer(images):
        assert images.shape == (1, 16, 16, 3)
        return np.array([[0.25, 0.75]]), images.mean((1, 2, 3)) > 200

    fake = SimpleNamespace(classes=("dark", "light"), size=16, channels=3, answer=answer)
    monkeypatch.setattr(Service, "classifier", lambda _self: fake)
    path = tmp_path / "clf.safetensors"
    path.write_bytes(save({}, metadata=to_metadata("transfer", {"classes": ["dark", "light"]})))
    picture = io.BytesIO()
    Image.new("L", (40, 30), 255).save(picture, "png")
    png = {"content-type": "image/png"}
    with opened(classifier=path) as found:
        said = found.post("/v1/predictions", content=picture.getvalue(), headers=png)
        assert said.json() == {"class": "light", "probability": 0.75, "probabilities": {"dark": 0.25, "light": 0.75}, "unlike": True}  # fmt: skip
        broken = found.post("/v1/predictions", content=b"no picture", headers=png)
        assert (broken.status_code, "got another file (no picture)" in broken.json()["detail"]) == (422, True)
        assert found.post("/v1/predictions", content=bytes(20_000_001), headers=png).status_code == 413
        assert found.post("/v1/predictions", json={}).status_code == 415
    with opened() as found:
        assert found.post("/v1/predictions", content=picture.getvalue(), headers=png).status_code == 404
    with pytest.raises(MissingPathError, match="expected a file of networks"):
        ServiceSettings(classifier=tmp_path / "none")


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({"../a/x.png": b"1"}, "expected names within the archive"),
        ({"/etc/x.png": b"1"}, "expected names within the archive"),
        ({"a/x.txt": b"1"}, "expected pictures in a folder for each class"),
        ({"a/x.png": bytes(5000)}, "expected at most 4,000 bytes unpacked"),
    ],
)
def test_refuses_archives(files, match, tmp_path):
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped(files))
    with pytest.raises(DataError, match=match):
        unpack(archive, "zip", tmp_path / "out", most_bytes=4000)


def test_pixels_are_counted_before_any_is_decoded(tmp_path):
    from PIL import Image

    Image.new("1", (5_000, 5_000)).save(tmp_path / "bomb.png")
    (tmp_path / "none.png").write_bytes(b"x")
    with pytest.raises(DataError, match="expected at most 1,000,000 pixels"):
        check_pixels(tmp_path, 1_000_000)


def test_hard_links_of_a_tar_are_files(tmp_path):
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w") as packed:
        file = tarfile.TarInfo("a/x.png")
        file.size = 3
        packed.addfile(file, io.BytesIO(b"abc"))
        for name, kind in (("b/y.png", tarfile.LNKTYPE), ("b/z.png", tarfile.SYMTYPE)):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, "a/x.png"
            packed.addfile(link)
    folder, notes = unpack(archive, "tar", tmp_path / "out", most_bytes=6)
    assert {path.name: path.read_bytes() for path in folder.rglob("*.png")} == {"x.png": b"abc", "y.png": b"abc"}
    assert notes == ["left out 1 link, not followed, such as b/z.png"]
    with pytest.raises(DataError, match="expected at most 5 bytes unpacked"):
        unpack(archive, "tar", tmp_path / "other", most_bytes=5)


def test_files_of_a_tar_that_are_no_pictures_count(tmp_path):
    archive = tmp_path / "a.tar"
    with tarfile.open(archive, "w:xz") as packed:
        file = tarfile.TarInfo("a/notes.txt")
        file.size = 5000
        packed.addfile(file, io.BytesIO(bytes(5000)))
    with pytest.raises(DataError, match="expected at most 4,000 bytes unpacked"):
        unpack(archive, "tar", tmp_path / "out", most_bytes=4000)


def test_is_not_ready_without_its_studies(tiny, tmp_path):
    storage = tmp_path / "s.db"
    settings = {"history": tiny.history, "model": tiny.model, "storage": storage}
    assert "none yet" in check_config(ServiceSettings(**settings))["studies"]
    assert not storage.exists()
    storage.write_bytes(b"no database" * 100)
    with opened(**settings) as client:
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
    with pytest.raises(StorageError, match=r"s\.db: expected a storage of studies"):
        check_config(ServiceSettings(**settings))


def test_the_page_of_the_interface_has_all_of_it_and_needs_no_other_server(client):
    page = client.get("/docs")
    document = client.get("/v1/openapi.json").json()
    for name in (*document["paths"], *document["components"]["schemas"]):
        assert f"{name}</code>" in page.text
    assert not re.findall(r"(?:src|href)=\"(?!\./|#|data:)", page.text)
    assert "<script" not in page.text


def test_a_revoked_token_opens_nothing(tiny, tmp_path):
    file = tmp_path / "tokens"
    secrets = {name: add_token(file, name, "read") for name in ("ann", "bob")}
    with opened(history=tiny.history, model=tiny.model, token_file=file) as client:

        def status(name):
            return client.get("/v1", headers={"authorization": f"Bearer {secrets[name]}"}).status_code

        assert (status("ann"), status("bob")) == (200, 200)
        remove_token(file, "ann")
        assert (status("ann"), status("bob")) == (401, 200)
    with pytest.raises(UsageError, match="expected one of bob, got 'ann'"):
        remove_token(file, "ann")


def test_options_of_the_server_are_environment_variables(tiny, tmp_path, monkeypatch, cli):
    for name, value in (("HISTORY", tiny.history), ("MODEL", tiny.model), ("STORAGE", tmp_path / "s.db")):
        monkeypatch.setenv(f"WARMSTART_{name}", str(value))
    monkeypatch.setenv("WARMSTART_RATE", "-1")
    refused = cli("serve", "--check-config")
    assert (refused.code, "--rate: expected requests a second above 0" in refused.err) == (2, True)
    monkeypatch.setenv("WARMSTART_RATE", "5")
    assert "none yet" in cli("serve", "--check-config").out


def test_a_token_without_a_place_for_it(tmp_path, cli):
    gone = cli("serve", "--new-token", "ann", "--token-file", str(tmp_path / "none" / "tokens"))
    assert gone.code == 2
    assert f"--token-file: expected a folder for the tokens, got none at {tmp_path / 'none'}. Make it" in gone.err
    (tmp_path / "a.txt").touch()
    (tmp_path / "tokens.lock").mkdir()
    with pytest.raises(StorageError, match="expected an ordinary file, got a folder"):
        add_token(tmp_path / "tokens", "ann", "read")
    long = cli("serve", "--new-token", "ann", "--token-file", str(tmp_path / ("t" * 252)))
    assert (long.code, "--token-file: expected a file and a folder that can be written" in long.err) == (4, True)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_empty_history_is_served(tiny, tmp_path, descriptor):
    with History.open(tiny.history) as history:
        space = history.space_json
    History.create(tmp_path / "new.h5", space).close()
    with opened(history=tmp_path / "new.h5", model=tiny.model, storage=tmp_path / "s.db") as client:
        assert client.get("/v1/readyz").json() == {"status": "ready"}
        about = client.get("/v1").json()
        assert (about["extractors"], about["history"]) == ([], {"name": "new.h5", "n_datasets": 0, "n_configs": 0})
        study = {"name": "s", "space": {"x": [0.0, 1.0]}}
        assert client.post("/v1/studies", json=study).status_code == 201
        asked = client.post("/v1/suggestions", json={"descriptor": descriptor})
        assert asked.status_code == 400
        assert "expected a history with datasets, got an empty one" in asked.json()["detail"]


def test_upload_has_the_pictures_that_a_folder_has(client, tiny, tmp_path):
    folder = tmp_path / "photos"
    write_folder(folder, *pictures(1))
    place = sorted(path for path in folder.iterdir() if path.is_dir())[0]
    for path, ending in zip(sorted(place.iterdir()), (".tga", ".jfif", ".pnm", ".jp2"), strict=False):
        Image.open(path).save(path.with_suffix(ending))
        path.unlink()
    next(place.glob("*.png")).rename(place / "_DSC0001.JPG")
    place.rename(folder / "_other")
    for name in ("a/note.txt", "._x.png", "@eaDir/x/y.png", "loose.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.warns(DatasetWarning, match="left out 1 picture in"):
        expected = Advisor(tiny.history, tiny.model, cache=False).describe(folder).descriptor
    made = client.post("/v1/descriptors:upload", content=zipped(found), headers={"content-type": "application/zip"})
    told = made.json()
    assert told["descriptor"]["class_counts"] == list(expected.class_counts)
    assert told["notes"] == [
        "left out 1 file, by their endings no pictures, such as photos/a/note.txt",
        "photos: left out 1 picture in ./ outside every class folder.",
    ]


def test_prefix_of_a_proxy(tiny):
    with opened(history=tiny.history, model=tiny.model, root_path="/warm") as client:
        assert client.get("/warm/v1/readyz").status_code == 200
        assert client.get("/v1/readyz").status_code == 200  # the proxy took it off


def test_id_stands_for_a_descriptor(client, descriptor):
    made = client.post("/v1/descriptors", json=descriptor)
    assert made.status_code == 201
    assert client.get(made.headers["location"]).json() == made.json()
    near = client.post("/v1/neighbours", json={"descriptor": made.json()["id"], "k": 2})
    assert near.json()["neighbours"][0]["name"] == "stripes1"
    assert client.post("/v1/neighbours", json={"descriptor": "unknown"}).status_code == 404
