"""Every surrogate keeps to the contract; those of related tasks are, without any, the ones of a single task."""

import functools

import pytest

from warmstart.bo.surrogates import SURROGATES
from warmstart.testing import SurrogateContract

SHORT_CHAIN = {"burn_in": 10, "samples": 4, "sweeps": 4}
FEW_NETWORKS = {"burn_in": 400, "thin": 10, "samples": 20, "chains": 4}
QUICK = {"gp": SHORT_CHAIN, "bohamiann": FEW_NETWORKS}
"""Options under which a surrogate keeps all of this too, but sooner; for those that take seconds to fit."""


class TestSurrogates(SurrogateContract):
    @pytest.fixture(params=[name for name in sorted(SURROGATES) if not SURROGATES[name].multitask])
    def surrogate(self, request):
        return functools.partial(SURROGATES[request.param], **QUICK.get(request.param, {}))
