"""Every strategy keeps to the contract."""

import pytest

from warmstart.bo.transfer.strategies import STRATEGIES
from warmstart.testing import StrategyContract


class TestStrategies(StrategyContract):
    sees_through_gaps = True

    @pytest.fixture(params=sorted(STRATEGIES))
    def strategy(self, request):
        return request.param
