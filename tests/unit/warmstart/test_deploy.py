"""The files for servers name what there is."""

import re
from dataclasses import fields
from pathlib import Path

import yaml

from warmstart.option import about
from warmstart.service.options import ServiceOptions

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
