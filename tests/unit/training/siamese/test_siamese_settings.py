import math

import pytest

from warmstart.history_store.errors import UsageError
from warmstart.metafeat.spec import ModelSpec
from warmstart.training.siamese.settings import SiameseSettings, preset


def test_paper_is_as_published():
    paper = preset("paper")
    assert (paper.spec.extractor, paper.spec.label_code, paper.spec.tau, paper.spec.target) == (
        "bilstm",
        "scalar",
        200,
        "l1",
    )
    assert (paper.steps, paper.sampling, paper.batch, paper.loss, paper.keep) == (2000, "pairs", 1, "absolute", "last")
    assert paper.learning_rate_at(0) == 1e-4
    assert paper.learning_rate_at(1000) == pytest.approx(1e-4 * math.exp(-1))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"loss": "huber"}, "loss: expected one of absolute, squared, got 'huber'"),
        ({"steps": 0}, "steps: expected a whole number ≥ 1"),
        ({"sampling": "all_pairs", "batch": 1}, "batch: expected a whole number ≥ 2"),
        ({"learning_rate": math.nan}, "learning_rate: expected a finite number"),
        ({"precision": "int8"}, "precision: expected one of auto"),
    ],
)
def test_settings_out_of_range(fields, message):
    with pytest.raises(UsageError, match=message):
        SiameseSettings(ModelSpec(), **fields)


def test_unknown_preset():
    with pytest.raises(UsageError, match="expected 'paper' or 'modern', got 'fast'"):
        preset("fast")


def test_encoders_of_images_have_rates_of_their_own():
    alone, looking = preset("modern", extractor="handcrafted"), preset("modern", extractor="attention")
    assert alone == preset("modern")
    assert alone.spec.handcrafted
    assert (looking.spec.extractor, looking.spec.label_code, looking.spec.handcrafted) == ("attention", "rank", False)
    assert alone.batch > looking.batch
    with pytest.raises(UsageError, match="handcrafted: expected true for the extractor 'handcrafted', got false"):
        preset("paper", extractor="handcrafted")
