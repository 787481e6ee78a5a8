"""Training images are counted as they are drawn."""

import numpy as np
import pytest

from history_store.splits import count_train, split_codes


@pytest.mark.parametrize(
    "sizes",
    [{}, {"train": 200}, {"train": 120, "val": 80}, {"train": 150, "test": 50}, {"train": 90, "val": 60, "test": 50}],
)
def test_training_images_are_counted_without_drawing_them(sizes):
    labels = np.arange(200) % 4
    ends = np.cumsum([0, *sizes.values()])
    own = {name: np.arange(start, end) for name, start, end in zip(sizes, ends, ends[1:], strict=False)}
    codes, _ = split_codes(labels, own)
    assert count_train(200, own) == pytest.approx((codes == 0).sum(), abs=4)
