"""Every workload of ours keeps the contract that is exported for those of others."""

import pytest

from training.workloads import WORKLOADS, Workload
from training.workloads.cnn import CNN, Budget
from warmstart.testing import WorkloadContract

pytestmark = pytest.mark.timeout(90)


class TestCNN(WorkloadContract):
    def make(self) -> Workload:
        return CNN()

    def short(self, workload: Workload) -> Budget:
        return workload.budget(amount=4)


def test_every_workload_of_ours_has_its_suite():
    tested = {suite().make().name for suite in WorkloadContract.__subclasses__() if suite.__module__ == __name__}
    assert {name for name, made in WORKLOADS.items() if made.__module__.startswith("training.")} <= tested
