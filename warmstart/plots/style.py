"""Style and format of every picture: PNG or SVG, the same bytes from the same data.

The colours are those of Okabe and Ito, which colour-blind people can distinguish. Each comes with a dash and a marker of
its own, so that a grey print shows the same.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import UsageError
from warmstart.history_store.extras import require_extra
from warmstart.history_store.quoting import in_lines
from warmstart.metafeat.files import replace_file

INK, GREY, FAINT = "#1a1a1a", "#6b6b6b", "#d5d5d5"
LOW, HIGH, STAR = "#0072B2", "#D55E00", "#D55E00"
"""Two colours that colour-blind eyes can tell apart (blue, vermilion), and the query's."""
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
    """The look of one of several series: colour, dash, marker and hatch."""

    colour: str
    dash: Any
    marker: str
    hatch: str


def series(number: int) -> Series:
    """Return the look of a series by number; after eight the colours repeat with other dashes."""
    turn, colour = divmod(number, len(_COLOURS))
    return Series(
        _COLOURS[colour],
        _DASHES[(colour + 3 * turn) % len(_DASHES)],
        _MARKERS[(colour + 3 * turn) % len(_MARKERS)],
        _HATCHES[(colour + 3 * turn) % len(_HATCHES)],
    )


def check_target(path: Path) -> None:
    """Check early that a picture can be drawn and written to a path.

    Raises:
        UsageError: matplotlib is not installed, the ending is neither .png nor .svg, or the folder does not exist.
    """
    require_extra("plots", "A plot")
    if path.suffix.lower() not in FORMATS:
        msg = f"expected a file that ends in .png or .svg, got {str(path)!r}. The ending says what is written."
        raise UsageError(msg, param="out")
    if not path.parent.is_dir():
        msg = f"expected a file in a folder that exists, got {str(path)!r}. Make the folder first."
        raise UsageError(msg, param="out")


@contextmanager
def styled() -> Iterator[None]:
    """Set the style of all pictures, independent of the user's matplotlib settings.

    Characters that the font lacks are boxes in a PNG and text in an SVG, so matplotlib's warnings on them are ignored.
    """
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def new_figure(width: float, height: float, *, constrained: bool = True) -> Any:
    """Create an empty figure of a size in inches, on a canvas that can measure text."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained" if constrained else None)
    # The canvas attaches itself; pyplot's windows and global state are not used.
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format of the suffix, whole or not at all; the same figure gives the same bytes.

    Raises:
        StorageError: the file cannot be written.
    """
    replace_file(path, drawn(figure, path.suffix.lower().removeprefix(".")), durable=False)


def drawn(figure: Any, kind: str) -> bytes:
    """Draw a figure as ``png`` or ``svg``."""
    # Without dates and versions, so that equal figures give equal bytes.
    metadata = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}[kind]
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, metadata=metadata, facecolor="white")
    # Matplotlib writes texts into an SVG as they are, control characters that XML forbids too.
    return in_lines(buffer.getvalue().decode()).encode() if kind == "svg" else buffer.getvalue()


def short(text: str, length: int = 26) -> str:
    """Shorten a long name in its middle, so that both ends stay: `a_very_lo…ataset_3`."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    head = (length - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"
