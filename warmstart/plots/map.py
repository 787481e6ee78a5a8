"""Draw the map of a history: its datasets in the plane that preserves most of their distances."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.plots.labels import place_labels
from warmstart.plots.style import FAINT, GREY, INK, STAR, new_figure, save_figure, short, styled

_GROUP_MARKERS = ("s", "^", "D", "v", "P", "X", "p", "<", ">", "h")
_MOST_NAMES = 200
"""Most datasets with names; of more only those nearest to the query are named."""
_MARGINS = 160.0
"""Height of the title and the key together, in points."""
_TILE = 16.0
"""Side of one thumbnail in points."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryPoint:
    """The query on the map.

    Attributes:
        name: for people.
        position: `2`.
        nearest: names and true distances of the nearest datasets, nearest first.
        images: `t x s x s x c` uint8, up to four; None = not available.
    """

    name: str
    position: NDArray[np.float64]
    nearest: Sequence[tuple[str, float]]
    images: NDArray[np.uint8] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DatasetMap:
    """The data of a map; rows are datasets.

    Attributes:
        names: `m`.
        groups: `m` sibling groups.
        positions: `m x 2`.
        lowest: `m` lowest errors in [0, 1], NaN = unknown.
        share: of the squared distances that the plane shows.
        title: history and numbers of datasets and groups.
        parts: datasets that are parts of another; drawn small, without a name.
        images: up to four thumbnails `t x s x s x c` uint8 by dataset; datasets may be absent.
        query: the user's dataset.
    """

    names: Sequence[str]
    groups: Sequence[str]
    positions: NDArray[np.float64]
    lowest: NDArray[np.float64]
    share: float
    title: str
    parts: Collection[str] = ()
    images: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)
    query: QueryPoint | None = None


def draw_map(data: DatasetMap, path: Path) -> None:
    """Draw the map into a PNG or SVG file.

    Near datasets are expected to need the same configurations; the colour is the lowest error, to show how much of
    nearness is difficulty. Groups with several members have their own marker and line.

    Raises:
        StorageError: the file cannot be written.
    """
    with styled():
        figure, axes, placed, star = _canvas(data)
        shades = _draw_points(axes, data, placed)
        nearest = [] if data.query is None else [name for name, _ in data.query.nearest]
        if star is not None:
            for name in nearest:
                position = placed[list(data.names).index(name)]
                axes.plot(*zip(star, position, strict=True), color=STAR, linewidth=1.1, dashes=(4, 2), zorder=2)
            axes.plot(*star, marker="*", markersize=17, color=STAR, markeredgecolor=INK, markeredgewidth=0.8, zorder=6)
        _draw_labels(axes, data, placed, star, nearest)
        _draw_key(figure, axes, data, shades)
        save_figure(figure, path)


def _canvas(data: DatasetMap) -> tuple[Any, Any, NDArray[np.float64], NDArray[np.float64] | None]:
    """Create a figure with axes in points; return it with the positions of datasets and query."""
    query = None if data.query is None else data.query.position
    everything = data.positions if query is None else np.concatenate([data.positions, query[None]])
    low, high = everything.min(axis=0), everything.max(axis=0)
    extent = np.maximum(high - low, 1e-12)
    crowd = (len(data.names) - len(data.parts)) * (2 if data.images else 1)
    width = 620.0 + min(crowd * 2.2, 340.0)
    inner_width, most = width - 150.0, width * 0.72 - _MARGINS
    scale = min(inner_width / extent[0], most / extent[1])
    height = max(extent[1] * scale + 40.0, min(most, 130.0 + 2.0 * crowd)) + _MARGINS
    middle = np.array([width / 2, 92.0 + (height - _MARGINS) / 2])
    figure = new_figure(width / 72, height / 72, constrained=False)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    _draw_scale(axes, scale, width)
    placed = middle + (data.positions - (low + high) / 2) * scale
    return figure, axes, placed, None if query is None else middle + (query - (low + high) / 2) * scale


def _draw_scale(axes: Any, scale: float, width: float) -> None:
    """Draw a scale bar of distance."""
    about = 110.0 / scale
    step = 10.0 ** math.floor(math.log10(about))
    length = max(factor * step for factor in (1, 2, 5) if factor * step <= about)
    right, y = width - 24.0, 66.0
    axes.plot([right - length * scale, right], [y, y], color=INK, linewidth=1.4, solid_capstyle="butt")
    axes.text(right - length * scale - 6, y, f"distance {length:g}", ha="right", va="center", fontsize=8)


def _draw_points(axes: Any, data: DatasetMap, placed: NDArray[np.float64]) -> Any:
    """Draw the datasets: colour = lowest error, marker and line = group."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import PowerNorm

    finite = data.lowest[np.isfinite(data.lowest)]
    top = max(float(finite.max()) if len(finite) else 1.0, 1e-6)
    shades = ScalarMappable(PowerNorm(0.5, 0.0, math.ceil(top * 10) / 10), "viridis")
    markers = _markers(data)
    for group, count in Counter(data.groups).items():
        rows = [row for row, row_group in enumerate(data.groups) if row_group == group]
        if count > 1:
            for first, second in _tree(placed[rows]):
                ends = placed[[rows[first], rows[second]]].T
                axes.plot(*ends, color=FAINT, linewidth=2.2, zorder=1, solid_capstyle="round")
        for row in rows:
            shade = shades.to_rgba(data.lowest[row]) if np.isfinite(data.lowest[row]) else "white"
            axes.plot(
                *placed[row],
                marker=markers.get(group, "o"),
                markersize=5.0 if data.names[row] in data.parts else 8.5,
                color=shade,
                markeredgecolor=INK,
                markeredgewidth=0.7,
                zorder=4,
            )
    return shades


def _draw_labels(
    axes: Any,
    data: DatasetMap,
    placed: NDArray[np.float64],
    star: NDArray[np.float64] | None,
    nearest: Sequence[str],
) -> None:
    """Draw names and thumbnails next to the datasets, without overlap."""
    is_named = len(data.names) - len(data.parts) <= _MOST_NAMES
    rows = [row for row, name in enumerate(data.names) if name in nearest or (is_named and name not in data.parts)]
    labels = [(short(data.names[row]), data.images.get(data.names[row]), placed[row]) for row in rows]
    fonts = [{"fontsize": 7.0, "fontweight": "bold" if data.names[row] in nearest else "normal"} for row in rows]
    lines: list[NDArray[np.float64]] = []
    if data.query is not None and star is not None:
        labels.append((short(data.query.name, 40), data.query.images, star))
        fonts.append({"fontsize": 8.5, "fontweight": "bold", "color": STAR})
        ends = placed[[list(data.names).index(name) for name in nearest]]
        lines = [star + (end - star) * step for end in ends for step in np.linspace(0.1, 0.9, 15)]
    if not labels:
        return
    names, strips, anchors = zip(*labels, strict=True)
    texts = [
        axes.text(0, 0, name, ha="center", va="center", zorder=5, **font)
        for name, font in zip(names, fonts, strict=True)
    ]
    renderer = axes.figure.canvas.get_renderer()
    sizes = []
    for text, strip in zip(texts, strips, strict=True):
        box = text.get_window_extent(renderer)
        tiles = 0 if strip is None else len(strip)
        sizes.append((max(box.width, tiles * _TILE), max(box.height, 9.0) + (_TILE if tiles else 0.0)))
    width, height = axes.get_xlim()[1], axes.get_ylim()[1]
    area = (8.0, 84.0, width - 8, height - 58)
    centres = place_labels(anchors, sizes, area=area, marks=[*np.delete(placed, rows, axis=0), *lines])
    for text, strip, centre, size, anchor in zip(texts, strips, centres, sizes, anchors, strict=True):
        _draw_leader(axes, anchor, centre, size)
        down = 0.0 if strip is None else _TILE / 2
        text.set_position((centre[0], centre[1] - down))
        if strip is not None:
            _draw_strip(axes, strip, centre[0], centre[1] + size[1] / 2)


def _draw_strip(axes: Any, strip: NDArray[np.uint8], middle: float, top: float) -> None:
    """Draw a framed strip of thumbnails."""
    row = np.concatenate(list(strip), axis=1)
    left, wide = middle - len(strip) * _TILE / 2, len(strip) * _TILE
    axes.imshow(
        np.repeat(row, 3, axis=2) if row.shape[-1] == 1 else row,
        extent=(left, left + wide, top - _TILE, top),
        interpolation="none",
        zorder=3,
        aspect="auto",
    )
    for edge in range(len(strip) + 1):
        axes.plot([left + edge * _TILE] * 2, [top - _TILE, top], color="white", linewidth=0.8, zorder=3.1)
    frame = ([left, left + wide, left + wide, left, left], [top, top, top - _TILE, top - _TILE, top])
    axes.plot(*frame, color=FAINT, linewidth=0.6, zorder=3.2)


def _draw_leader(
    axes: Any, anchor: NDArray[np.float64], centre: NDArray[np.float64], size: tuple[float, float]
) -> None:
    """Draw the leader line of a distant label."""
    edge = np.clip(anchor, centre - np.array(size) / 2, centre + np.array(size) / 2)
    if np.linalg.norm(edge - anchor) > 9.0:
        axes.plot(*zip(anchor, edge, strict=True), color=GREY, linewidth=0.45, zorder=2.5)


def _draw_key(figure: Any, axes: Any, data: DatasetMap, shades: Any) -> None:
    """Draw the title above, and the key of colours and markers below."""
    width, height = axes.get_xlim()[1], axes.get_ylim()[1]
    axes.text(16, height - 20, data.title, fontsize=11, fontweight="bold", va="center")
    caption = f"Near: the model expects the same configurations to do well. The plane shows {data.share:.0%} of the squared distances."
    axes.text(16, height - 36, caption, fontsize=8, color=GREY, va="center")
    if data.query is not None:
        listed = ", ".join(f"{short(name)} {distance:.3g}" for name, distance in data.query.nearest)
        axes.text(
            16, height - 50, f"★ nearest, measured in all dimensions: {listed}", fontsize=8, color=STAR, va="center"
        )
    bar = figure.add_axes(((width - 204) / width, 36 / height, 180 / width, 9 / height))
    top = shades.norm.vmax
    ticks = [tick for tick in (0.0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if tick <= top + 1e-9]
    figure.colorbar(shades, cax=bar, orientation="horizontal", ticks=ticks, format="{x:g}")
    bar.tick_params(labelsize=7.5, length=2, pad=2)
    bar.set_title("lowest error recorded", fontsize=8, pad=3)
    x, y = 22.0, 60.0
    markers = _markers(data)
    for group, marker in markers.items():
        label = axes.text(0, 0, short(group, 22), fontsize=8, va="center")
        wide = label.get_window_extent(figure.canvas.get_renderer()).width + 30
        if x + wide > width - 330:
            x, y = 22.0, y - 15.0
        axes.plot(x, y, marker=marker, markersize=6.5, color=FAINT, markeredgecolor=INK, markeredgewidth=0.7)
        label.set_position((x + 9, y))
        x += wide
    notes = [
        "● other groups" if markers else "",
        "pale lines join siblings" if len(set(data.groups)) < len(data.groups) else "",
        "small: part of a dataset" if data.parts else "",
        "white: no error known" if np.isnan(data.lowest).any() else "",
    ]
    axes.text(18, y - 17, "; ".join(filter(None, notes)), fontsize=8, color=GREY, va="center")


def _markers(data: DatasetMap) -> dict[str, str]:
    """Assign markers to the largest groups with several whole datasets."""
    whole = [group for name, group in zip(data.names, data.groups, strict=True) if name not in data.parts]
    several = [(group, count) for group, count in Counter(whole).items() if count > 1]
    several.sort(key=lambda pair: (-pair[1], pair[0]))
    return {group: marker for (group, _), marker in zip(several, _GROUP_MARKERS, strict=False)}


def _tree(points: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the edges of the minimum spanning tree of points (Prim) as pairs of rows."""
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    inside, edges = [0], []
    while len(inside) < len(points):
        outside = [row for row in range(len(points)) if row not in inside]
        part = gaps[np.ix_(inside, outside)]
        a, b = np.unravel_index(int(part.argmin()), part.shape)
        edges.append((inside[int(a)], outside[int(b)]))
        inside.append(outside[int(b)])
    return edges
