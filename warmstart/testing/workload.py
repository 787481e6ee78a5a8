"""The contract of workloads; inherit `WorkloadContract` and return the tested workload.

Each test trains for an instant on a few drawn pictures; a whole suite takes some ten seconds on one core.
"""

from __future__ import annotations

import math
import pickle
import re
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from warmstart.history_store.errors import DataError, ModelError, UsageError, WarmstartError
from warmstart.history_store.images import ImageSource
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.readers import open_arrays
from warmstart.history_store.records import Config, Status
from warmstart.history_store.space import dump_space, load_space
from warmstart.training.workloads import (
    WORKLOADS,
    Budget,
    Member,
    Prepared,
    SourceDataset,
    TrainingResult,
    Workload,
    get_workload,
    load_classifier,
)

_CONFIGS = 8


class WorkloadContract(ABC):
    """A workload over 60 pictures in three classes, bright, middling and dark."""

    size: int = 32
    """Pixels per side of the pictures."""
    channels: int = 3
    seconds: float = 20.0
    """Seconds after which a short run counts as hung."""
    registered: bool = True
    """Whether the workload is in the registry under its name."""

    @abstractmethod
    def make(self) -> Workload:
        """Return the tested workload."""

    @abstractmethod
    def short(self, workload: Workload) -> Budget:
        """Return a budget that takes a second at most."""

    def good(self, workload: Workload) -> Config:
        """Return a configuration that trains; else the first shared one."""
        return sobol_configs(workload.space(), 1)[0]

    # What the tests share.

    @pytest.fixture
    def workload(self) -> Workload:
        """Return the workload, once per test."""
        return self.make()

    @pytest.fixture
    def source(self) -> ImageSource:
        """Return the pictures as a dataset."""
        return open_arrays(*_pictures(self.size, self.channels))

    @pytest.fixture
    def prepared(self, workload: Workload, source: ImageSource) -> Prepared:
        """Prepare the pictures on the CPU."""
        return workload.prepare(SourceDataset(source), device="cpu")

    def _train(self, workload: Workload, prepared: Prepared, *, seed: int = 0, keep: bool = False) -> TrainingResult:
        config, budget = self.good(workload), self.short(workload)
        return prepared.train(config, seed=seed, budget=budget, keep=keep, timeout_s=self.seconds)

    # Names, spaces, budgets: without torch.

    def test_it_is_named_and_in_the_registry(self, workload: Workload) -> None:
        """A name is a lower-case word; the registry makes the same workload."""
        assert re.fullmatch(r"[a-z][a-z0-9-]*", workload.name)
        assert len(set(workload.spaces)) == len(workload.spaces) >= 1
        assert len(set(workload.budgets)) == len(workload.budgets) >= 1
        if self.registered:
            assert workload.name in WORKLOADS
            assert type(get_workload(workload.name)) is type(workload)

    def test_every_space_is_read_as_it_was_written(self, workload: Workload) -> None:
        """Two calls give equal texts; a text comes back as the same space."""
        assert dump_space(workload.space()) == dump_space(workload.space(workload.spaces[0]))
        for name in workload.spaces:
            text = dump_space(workload.space(name))
            assert dump_space(load_space(text)) == text
            workload.check_names(list(workload.space(name)))

    def test_the_names_of_the_space_are_known_without_it(self, workload: Workload) -> None:
        """A workload that knows them says those of its space."""
        assert sorted(workload.usual_names()) == sorted(workload.space())

    def test_every_shared_configuration_passes_the_check(self, workload: Workload) -> None:
        """Every configuration drawn by a collection can be trained."""
        for name in workload.spaces:
            for config in sobol_configs(workload.space(name), 16):
                workload.check(config)

    def test_names_that_there_are_not_are_refused(self, workload: Workload) -> None:
        """Errors on a wrong space, budget, hyperparameter or configuration list the valid ones."""
        with pytest.raises(UsageError, match=re.escape(workload.spaces[0])):
            workload.space("no such space")
        with pytest.raises(UsageError, match=re.escape(workload.budgets[0])):
            workload.budget("no such budget")
        with pytest.raises(UsageError, match="expected the hyperparameters"):
            workload.check_names(["no_such_hyperparameter"])
        with pytest.raises(DataError, match=r"expected .*, got "):
            workload.check({"no_such_hyperparameter": 1})

    def test_budgets_have_names_units_and_amounts(self, workload: Workload) -> None:
        """A budget keeps its name and describes itself in JSON; an amount makes another one of the same name."""
        usual = workload.budget()
        assert usual.name == workload.budgets[0]
        for name in workload.budgets:
            budget = workload.budget(name)
            assert budget.name == name
            assert budget.unit
            less = workload.budget(name, amount=3)
            assert (less.name, less.unit) == (name, budget.unit)
            assert less.to_dict() != budget.to_dict()
            assert workload.budget(name).to_dict() == budget.to_dict()
            assert pickle.loads(pickle.dumps(budget)).to_dict() == budget.to_dict()
        origins = {workload.origin(workload.budget(name)) for name in workload.budgets}
        assert len(origins) == len(workload.budgets)
        assert all(origin.startswith("collect/") for origin in origins)

    def test_a_cost_is_positive_and_grows_with_the_budget(self, workload: Workload) -> None:
        """It is in proportion to seconds: a longer run never costs less."""
        for config in sobol_configs(workload.space(), _CONFIGS):
            amounts = [workload.budget(amount=amount) for amount in (5, 50, 500)]
            costs = [workload.cost(config, budget, n_train=400) for budget in amounts]
            assert all(0 < cost < math.inf for cost in costs)
            assert all(shorter <= longer for shorter, longer in pairwise(costs))

    def test_it_is_sent_to_a_process(self, workload: Workload) -> None:
        """Workers get a pickled workload."""
        again = pickle.loads(pickle.dumps(workload))
        assert dump_space(again.space()) == dump_space(workload.space())

    def test_naming_it_loads_no_torch(self, workload: Workload) -> None:
        """The command line lists workloads and checks configurations in an instant."""
        if not self.registered:
            pytest.skip("a process of its own finds registered workloads alone")
        code = f"""
import sys
from warmstart.history_store.numbering import sobol_configs
from warmstart.training.workloads import get_workload
workload = get_workload({workload.name!r})
workload.check(sobol_configs(workload.space(), 1)[0])
workload.cost(sobol_configs(workload.space(), 1)[0], workload.budget(), n_train=100)
print(sorted({{"torch", "torchvision", "timm"}} & set(sys.modules)))
"""
        process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert process.stdout.strip() == "[]"

    # Training.

    def test_a_run_ends_with_an_error_and_its_curve(
        self, workload: Workload, prepared: Prepared, source: ImageSource
    ) -> None:
        """Errors are shares of the validation part; the curve rises to the last step, ends with the error, and was reported."""
        heard: list[tuple[int, float]] = []
        result = prepared.train(
            self.good(workload),
            seed=0,
            budget=self.short(workload),
            report=lambda step, error: heard.append((step, error)),
        )
        assert result.status is Status.OK
        assert 0 <= result.error <= 1
        assert result.duration > 0
        assert result.model is None
        steps = [step for step, _ in result.curve]
        assert steps == sorted(set(steps))
        assert len(steps) >= 1
        assert result.curve[-1][1] == result.error
        assert heard == list(result.curve)
        n_train = len(SourceDataset(source).rows("train"))
        last = workload.steps(self.short(workload), config=self.good(workload), n_train=n_train)
        assert last in (None, steps[-1])

    def test_the_same_seed_gives_the_same_result(self, workload: Workload, source: ImageSource) -> None:
        """On a dataset prepared anew, and whatever was trained before."""
        results = []
        for before in (None, 7):
            prepared = workload.prepare(SourceDataset(source), device="cpu")
            if before is not None:
                self._train(workload, prepared, seed=before)
            results.append(self._train(workload, prepared, seed=1))
        assert results[0].error == results[1].error
        if self.short(workload).unit != "seconds":
            assert results[0].curve == results[1].curve

    def test_training_leaves_the_callers_random_numbers_alone(self, workload: Workload, prepared: Prepared) -> None:
        """A study in the same process draws what it would have drawn."""
        import torch

        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        self._train(workload, prepared)
        assert torch.equal(torch.rand(3), expected)

    def test_every_shared_configuration_trains(self, workload: Workload, prepared: Prepared) -> None:
        """None crashes on a small dataset; one that diverges has the error of a constant prediction."""
        for config in sobol_configs(workload.space(), _CONFIGS):
            result = prepared.train(config, seed=0, budget=self.short(workload), timeout_s=self.seconds)
            assert result.status in (Status.OK, Status.DIVERGED)
            if result.status is Status.DIVERGED:
                assert result.error == prepared.constant_error()

    def test_what_a_report_raises_ends_the_run(self, workload: Workload, prepared: Prepared) -> None:
        """Studies prune by an exception of the report."""

        class Enough(Exception):  # noqa: N818
            pass

        heard = []

        def report(step: int, error: float) -> None:
            heard.append((step, error))
            raise Enough

        with pytest.raises(Enough):
            prepared.train(self.good(workload), seed=0, budget=self.short(workload), report=report)
        assert len(heard) == 1

    def test_a_run_that_takes_too_long_is_given_up(self, workload: Workload, prepared: Prepared) -> None:
        """It has no error; a run that ended before the limit may keep its own."""
        budget = workload.budget()
        result = prepared.train(self.good(workload), seed=0, budget=budget, timeout_s=0.0)
        assert result.status in (Status.TIMEOUT, Status.OK)
        assert math.isnan(result.error) == (result.status is Status.TIMEOUT)

    def test_a_constant_prediction_misses_two_classes_of_three(self, prepared: Prepared) -> None:
        """The pictures are 20 a class."""
        assert prepared.constant_error() == pytest.approx(2 / 3, abs=0.05)

    def test_what_it_cannot_train_is_refused(self, workload: Workload, prepared: Prepared, source: ImageSource) -> None:
        """A configuration of another space, another workload's budget, a missing device."""
        with pytest.raises(DataError, match=r"expected .*, got "):
            prepared.train({"no_such_hyperparameter": 1}, seed=0, budget=self.short(workload))
        with pytest.raises(UsageError, match="expected a budget of the workload"):
            prepared.train(self.good(workload), seed=0, budget=_Foreign())
        with pytest.raises(WarmstartError, match="device"):
            workload.prepare(SourceDataset(source), device="abacus")

    # What is kept.

    def test_a_saved_classifier_predicts_as_before(
        self, workload: Workload, prepared: Prepared, source: ImageSource, tmp_path: Path
    ) -> None:
        """Members, classes and probabilities come back; the error is that of its predictions."""
        results = [self._train(workload, prepared, seed=seed, keep=True) for seed in (0, 1)]
        config = self.good(workload)
        members = [Member(n, dict(config), n, result.error) for n, result in enumerate(results)]
        for count in (1, 2):
            trained = prepared.combine(members[:count], [result.model for result in results[:count]])
            trained.save(tmp_path / "c.safetensors")
            again = load_classifier(tmp_path / "c.safetensors") if self.registered else None
            again = again or workload.load(tmp_path / "c.safetensors")
            assert [member.to_dict() for member in again.members] == [member.to_dict() for member in members[:count]]
            assert (again.classes, again.size, again.channels, again.error) == (
                trained.classes, trained.size, trained.channels, trained.error,
            )  # fmt: skip
            assert again.classes == tuple(source.class_names)
            val = SourceDataset(source).rows("val")
            read = source.read(val, size=again.size)
            probabilities = again.predict(read.images)
            np.testing.assert_array_equal(probabilities, trained.predict(read.images))
            assert probabilities.shape == (len(val), len(again.classes))
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
            wrong = np.mean(probabilities.argmax(axis=1) != read.labels)
            assert wrong == pytest.approx(again.error, abs=1.5 / len(val))

    def test_files_that_are_none_of_ours_are_refused(
        self, workload: Workload, prepared: Prepared, tmp_path: Path
    ) -> None:
        """A file that is cut, empty or something else, and pictures of another shape."""
        result = self._train(workload, prepared, keep=True)
        member = Member(0, dict(self.good(workload)), 0, result.error)
        trained = prepared.combine([member], [result.model])
        trained.save(tmp_path / "c.safetensors")
        content = (tmp_path / "c.safetensors").read_bytes()
        for damage in (content[:100], content[: len(content) // 2], b"", b"x" * 99):
            (tmp_path / "d.safetensors").write_bytes(damage)
            with pytest.raises(ModelError, match=r"d\.safetensors: expected"):
                workload.load(tmp_path / "d.safetensors")
        wrong: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = (
            np.zeros((2, trained.size + 1, trained.size, trained.channels), np.uint8),
            np.zeros((2, trained.size, trained.size, trained.channels), np.float64),
        )
        for images in wrong:
            with pytest.raises(DataError, match="expected images"):
                trained.predict(images)  # type: ignore[arg-type]


class _Foreign:
    """A budget that belongs to no workload."""

    name = "foreign"
    unit = "wishes"

    def to_dict(self) -> dict[str, object]:
        return {}


def _pictures(size: int, channels: int) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.uint8]], list[str]]:
    """Return 20 pictures per class, of noise around three brightnesses."""
    rng = np.random.default_rng(0)
    numbers = np.arange(60) % 3
    noise = rng.integers(0, 60, (60, size, size, channels))
    images = (noise + 70 * numbers[:, None, None, None]).astype(np.uint8)
    return images, [("dark", "middling", "bright")[number] for number in numbers.tolist()]
