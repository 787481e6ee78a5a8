"""Take the pictures of a classifier's report for README, in light and in dark colours.

    warmstart example photos/ && warmstart classify photos/
    python scripts/report_picture.py photos.html docs/images/report

Needs chromium. Writes PREFIX-light.png and PREFIX-dark.png, each at most `MOST_BYTES`.
"""

import subprocess
import sys
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

WIDTH, HEIGHT = 840, 1010
MOST_BYTES = 200_000
SCHEMES = {"light": 1, "dark": 0}
"""Values of chromium's preferred colour scheme."""


def screenshot(page: Path, scheme: str) -> Image.Image:
    """Return the top of a page as chromium draws it."""
    with TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        settings = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={WIDTH},{HEIGHT}",
        ]
        scheme_setting = f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"
        command = ["chromium", *settings, scheme_setting, f"--screenshot={shot}", page.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        return Image.open(shot).convert("RGB")


def main(page: Path, prefix: Path) -> None:
    """Write both pictures, with as many colours as fit."""
    for scheme in SCHEMES:
        shot = screenshot(page, scheme)
        for colours in (256, 128, 64, 32):
            buffer = BytesIO()
            shot.quantize(colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
                buffer, "png", optimize=True
            )
            if len(buffer.getvalue()) <= MOST_BYTES:
                break
        else:
            sys.exit(f"expected at most {MOST_BYTES:,} bytes, got {len(buffer.getvalue()):,}")
        path = prefix.with_name(f"{prefix.name}-{scheme}.png")
        path.write_bytes(buffer.getvalue())
        print(path, len(buffer.getvalue()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
