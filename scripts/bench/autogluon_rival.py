"""AutoGluon MultiModal in limited CPU seconds, for `ten_minutes.py`; run where it and warmstart are installed.

    python scripts/bench/autogluon_rival.py FOLDER SECONDS    # of `given` and `asked`; prints the answers as JSON

`MultiModalPredictor.fit` as AutoGluon's own pages have it, with a limit of time: it augments, stops early and averages its best
states by itself. The network is Lite 0 with the weights that the others have.
"""

import json
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path

import pandas as pd
import timm
import torch
from autogluon.multimodal import MultiModalPredictor

from warmstart.history_store.picture import SUFFIXES
from warmstart.metafeat.pretrained.backbones import build_backbone, find_backbone, normalisation

NAME, SIZE, BATCH = "tf_efficientnet_lite0", 224, 16
KEPT_S, MARGIN = 4.0, 0.05
"""Seconds kept for the answers: so many, and so many a picture."""


def pictures(folder: Path) -> pd.DataFrame:
    """List the pictures of class folders with their labels, in order of their paths."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    return pd.DataFrame({"image": [str(path) for path in paths], "label": [path.parent.name for path in paths]})


def checkpoint(folder: Path) -> str:
    """Write the network as a folder that AutoGluon reads in place of a download."""
    backbone = find_backbone(NAME)
    mean, std = normalisation(backbone)
    config = timm.create_model(NAME).pretrained_cfg | {"mean": mean, "std": std, "input_size": [3, SIZE, SIZE]}
    network = build_backbone(backbone, size=SIZE)
    network.reset_classifier(0)
    torch.save(network.state_dict(), folder / "pytorch_model.bin")
    about = {"architecture": NAME, "num_features": network.num_features, "pretrained_cfg": config}
    (folder / "config.json").write_text(json.dumps(about, default=list), encoding="utf-8")
    return str(folder)


def main(folder: Path, seconds: float) -> None:
    """Train and answer."""
    torch.set_num_threads(1)
    given, asked = pictures(folder / "given"), pictures(folder / "asked")
    with tempfile.TemporaryDirectory() as work:
        weights = Path(work, "weights")
        weights.mkdir()
        predictor = MultiModalPredictor(
            label="label", problem_type="multiclass", eval_metric="accuracy", path=f"{work}/model", verbosity=0
        )
        hyperparameters = {
            "model.names": ["timm_image"],
            "model.timm_image.checkpoint_name": checkpoint(weights),
            "model.timm_image.image_size": SIZE,
            "env.accelerator": "cpu",
            "env.num_workers": 0,
            "env.num_workers_inference": 0,
            "env.precision": "32",
            "env.batch_size": BATCH,
            "env.per_gpu_batch_size": BATCH,
            "env.strategy": "auto",
        }
        used = sum(os.times()[:4])
        predictor.fit(
            given, time_limit=seconds - used - KEPT_S - MARGIN * len(asked), seed=0, hyperparameters=hyperparameters
        )
        answers = predictor.predict(asked[["image"]], as_pandas=False)
    print(json.dumps({"classes": [str(name) for name in answers], "files": asked["image"].tolist()}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    main(Path(sys.argv[1]), float(sys.argv[2]))
