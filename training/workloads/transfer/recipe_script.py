"""Templates of a script for a configuration, with PyTorch, torchvision and timm, mostly without warmstart. No torch."""

from textwrap import dedent

LOAD = """\
import numpy as np
from PIL import Image, ImageOps
from torchvision import datasets, transforms


def load(path):  # turned as its EXIF says, 16 bits and floats scaled to 8 bits, transparency laid on white
    picture = ImageOps.exif_transpose(Image.open(path))
    if picture.mode[0] in "IF":
        scale = 255 if picture.mode == "F" else 1 / 257
        picture = Image.fromarray((np.asarray(picture) * scale).round().astype("uint8"))
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture.convert("RGBA")).convert("RGB")


def look(picture):  # the centre square, resized
    side, (left, top) = min(picture.size), ((length - min(picture.size)) // 2 for length in picture.size)
    box = (left, top, left + side, top + side)
    return transforms.functional.pil_to_tensor(picture.resize((size, size), Image.Resampling.LANCZOS, box))


"""
BY_CLASS = """\
def shared(counts, part):  # so many of each class: one at least, then by the largest remainder
    found = np.clip(counts * part // 1, counts > 0, counts)
    while sign := np.sign(max(round(part * counts.sum()), sum(counts > 0)) - found.sum()):
        done = found == (counts if sign > 0 else counts > 0)
        found[np.where(done, -np.inf, sign * (counts * part - found)).argmax()] += sign
    return found.astype(int)


pictures = datasets.ImageFolder({where}, look, loader=load)
pictures.samples.sort()
natural = lambda name: ([int(part) if part.isdecimal() else part.casefold() for part in re.split(r"(\\d+)", name)], name)
classes = sorted(pictures.classes, key=natural)  # 2 before 10, and upper case beside lower
x, names = torch.stack([image for image, _ in pictures]), [pictures.classes[label] for _, label in pictures.samples]
y, train, val = torch.tensor([classes.index(name) for name in names]), [], []
lasts = (firsts := shared(y.bincount().numpy(), {shares[0]})) + shared(y.bincount().numpy() - firsts, {shares[1]})
streams = np.random.SeedSequence(0).spawn(len(classes))  # class by class, as warmstart splits them
for label, (stream, first, last) in enumerate(zip(streams, firsts, lasts, strict=True)):
    order = np.random.default_rng(stream).permutation(np.flatnonzero(y.numpy() == label))
    train, val = [*train, *order[:first], *order[last:]], [*val, *order[first:last]]
train, val = torch.tensor(train), torch.tensor(val)"""
BY_SPLIT = """\
parts = [datasets.ImageFolder(f"{{folder}}/{{part}}", look, loader=load) for part in {folders}]
x, classes = torch.stack([image for part in parts for image, _ in part]), parts[0].classes
y = torch.tensor([classes.index(part.classes[label]) for part in parts for label in part.targets])
train, val = torch.arange(len(y)).split([len(part) for part in parts])"""
BY_READER = """\
from warmstart.history_store.broken import read_all  # of warmstart: ImageFolder does not read these pictures
from warmstart.history_store.readers import open_images
from warmstart.history_store.splits import split_codes

found, splits = read_all(open_images(folder), size, skip_broken={skip_broken})
x = torch.from_numpy(found.images.reshape(len(found.labels), size, size, -1)).permute(0, 3, 1, 2)
y, classes = torch.tensor(found.labels), found.class_names
codes = torch.from_numpy(split_codes(found.labels, splits)[0])  # 0 trains, 1 validates, 2 is kept for a test
train, val = torch.where((codes == 0) | ((codes == 2) & ("test" not in splits)))[0], torch.where(codes == 1)[0]"""
SCRIPT = dedent('''\
    """A classifier on pretrained features. Run: python train.py [PICTURES like those it was written for]"""
    {head}import math
    {imports}import sys

    import timm
    import torch
    {weights}
    torch.manual_seed(0)
    folder = sys.argv[1] if len(sys.argv) > 1 else {dataset!r}
    size, parts_of_features, copies = {size}, {parts}, {copies}
    {reading}
    steps = [each["reduction"] for each in list(body.feature_info)] if isinstance(body.feature_info, list) else body.feature_info.reduction()
    stages = [max((i for i, step in enumerate(steps) if step <= side), default=0) for side in (8, 16)]
    if len(set(steps)) == 1:  # one scale: at a half and three quarters of the depth
        stages = [max(len(steps) // 2 - 1, 0), max(3 * len(steps) // 4 - 1, 0)]
    mean, std = torch.tensor(mean).view(3, 1, 1), torch.tensor(std).view(3, 1, 1)


    def features(images):
        images = (images / 255 - mean) / std  # grey ones become three channels
        final, maps = body.forward_intermediates(images, indices=sorted(set(stages)), output_fmt="NCHW")
        full = body.forward_head(final, pre_logits=True)
        found = dict(s8=maps[0].mean((2, 3)), s16=maps[-1].mean((2, 3)), full=full)
        return torch.cat([found[part] for part in parts_of_features], 1)


    def all_features(images):
        with torch.no_grad():
            return torch.cat([features(batch) for batch in images.split(32)])


    rows = torch.cat([all_features(x[train]), all_features(x[train].flip(3))][:copies]).double()
    center, hot = rows.mean(0), torch.nn.functional.one_hot(y[train].repeat(copies), len(classes)).double()
    rows, bias = rows - center, hot.mean(0)
    each, usual, gram = rows.std(0, correction=0), rows.square().mean().sqrt(), rows.T @ rows
    spreads = torch.where(each > 1e-6 * usual, each, usual), usual.expand(len(each))  # of each feature, and of all


    def by_picture(values):  # a picture and its mirrored copy side by side
        return values.reshape(copies, len(train), -1).transpose(0, 1)


    def ridge(strength, spread):  # the pictures that it has wrong where each is left out, and their scores
        penalty = strength * (rows / spread).square().sum() / len(rows)
        inverse = torch.linalg.inv(gram / spread[:, None] / spread + penalty * torch.eye(len(spread)).double())
        weight = inverse @ (rows / spread).T @ (hot - bias)
        own, wrong_by = by_picture(rows / spread), by_picture(hot - bias - rows / spread @ weight)
        kept = torch.eye(copies).double() - 1 / len(rows) - own @ inverse @ own.transpose(1, 2)
        scores = hot[: len(train)] - torch.linalg.solve(kept, wrong_by)[:, 0]
        return (scores.argmax(1) != y[train]).sum(), scores, weight, spread


    found = [ridge(strength, each) for strength in {penalties} for each in spreads]
    _, left_out, weight, spread = min(found, key=lambda each: each[0])
    center, spread, weight, bias = (each.float() for each in (center, spread, weight, bias))


    def answers(images):
        return ((all_features(images) - center) / spread @ weight + bias).argmax(1)


    print(f"ridge on frozen features: validation error {{(answers(x[val]) != y[val]).float().mean():.4f}}")
''')
"""The head is the ridge of `warmstart.metafeat.pretrained.heads`, with the fewest leave-one-out errors."""
TUNING = dedent("""\
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing={smoothing})
    sure = min((2.0**power for power in range(-1, 9)), key=lambda each: torch.nn.functional.cross_entropy(each * left_out, y[train]))
    weight, bias = (torch.nn.Parameter(sure * each) for each in (weight, bias))
    features(x[train[:2]]).sum().backward()  # parameters that lead to the features have gradients now
    reached = {{name: each for name, each in body.named_parameters() if each.grad is not None}}
    norms = [id(each) for part in body.modules() if isinstance(part, torch.nn.BatchNorm2d) for each in part.parameters()]
    groups = timm.models.group_parameters(body, body.group_matcher(coarse=True))
    used = [key for key in sorted(groups) if any(name in reached for name in groups[key])]
    spare = used[-1] == max(groups) and len(used) > 1  # as warmstart counts stages
    chosen = [reached[name] for key in used[-{count} :] for name in groups[key] if name in reached]
    tuned = [each for each in chosen if id(each) not in norms]  # of the stages: {stages}; batch norms never move
    body.zero_grad()
    for each in body.requires_grad_(False).parameters():
        each.requires_grad_(any(each is other for other in tuned))
    optimizer = torch.optim.AdamW([dict(params=[weight, bias], lr={lr}), dict(params=tuned, lr={body_lr})], weight_decay={decay})
    rise_and_fall = lambda done: min(1, (done / {steps} + {first}) / {warm_up}) * 0.5 * (1 + math.cos(math.pi * done / {steps}))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rise_and_fall)


    def changed(images):  # mirrored, and parts cut out of them that are resized to the whole
        side = ({crop} + (1 - {crop}) * torch.rand(len(images))).sqrt()
        sign = torch.where(torch.rand(len(images)) < {flip}, -1.0, 1.0)
        theta = torch.zeros(len(images), 2, 3)
        theta[:, 0, 0], theta[:, 1, 1] = side * sign, side
        theta[:, :, 2] = (2 * torch.rand(len(images), 2) - 1) * (1 - side)[:, None]
        grid = torch.nn.functional.affine_grid(theta, list(images.shape), align_corners=False)
        return torch.nn.functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


    queue = torch.empty(0, dtype=torch.int64)
    for _ in range({steps}):
        if len(queue) < min({batch}, len(train)):  # all pictures before one comes again
            queue = torch.cat([queue, train[torch.randperm(len(train))]])
        chosen, queue = queue[:{batch}], queue[{batch}:]
        images, share = changed(x[chosen].float()), {share}
        images = share * images + (1 - share) * images.flip(0)
        logits = (features(images) - center) / spread @ weight + bias
        loss = share * loss_of(logits, y[chosen]) + (1 - share) * loss_of(logits, y[chosen].flip(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    print(f"fine-tuned: validation error {{(answers(x[val]) != y[val]).float().mean():.4f}}")
""")
"""Fine-tuning with the same steps as `warmstart.training.workloads.transfer.finetune`."""
COUNTS = {"last": "(1 + spare)", "last2": "(2 + spare)", "all": "len(used)"}
"""Number of trained groups of layers by the configuration's `tuned_stages`, as text of the script."""
