"""Recipes of a configuration for timm's `train.py`, PyTorch and Hugging Face's `TrainingArguments`. No torch."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.readers import open_images
from warmstart.history_store.readers.folder import FolderSource
from warmstart.history_store.records import Config
from warmstart.history_store.splits import FRACTIONS
from warmstart.metafeat.pretrained.backbones import PACKAGED
from warmstart.metafeat.pretrained.heads import RIDGE_PENALTIES
from warmstart.training.workloads.transfer.config import BATCH_SIZE, FIRST_RATE, WARM_UP, TransferConfig, Tuning
from warmstart.training.workloads.transfer.recipe_script import (
    BY_CLASS,
    BY_READER,
    BY_SPLIT,
    COUNTS,
    LOAD,
    SCRIPT,
    TUNING,
)

RECIPES = ("timm", "python", "trainer")
_READ = frozenset({".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"})
"""Endings of files that torchvision's `ImageFolder` reads."""
_Writer = Callable[[TransferConfig, str, int, int], str]
LINEAR_PROBE = Tuning(
    steps=200,
    learning_rate=1e-2,
    body_lr_multiplier=1e-6,
    tuned_stages="last",
    weight_decay=1e-4,
    random_flip=False,
    crop_scale=1.0,
    mixup_alpha=0.0,
    label_smoothing=0.0,
)
"""Replacement of a head on frozen features in programs without one: the classifier is trained, the body hardly."""
_TIMM_PARTS = {"train", "training"}, {"val", "valid", "validation", "eval", "evaluation"}
"""Names of folders that timm's `train.py` finds by itself."""
LAYER_GROUPS = {"tf_efficientnet_lite0": 18, "tf_efficientnet_lite1": 23, "tf_efficientnet_lite2": 23}
"""Number of layer groups in timm's layer decay, with the classifier's; other networks count as 18."""


def write_recipe(
    config: Config, recipe: str, *, dataset: str, n_train: int, n_classes: int, skip_broken: bool = False
) -> str:
    """Write a configuration for another program.

    Args:
        config: of the transfer workload.
        recipe: ``timm``, ``python`` or ``trainer``.
        dataset: path of the images, as `open_images` takes it.
        n_train: training images, which convert steps to epochs.
        n_classes: number of classes.
        skip_broken: whether the script skips pictures that cannot be decoded; other programs have their readers.

    Raises:
        UsageError: when the recipe is unknown.
        DataError: when the configuration does not fit the workload.
    """
    python = partial(_python, skip_broken=skip_broken)
    writers: dict[str, _Writer] = {"timm": _timm, "python": python, "trainer": _trainer}
    if recipe not in writers:
        msg = f"expected one of {', '.join(RECIPES)}, got {recipe!r}. Leave it out for a table."
        raise UsageError(msg, param="format")
    return writers[recipe](TransferConfig.of(config), dataset, n_train, n_classes)


def epochs(tuning: Tuning, n_train: int) -> int:
    """Return the number of epochs nearest to the steps, at least 1."""
    return max(1, round(tuning.steps * BATCH_SIZE / n_train))


def _timm(config: TransferConfig, dataset: str, n_train: int, n_classes: int) -> str:
    """Return a command line of timm's `train.py`."""
    features, tuning = config.features, config.tuning or LINEAR_PROBE
    architecture, _, file = features.backbone.partition("@")
    parts = _split_folders(dataset, is_flat=True)
    folder = shlex.quote(dataset) if parts is not None else "FOLDER"
    decay = tuning.body_lr_multiplier if config.tuning is None else layer_decay(tuning, architecture)
    warm_up = 0 if config.tuning is None else round(WARM_UP * epochs(tuning, n_train))
    lines = [
        f"python train.py {folder} --model {shlex.quote(architecture)} --pretrained",
        f" --pretrained-path {shlex.quote(file)}" if file else "",
        _named_parts(parts or ()),
        f" --num-classes {n_classes} --img-size {features.image_size} --crop-pct 1.0",
        f" --batch-size {min(BATCH_SIZE, n_train)} --epochs {epochs(tuning, n_train)} --sched cosine --warmup-epochs {warm_up} --cooldown-epochs 0",
        f" --opt adamw --lr {tuning.learning_rate:.4g} --weight-decay {tuning.weight_decay:.4g}",
        f" --layer-decay {decay:.3g} --smoothing {tuning.label_smoothing:.3g} --mixup {tuning.mixup_alpha:.3g}",
        f" --hflip {0.5 if tuning.random_flip else 0.0} --scale {tuning.crop_scale:.3g} 1.0 --ratio 1.0 1.0 --color-jitter 0",
        " --mean 0.5 0.5 0.5 --std 0.5 0.5 0.5" if architecture in PACKAGED else "",
    ]
    notes = ["# train.py of timm's repository; it reads .jpg, .jpeg and .png files alone."]
    if parts is None:
        notes.append(
            f"# It reads folders: put the pictures of {_in_comment(dataset)} into FOLDER/train and FOLDER/validation, each with a folder a class."
        )
    elif len(parts) < 2:
        notes.append(
            f"# Make train/ and validation/ in {_in_comment(dataset)} first, each with a folder a class: otherwise it validates on what it trains on."
        )
    if config.tuning is None:
        notes.append(
            "# It knows no heads on frozen features: here the classifier is trained, and the body stands still."
        )
    elif tuning.tuned_stages != "all":
        notes.append(
            f"# It trains all stages; the configuration trains the last ones alone (tuned_stages {tuning.tuned_stages})."
        )
    if features.flip_copies:
        notes.append(_of_flip_copies(config).rstrip())
    if features.depth != "full":
        notes.append(
            f"# It trains on the whole network's features; the configuration takes those of depth {features.depth}."
        )
    return "\n".join([*notes, "".join(lines)]) + "\n"


def _named_parts(parts: tuple[str, ...]) -> str:
    """Return options with the folders of the parts if timm would not find them, and would use all pictures for both."""
    if all(part in timm_names for part, timm_names in zip(parts, _TIMM_PARTS, strict=False)):
        return ""
    return "".join(f" --{name}-split {shlex.quote(part)}" for name, part in zip(("train", "val"), parts, strict=False))


def _in_comment(text: str) -> str:
    """Escape unprintable characters in a comment: a line break would start a command."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def layer_decay(tuning: Tuning, architecture: str) -> float:
    """Return the layer decay with which the middle group has the body's learning rate."""
    middle = LAYER_GROUPS.get(architecture, 18) / 2
    return float(max(tuning.body_lr_multiplier, 1e-6) ** (1 / middle))


def _split_folders(dataset: str, *, is_flat: bool = False) -> tuple[str, ...] | None:
    """Return the training and the validation folder of a dataset; empty if class folders are at the top.

    Args:
        dataset: path of the images.
        is_flat: whether folders in a class folder count as classes, as in timm.

    Returns: the names of the folders, or None if torchvision's `ImageFolder` reads the dataset differently.
    """
    try:
        source = open_images(dataset)
    except WarmstartError:  # a dataset of another machine: the script states its layout
        return ()
    if not isinstance(source, FolderSource):
        return None
    paths = [file.split("/") for file in source.files]
    depth = 0 if set(source.splits) == {"train"} and {path[0] for path in paths} == set(source.class_names) else 1
    if any(len(path) < depth + 2 or path[depth] not in source.class_names for path in paths):
        return None
    if is_flat and any(len(path) > depth + 2 for path in paths):
        return None
    tops = {name: {paths[row][0] for row in rows} for name, rows in source.splits.items() if name != "test"}
    if depth and any(len(top) > 1 for top in tops.values()):
        return None
    parts = tuple(min(top) for top in tops.values()) if depth else ()
    read = [_image_folder(Path(source.root), part) for part in parts or ("",)]
    theirs = {file for classes in read for files in classes.values() for file in files}
    ours = {file for file, path in zip(source.files, paths, strict=True) if not parts or path[0] in parts}
    is_whole = all(files for classes in read for files in classes.values())
    has_same_classes = all(classes.keys() <= read[0].keys() for classes in read)
    return parts if theirs == ours and is_whole and has_same_classes else None


def _image_folder(root: Path, part: str) -> dict[str, list[str]]:
    """Return the files that torchvision's `ImageFolder` reads in a part, by class; it refuses an empty class."""
    return {
        folder.name: [file.relative_to(root).as_posix() for file in folder.rglob("*") if file.suffix.lower() in _READ]
        for folder in Path(root, part).iterdir()
        if folder.is_dir()
    }


def _of_flip_copies(config: TransferConfig) -> str:
    """Return a comment line that the recipe lacks mirrored copies; empty for a configuration without them."""
    if not config.features.flip_copies:
        return ""
    return "# The configuration fits its head to mirrored copies of the training images, too (flip_copies); this does not.\n"


def _trainer(config: TransferConfig, dataset: str, n_train: int, n_classes: int) -> str:
    """Return Hugging Face's `TrainingArguments`, with all settings outside them as comments."""
    features, tuning = config.features, config.tuning or LINEAR_PROBE
    body = (
        "# The body is frozen: set requires_grad to False for all parameters but the classifier's.\n"
        if config.tuning is None
        else f"# The body learns at {tuning.body_lr_multiplier:.3g} of the rate, {tuning.tuned_stages} of its stages, no batch norm.\n"
    )
    return (
        "from transformers import TrainingArguments\n\n"
        f"# {_in_comment(features.backbone)} at {features.image_size} pixels, depth {features.depth}, {n_classes} classes of {_in_comment(dataset)}.\n"
        f"{body}"
        f"{_of_flip_copies(config)}"
        f"# Augmentation: random_flip={tuning.random_flip}, crop_scale={tuning.crop_scale:.3g}, mixup_alpha={tuning.mixup_alpha:.3g}.\n"
        "arguments = TrainingArguments(\n"
        '    output_dir="out",\n'
        f"    max_steps={tuning.steps},\n"
        f"    per_device_train_batch_size={min(BATCH_SIZE, n_train)},\n"
        f"    learning_rate={tuning.learning_rate:.4g},\n"
        f"    weight_decay={tuning.weight_decay:.4g},\n"
        f"    label_smoothing_factor={tuning.label_smoothing:.3g},\n"
        '    lr_scheduler_type="cosine",\n'
        "    warmup_ratio=0.1,\n"
        '    optim="adamw_torch",\n'
        '    eval_strategy="epoch",\n'
        "    seed=0,\n"
        ")\n"
    )


def _python(
    config: TransferConfig,
    dataset: str,
    n_train: int,  # noqa: ARG001  one signature
    n_classes: int,  # noqa: ARG001
    *,
    skip_broken: bool,
) -> str:
    """Return a script of PyTorch, torchvision and timm: ridge on pooled features, then fine-tuning from it."""
    features, tuning = config.features, config.tuning
    architecture, _, file = features.backbone.partition("@")
    package, model = PACKAGED.get(architecture), json.dumps(architecture)
    if package and not file:
        name = architecture.removeprefix("tf_efficientnet_").capitalize()
        weights = (
            f"import {package} as package\n\n"
            f"body = timm.create_model({model}, num_classes=1000).eval()\n"
            f"state = torch.load(package.Efficientnet{name}ModelFile.get_model_file_path(), weights_only=True)\n"
            "body.load_state_dict(dict(zip(body.state_dict(), state.values(), strict=True)))\n"
            "body.reset_classifier(0)\n"
            "mean = std = (0.5, 0.5, 0.5)"
        )
    else:
        overlay = f', pretrained_cfg_overlay={{"file": {file!r}}}' if file else ""
        name = json.dumps(architecture.partition(".")[0])
        weights = (
            f'fixed = {{"img_size": {features.image_size}}} if getattr(timm.get_pretrained_cfg({name}), "fixed_input_size", False) else {{}}\n'
            f"body = timm.create_model({model}, pretrained=True, num_classes=0{overlay}, **fixed).eval()\n"
            'mean, std = body.pretrained_cfg["mean"], body.pretrained_cfg["std"]'
        )
    # torchvision stops at a broken picture, which warmstart's reader skips.
    folders = None if skip_broken else _split_folders(dataset)
    reading = BY_READER if folders is None else LOAD + (BY_SPLIT if len(folders) > 1 else BY_CLASS)
    folder_text = "folder" if not folders else f"folder + {'/' + folders[0]!r}"
    train, val, test = FRACTIONS
    # Shares of training pictures, and of validation pictures among the rest; a dataset with a test part gets no other.
    shares = (train / (train + val), 1.0) if folders else (train, val / (val + test))
    heads = {
        "auto": "the best of logistic regression, ridge, nearest neighbours and centroids",
        "knn": "nearest neighbours",
        "centroid": "centroids",
        "logistic": "logistic regression",
    }
    if tuning:  # it begins with a linear head
        heads["auto"] = "the better of logistic regression and ridge"
    head_name = heads.get(config.head)
    script = SCRIPT.format(
        head=f"# The configuration's head is {head_name}; this one is ridge.\n" if head_name else "",
        imports="import re\n" if folders is not None and len(folders) < 2 else "",
        weights=weights,
        reading=reading.format(where=folder_text, folders=list(folders or ()), shares=shares, skip_broken=skip_broken),
        dataset=dataset,
        size=features.image_size,
        parts=features.depth.split("+"),
        copies=1 + features.flip_copies,
        penalties=RIDGE_PENALTIES,
    )
    return script if tuning is None else script + _tuning(tuning)


def _tuning(tuning: Tuning) -> str:
    """Return the part of the script that fine-tunes from the ridge head."""
    alpha = f"{tuning.mixup_alpha:.3g}"
    return TUNING.format(
        steps=tuning.steps,
        first=FIRST_RATE,
        warm_up=WARM_UP,
        lr=f"{tuning.learning_rate:.4g}",
        body_lr=f"{tuning.learning_rate * tuning.body_lr_multiplier:.4g}",
        decay=f"{tuning.weight_decay:.4g}",
        smoothing=f"{tuning.label_smoothing:.3g}",
        share=f"torch.distributions.Beta({alpha}, {alpha}).sample()" if tuning.mixup_alpha > 0 else "1.0",
        crop=f"{tuning.crop_scale:.3g}",
        flip=0.5 if tuning.random_flip else 0.0,
        batch=BATCH_SIZE,
        count=COUNTS[tuning.tuned_stages],
        stages=tuning.tuned_stages,
    )
