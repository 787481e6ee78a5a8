"""Style and format of every picture: PNG or SVG, the same bytes from the same data.

The colours are those of Okabe and Ito, which colour-blind people can distinguish. Each comes with a dash and a marker of
its own, so that a grey print shows the same.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import UsageError
from warmstart.metafeat.files import replace_file

INK, GREY, FAINT = "#1a1a1a", "#6b6b6b", "#d5d5d5"
LOW, HIGH, STAR = "#0072B2", "#D55E00", "#D55E00"
"""Two ends that no eye confuses (blue, vermilion), and the query."""
FORMATS = (".png", ".svg")
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8A7B00")
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 1.5, 1.5, 1.5)),
    (0, (3, 1.5)),
    (0, (8, 2, 1.5, 2, 1.5, 2)),
    (0, (1, 3)),
    (0, (10, 3)),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "||||", "oo")
_RC = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.0,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "figure.dpi": 72.0,  # a pixel of the layout is a point
    "hatch.linewidth": 0.6,
    "image.composite_image": False,  # thumbnails keep their own pixels in an SVG
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "savefig.dpi": 160.0,
    "svg.fonttype": "none",  # names stay text: found, read aloud, copied
    "svg.hashsalt": "warmstart",
    "text.color": INK,
    "text.parse_math": False,  # a name may hold a dollar sign
    "xtick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.color": GREY,
    "ytick.labelcolor": INK,
}


@dataclass(frozen=True, slots=True)
class Series:
    """How one of several things is drawn: told apart by colour, dash, marker and hatch alike."""

    colour: str
    dash: Any
    marker: str
    hatch: str


def series(number: int) -> Series:
    """Return the look of the number-th thing; after eight it begins again with other dashes."""
    turn, place = divmod(number, len(_COLOURS))
    return Series(
        _COLOURS[place],
        _DASHES[(place + 3 * turn) % len(_DASHES)],
        _MARKERS[(place + 3 * turn) % len(_MARKERS)],
        _HATCHES[(place + 3 * turn) % len(_HATCHES)],
    )


def check_target(path: Path) -> None:
    """Check, before anything is computed, that a picture can be drawn and written there.

    Raises:
        UsageError: matplotlib is not installed, the ending is neither .png nor .svg, or the folder does not exist.
    """
    if find_spec("matplotlib") is None:
        msg = "plot: expected matplotlib, got an installation without it. Install the extra: pip install 'warmstart[plots]'."
        raise UsageError(msg)
    if path.suffix.lower() not in FORMATS:
        msg = f"expected a file that ends in .png or .svg, got {str(path)!r}. The ending says what is written."
        raise UsageError(msg, param="out")
    if not path.parent.is_dir():
        msg = f"expected a file in a folder that exists, got {str(path)!r}. Make the folder first."
        raise UsageError(msg, param="out")


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the house style, whatever the user's own matplotlib settings are.

    Characters that the font lacks are boxes in a PNG, and text like any other in an SVG: nothing to warn of at every letter.
    """
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def new_figure(width: float, height: float, *, constrained: bool = True) -> Any:
    """Make an empty figure of a size in inches, on a canvas that can measure text."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained" if constrained else None)
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure whole or not at all, as its ending says; the same figure gives the same bytes.

    Raises:
        StorageError: it cannot be written there.
    """
    kind = path.suffix.lower().removeprefix(".")
    metadata = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}[kind]
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, metadata=metadata, facecolor="white")
    replace_file(path, buffer.getvalue(), durable=False)


def short(text: str, length: int = 26) -> str:
    """Shorten a long name in its middle, so that both ends stay: `a_very_lo…ataset_3`."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    head = (length - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"
