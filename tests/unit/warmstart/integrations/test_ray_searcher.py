"""Ray Tune's searcher with our sampler: the suggestions first, then our optimiser (docs/suggest.md)."""

import pytest
from ConfigSpace import ConfigurationSpace, Float, Integer

from warmstart.integrations.optuna import WarmStartSampler
from warmstart.integrations.optuna.space import to_distributions

search = pytest.importorskip("ray.tune.search.optuna", reason="Ray Tune is not installed: pip install 'ray[tune]'")


@pytest.mark.filterwarnings("ignore")  # of what it needs
def test_a_searcher_goes_on_from_the_suggestions():
    space = ConfigurationSpace()
    space.add(Float("lr", (1e-5, 1e-1), log=True), Integer("layers", (1, 4)))
    points = [{"lr": 1e-3, "layers": 2}, {"lr": 1e-2, "layers": 3}]
    sampler = WarmStartSampler(space=space, seed=0)
    searcher = search.OptunaSearch(
        to_distributions(space), metric="error", mode="min", points_to_evaluate=points, sampler=sampler
    )
    suggested = []
    for number in range(4):
        suggested.append(searcher.suggest(str(number)))
        searcher.on_trial_complete(str(number), {"error": suggested[-1]["layers"] / 10, "training_iteration": 1})
    assert suggested[:2] == points
    assert len({config["lr"] for config in suggested}) == 4
