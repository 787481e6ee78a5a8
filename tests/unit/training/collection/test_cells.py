from warmstart.training.collection.plan import cell_seed

CONFIG = {"log10_learning_rate": -2.5, "batch_size": 16}


def test_known_value() -> None:
    """Measured histories depend on it: it must never change."""
    assert cell_seed("cifar10", CONFIG) == KNOWN


def test_everything_else_matters() -> None:
    seeds = {
        cell_seed("cifar10", CONFIG),
        cell_seed("cifar100", CONFIG),
        cell_seed("cifar10", {**CONFIG, "batch_size": 17}),
        cell_seed("cifar10", CONFIG, 1),
        cell_seed("cifar10", CONFIG, base=1),
    }
    assert len(seeds) == 5


KNOWN = 824980428
