"""Every route asks the same history where a question names none: pretrained networks', unless it shares more with the other."""

import numpy as np
import pytest

from warmstart.client import Client
from warmstart.default_workload import default_workload, measured_history, workload_of_extractor
from warmstart.descriptor import Descriptor
from warmstart.history_store.extras import EXTRAS
from warmstart.locations import history_path, model_path
from warmstart.metafeat.model_file import read_header
from warmstart.service.core import Service
from warmstart.service.settings import ServiceSettings
from warmstart.service.study_book import StudyBook
from warmstart.studies.state.spec import StudySpec
from warmstart.studies.study_names import with_workload_of
from warmstart.studies.tune_options import TuneOptions
from warmstart.suggestions.advisor import Advisor

HASHES = {name: read_header(model_path(workload=name)).hash for name in ("cnn", "transfer")}


@pytest.fixture
def with_pictures(monkeypatch, request):
    """Let the extra `pictures` be installed or not, as the parameter says."""
    monkeypatch.setattr("warmstart.default_workload.has_extra", lambda extra: extra in EXTRAS and request.param)
    return request.param


def asked_by(advisor, *question):
    return advisor.of_question("photos/", *question)[0].history.name


@pytest.mark.parametrize(("with_pictures", "name"), [(True, "transfer"), (False, "cnn")], indirect=["with_pictures"])
def test_pictures_are_for_pretrained_networks_where_they_are_installed(with_pictures, name, monkeypatch):
    default = default_workload()
    assert (default.name, "pip install 'warmstart[pictures]'" in default.note) == (name, not with_pictures)
    assert measured_history(None) == history_path(workload=name)
    assert asked_by(Advisor()) == history_path(workload=name).name
    assert TuneOptions.of({}).own_workload == name
    client = Client("http://127.0.0.1:1")
    for extractors in ([HASHES["transfer"], HASHES["cnn"]], [HASHES["cnn"]]):
        monkeypatch.setattr(Client, "about", lambda self, extractors=extractors: {"extractors": extractors})
        client = Client("http://127.0.0.1:1")
        assert client.accepted(default).name == (name if HASHES[name] in extractors else "cnn")
    service = Service(ServiceSettings(), StudyBook(None))
    assert service.extractors()[0] == HASHES[name]


OWN = {
    "lr: {log: [1e-5, 0.1]}": "cnn",
    "lr: {log: [1e-5, 0.1]}\nbatch_size: [8, 16, 32]": "cnn",
    "image_size: {choice: [64, 128]}\nbackbone: [tf_efficientnet_lite0, tf_efficientnet_lite2]": "transfer",
    "momentum: [0.5, 0.9]": "cnn",
    "compact": "cnn",
    "transfer:large": "transfer",
}


@pytest.mark.parametrize("with_pictures", [True], indirect=True)
@pytest.mark.parametrize(("text", "name"), OWN.items())
def test_a_space_of_ones_own_is_for_whose_hyperparameters_it_shares(with_pictures, text, name, tmp_path):
    space = text
    if ":" in text and not text.startswith("transfer"):
        (tmp_path / "space.yaml").write_text(text)
        space = str(tmp_path / "space.yaml")
    default = default_workload(space, is_script=True)
    assert default.name == name
    assert ("`workload`" in default.note) == (space != text and "momentum" not in text)
    assert asked_by(Advisor(), space) == history_path(workload=name).name


@pytest.mark.parametrize("with_pictures", [True], indirect=True)
def test_files_and_studies_and_descriptors_decide_before_the_default(with_pictures, tiny, monkeypatch):
    assert Advisor(tiny.history).of_question("photos/") == (Advisor(tiny.history), None)
    assert TuneOptions.of({"history": tiny.history}).own_workload == "cnn"
    assert TuneOptions.of({"target_budget": "paper"}).own_workload == "cnn"
    assert default_workload(model=model_path(workload="cnn")).name == "cnn"
    objective = {"function": None, "command": None, "workload": "cnn", "target_budget": "compact-400"}
    stored = StudySpec(space="{}", objective=objective, dataset=None, fingerprint=None)
    assert with_workload_of({"photos": stored}, TuneOptions.of({})).workload == "cnn"
    assert with_workload_of({"photos": stored}, TuneOptions.of({"workload": "transfer"})).workload == "transfer"
    for name, extractor in HASHES.items():
        assert workload_of_extractor(extractor) == name
        sent = Descriptor(extractor, np.zeros(2, np.float32), 20, 2, (10, 10))
        assert Advisor().of_question(sent)[0].history == history_path(workload=name)
    monkeypatch.setenv("WARMSTART_HISTORY", str(tiny.history))
    assert measured_history(None) == tiny.history


def test_a_server_answers_by_the_kind_of_the_descriptor(tmp_path):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from fastapi.testclient import TestClient

    from warmstart.service.app import create_app

    settings = ServiceSettings(storage=tmp_path / "s.db")
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8383") as client:
        assert set(client.get("/v1").json()["extractors"]) == set(HASHES.values())
        assert client.get("/v1/history").json()["history"] == history_path(workload="cnn").name  # as 0.2
        for name, extractor in HASHES.items():
            vector = Advisor(history_path(workload=name)).embedded.vectors[0]
            sent = {"descriptor": Descriptor(extractor, vector, 20, 2, (10, 10)).to_dict()}
            for path in ("/v1/suggestions", "/v1/neighbours"):
                assert client.post(path, json=sent).json()["history"] == history_path(workload=name).name
            nearest = client.post("/v1/neighbours", json=sent).json()["neighbours"][0]["name"]
            assert nearest in {each["name"] for each in client.post("/v1/map", json=sent).json()["datasets"]}
        refused = client.post("/v1/suggestions", json={"descriptor": sent["descriptor"] | {"extractor": "another"}})
        assert (refused.status_code, set(refused.json()["accepted"])) == (422, set(HASHES.values()))
        unknown = client.post("/v1/descriptors:upload?extractor=another", content=b"", headers={"content-type": "application/zip"})  # fmt: skip
        assert unknown.status_code == 422


@pytest.mark.parametrize("with_pictures", [True], indirect=True)
def test_a_command_without_a_space_is_for_whose_names_it_has(with_pictures):
    assert default_workload(names=["learning_rate", "seed"], is_script=True).name == "cnn"
    assert default_workload(names=["backbone", "image_size"], is_script=True).name == "transfer"
