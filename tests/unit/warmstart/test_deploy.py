"""The files for servers name what there is."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from warmstart.option import about
from warmstart.service.options import ServiceOptions
from warmstart.studies.state.storage import VARIABLE, open_store
from warmstart.studies.state.trial_queue import open_queue

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_variables_are_options():
    flags = [(about(item).flags or (item.name,))[0] for item in fields(ServiceOptions)]
    names = {f"WARMSTART_{flag.lstrip('-').replace('-', '_').upper()}" for flag in flags}
    named = {name for file in DEPLOY.iterdir() for name in re.findall(r"WARMSTART_[A-Z_]+", file.read_text())}
    assert named - names == {"WARMSTART_CACHE", "WARMSTART_DOMAIN"}


def test_services_depend_on_one_another():
    document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    volumes = {text.split(":")[0] for service in document["services"].values() for text in service["volumes"]}
    assert volumes == set(document["volumes"])
    assert set(document["services"]["warmstart"]["depends_on"]) <= set(document["services"])


@pytest.fixture(scope="module")
def job():
    return yaml.safe_load((DEPLOY / "kubernetes-job.yaml").read_text())


def test_a_job_names_no_password_and_loses_no_worker_to_an_eviction(job):
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    pod = job["spec"]["template"]["spec"]
    (worker,) = pod["containers"]
    assert [(item["name"], [*item["valueFrom"]]) for item in worker["env"]] == [(VARIABLE, ["secretKeyRef"])]
    assert job["spec"]["parallelism"] == job["spec"]["completions"]
    assert pod["restartPolicy"] == "Never"  # what a failure policy needs
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onPodConditions"]) == ("Ignore", [{"type": "DisruptionTarget", "status": "True"}])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pods_of_a_job_share_its_study(job, tmp_path):
    (worker,) = job["spec"]["template"]["spec"]["containers"]
    assert worker["command"][0] == "warmstart"
    (tmp_path / "train.py").write_text(
        "import sys, time\n"
        "time.sleep(1)\n"
        "open('seen', 'a').write(sys.argv[2] + '\\n')\n"
        "print('val_loss:', abs(float(sys.argv[2]) - 0.3))\n"
    )
    (tmp_path / "space.yaml").write_text("lr: [0.0, 1.0]\n")
    words = [word.replace("python ", f"{sys.executable} ").replace("200", "6") for word in worker["command"][1:]]
    storage = str(tmp_path / "studies.db")
    pods = [
        subprocess.Popen(
            [sys.executable, "-m", *("warmstart", *words)], cwd=tmp_path, env={**os.environ, VARIABLE: storage}
        )
        for _ in range(2)
    ]
    assert [pod.wait() for pod in pods] == [0, 0]
    assert len(set((tmp_path / "seen").read_text().split())) == 6
    with open_queue(open_store(storage), "mine") as queue:
        assert [trial.state.name for trial in queue.trials()] == ["COMPLETE"] * 6
