"""What programs send that is nearly right: methods, keys, bodies, names, tags; each gets an answer that says the next step."""

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from stripes import pictures

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytest.importorskip("httpx", reason="the extra `dev` is not installed")

from starlette.testclient import TestClient

from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.history import History
from warmstart.measured_with import MeasuredWith
from warmstart.service import records
from warmstart.service.answers import answer_from_wire, answer_to_wire
from warmstart.service.app import create_app
from warmstart.service.settings import ServiceSettings
from warmstart.service.suggestions import AnswerBody
from warmstart.suggestions.advisor import Advisor

AS_JSON = {"content-type": "application/json"}
STUDY = {"name": "s", "space": {"x": [0.0, 1.0]}, "warm": "none", "startup": 500, "surrogate": "gp-map"}


def opened(**settings):
    app = create_app(ServiceSettings(**settings))
    return TestClient(app, base_url="http://127.0.0.1:8383", raise_server_exceptions=False)


@pytest.fixture
def client(tiny, tmp_path):
    shutil.copy(tiny.history, tmp_path / "own.h5")
    with opened(history=tmp_path / "own.h5", model=tiny.model, storage=tmp_path / "s.db") as found:
        yield found


def refused(found, status, pointer=None, *, told):
    problem = found.json()
    assert (found.status_code, problem.get("pointer")) == (status, pointer), problem
    assert told in problem["detail"], problem
    assert found.headers["content-type"] == "application/problem+json"


def test_methods(client):
    for path in ("/", "/v1", "/v1/healthz", "/v1/studies", "/v1/history"):
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(got.content))
        assert head.headers.get("etag") == got.headers.get("etag")
    assert client.head("/v1/studies/none").status_code == 404
    assert client.head("/v1/studies/none/events").status_code == 405
    every = client.options("/v1/studies")
    assert (every.status_code, every.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
    wrong = client.delete("/v1/studies")
    assert wrong.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    refused(wrong, 405, told="expected GET, HEAD, OPTIONS, POST at /v1/studies, got DELETE")
    refused(client.get("/v1/nope"), 404, told="expected a path that is served, got /v1/nope")


def test_bodies_that_json_does_not_know(client):
    for body, told in (
        (b'{"descriptor": NaN}', "NaN, which JSON does not have"),
        (b'{"k": 1, "k": 2}', "the name 'k' twice in one object"),
        (b'{"k": "\xff"}', "bytes that are no UTF-8"),
        (b"[" * 50_000, "nested too deep"),
        (b"9" * 5000, "a number that is too long"),
        (b"{", "Expecting property name"),
    ):
        refused(client.post("/v1/suggestions", content=body, headers=AS_JSON), 400, told=told)
    packed = client.post(
        "/v1/suggestions", content=gzip.compress(b"{}"), headers={**AS_JSON, "content-encoding": "gzip"}
    )
    refused(packed, 415, told="expected a body that is not compressed, got Content-Encoding 'gzip'")
    refused(client.post("/v1/map", content=b"{}"), 415, told="got none. Send it as JSON")
    assert client.post("/v1/map", content=b"\xef\xbb\xbf{}", headers=AS_JSON).status_code == 200


def test_studies_have_tags_and_trials_by_number(client):
    client.post("/v1/studies", json=STUDY)
    quoted = client.post("/v1/studies/s/trials:ask", json={"client": "w"}, headers={"idempotency-key": '"8e-0"'})
    plain = client.post("/v1/studies/s/trials:ask", json={"client": "w"}, headers={"idempotency-key": "8e-0"})
    assert [each.json()["trials"][0]["number"] for each in (quoted, plain)] == [0, 0]
    one = client.get("/v1/studies/s/trials/0")
    assert (one.json()["state"], one.json()["client"]) == ("running", "w")
    refused(client.get("/v1/studies/s/trials/1"), 404, "/path/number", told="expected the number of a trial")
    paths = ("/v1/studies", "/v1/studies/s", "/v1/studies/s/trials", "/v1/studies/s/trials/0")
    tags = {path: client.get(path).headers["etag"] for path in paths}
    for given in (None, "*"):
        same = [client.get(path, headers={"if-none-match": given or tag}).status_code for path, tag in tags.items()]
        assert same == [304] * 4
    told = client.post("/v1/studies/s/trials/0:tell", json={"client": "w", "error": 0.5})
    assert told.status_code == 200
    for path, tag in tags.items():
        assert client.get(path, headers={"if-none-match": tag}).status_code == 200
    late = client.post("/v1/studies/s/trials/0:report", json={"client": "w", "step": 1, "error": 0.5})
    refused(late, 409, told="expected one that runs, got one that ended as it was told")


def test_a_key_stands_for_one_run(client, tmp_path):
    with History.open(tmp_path / "own.h5") as history:
        config = dict(history.configs[0])
    run, key = {"dataset": "stripes0", "config": config, "error": 0.25, "seed": 7}, {"idempotency-key": "k"}
    first = client.post("/v1/history/runs", json=run, headers=key)
    again = client.post("/v1/history/runs", json=run, headers={"idempotency-key": '"k"'})
    assert (first.status_code, again.status_code, again.json()["replayed"]) == (201, 200, True)
    other = client.post("/v1/history/runs", json=run | {"error": 0.5}, headers=key)
    refused(other, 409, "/header/Idempotency-Key", told="Give every run a key of its own")
    refused(client.post("/v1/history/runs", json=run | {"status": "lost"}), 422, "/status", told="'ok'")
    unknown = client.get("/v1/history/datasets/none")
    refused(unknown, 404, "/path/name", told="expected a dataset of the history")


def test_the_document_has_every_path_once(client):
    document = client.get("/v1/openapi.json").json()
    assert "/healthz" not in document["paths"]
    operations = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(operations) == len(set(operations))
    for path, name in ((p, n) for p, each in document["paths"].items() for n in each):
        operation = document["paths"][path][name]
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if body is not None:
            assert "examples" in document["components"]["schemas"][body["schema"]["$ref"].rpartition("/")[2]], path
        for status in {"200", "201"} & operation["responses"].keys():
            for kind, told in operation["responses"][status]["content"].items():
                assert kind != "application/json" or "$ref" in told["schema"], (path, status)


def test_answers_are_as_the_document_says(client, tiny):
    client.post("/v1/studies", json=STUDY)
    client.post("/v1/studies/s/trials:ask", json={"client": "w", "count": 2})
    client.post("/v1/studies/s/trials/0:report", json={"client": "w", "step": 1, "error": 0.75})
    ended = client.post("/v1/studies/s/trials/0:tell", json={"client": "w", "error": 0.5})
    descriptor = Advisor(tiny.history, tiny.model, cache=False).describe(pictures(1)).descriptor.to_dict()
    for model, found in (
        (records.BegunStudy, client.post("/v1/studies", json=STUDY)),
        (records.StudyRecord, client.get("/v1/studies/s")),
        (records.StudyPage, client.get("/v1/studies")),
        (records.TrialPage, client.get("/v1/studies/s/trials")),
        (records.TrialRecord, client.get("/v1/studies/s/trials/1")),
        (records.TrialRecord, ended),
        (records.HistoryRecord, client.get("/v1/history")),
        (records.DatasetPage, client.get("/v1/history/datasets")),
        (records.DatasetRecord, client.get("/v1/history/datasets/stripes0")),
        (records.RunPage, client.get("/v1/history/datasets/stripes0/runs")),
        (records.MapRecord, client.post("/v1/map", json={"descriptor": descriptor})),
    ):
        assert found.status_code == 200, found.text
        assert model.model_validate(found.json()).model_dump() == found.json()


def test_answers_travel_whole(client, tiny):
    space = {"lr": {"log": [1e-5, 0.1]}, "momentum": [0.0, 0.99]}
    advisor = Advisor(tiny.history, tiny.model, cache=False)
    told = advisor.describe(pictures(1)).descriptor
    here = advisor.suggest(told, 2, space=space)
    expected = ExpectedError(0.1, 0.05, 0.25)
    designs = tuple(replace(each, expected_error=expected) for each in here.suggestions)
    measured = MeasuredWith("a CNN", "Adam", 32, "400 updates", origins={"test": 3})
    whole = replace(here, suggestions=designs, expected_error=expected, measured_with=measured)
    assert whole.mapping is not None
    for answer in (here, whole, advisor.suggest(told, 2, space=space, explain=True), advisor.neighbours(told, 3)):
        wire = AnswerBody.model_validate(answer_to_wire(answer)).model_dump(by_alias=True, exclude_unset=True)
        back = answer_from_wire(json.loads(json.dumps(wire)), answer.dataset)
        names = {"history": Path(answer.history).name, "model": Path(answer.model).name}
        assert back.to_dict() == answer.to_dict() | names
    served = client.post("/v1/suggestions", json={"descriptor": told.to_dict(), "k": 2, "space": space}).json()
    assert served["explanation"]["mapping"]
    few = client.post("/v1/suggestions", json={"descriptor": told.to_dict() | {"features": [0.5]}})
    refused(few, 422, "/descriptor/features", told="expected 49 numbers, got 1")


def test_sizes_of_a_descriptor_fit_each_other(client, tiny):
    full = Advisor(tiny.history, tiny.model, cache=False).describe(pictures(1)).descriptor
    for good in (full, full.reduced()):
        assert client.post("/v1/descriptors", json=good.to_dict()).status_code == 201
    for wrong, told in (
        ({"class_counts": [10, 10, 10]}, "expected 4 counts for 4 classes, got 3"),
        ({"class_counts": [1, 2, 3, 4]}, "expected the largest count first"),
        ({"n_images": 2}, "expected counts of 2 images, got 40 in all"),
    ):
        refused(client.post("/v1/descriptors", json=full.to_dict() | wrong), 422, "/class_counts", told=told)


def test_parameters_that_no_route_has(client):
    refused(client.get("/v1/studies?limt=5"), 422, "/query/limt", told="expected cursor or limit")
    refused(client.get("/v1/healthz?x=1"), 422, "/query/x", told="expected no query parameter")
