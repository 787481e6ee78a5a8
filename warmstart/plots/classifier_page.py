"""The part of a report's page on the saved classifier: how good, what it mixes up, which labels to check."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from warmstart.history_store.canonical import images_of, without_arrangement
from warmstart.history_store.quoting import in_markup
from warmstart.history_store.wording import counted, in_shell
from warmstart.locations import PathLike
from warmstart.prediction import thumbnails
from warmstart.studies.results.classifier_record import judgement_of
from warmstart.studies.results.judgement import ClassRight, Judgement
from warmstart.tables import table

STYLE = """
.big { font-size: 2.1rem; font-weight: 650; margin: .2rem 0; line-height: 1.15 } .soft { color: var(--soft) }
.scale { position: relative; height: 1.1rem; background: var(--line); border-radius: .55rem; margin: .9rem 0 .3rem; max-width: 40rem }
.scale .range { position: absolute; top: 0; bottom: 0; background: var(--good); opacity: .45; border-radius: .3rem }
.scale .at { position: absolute; top: -.2rem; bottom: -.2rem; width: .28rem; margin-left: -.14rem; background: var(--good); border-radius: .14rem }
.scale .base { position: absolute; top: -.2rem; bottom: -.2rem; border-left: 2px dashed var(--ink) }
.classes { width: 100%; max-width: 46rem; font-size: 14px } .classes td { padding: .25rem .6rem .25rem 0 } .classes .bar { width: 34% }
.classes .bar div { background: var(--good); height: .6rem; border-radius: .3rem; min-width: 2px } .classes .bar { white-space: nowrap }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.shots { display: grid; grid-template-columns: repeat(auto-fill, minmax(7.2rem, 1fr)); gap: .9rem .8rem; margin: .6rem 0 1.2rem }
.shots figure { margin: 0 } .shots img { width: 100%; aspect-ratio: 1; object-fit: contain; background: none; border-radius: 6px; image-rendering: auto }
.shots figcaption { font-size: 12.5px; line-height: 1.35; overflow-wrap: anywhere } .shots figcaption b { color: var(--ink) }
h3 { margin: 1.2rem 0 .3rem; font-size: 1rem } code { overflow-wrap: anywhere; font-size: .92em }
svg.chart { width: 100%; max-width: 30rem; height: auto; display: block; margin-top: 1.2rem } svg.chart text { fill: var(--soft); font: 12px system-ui, sans-serif }
svg.chart .axis { stroke: var(--line) } svg.chart .line { stroke: var(--good); fill: none; stroke-width: 2.5 } svg.chart .dot { fill: var(--good) }
svg.chart .even { stroke: var(--soft); stroke-dasharray: 4 4 } svg.chart .next { stroke: var(--good); fill: none; stroke-width: 2.5; stroke-dasharray: 5 5 }
svg.chart .open { fill: var(--paper); stroke: var(--good); stroke-width: 2.5 }
details > summary { cursor: pointer; font-size: 1.15rem; font-weight: 600; margin: 2rem 0 1rem } details.more > summary { font-size: 14px; font-weight: 400; margin: .4rem 0; color: var(--soft) }
@media (max-width: 45rem) { .shots { grid-template-columns: repeat(3, minmax(0, 1fr)) } .shots.four { grid-template-columns: repeat(4, minmax(0, 1fr)); gap: .5rem } .classes .bar { width: 22% } .big { font-size: 1.7rem } }
"""
_SIDE = 112
"""Pixels of a side of a thumbnail."""
_QUALITY = 78
_MOST_CLASSES = 12
"""Classes that are shown unfolded."""
_MOST_LABELS, _MOST_WORST, _MOST_COPIES = 24, 12, 6
_MOST_LINES = 200
"""Doubted labels that are listed; the CSV file has all."""


def classifier_title(record: Mapping[str, Any], name: str) -> str:
    """Return the title of the page of a classifier."""
    return f"{name}: about {judgement_of(record).right} of 100 right"


def classifier_section(record: Mapping[str, Any], dataset: PathLike | None) -> str:
    """Return the HTML on a saved classifier.

    Args:
        record: part of a report on it, of an earlier release too.
        dataset: path of its pictures; None = no pictures are shown.
    """
    judgement = judgement_of(record)
    shots = _Shots.of(_shown_images(record), dataset)
    parts = [
        _how_good(judgement, record),
        _by_class(judgement, record),
        _mixed_up(record, shots),
        _worst(record, shots),
        _how_sure(record),
        _labels(record, shots, dataset),
        _growth(record),
        _card(record),
    ]
    return "".join(parts)


def _how_good(judgement: Judgement, record: Mapping[str, Any]) -> str:
    low, high = judgement.range
    base = round(100 * judgement.baseline)
    # Reports of 0.2 may have it.
    since = " The saved file was then trained on these too." if record.get("trained_on_validation") else ""
    return (
        f'<p class="big">About {judgement.right} of 100 new pictures right</p>'
        f'<div class="scale" role="img" aria-label="{judgement.right} of 100, {low} to {high}; always the largest class: {base}">'
        f'<div class="range" style="left:{low}%;width:{max(high - low, 0.5)}%"></div>'
        f'<div class="at" style="left:{judgement.right}%"></div><div class="base" style="left:{base}%"></div></div>'
        f'<p class="soft">{low} to {high}, eight times of ten; judged by {counted(judgement.n, "picture")} that it was not trained on.{since} '
        f"Always answering “{in_markup(judgement.largest)}”, the largest class, gives {base} (dashed).</p>"
        f"<p>Use it: <code>warmstart predict {in_markup(in_shell(record['model']))} NEW/</code></p>"
    )


def _by_class(judgement: Judgement, record: Mapping[str, Any]) -> str:
    counts: Mapping[str, int] = record.get("counts") or {}

    def row(each: ClassRight) -> str:
        mixed = f"taken for {in_markup(each.taken_for)}" if each.taken_for else ""
        n = counts.get(each.name, each.n)
        bar = f'<td class="bar"><div style="width:{each.of_100}%"></div></td>'
        return f'<tr><td>{in_markup(each.name)}</td><td class="n">{each.of_100}</td>{bar}<td class="n">{n:,}</td><td class="soft">{mixed}</td></tr>'

    head = '<thead><tr><th scope="col">class</th><th scope="col" class="n">right</th><th></th><th scope="col" class="n">pictures</th><th></th></tr></thead>'

    def rows(classes: Sequence[ClassRight]) -> str:
        return (
            f'<div class="wide"><table class="classes">{head}<tbody>{"".join(map(row, classes))}</tbody></table></div>'
        )

    first, others = judgement.classes[:_MOST_CLASSES], judgement.classes[_MOST_CLASSES:]
    more = f'<details class="more"><summary>{counted(len(others), "more class")}, all at least {others[0].of_100}</summary>{rows(others)}</details>' if others else ""  # fmt: skip
    matrix = (
        f'<details class="more"><summary>All answers, by true class</summary>{_matrix(record["confusion"])}</details>'
    )
    return f"<h2>By class, hardest first</h2><p class='soft'>Right answers of 100.</p>{rows(first)}{more}{matrix}"


def _matrix(confusion: Sequence[Mapping[str, Any]]) -> str:
    return f'<div class="wide">{table("A row for each true class, a column for each answer", confusion)}</div>'


def _mixed_up(record: Mapping[str, Any], shots: _Shots) -> str:
    pairs = record.get("mixed_up") or []
    if not pairs:
        return ""
    parts = ["<h2>What is mixed up</h2>"]
    for pair in pairs:
        pictures = [shots.figure(image, _name_of(image)) for image in pair["images"]]
        title = f"{in_markup(pair['truth'])} taken for {in_markup(pair['answer'])}: {counted(pair['n'], 'picture')}"
        parts.append(f'<h3>{title}</h3><div class="shots four">{"".join(pictures)}</div>')
    return "".join(parts)


def _worst(record: Mapping[str, Any], shots: _Shots) -> str:
    worst = record["worst"][:_MOST_WORST]
    if not worst:
        return ""
    figures = [shots.figure(each["image"], _caption(each["answer"], f"is {each['truth']}", each["image"])) for each in worst]  # fmt: skip
    text = "The wrong answers that it was surest of. A wrong label can be the reason."
    return f'<h2>The worst answers</h2><p class="soft">{text}</p><div class="shots">{"".join(figures)}</div>'


def _how_sure(record: Mapping[str, Any]) -> str:
    rows = record.get("thresholds") or []
    n = sum(each["n"] for each in record.get("bins") or [])
    if not rows or not n:
        return ""
    cells = "".join(
        f'<tr><td>{each["at_least"]:g}</td><td class="n">{_of_100(n - each["n"], n)}</td><td class="n">{_of_100(each["n"], n)}</td><td class="n">{_of_100(each["right"], each["n"])}</td></tr>'
        for each in rows
    )
    head = "".join(f'<th scope="col" class="n">{name}</th>' for name in ("unsure", "named", "right of these"))
    head = f'<tr><th scope="col">threshold</th>{head}</tr>'
    command = f"warmstart predict {in_shell(record['model'])} NEW/ --sort-into SORTED/ --unsure {_advised(rows):g}"
    return (
        "<h2>How right the sure ones are</h2>"
        "<p>Each answer comes with a probability. Copy pictures into a folder a class, and those below a threshold to "
        f"<code>unsure/</code>: <code>{in_markup(command)}</code></p>"
        f'<div class="wide"><table><caption>Of 100 pictures</caption><thead>{head}</thead><tbody>{cells}</tbody></table></div>{_reliability(record["bins"])}'
    )


def _advised(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the least threshold above which 98 of 100 are right; the greatest without one."""
    good = (each["at_least"] for each in rows if each["n"] and each["right"] >= 0.98 * each["n"])
    return float(next(good, rows[-1]["at_least"]))


def _reliability(bins: Sequence[Mapping[str, Any]]) -> str:
    """Draw how right answers are by how sure they are; on the dashed line, probabilities are true."""
    used = [each for each in bins if each["n"] >= 5]
    if len(used) < 2:
        return ""
    points = [(100 * each["expected"] / each["n"], 100 * each["right"] / each["n"]) for each in used]
    low = min(40.0, 10 * (min(min(pair) for pair in points) // 10))
    chart = _Chart((low, 100.0), (low, 100.0))
    marks = "".join(f'<circle class="dot" cx="{chart.x(x):.1f}" cy="{chart.y(y):.1f}" r="5"/>' for x, y in points)
    ticks = [low, (low + 100) / 2, 100.0]
    body = chart.line([(low, low), (100, 100)], "even") + chart.line(points, "line") + marks
    return chart.svg(body, ticks, ticks, "probability, %", "right, of 100", "How right the answers are by their probability")  # fmt: skip


def _labels(record: Mapping[str, Any], shots: _Shots, dataset: PathLike | None) -> str:
    doubted, copies = record.get("doubted_labels") or [], record.get("doubtful_copies") or []
    if "doubted_labels" not in record:
        return ""
    if not doubted and not copies:
        return "<h2>Labels to check</h2><p>None: no label is contradicted by the answers.</p>"
    figures = [
        shots.figure(each["image"], _caption(each["label"], f"or {each['suggested']}?", each["image"]))
        for each in doubted[:_MOST_LABELS]
    ]
    parts = [f"<h2>Labels to check</h2><p>{_labels_text(record, dataset)}</p>"]
    parts.append(f'<div class="shots">{"".join(figures)}</div>' if figures else "")
    if len(doubted) > _MOST_LABELS:
        lines = "".join(f"<li>{in_markup(each['image'])}: {in_markup(each['label'])}, or {in_markup(each['suggested'])}?</li>" for each in doubted[_MOST_LABELS:_MOST_LINES])  # fmt: skip
        n_more = len(doubted) - _MOST_LABELS
        parts.append(f'<details class="more"><summary>{n_more} more</summary><ul>{lines}</ul></details>')
    for copy in copies[:_MOST_COPIES]:
        pictures = [shots.figure(each["image"], _caption(each["label"], each.get("part") or "", each["image"])) for each in copy["images"][:4]]  # fmt: skip
        parts.append(f'<h3>{in_markup(copy["why"])}</h3><div class="shots">{"".join(pictures)}</div>')
    if len(copies) > _MOST_COPIES:
        parts.append(f'<p class="soft">And {len(copies) - _MOST_COPIES} more such groups.</p>')
    return "".join(parts)


def _labels_text(record: Mapping[str, Any], dataset: PathLike | None) -> str:
    n = len(record["doubted_labels"])
    text = f"{counted(n, 'picture')} that it would call otherwise, though it has not learned from them; most doubtful first."
    file = record.get("labels_file")
    if file is None:
        return text
    again = f"warmstart classify {in_shell(images_of(without_arrangement(str(dataset))))} --labels {in_shell(file)}"
    return f"{text} <code>{in_markup(file)}</code> lists all pictures, these first: correct the column <code>label</code>, or empty it to leave a picture out, and give it back: <code>{in_markup(again)}</code>"


def _growth(record: Mapping[str, Any]) -> str:
    growth = record.get("growth")
    if not growth:
        return ""
    now, then = (round(100 * (1 - growth[name])) for name in ("error", "forecast"))
    gain = 100 * (growth["error"] - growth["forecast"])
    words = f"With twice as many ({growth['twice']:,}) about {then} of 100 will be right instead of {now}."
    total = sum((record.get("counts") or {}).values())
    if total > growth["n"]:
        words += f" It learned from {growth['n']:,} of your {total:,}: more <code>--time</code> uses more of them."
    answer = "Yes." if gain >= 2 else "A little." if gain >= 0.75 else "Hardly."
    points = [(float(each["n"]), 100 * (1 - each["error"])) for each in growth["points"]]
    return (
        f"<h2>Would more pictures help?</h2><p><b>{answer}</b> {words} Half of such forecasts were off by more than 2.</p>{_growth_chart(growth, points)}"
        "<p class='soft'>The line is a simple classifier on a third, two thirds and all; the ring is the forecast for the saved one.</p>"
    )


def _growth_chart(growth: Mapping[str, Any], points: Sequence[tuple[float, float]]) -> str:
    present = float(growth["n"]), 100 * (1 - growth["error"])
    ahead = float(growth["twice"]), 100 * (1 - growth["forecast"])
    values = [y for _, y in [*points, present, ahead]]
    low = max(0.0, 10 * (min(values) // 10) - (10 if min(values) % 10 < 2 else 0))
    chart = _Chart((0.0, ahead[0]), (low, 100.0))
    dots = "".join(f'<circle class="dot" cx="{chart.x(x):.1f}" cy="{chart.y(y):.1f}" r="4"/>' for x, y in points)
    ring = f'<circle class="open" cx="{chart.x(ahead[0]):.1f}" cy="{chart.y(ahead[1]):.1f}" r="6"/>'
    here = f'<circle class="dot" cx="{chart.x(present[0]):.1f}" cy="{chart.y(present[1]):.1f}" r="6"/>'
    body = chart.line(points, "line") + chart.line([present, ahead], "next") + dots + here + ring
    ticks = [0.0, present[0], ahead[0]]
    return chart.svg(body, ticks, [low, (low + 100) / 2, 100.0], "pictures", "right, of 100", "Right answers by the number of pictures")  # fmt: skip


def _card(record: Mapping[str, Any]) -> str:
    rows = {name: value for name, value in (record.get("card") or {}).items() if value}
    if not rows:
        return ""
    lines = "".join(f"<dt>{in_markup(name)}</dt><dd>{in_markup(value)}</dd>" for name, value in rows.items())
    return f'<details class="more"><summary>What is in {in_markup(record["model"])}</summary><dl>{lines}</dl></details>'


def _of_100(part: int, whole: int) -> str:
    return "–" if not whole else f"{100 * part / whole:.0f}"


def _caption(label: str, more: str, image: str) -> str:
    return f"<b>{in_markup(label)}</b> {in_markup(more)}<br>{_name_of(image)}"


def _name_of(image: str) -> str:
    return f'<span class="soft">{in_markup(image)}</span>'


def _shown_images(record: Mapping[str, Any]) -> list[str]:
    """Return the names of the pictures that the page shows, each once."""
    of_pairs = [image for pair in record.get("mixed_up") or [] for image in pair["images"]]
    worst = [each["image"] for each in record["worst"][:_MOST_WORST]]
    doubted = [each["image"] for each in (record.get("doubted_labels") or [])[:_MOST_LABELS]]
    copies = [each["image"] for copy in (record.get("doubtful_copies") or [])[:_MOST_COPIES] for each in copy["images"][:4]]  # fmt: skip
    return list(dict.fromkeys([*of_pairs, *worst, *doubted, *copies]))


class _Shots(dict[str, str]):
    """Thumbnails by the names of their pictures, as data URLs; those that cannot be read are lacking."""

    @classmethod
    def of(cls, images: Sequence[str], dataset: PathLike | None) -> _Shots:
        """Read the thumbnails of a dataset."""
        if dataset is None:
            return cls()
        pixels = thumbnails(images, dataset, size=_SIDE)
        return cls({image: _jpeg_url(each) for image, each in zip(images, pixels, strict=True) if each is not None})

    def figure(self, image: str, caption: str) -> str:
        """Return a picture with a caption, which is HTML; without the picture if it is lacking."""
        shot = f'<img alt="{in_markup(image)}" loading="lazy" src="{self[image]}">' if image in self else ""
        return f"<figure>{shot}<figcaption>{caption}</figcaption></figure>"


def _jpeg_url(pixels: NDArray[np.uint8]) -> str:
    buffer = BytesIO()
    Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels).save(buffer, format="jpeg", quality=_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


class _Chart:
    """A small chart in the page's own colours.

    Args:
        x_range: of the horizontal axis.
        y_range: of the vertical axis.
    """

    _WIDTH, _HEIGHT, _LEFT, _BOTTOM, _AIR = 420.0, 220.0, 44.0, 38.0, 14.0

    def __init__(self, x_range: tuple[float, float], y_range: tuple[float, float]) -> None:
        self._x_range, self._y_range = x_range, y_range

    def x(self, value: float) -> float:
        """Return the horizontal place of a value."""
        low, high = self._x_range
        return self._LEFT + (value - low) / max(high - low, 1e-9) * (self._WIDTH - self._LEFT - 2 * self._AIR)

    def y(self, value: float) -> float:
        """Return the vertical place of a value."""
        low, high = self._y_range
        return self._HEIGHT - self._BOTTOM - (value - low) / max(high - low, 1e-9) * (self._HEIGHT - self._BOTTOM - self._AIR)  # fmt: skip

    def line(self, points: Sequence[tuple[float, float]], look: str) -> str:
        """Return a line through points."""
        places = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return f'<polyline class="{look}" points="{places}"/>'

    def svg(self, body: str, x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str, y_label: str, about: str) -> str:  # fmt: skip
        """Return the chart with its axes."""
        bottom, right = self._HEIGHT - self._BOTTOM, self._WIDTH - 2 * self._AIR
        across = "".join(f'<line class="axis" x1="{self._LEFT}" x2="{right}" y1="{self.y(tick):.1f}" y2="{self.y(tick):.1f}"/><text x="{self._LEFT - 6}" y="{self.y(tick) + 4:.1f}" text-anchor="end">{tick:.0f}</text>' for tick in y_ticks)  # fmt: skip
        below = "".join(f'<text x="{self.x(tick):.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{tick:,.0f}</text>' for tick in x_ticks)  # fmt: skip
        words = f'<text x="{(self._LEFT + right) / 2:.1f}" y="{self._HEIGHT - 5}" text-anchor="middle">{in_markup(x_label)}</text><text x="{self._LEFT}" y="10">{in_markup(y_label)}</text>'
        return f'<svg class="chart" viewBox="0 0 {self._WIDTH:g} {self._HEIGHT:g}" role="img" aria-label="{in_markup(about)}">{across}{below}{words}{body}</svg>'
