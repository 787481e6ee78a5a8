"""The page: from files of the package alone, and without JavaScript."""

import base64
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from servers import running
from starlette.testclient import TestClient
from stripes import pictures, write_folder

from warmstart.client import Client
from warmstart.history_store.picture import SUFFIXES
from warmstart.history_store.readers import tree
from warmstart.history_store.readers.tree import walk_names
from warmstart.service.app import create_app
from warmstart.service.auth import add_token
from warmstart.service.settings import ServiceSettings
from warmstart.suggestions.advisor import Advisor

STATIC = files("warmstart.service") / "static"


DROP = """data => {
    const transfer = new DataTransfer();
    const bytes = Uint8Array.from(atob(data), each => each.charCodeAt(0));
    transfer.items.add(new File([bytes], "stripes.tgz"));
    return transfer;
}"""


def packed_pictures():
    """Pack a few striped pictures as CLASS/PICTURE."""
    with tempfile.TemporaryDirectory() as place, io.BytesIO() as out:
        write_folder(Path(place) / "photos", *pictures(1))
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            archive.add(Path(place) / "photos", "photos")
        return out.getvalue()


def opened(**settings):
    return TestClient(create_app(ServiceSettings(**settings)), base_url="http://127.0.0.1:8383")


def test_page_loads_nothing_from_elsewhere(tiny):
    for place in STATIC.iterdir():
        text = place.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//cdn|innerHTML|eval\(", text), place.name
    with opened(history=tiny.history) as client:
        page = client.get("/")
        assert page.status_code == 200
        assert "script-src 'self'" in page.headers["content-security-policy"]
        for name in re.findall(r'(?:src|href)="(static/[\w.]+)"', page.text):
            assert client.get(f"/{name}").status_code == 200
        for name in ("charts.js", "zip.js", "formats.js", "elements.js", "pictures.js"):
            assert client.get(f"/static/{name}").headers["content-type"].startswith("text/javascript")
        for name in ("../app.py", "none.js", "index.html"):
            assert client.get(f"/static/{name}").status_code in (404, 422)


def test_tables_without_javascript(tiny, tmp_path):
    with opened(history=tiny.history, storage=tmp_path / "s.db") as client:
        datasets = client.get("/tables/datasets").text
        assert all(f"<td>{name}</td>" in datasets for name in tiny.names)
        assert client.get("/tables/studies").status_code == 200
    add_token(tmp_path / "tokens", "ann", "read")
    with opened(history=tiny.history, token_file=tmp_path / "tokens") as client:
        assert client.get("/").status_code == 200
        assert client.get("/tables/datasets").status_code == 401


def ran(module, code):
    """Run JavaScript with a module of the page as `page`; gives what it prints, as JSON."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    script = f"import * as page from {json.dumps((STATIC / module).as_uri())};\n{code}"
    typed = [node, "--no-warnings", "--input-type=module", "-"]
    done = subprocess.run(typed, input=script, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_page_sends_the_pictures_that_count():
    text = (STATIC / "pictures.js").read_text()
    suffixes, ignored = (re.findall('"(.+?)"', line) for line in text.splitlines() if line.startswith("export const"))
    assert {f".{each}" for each in suffixes} == SUFFIXES
    assert set(ignored) == tree._IGNORED


def test_page_notes_what_it_does_not_send():
    names = ["p/_a/_1.JFIF", "p/b/1.mpo", "p/b/2.heic", "p/b/.3.png", "p/@eaDir/4.png", "p/jpg", "p/Thumbs.db"]
    files = [{"name": each.rpartition("/")[2], "webkitRelativePath": each} for each in names]
    found = ran("pictures.js", f"console.log(JSON.stringify(page.picturesOf({json.dumps(files)})));")
    assert [each["name"] for each in found["pictures"]] == ["_1.JFIF", "1.mpo"]
    assert found["notes"] == ["left out 2 files, by their endings no pictures, such as 2.heic"]
    assert any(walk_names(names).pictures[folder] for folder in ("p/_a", "p/b"))
    assert walk_names(names).n_other_files == 2


def test_numbers_of_yaml_are_numbers_and_names_are_texts():
    values = [1e-7, -1e-7, 1.5e-9, 1e21, 0.001, 16, "1e-7", True]
    config = {f"x{number}": value for number, value in enumerate(values)} | {"on": 1, "a: b": 2, "null": 3, "7": 4}
    answer = {"suggestions": [{"config": config}, {"config": {"x0": 2e-8}}]}
    text = ran("formats.js", f"console.log(JSON.stringify(page.asText('yaml', {json.dumps(answer)})));")
    assert yaml.safe_load(text) == [config, {"x0": 2e-8}]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("size", "scheme"), [((1280, 900), "light"), ((390, 844), "dark")], ids=["desktop", "phone"])
def test_main_stories_in_a_browser(tmp_path, size, scheme):
    browsers = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not Path("/usr/bin/chromium").exists():
        pytest.skip("Debian's chromium is not installed")
    told = Advisor(cache=False).describe("sklearn:digits", workload="cnn").descriptor.to_json()
    with running(storage=tmp_path / "s.db") as url, browsers.sync_playwright() as player:
        browser = player.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        errors, asked = [], []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        page.click("summary")
        page.fill("#descriptor", told)
        page.press("#descriptor", "Tab")
        page.click("button.primary")
        page.wait_for_selector("#answer table", timeout=60_000)
        assert "sklearn_digits" in page.inner_text("#answer")
        for format_, word in (("optuna", "enqueue_trial"), ("csv", "rank,"), ("configspace", "configurations")):
            page.select_option("#answer select", format_)
            assert word in page.inner_text("#answer pre")
        assert "Expect the best of a search to reach" in page.inner_text("#answer")
        dropped = page.evaluate_handle(DROP, base64.b64encode(packed_pictures()).decode())
        page.dispatch_event("#drop", "drop", {"dataTransfer": dropped})
        page.get_by_text("stripes.tgz").wait_for()
        assert page.input_value("#descriptor") == ""  # what came last counts
        page.click("button.primary")
        page.get_by_text("Looking at your images").wait_for()
        page.get_by_text("Looking at your images").wait_for(state="detached", timeout=60_000)
        assert page.inner_text("#status") == ""
        page.click("nav >> text=Datasets")
        page.click("#dataset-list button.link >> nth=3")
        page.wait_for_selector("#dataset table")
        page.click("nav >> text=Studies")
        page.get_by_text("No study yet.").wait_for()
        with Client(url) as client:
            study = client.begin_study("squares", space={"x": [0.0, 1.0], "n": {"int": [1, 4]}}, surrogate="gp-map")
            for _ in range(6):
                trial = study.ask()
                trial.report(1, 5.0)
                trial.report(2, 4.0)
                trial.tell(trial.config["n"] + trial.config["x"])
            page.click("#list th a >> text=squares", timeout=60_000)  # it appears by itself
            page.click("#matters summary")
            page.evaluate("document.querySelectorAll('img').forEach(each => { each.loading = 'eager'; })")
            while not page.evaluate("[...document.images].every(each => each.complete && each.naturalWidth > 0)"):
                page.wait_for_timeout(100)
            assert page.locator("img.drawn").count() == 6
            study.ask().tell(0.5)  # the page goes on, and keeps what it shows
            page.locator("#trials tbody tr").nth(6).wait_for(timeout=60_000)
            page.locator("#head strong >> text=0.5").wait_for()
            assert page.locator("#matters[open]").count() == 1
            page.click("[data-copy=copy-json]")
            page.get_by_text("Copied").wait_for()
        if (shots := os.environ.get("WARMSTART_SCREENSHOTS")) is not None:
            page.screenshot(path=f"{shots}/study-{size[0]}-{scheme}.png", full_page=True)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        page.click("[data-archive]")
        page.get_by_text("0 studies of 1").wait_for()
        page.select_option("select[name=state]", "archived")
        page.once("dialog", lambda dialog: dialog.dismiss())
        page.click("#list [data-delete]")
        page.once("dialog", lambda dialog: dialog.accept())
        page.click("#list [data-delete]")
        page.get_by_text("No study yet.").wait_for()
        assert (errors, wide) == ([], 0)
        assert [each for each in asked if not each.startswith((url, "data:"))] == []
        browser.close()
