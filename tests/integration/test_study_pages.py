"""Pages of studies: what they show, from whom they hide what, and that they agree with the commands."""

import ast
import csv
import json
import re
import shlex
import sqlite3
import subprocess
from html import unescape

import optuna
import pytest
import yaml

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

import httpx
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import create_trial
from servers import running
from starlette.testclient import TestClient

from warmstart.history_store.errors import DataError
from warmstart.plots.study import PICTURES
from warmstart.service.app import create_app
from warmstart.service.auth import add_token
from warmstart.service.settings import ServiceSettings
from warmstart.studies.results.study_record import read_study_record
from warmstart.studies.results.study_summary import study_summaries
from warmstart.studies.state.storage import open_store

HTML = {"accept": "text/html"}
HOSTILE = "<script>alert(1)<b> \"x\" 'y' 100% #?&\u202e\x1b"
ODD = {"x": FloatDistribution(-1.0, 1.0), "<b>k</b>": CategoricalDistribution(["<img src=x onerror=alert(1)>", "=1+1"])}


def opened(**settings):
    return TestClient(create_app(ServiceSettings(**settings)), base_url="http://127.0.0.1:8383")


def add_foreign(storage, name, n=8, **options):
    """Add a study as another program writes it."""
    study = optuna.create_study(storage=storage, study_name=name, **options)
    for number in range(n):
        params = {"x": number / n, "<b>k</b>": ODD["<b>k</b>"].choices[number % 2]}
        values = [number / n + 2.0] * len(study.directions)
        reports = {step: values[0] + 1 / step for step in (1, 2, 3)} if len(values) == 1 else {}
        attributes = {"constraints": [3.0 - number]} if "tied" in name else {}
        study.add_trial(create_trial(params=params, distributions=ODD, values=values, intermediate_values=reports, system_attrs=attributes))  # fmt: skip
    return study


def begin(client, name, n=6, **options):
    """Begin a study, end trials of it, and leave one under way."""
    space = {"log10_lr": [-5.0, -1.0], "n": {"int": [1, 4]}}
    told = client.post(
        "/v1/studies",
        json={"name": name, "space": space, "warm": "none", "startup": 500, "surrogate": "gp-map", **options},
    )
    assert told.status_code == 201, told.text
    for number in range(n):
        (trial,) = client.post(f"/v1/studies/{name}/trials:ask", json={"client": "gpu:0"}).json()["trials"]
        path = f"/v1/studies/{name}/trials/{number}"
        for step in (1, 2):
            client.post(f"{path}:report", json={"client": "gpu:0", "step": step, "error": 0.9 / step})
        if number < n - 1:
            assert client.post(f"{path}:tell", json={"client": "gpu:0", "error": trial["config"]["n"] / 10}).is_success


@pytest.fixture(params=["s.db", "s.journal"])
def storage(request, tmp_path):
    store = open_store(tmp_path / request.param)
    for name, options in {
        "loss": {},
        "score": {"direction": "maximize"},
        "tied": {"direction": "maximize"},
        "both": {"directions": ["minimize", "maximize"]},
        "none": {"n": 0},
        HOSTILE: {},
        "a/b": {},
        "..": {},
    }.items():
        add_foreign(store.optuna, name, **options)
    store.close()
    return tmp_path / request.param


@pytest.mark.filterwarnings("default")
def test_the_list_says_what_the_studies_say(storage):
    with opened(storage=storage) as client:
        begin(client, "own", metric="val_acc", maximize=True)
    store = open_store(storage)
    try:
        summaries = {summary.name: summary for summary in study_summaries(store)}
        assert len(summaries) == 9
        for name, summary in summaries.items():
            if name == "both":
                with pytest.raises(DataError, match="expected a study of one objective"):
                    read_study_record(store, name)
                assert (summary.error, summary.trials) == (None, 8)
                continue
            record = read_study_record(store, name)
            assert summary.error == (None if record.best is None else pytest.approx(record.best.error)), name
            assert summary.metric.name == record.shown_metric.name
            assert (summary.trials, summary.running) == (len(record.trials) + record.running, record.running)
        assert summaries["tied"].error == -2.875
        assert summaries["own"].running == 1
    finally:
        store.close()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("storage", ["s.db"], indirect=True)
def test_every_page_of_the_list_opens_and_no_name_is_markup(tmp_path, storage):
    with opened(storage=storage) as client:
        listed = client.get("/studies", headers=HTML)
        links = re.findall(r'<th scope="row"><a href="(studies/[^"]+)"', listed.text)
        assert len(links) == 6
        assert listed.text.count("no page") == 2
        for link in links:
            page = client.get(f"/{unescape(link)}", headers=HTML)
            assert page.status_code == (422 if link.endswith("both") else 200), link
            assert not re.search(r"<script>|<img src=x|<b>k|\x1b|\u202e", page.text)
            for picture in re.findall(r'src="([^"]+\.svg[^"]*)"', page.text):
                drawn = client.get(f"/studies/{unescape(picture)}")
                assert drawn.status_code == 200, picture
                assert "sandbox" in drawn.headers["content-security-policy"]
                assert not re.search(r"<script|<img|<b>k", drawn.text)
            tag = page.headers.get("etag")
            assert tag is None or client.get(f"/{unescape(link)}", headers={"if-none-match": tag}).status_code == 304
        for path in (
            "gone",
            "a%2Fb",
            "loss/nope.svg",
            "loss/..%2f..%2fstatic%2fapp.js",
            "loss?sort=nope",
            "loss?part=0",
        ):
            missing = client.get(f"/studies/{path}", headers=HTML)
            assert missing.status_code in (404, 422), path
            assert str(tmp_path) not in missing.text


def test_a_page_has_its_metric_and_its_trials_as_the_commands_have_them(tmp_path, cli):
    with opened(storage=tmp_path / "s.db") as client:
        begin(client, "own", 8, metric="val_acc", maximize=True)
        page = client.get("/studies/own").text
        assert re.search(r"best val_acc</dt><dd><strong>0\.9<", page)
        assert "maximised" in page
        assert "gpu:0" in page
        assert all(f"own/{name}.svg" in page for name in PICTURES)
        exported = cli("studies", "export", tmp_path / "own.csv", "--storage", tmp_path / "s.db")
        assert exported.code == 0, exported.err
        text = (tmp_path / "own.csv").read_text()
        assert client.get("/studies/own/trials.csv").text == text

        def numbers(query):
            body = re.search(r'id="trials".*', client.get(f"/studies/own?{query}").text, re.DOTALL)[0]
            return [int(each) for each in re.findall(r'<tr[^>]*><td class="number">(\d+)<', body)]

        assert numbers("") == [7, 6, 5, 4, 3, 2, 1, 0]
        assert numbers("state=running") == [7]
        values = {int(row["trial"]): float(row["val_acc"]) for row in csv.DictReader(text.splitlines())}
        by_value = [values[number] for number in numbers("sort=-val_acc&state=ok")]
        assert by_value == sorted(values.values(), reverse=True)
        assert numbers("q=no-such-text") == []


def test_rights_of_the_pages(tmp_path):
    file = tmp_path / "tokens"
    secrets = {scope: add_token(file, f"{scope}er", scope) for scope in ("read", "run", "admin")}
    with opened(storage=tmp_path / "s.db", token_file=file) as client:
        client.headers["authorization"] = f"Bearer {secrets['run']}"
        begin(client, "own")
        begin(client, "other", 1)
        client.headers.pop("authorization")
        for path in ("/studies", "/studies/own", "/studies/own/trials.csv", "/studies/own/timeline.svg"):
            assert client.get(path).status_code == 401, path
        asked = client.get("/studies/own", headers=HTML)
        assert (asked.status_code, "token-form" in asked.text, "own" in asked.text.split("<h1>")[1]) == (
            401,
            True,
            False,
        )
        assert client.post("/session", json={}, headers={"authorization": "Bearer no"}).status_code == 401

        def actions(scope):
            client.cookies.clear()
            signed = client.post("/session", json={}, headers={"authorization": f"Bearer {secrets[scope]}"})
            assert re.search(r"HttpOnly.*SameSite=lax", signed.headers["set-cookie"])
            page = client.get("/studies/own").text
            assert "runer" in page  # who began it
            archived = client.post("/v1/studies/own/archive", json={"archived": True}).status_code
            gone = client.delete("/v1/studies/own").status_code
            return "data-archive" in page, archived, "data-delete" in page, gone

        assert actions("read") == (False, 403, False, 403)
        assert actions("run") == (True, 204, False, 403)
        assert "studies/own" not in client.get("/studies").text
        assert "studies/own" in client.get("/studies?state=archived").text
        # A trial is under way: it is refused. Another page cannot ask for it.
        assert actions("admin") == (True, 204, True, 409)
        for headers in ({"sec-fetch-site": "same-site"}, {"origin": "http://127.0.0.1:9999"}):
            assert client.delete("/v1/studies/own", headers=headers).status_code == 403
            assert client.get("/studies/own/slices.svg", headers={**headers, "sec-fetch-dest": "image"}).status_code == 403  # fmt: skip
        told = {"client": "gpu:0", "error": 0.5}
        assert client.post("/v1/studies/own/trials/5:tell", json=told).is_success
        assert client.delete("/v1/studies/own").status_code == 204
        assert client.get("/studies/own").status_code == 404
        assert client.delete("/v1/studies/own").status_code == 404
    left = sqlite3.connect(tmp_path / "s.db").execute("select study_name from studies").fetchall()
    assert left == [("other",)]


@pytest.mark.parametrize("place", ["server", "storage"])
def test_the_shown_commands_run(tmp_path, cli, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import sys; print('acc', 0.5 + float(sys.argv[1]) / 10, sys.argv[2])")
    (tmp_path / "s.yaml").write_text("lr: [0.5, 1.0]\nname: [a b, c]\n")
    with running(storage=tmp_path / "s.db") as url:
        begun = ["--server", url] if place == "server" else ["--storage", "s.db"]
        run = cli("tune", "--command", "python train.py {lr} {name}", "--space", "s.yaml", "--trials", 2, "--score", "acc", "--no-warm", "--acquisition", "pi", "--study", "my own", *begun)  # fmt: skip
        assert run.code == 0, run.err
        page = httpx.get(f"{url}/studies/my%20own").text
        shown = {name: unescape(text) for name, text in re.findall(r'<pre id="([\w-]+)"[^>]*>([^<]*)</pre>', page)}
        best = subprocess.run(shlex.split(shown["copy-command"]), capture_output=True, text=True, check=True)
        value = re.search(r"best acc</dt><dd><strong>([\d.]+)<", page)[1]
        assert float(best.stdout.split()[1]) == pytest.approx(float(value), abs=1e-4)
        config = yaml.safe_load(shown["copy-yaml"])
        assert config == json.loads(shown["copy-json"]) == ast.literal_eval(shown["copy-python"])
        assert best.stdout.split(maxsplit=2)[2].strip() == config["name"]
        (tmp_path / "space.json").write_bytes(httpx.get(f"{url}/studies/my%20own/space.json").content)
        on = cli(*shlex.split(shown["go-on"])[1:], "--trials", 3)
        assert on.code == 0, on.err
        assert "3 ok" in httpx.get(f"{url}/studies/my%20own").text
