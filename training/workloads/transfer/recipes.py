"""A configuration as something to run elsewhere: timm's `train.py`, a PyTorch script, Hugging Face's `TrainingArguments`. No torch."""

from __future__ import annotations

import shlex
from textwrap import dedent

from history_store.errors import UsageError
from history_store.records import Config
from metafeat.pretrained.backbones import PACKAGED
from training.workloads.transfer.config import TransferConfig, Tuning

RECIPES = ("timm", "python", "trainer")
BATCH_SIZE = 16
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
"""What stands for a head on frozen features where a program has no such head: the classifier is trained, the body hardly."""


def write_recipe(config: Config, recipe: str, *, dataset: str, n_train: int, n_classes: int) -> str:
    """Write a configuration for another program.

    Args:
        config: of the transfer workload.
        recipe: ``timm``, ``python`` or ``trainer``.
        dataset: folder of the images.
        n_train: training images; steps become epochs with it.
        n_classes: number of classes.

    Raises:
        UsageError: when there is no such recipe.
        DataError: when the configuration is not one of the workload's.
    """
    writers = {"timm": _timm, "python": _python, "trainer": _trainer}
    if recipe not in writers:
        msg = f"expected one of {', '.join(RECIPES)}, got {recipe!r}. Leave it out for a table."
        raise UsageError(msg, param="format")
    return writers[recipe](TransferConfig.of(config), dataset, n_train, n_classes)


def epochs(tuning: Tuning, n_train: int) -> int:
    """Return the passes over the training images that are nearest to a number of steps, at least one."""
    return max(1, round(tuning.steps * BATCH_SIZE / n_train))


def _timm(config: TransferConfig, dataset: str, n_train: int, n_classes: int) -> str:
    """Write a command line of timm's `train.py`."""
    features, tuning = config.features, config.tuning or LINEAR_PROBE
    architecture, _, file = features.backbone.partition("@")
    lines = [
        f"python train.py {shlex.quote(dataset)} --model {architecture} --pretrained",
        f" --pretrained-path {shlex.quote(file)}" if file else "",
        f" --num-classes {n_classes} --img-size {features.image_size}",
        f" --batch-size {BATCH_SIZE} --epochs {epochs(tuning, n_train)} --sched cosine --warmup-epochs 0 --cooldown-epochs 0",
        f" --opt adamw --lr {tuning.learning_rate:.4g} --weight-decay {tuning.weight_decay:.4g}",
        f" --layer-decay {layer_decay(tuning):.3g} --smoothing {tuning.label_smoothing:.3g} --mixup {tuning.mixup_alpha:.3g}",
        f" --hflip {0.5 if tuning.random_flip else 0.0} --scale {tuning.crop_scale:.3g} 1.0 --ratio 1.0 1.0 --color-jitter 0",
        " --mean 0.5 0.5 0.5 --std 0.5 0.5 0.5" if architecture in PACKAGED else "",
    ]
    notes = ["# train.py of timm's repository; the folder needs train/ and validation/, each with a folder a class."]
    if config.tuning is None:
        notes.append(
            "# It knows no heads on frozen features: here the classifier is trained, and layer decay keeps the body almost still."
        )
    if features.depth != "full":
        notes.append(
            f"# It trains on the whole network's features; the configuration takes those of depth {features.depth}."
        )
    return "\n".join([*notes, "".join(lines)]) + "\n"


def layer_decay(tuning: Tuning) -> float:
    """Return the decay over ten layer groups that gives the first of them the body's learning rate."""
    return float(max(tuning.body_lr_multiplier, 1e-6) ** 0.1)


def _trainer(config: TransferConfig, dataset: str, n_train: int, n_classes: int) -> str:
    """Write Hugging Face's `TrainingArguments`, with what they have no word for as a comment."""
    features, tuning = config.features, config.tuning or LINEAR_PROBE
    frozen = "# The body is frozen: set requires_grad to False for all parameters but the classifier's.\n"
    return (
        "from transformers import TrainingArguments\n\n"
        f"# {features.backbone} at {features.image_size} pixels, depth {features.depth}, {n_classes} classes of {dataset}.\n"
        f"{frozen if config.tuning is None else ''}"
        f"# Augmentation: random_flip={tuning.random_flip}, crop_scale={tuning.crop_scale:.3g}, mixup_alpha={tuning.mixup_alpha:.3g}; "
        f"the body learns at {tuning.body_lr_multiplier:.3g} of the rate.\n"
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


def _python(config: TransferConfig, dataset: str, n_train: int, n_classes: int) -> str:  # noqa: ARG001  one signature
    """Write a script of PyTorch, torchvision and timm: ridge on pooled features, then fine-tuning from it."""
    features, tuning = config.features, config.tuning
    architecture, _, file = features.backbone.partition("@")
    package = PACKAGED.get(architecture)
    if package and not file:
        name = architecture.removeprefix("tf_efficientnet_").capitalize()
        weights = (
            f"import {package} as package\n\n"
            f'body = timm.create_model("{architecture}", num_classes=1000)\n'
            f"state = torch.load(package.Efficientnet{name}ModelFile.get_model_file_path(), weights_only=True)\n"
            "body.load_state_dict(dict(zip(body.state_dict(), state.values(), strict=True)))\n"
            "body.reset_classifier(0)\n"
            "mean = std = (0.5, 0.5, 0.5)"
        )
    else:
        overlay = f', pretrained_cfg_overlay={{"file": "{file}"}}' if file else ""
        weights = (
            f'body = timm.create_model("{architecture}", pretrained=True, num_classes=0{overlay})\n'
            'mean, std = body.pretrained_cfg["mean"], body.pretrained_cfg["std"]'
        )
    script = _SCRIPT.format(
        weights=weights, dataset=dataset, size=features.image_size, parts=features.depth.split("+"), flip=features.flip_copies
    )  # fmt: skip
    if tuning is not None:
        if tuning.tuned_stages != "all":
            script += f"# The configuration trains the last stages alone ({tuning.tuned_stages}); here the whole body is trained.\n"
        script += _TUNING.format(
            steps=tuning.steps,
            lr=f"{tuning.learning_rate:.4g}",
            body_lr=f"{tuning.learning_rate * tuning.body_lr_multiplier:.4g}",
            decay=f"{tuning.weight_decay:.4g}",
            smoothing=f"{tuning.label_smoothing:.3g}",
            mixup=f"{max(tuning.mixup_alpha, 1e-3):.3g}",
            crop=f"{tuning.crop_scale:.3g}",
            flip=0.5 if tuning.random_flip else 0.0,
            batch=BATCH_SIZE,
        )
    return script


_SCRIPT = dedent('''\
    """A classifier on pretrained features. Run: python train.py [FOLDER with a folder of pictures a class]"""
    import sys

    import timm
    import torch
    from torchvision import datasets, transforms
    {weights}
    torch.manual_seed(0)
    folder = sys.argv[1] if len(sys.argv) > 1 else {dataset!r}
    size, parts, flip_copies = {size}, {parts}, {flip}
    look = transforms.Compose([transforms.Resize(size), transforms.CenterCrop(size), transforms.ToTensor()])
    pictures = datasets.ImageFolder(folder, look)
    x = torch.stack([image for image, _ in pictures])
    y = torch.tensor(pictures.targets)
    order = torch.randperm(len(y))
    train, val = order[: int(0.75 * len(y))], order[int(0.75 * len(y)) :]
    steps = [each["reduction"] for each in list(body.feature_info)] if isinstance(body.feature_info, list) else body.feature_info.reduction()
    stages = [max(i for i, step in enumerate(steps) if step <= side) for side in (8, 16)]
    mean, std = torch.tensor(mean).view(3, 1, 1), torch.tensor(std).view(3, 1, 1)
    body.eval()


    def features(images):
        final, maps = body.forward_intermediates((images - mean) / std, indices=stages, output_fmt="NCHW")
        found = dict(s8=maps[0].mean((2, 3)), s16=maps[1].mean((2, 3)), full=body.forward_head(final, pre_logits=True))
        return torch.cat([found[part] for part in parts], 1)


    def all_features(images):
        with torch.no_grad():
            return torch.cat([features(batch) for batch in images.split(32)])


    rows, targets = all_features(x[train]), y[train]
    if flip_copies:
        rows, targets = torch.cat([rows, all_features(x[train].flip(3))]), torch.cat([targets, targets])
    center, spread = rows.mean(0), rows.std(0) + 1e-6
    rows, asked = (rows - center) / spread, (all_features(x[val]) - center) / spread
    hot = torch.nn.functional.one_hot(targets, len(pictures.classes)).float()
    ridge = rows.T @ rows + 0.1 * rows.shape[1] * torch.eye(rows.shape[1])
    weight, bias = torch.linalg.solve(ridge, rows.T @ (hot - hot.mean(0))), hot.mean(0)
    error = ((asked @ weight + bias).argmax(1) != y[val]).float().mean()
    print(f"ridge on frozen features: validation error {{error:.4f}}")
''')
_TUNING = dedent("""\
    weight, bias = (torch.nn.Parameter(8 * each) for each in (weight, bias))
    groups = [dict(params=[weight, bias], lr={lr}), dict(params=list(body.parameters()), lr={body_lr})]
    optimizer = torch.optim.AdamW(groups, weight_decay={decay})
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, {steps})
    change = transforms.Compose([
        transforms.RandomResizedCrop(size, ({crop}, 1.0), (1.0, 1.0), antialias=True), transforms.RandomHorizontalFlip({flip})])
    mixed = torch.distributions.Beta({mixup}, {mixup})
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing={smoothing})
    for _ in range({steps}):
        chosen = train[torch.randint(len(train), ({batch},))]
        images, share = torch.stack([change(image) for image in x[chosen]]), mixed.sample()
        images = share * images + (1 - share) * images.flip(0)
        logits = (features(images) - center) / spread @ weight + bias
        loss = share * loss_of(logits, y[chosen]) + (1 - share) * loss_of(logits, y[chosen].flip(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    error = (((all_features(x[val]) - center) / spread @ weight + bias).argmax(1) != y[val]).float().mean()
    print(f"fine-tuned: validation error {{error:.4f}}")
""")
