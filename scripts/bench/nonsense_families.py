"""Families of nonsense: labelled pictures of which no past dataset says anything.

Each family makes cases from a generator, and most of them from a real dataset too. The families were written before any
threshold was set, and `SPLIT_SEED` deals them into halves: those that thresholds may be set on, and those that are held out.
"""
# ruff: noqa: ARG001  every family has the same arguments

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

SPLIT_SEED = 13
SIZES = (60, 150, 400, 1000)
Rng = np.random.Generator
Pictures = NDArray[np.uint8]
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Case:
    """A labelled set of pictures `n x s x s x c` uint8, with names of its classes where they matter."""

    images: Pictures
    labels: Labels
    class_names: tuple[str, ...] | None = None


Base = Case
Family = Callable[[Rng, list[Base]], Case]
FAMILIES: dict[str, Family] = {}


def family(make: Family) -> Family:
    """Register a family by its function's name."""
    FAMILIES[make.__name__] = make
    return make


def halves() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Deal the families into those for development and those held out."""
    names = sorted(FAMILIES)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(names))
    half = len(names) // 2
    return tuple(sorted(names[i] for i in order[:half])), tuple(sorted(names[i] for i in order[half:]))


# What families share.


def size(rng: Rng) -> int:
    return int(rng.choice(SIZES))


def any_labels(rng: Rng, n: int) -> Labels:
    """Draw labels that mean nothing: some number of classes, even or uneven."""
    k = int(rng.integers(2, 16))
    shares = rng.dirichlet(np.full(k, 5.0)) if rng.random() < 0.5 else np.full(k, 1 / k)
    labels = rng.choice(k, n, p=shares)
    labels[:2] = (0, 1)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def sampled(rng: Rng, base: Base, n: int | None = None) -> Base:
    """Draw pictures of a real dataset, of at least two classes."""
    n = min(size(rng) if n is None else n, len(base.labels))
    rows = rng.choice(len(base.labels), n, replace=False)
    if len(np.unique(base.labels[rows])) < 2:
        rows = np.concatenate([rows[2:], [np.flatnonzero(base.labels == k)[0] for k in (0, 1)]])
    return Case(base.images[rows], np.unique(base.labels[rows], return_inverse=True)[1].astype(np.int64))


def one(rng: Rng, bases: list[Base]) -> Base:
    return bases[rng.integers(len(bases))]


def drawn(rng: Rng, draw: Callable[[Rng, ImageDraw.ImageDraw, int], None], *, side: int, ground: object) -> Pictures:
    """Draw pictures at a large side and shrink them to 32, as a reader does."""
    images = []
    for _ in range(size(rng)):
        colour = ground(rng) if callable(ground) else ground
        picture = Image.new("RGB", (side, side), colour)
        draw(rng, ImageDraw.Draw(picture), side)
        images.append(np.asarray(picture.resize((32, 32), Image.Resampling.LANCZOS)))
    return np.stack(images)


def scattered(rng: Rng, images: Pictures) -> Case:
    return Case(images, any_labels(rng, len(images)))


def bytes_of(values: NDArray[np.float64]) -> Pictures:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def a_colour(rng: Rng) -> tuple[int, int, int]:
    r, g, b = (int(v) for v in rng.integers(0, 256, 3))
    return r, g, b


def smooth(rng: Rng, n: int, exponent: float, channels: int = 1) -> NDArray[np.float64]:
    """Draw pictures whose power falls with frequency to minus the exponent, each scaled to 0..255."""
    frequency = np.hypot(np.fft.fftfreq(32)[:, None], np.fft.fftfreq(32)[None])
    frequency[0, 0] = 1.0
    spectrum = np.fft.fft2(rng.normal(size=(n, channels, 32, 32))) * frequency ** (-exponent / 2)
    field = np.fft.ifft2(spectrum).real.transpose(0, 2, 3, 1)
    field -= field.min((1, 2, 3), keepdims=True)
    return field / field.max((1, 2, 3), keepdims=True) * 255


# Noise.


@family
def uniform_noise(rng: Rng, bases: list[Base]) -> Case:
    return scattered(rng, rng.integers(0, 256, (size(rng), 32, 32, int(rng.choice([1, 3]))), dtype=np.uint8))


@family
def gaussian_noise(rng: Rng, bases: list[Base]) -> Case:
    mean, sd = rng.uniform(40, 215), rng.uniform(5, 60)
    return scattered(rng, bytes_of(rng.normal(mean, sd, (size(rng), 28, 28, int(rng.choice([1, 3]))))))


@family
def binary_noise(rng: Rng, bases: list[Base]) -> Case:
    return scattered(rng, (rng.random((size(rng), 32, 32, 1)) < rng.uniform(0.1, 0.9)).astype(np.uint8) * np.uint8(255))


@family
def salt_and_pepper(rng: Rng, bases: list[Base]) -> Case:
    images = np.full((size(rng), 32, 32, 1), int(rng.integers(0, 256)), dtype=np.uint8)
    chance = rng.random(images.shape)
    share = rng.uniform(0.01, 0.1)
    images[chance < share], images[chance > 1 - share] = 0, 255
    return scattered(rng, images)


@family
def coloured_noise(rng: Rng, bases: list[Base]) -> Case:
    return scattered(rng, bytes_of(smooth(rng, size(rng), rng.uniform(0.5, 2), int(rng.choice([1, 3])))))


@family
def clouds(rng: Rng, bases: list[Base]) -> Case:
    return scattered(rng, bytes_of(smooth(rng, size(rng), rng.uniform(3, 5), int(rng.choice([1, 3])))))


@family
def noise_that_tells_classes(rng: Rng, bases: list[Base]) -> Case:
    labels = any_labels(rng, size(rng))
    level = rng.uniform(40, 215, labels.max() + 1)[labels]
    return Case(bytes_of(rng.normal(level[:, None, None, None], rng.uniform(20, 60), (len(labels), 32, 32, 3))), labels)


@family
def dark_frames(rng: Rng, bases: list[Base]) -> Case:
    return scattered(rng, rng.poisson(rng.uniform(0.5, 3), (size(rng), 32, 32, 3)).astype(np.uint8))


@family
def compressed_noise(rng: Rng, bases: list[Base]) -> Case:
    images, quality = [], int(rng.integers(1, 20))
    for noise in rng.integers(0, 256, (size(rng), 32, 32, 3), dtype=np.uint8):
        file = BytesIO()
        Image.fromarray(noise).save(file, "JPEG", quality=quality)
        images.append(np.asarray(Image.open(file)))
    return scattered(rng, np.stack(images))


@family
def files_as_pictures(rng: Rng, bases: list[Base]) -> Case:
    folder = Path(np.__file__).parent
    files = sorted(folder.rglob("*.so")) + sorted(folder.rglob("*.py"))
    data = np.frombuffer(b"".join(f.read_bytes() for f in rng.permutation(np.array(files, dtype=object))[:6]), np.uint8)
    starts = rng.integers(0, len(data) - 32 * 32 * 3, size(rng))
    return scattered(rng, np.stack([data[s : s + 3072].reshape(32, 32, 3) for s in starts]))


# Nothing in the pictures.


@family
def constant(rng: Rng, bases: list[Base]) -> Case:
    return scattered(rng, np.broadcast_to(rng.integers(0, 256, 3, dtype=np.uint8), (size(rng), 32, 32, 3)).copy())


@family
def plain_colours(rng: Rng, bases: list[Base]) -> Case:
    n = size(rng)
    return scattered(rng, np.broadcast_to(rng.integers(0, 256, (n, 1, 1, 3), dtype=np.uint8), (n, 32, 32, 3)).copy())


@family
def colour_of_the_class(rng: Rng, bases: list[Base]) -> Case:
    labels = any_labels(rng, size(rng))
    colours = rng.integers(0, 256, (labels.max() + 1, 1, 1, 3), dtype=np.uint8)
    return Case(np.broadcast_to(colours[labels], (len(labels), 32, 32, 3)).copy(), labels)


# Labels without meaning.


@family
def shuffled_labels(rng: Rng, bases: list[Base]) -> Case:
    base = sampled(rng, one(rng, bases))
    return Case(base.images, rng.permutation(base.labels))


@family
def numbered_off(rng: Rng, bases: list[Base]) -> Case:
    base = sampled(rng, one(rng, bases))
    return Case(base.images, (np.arange(len(base.labels)) % int(rng.integers(2, 12))).astype(np.int64))


@family
def one_class_dealt_out(rng: Rng, bases: list[Base]) -> Case:
    base = one(rng, bases)
    chosen = base.images[base.labels == np.bincount(base.labels).argmax()]
    chosen = chosen[rng.permutation(len(chosen))[: size(rng)]]
    return Case(chosen, (np.arange(len(chosen)) % int(rng.integers(2, 5))).astype(np.int64))


@family
def random_halves_as_classes(rng: Rng, bases: list[Base]) -> Case:
    base = sampled(rng, one(rng, bases))
    labels = (rng.random(len(base.labels)) < rng.uniform(0.2, 0.5)).astype(np.int64)
    labels[:2] = (0, 1)
    return Case(base.images, labels, ("train", "test"))


@family
def a_class_for_each_picture(rng: Rng, bases: list[Base]) -> Case:
    base = sampled(rng, one(rng, bases), int(rng.integers(20, 120)))
    return Case(base.images, np.arange(len(base.labels)))


@family
def pooled_and_shuffled(rng: Rng, bases: list[Base]) -> Case:
    parts = [sampled(rng, one(rng, bases), 100) for _ in range(4)]
    return scattered(rng, np.concatenate([as_colour(part.images) for part in parts]))


# Pixels out of order.


@family
def permuted_pixels(rng: Rng, bases: list[Base]) -> Case:
    base = sampled(rng, one(rng, bases))
    flat = base.images.reshape(len(base.images), -1, base.images.shape[3])
    order = np.argsort(rng.random(flat.shape[:2]), axis=1)
    return Case(np.take_along_axis(flat, order[:, :, None], 1).reshape(base.images.shape), base.labels)


@family
def one_permutation_of_pixels(rng: Rng, bases: list[Base]) -> Case:
    base = sampled(rng, one(rng, bases))
    flat = base.images.reshape(len(base.images), -1, base.images.shape[3])
    return Case(flat[:, rng.permutation(flat.shape[1])].reshape(base.images.shape), base.labels)


@family
def permuted_blocks(rng: Rng, bases: list[Base]) -> Case:
    base = sampled(rng, one(rng, bases))
    images = as_side(base.images, 32)
    n, c = len(images), images.shape[3]
    blocks = images.reshape(n, 8, 4, 8, 4, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, 64, 4, 4, c)
    order = np.argsort(rng.random((n, 64)), axis=1)
    blocks = np.take_along_axis(blocks, order[:, :, None, None, None], 1).reshape(n, 8, 8, 4, 4, c)
    return Case(np.ascontiguousarray(blocks.transpose(0, 1, 3, 2, 4, 5)).reshape(images.shape), base.labels)


@family
def permuted_rows(rng: Rng, bases: list[Base]) -> Case:
    base = sampled(rng, one(rng, bases))
    order = np.argsort(rng.random(base.images.shape[:2]), axis=1)
    return Case(np.take_along_axis(base.images, order[:, :, None, None], 1), base.labels)


# The same again.


@family
def one_picture_repeated(rng: Rng, bases: list[Base]) -> Case:
    picture = sampled(rng, one(rng, bases), 2).images[:1]
    return scattered(rng, np.repeat(picture, size(rng), 0))


@family
def three_pictures_repeated(rng: Rng, bases: list[Base]) -> Case:
    pictures = sampled(rng, one(rng, bases), 3).images
    return scattered(rng, pictures[rng.integers(0, len(pictures), size(rng))])


@family
def a_picture_for_each_class(rng: Rng, bases: list[Base]) -> Case:
    labels = any_labels(rng, size(rng))
    base = one(rng, bases)
    return Case(base.images[rng.choice(len(base.images), labels.max() + 1, replace=False)][labels], labels)


@family
def one_picture_with_noise(rng: Rng, bases: list[Base]) -> Case:
    picture = sampled(rng, one(rng, bases), 2).images[:1].astype(float)
    return scattered(rng, bytes_of(picture + rng.normal(0, rng.uniform(2, 15), (size(rng), *picture.shape[1:]))))


@family
def one_picture_shifted(rng: Rng, bases: list[Base]) -> Case:
    picture = sampled(rng, one(rng, bases), 2).images[0]
    moves = rng.integers(-2, 3, (size(rng), 2))
    return scattered(rng, np.stack([np.roll(picture, tuple(move), (0, 1)) for move in moves]))


# Pages and screens.


@family
def text_pages(rng: Rng, bases: list[Base]) -> Case:
    words = Path(np.__file__).read_text(encoding="utf-8").split()

    def draw(rng: Rng, page: ImageDraw.ImageDraw, side: int) -> None:
        font = ImageFont.load_default(int(rng.integers(9, 15)))
        for line in range(20, side - 20, int(rng.integers(14, 22))):
            start = int(rng.integers(0, len(words) - 12))
            page.text(
                (20, line), " ".join(words[start : start + int(rng.integers(3, 10))]), fill=(20, 20, 20), font=font
            )

    return scattered(rng, drawn(rng, draw, side=320, ground=(250, 250, 248)))


@family
def screenshots(rng: Rng, bases: list[Base]) -> Case:
    def draw(rng: Rng, screen: ImageDraw.ImageDraw, side: int) -> None:
        screen.rectangle((0, side - 16, side, side), fill=a_colour(rng))
        for _ in range(int(rng.integers(1, 4))):
            x, y = (int(v) for v in rng.integers(0, side // 2, 2))
            w, h = (int(v) for v in rng.integers(side // 3, side, 2))
            screen.rectangle(
                (x, y, x + w, y + h), fill=tuple(int(v) for v in rng.integers(200, 256, 3)), outline=(90, 90, 90)
            )
            screen.rectangle((x, y, x + w, y + 14), fill=a_colour(rng))
            for row in range(y + 24, y + h - 8, 12):
                screen.line((x + 8, row, x + 8 + int(rng.integers(10, w)), row), fill=(70, 70, 70), width=3)

    return scattered(rng, drawn(rng, draw, side=256, ground=a_colour))


@family
def tables(rng: Rng, bases: list[Base]) -> Case:
    def draw(rng: Rng, page: ImageDraw.ImageDraw, side: int) -> None:
        step_x, step_y = (int(v) for v in rng.integers(16, 48, 2))
        for x in range(0, side, step_x):
            page.line((x, 0, x, side), fill=(150, 150, 150))
        for y in range(0, side, step_y):
            page.line((0, y, side, y), fill=(150, 150, 150))
            for x in range(2, side, step_x):
                if rng.random() < 0.7:
                    page.text((x, y + 1), str(int(rng.integers(0, 1000))), fill=(0, 0, 0))

    return scattered(rng, drawn(rng, draw, side=256, ground=(255, 255, 255)))


@family
def line_plots(rng: Rng, bases: list[Base]) -> Case:
    def draw(rng: Rng, page: ImageDraw.ImageDraw, side: int) -> None:
        page.line((20, 10, 20, side - 20, side - 10, side - 20), fill=(0, 0, 0), width=2)
        for _ in range(int(rng.integers(1, 4))):
            heights = side / 2 + np.cumsum(rng.normal(0, side / 20, 40))
            page.line([(20 + 5 * i, float(h)) for i, h in enumerate(heights)], fill=a_colour(rng), width=3)

    return scattered(rng, drawn(rng, draw, side=224, ground=(255, 255, 255)))


@family
def matrix_codes(rng: Rng, bases: list[Base]) -> Case:
    cells = (rng.random((size(rng), 21, 21)) < 0.5).astype(np.uint8) * np.uint8(255)
    finder = np.zeros((7, 7), dtype=np.uint8)
    finder[1:-1, 1:-1], finder[2:-2, 2:-2] = 255, 0
    cells[:, :7, :7], cells[:, :7, -7:], cells[:, -7:, :7] = finder, finder, finder
    return scattered(rng, np.repeat(np.repeat(cells, 3, 1), 3, 2)[..., None])


@family
def bar_codes(rng: Rng, bases: list[Base]) -> Case:
    n = size(rng)
    bars = (rng.random((n, 1, 32)) < 0.5).astype(np.uint8) * np.uint8(255)
    images = np.repeat(bars, 32, 1)
    images[:, 26:] = 255
    return scattered(rng, images[..., None])


# Geometry.


@family
def gradients(rng: Rng, bases: list[Base]) -> Case:
    n = size(rng)
    angle, ends = rng.uniform(0, 2 * np.pi, n), rng.uniform(0, 255, (2, n, 1, 1, 3))
    x, y = np.meshgrid(np.linspace(-0.7, 0.7, 32), np.linspace(-0.7, 0.7, 32))
    place = np.clip(np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y + 0.5, 0, 1)[..., None]
    return scattered(rng, bytes_of(ends[0] * place + ends[1] * (1 - place)))


@family
def gradients_that_tell_classes(rng: Rng, bases: list[Base]) -> Case:
    labels = any_labels(rng, size(rng))
    angle = 2 * np.pi * labels / (labels.max() + 1) + rng.normal(0, 0.1, len(labels))
    x, y = np.meshgrid(np.linspace(-1, 1, 32), np.linspace(-1, 1, 32))
    place = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
    return Case(bytes_of(127 + 80 * place)[..., None], labels)


@family
def checkerboards(rng: Rng, bases: list[Base]) -> Case:
    n = size(rng)
    cell, shift = rng.integers(1, 9, (n, 1, 1)), rng.integers(0, 16, (2, n, 1, 1))
    rows, columns = np.arange(32)[None, :, None], np.arange(32)[None, None, :]
    board = ((rows + shift[0]) // cell + (columns + shift[1]) // cell) % 2
    return scattered(rng, (board * 255).astype(np.uint8)[..., None])


@family
def sine_waves(rng: Rng, bases: list[Base]) -> Case:
    n = size(rng)
    kx, ky, phase = (rng.uniform(-1.5, 1.5, (n, 1, 1)) for _ in range(3))
    x, y = np.meshgrid(np.arange(32), np.arange(32))
    return scattered(rng, bytes_of(127 + 120 * np.sin(kx * x + ky * y + 4 * phase))[..., None])


@family
def one_dot(rng: Rng, bases: list[Base]) -> Case:
    images = np.zeros((size(rng), 32, 32, 1), dtype=np.uint8)
    for image, (row, column) in zip(images, rng.integers(0, 30, (len(images), 2)), strict=True):
        image[row : row + 2, column : column + 2] = 255
    return scattered(rng, images)


@family
def random_lines(rng: Rng, bases: list[Base]) -> Case:
    def draw(rng: Rng, page: ImageDraw.ImageDraw, side: int) -> None:
        for _ in range(int(rng.integers(2, 12))):
            page.line([int(v) for v in rng.integers(0, side, 4)], fill=a_colour(rng), width=int(rng.integers(1, 6)))

    return scattered(rng, drawn(rng, draw, side=128, ground=(255, 255, 255)))


@family
def mosaics(rng: Rng, bases: list[Base]) -> Case:
    x, y = np.meshgrid(np.arange(32), np.arange(32))
    images = []
    for _ in range(size(rng)):
        places, colours = rng.uniform(0, 32, (12, 2)), rng.integers(0, 256, (12, 3), dtype=np.uint8)
        images.append(colours[np.hypot(x[..., None] - places[:, 0], y[..., None] - places[:, 1]).argmin(2)])
    return scattered(rng, np.stack(images))


@family
def test_card(rng: Rng, bases: list[Base]) -> Case:
    bars = np.array(
        [[255, 255, 255], [255, 255, 0], [0, 255, 255], [0, 255, 0], [255, 0, 255], [255, 0, 0], [0, 0, 255], [0, 0, 0]]
    )
    card = np.broadcast_to(np.repeat(bars, 4, 0)[None], (32, 32, 3))
    gain = rng.uniform(0.6, 1.0, (size(rng), 1, 1, 1))
    return scattered(rng, bytes_of(card * gain))


# Too little, or something else than a dataset.


@family
def six_pictures(rng: Rng, bases: list[Base]) -> Case:
    base = one(rng, bases)
    first, second = rng.choice(np.unique(base.labels), 2, replace=False)
    rows = np.concatenate([rng.choice(np.flatnonzero(base.labels == k), 3, replace=False) for k in (first, second)])
    return Case(base.images[rows], np.repeat([0, 1], 3))


@family
def datasets_as_classes(rng: Rng, bases: list[Base]) -> Case:
    chosen = rng.choice(len(bases), 4, replace=False)
    parts = [as_colour(sampled(rng, bases[i], 100).images) for i in chosen]
    labels = np.concatenate([np.full(len(part), k) for k, part in enumerate(parts)]).astype(np.int64)
    return Case(np.concatenate(parts), labels, ("mnist", "cifar10", "fashion_mnist", "usps"))


def as_side(images: Pictures, side: int) -> Pictures:
    """Resize to another side."""
    if images.shape[1] == side:
        return images
    flat = [image[..., 0] if image.shape[2] == 1 else image for image in images]
    resized = np.stack([np.asarray(Image.fromarray(image).resize((side, side))) for image in flat])
    return resized[..., None] if resized.ndim == 3 else resized


def as_colour(images: Pictures) -> Pictures:
    """Bring pictures to 32 x 32 in colour, so that several datasets fit together."""
    images = as_side(images, 32)
    return np.repeat(images, 3, 3) if images.shape[3] == 1 else images
