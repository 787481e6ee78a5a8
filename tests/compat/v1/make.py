"""Make the archived history of format version 1: `python tests/compat/v1/make.py FOLDER`. Never run it over the archive."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.numbering import sobol_configs
from warmstart.history_store.records import DatasetInfo, Evaluation, Status
from warmstart.history_store.space import dump_space
from warmstart.training.workloads.cnn.space import target_space


def make(path: Path) -> None:
    """Write a history with all kinds of elements, some of it in the journal."""
    space = target_space("compact")
    configs = sobol_configs(space, 4)
    with History.create(path, dump_space(space), configs=configs[:3], stored_size=4, notes={"made": "v1"}) as history:
        images = np.arange(6 * 4 * 4 * 3, dtype=np.uint16).reshape(6, 4, 4, 3).astype(np.uint8)
        info = DatasetInfo(
            "first",
            "group",
            n_train=4,
            n_val=1,
            n_test=1,
            n_classes=2,
            class_counts=(2, 2),
            fingerprint="content:00",
            source="made",
            licence="CC0-1.0",
            what="a ramp",
            split_seed=0,
            decoding="none",
            manifest="none",
            extra={"key": "välue"},
        )
        given = ImageSet(images, np.array([0, 0, 1, 1, 0, 1]), ("dark", "light"))
        history.add_dataset(info, given, np.array([0, 0, 0, 0, 1, 2], np.int8))
        history.append(
            Evaluation("first", configs[0], 0.25, seed=0, duration=1.5, curve=((10, 0.5), (20, 0.25)), origin="a")
        )
        history.append(Evaluation("first", configs[1], 0.5, Status.DIVERGED, seed=0, origin="a"))
        history.set_embeddings("abc123", {"first": np.array([0.5, -1.0], np.float32)})
        history.set_result("calibration", {"slope": 0.5})
        history.add_dataset(DatasetInfo("Zwei/☃", "other", n_train=4, n_val=0, n_test=0, n_classes=2, channels=1))
        for config, status in zip(configs, (Status.CRASHED, Status.TIMEOUT, Status.OOM), strict=False):
            history.append(Evaluation("Zwei/☃", config, math.nan, status, seed=2**63 - 1, origin="b"))
        history.append(Evaluation("first", configs[3], 0.75))


if __name__ == "__main__":
    make(Path(sys.argv[1]) / "history.h5")
