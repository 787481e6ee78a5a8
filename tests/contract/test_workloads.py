"""Every workload of ours keeps the contract that is exported for those of others."""

import importlib.util
from pathlib import Path

import pytest

from warmstart.testing import WorkloadContract
from warmstart.training.workloads import WORKLOADS, Workload
from warmstart.training.workloads.cnn import CNN, Budget
from warmstart.training.workloads.transfer import Transfer


class TestCNN(WorkloadContract):
    def make(self) -> Workload:
        return CNN()

    def short(self, workload: Workload) -> Budget:
        return workload.budget(amount=4)


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs timm: pip install 'warmstart[pictures]'")
class TestTransfer(WorkloadContract):
    registered = False  # that with the packaged weights is; here two tiny networks of random weights stand for them

    @pytest.fixture(autouse=True)
    def _weights(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import timm
        import torch
        from safetensors.torch import save_file

        monkeypatch.chdir(tmp_path)
        for name in ("test_efficientnet", "test_vit"):
            with torch.random.fork_rng():
                torch.manual_seed(0)
                state = timm.create_model(
                    name, num_classes=0, **({"img_size": 32} if "vit" in name else {})
                ).state_dict()
            save_file(state, f"{name}.safetensors")

    def make(self) -> Workload:
        backbones = [f"{name}@{name}.safetensors" for name in ("test_efficientnet", "test_vit")]
        return Transfer(backbones, image_sizes=(32,))

    def short(self, workload: Workload) -> Budget:
        return workload.budget("steps", amount=4)


def test_every_workload_of_ours_has_its_suite():
    tested = {suite().make().name for suite in WorkloadContract.__subclasses__() if suite.__module__ == __name__}
    assert {name for name, made in WORKLOADS.items() if made.__module__.startswith("training.")} <= tested
