import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from warmstart.training.collection.cells import cell_seed

CONFIG = {"log10_learning_rate": -2.5, "batch_size": 16}


def test_known_value() -> None:
    """Measured histories depend on it: it must never change."""
    assert cell_seed("cifar10", CONFIG) == KNOWN


def test_order_of_the_values_does_not_matter() -> None:
    assert cell_seed("cifar10", dict(reversed(CONFIG.items()))) == KNOWN


def test_everything_else_matters() -> None:
    seeds = {
        cell_seed("cifar10", CONFIG),
        cell_seed("cifar100", CONFIG),
        cell_seed("cifar10", {**CONFIG, "batch_size": 17}),
        cell_seed("cifar10", CONFIG, 1),
        cell_seed("cifar10", CONFIG, base=1),
    }
    assert len(seeds) == 5


def test_same_in_another_process() -> None:
    code = f"from warmstart.training.collection.cells import cell_seed; print(cell_seed('cifar10', {CONFIG!r}))"
    out = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": "7"}
    )
    assert int(out.stdout) == KNOWN


@given(st.text(max_size=8), st.integers(0, 5))
def test_fits_32_bits(name: str, replicate: int) -> None:
    assert 0 <= cell_seed(name, CONFIG, replicate) < 2**32


KNOWN = 824980428
