"""fastai's usual fine-tuning in limited CPU seconds, for `ten_minutes.py`; run where fastai and warmstart are installed.

    python scripts/bench/fastai_rival.py FOLDER SECONDS    # of `given` and `asked`; prints the answers as JSON

`vision_learner` and `fine_tune` as fastai's own pages have them: a fifth of the pictures left out, pictures cut to squares and
augmented to 224 pixels, batches of 16, one frozen epoch. The network is Lite 0 with the weights that the others have, and as
many epochs as the seconds suffice for.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import torch
from fastai.vision.all import (
    ImageDataLoaders,
    Normalize,
    Resize,
    aug_transforms,
    error_rate,
    get_image_files,
    set_seed,
    vision_learner,
)

from warmstart.metafeat.pretrained.backbones import build_backbone, find_backbone, normalisation

SIZE, BATCH, LARGE = 224, 16, 256
KEPT_S, MARGIN = 4.0, 0.03
"""Seconds kept for the answers: so many, and so many a picture."""


def main(folder: Path, seconds: float) -> None:
    """Train and answer."""
    torch.set_num_threads(1)
    set_seed(0)
    backbone = find_backbone("tf_efficientnet_lite0")
    mean, std = normalisation(backbone)
    asked = sorted(get_image_files(folder / "asked"))
    loaders = ImageDataLoaders.from_folder(
        folder / "given",
        valid_pct=0.2,
        seed=0,
        bs=BATCH,
        num_workers=0,
        item_tfms=Resize(LARGE),
        batch_tfms=[*aug_transforms(size=SIZE, min_scale=0.75), Normalize.from_stats(mean, std)],
    )
    learner = vision_learner(
        loaders,
        lambda pretrained: build_backbone(backbone, size=SIZE),  # noqa: ARG005  asked by fastai
        normalize=False,
        metrics=error_rate,
    )
    began = time.process_time()
    with learner.no_bar(), learner.no_logging():
        learner.freeze()
        learner.fit_one_cycle(1, slice(2e-3))
        frozen = time.process_time() - began
        learner.unfreeze()
        began = time.process_time()
        learner.fit_one_cycle(1, slice(1e-6, 1e-5))  # so slow that it changes nothing: how long an epoch takes
        whole = time.process_time() - began
        left = seconds - time.process_time() - KEPT_S - MARGIN * len(asked) - frozen
        epochs = max(1, int(left / whole))
        learner.fine_tune(epochs, freeze_epochs=1)
        scores, _ = learner.get_preds(dl=loaders.test_dl(asked))
    answers = [loaders.vocab[int(code)] for code in scores.argmax(dim=1)]
    print(json.dumps({"epochs": epochs, "classes": answers, "files": [str(path) for path in asked]}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]), float(sys.argv[2]))
