"""What is refused before Ray is asked for anything; what Ray itself does is in tests/integration/test_ray.py."""

import math
import re
import socket
import sys
from dataclasses import replace

import numpy as np
import pytest

from warmstart.histories.collect import Machines
from warmstart.history_store.errors import UsageError
from warmstart.integrations.ray.cluster import Cluster, chosen_cluster
from warmstart.training.collection.settings import CollectionSettings


@pytest.mark.parametrize("cpus", [-1.0, math.nan, True])
def test_resources_are_amounts(cpus):
    with pytest.raises(UsageError, match="cpus_per_trial: expected a number of at least 0"):
        Cluster(cpus=cpus)
    with pytest.raises(UsageError, match="gpus_per_trial: expected a number of at least 0"):
        Cluster(gpus=cpus)


def test_a_trial_takes_something():
    with pytest.raises(UsageError, match="got no CPU and no GPU"):
        Cluster(cpus=0.0)
    assert Cluster(cpus=np.float32(0.0), gpus=np.int64(1)).resources == {"num_cpus": 0.0, "num_gpus": 1}
    assert Cluster(cpus=0.0, gpus=0.5).resources == {"num_cpus": 0.0, "num_gpus": 0.5}


def test_options_choose_a_cluster():
    none = {"cpus_per_trial": None, "gpus_per_trial": None}
    assert chosen_cluster(None, use_ray=False, **none) is None
    assert chosen_cluster(None, use_ray=True, **none) == Cluster()
    assert chosen_cluster("a:1", use_ray=False, **none) == Cluster("a:1")
    assert chosen_cluster(None, use_ray=True, cpus_per_trial=0.0, gpus_per_trial=1.0) == Cluster(None, 0.0, 1.0)
    for name in none:
        with pytest.raises(UsageError, match="need `ray` or `ray_address`"):
            chosen_cluster(None, use_ray=False, **{**none, name: 1.0})


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_nobody_at_the_address_is_told_at_once(monkeypatch, prefix):
    monkeypatch.setitem(sys.modules, "ray", Idle)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"{prefix}127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"expected a Ray cluster that answers, got none at '{address}'"):
            enter(address)


class Idle:
    """Ray as far as it is asked before the address is known to be good."""

    @staticmethod
    def is_initialized():
        return False


def enter(address):
    with Cluster(address).connect():
        pytest.fail("connected")


class Crowded(Idle):
    """A cluster whose only node has a CPU and no GPU."""

    @staticmethod
    def is_initialized():
        return True

    @staticmethod
    def nodes():
        return [{"Alive": True, "Resources": {"CPU": 1.0}}, {"Alive": False, "Resources": {"CPU": 1.0, "GPU": 8.0}}]


def test_without_room_a_collection_is_refused_and_named_workers_are_told_what_they_wait_for(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "ray", Crowded)
    lacking = r"a node for 1 CPU and 1 GPU, got 1 CPU, 0 GPU\. "
    machines = Machines(cluster=Cluster(gpus=1.0))
    with (
        pytest.raises(UsageError, match=f"cpus_per_trial, gpus_per_trial: expected {lacking}Ask for less"),
        machines.configured(CollectionSettings(), has_device=False),
    ):
        pytest.fail("began")
    with replace(machines, workers=2).configured(CollectionSettings(), has_device=False) as settings:
        assert settings.workers == 2
    assert not caplog.records
    Cluster(gpus=1.0).check_fits(2)
    assert re.search(f"Workers wait for room: expected {lacking}Add such a node", caplog.text)


@pytest.mark.parametrize("address", ["head", "head:port", "head:70000"])
def test_an_address_has_a_port(monkeypatch, address):
    monkeypatch.setitem(sys.modules, "ray", Idle)
    with pytest.raises(UsageError, match="ray_address: expected"):
        enter(address)
