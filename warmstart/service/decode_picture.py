"""Decode an uploaded picture in a separate process with limits.

Run as ``python -m warmstart.service.decode_picture SIZE`` with the picture on stdin; writes a square of that side to
stdout as npy, or the reason to stderr with exit code 1.
"""

import sys
import warnings
from io import BytesIO

from warmstart.history_store import system

MOST_MEMORY, MOST_CPU_S = 2 * 2**30, 20


def main(size: int) -> int:
    """Decode stdin to stdout."""
    import numpy as np
    from PIL import UnidentifiedImageError

    from warmstart.history_store.picture import decode, reason_broken

    # Decoders of hostile files may loop or allocate without end.
    system.resource.setrlimit(system.resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
    system.resource.setrlimit(system.resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    content, out = BytesIO(sys.stdin.buffer.read()), BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of odd metadata
            np.save(out, decode(content, size, "pixels"), allow_pickle=False)
    except UnidentifiedImageError:
        sys.stderr.write("no picture\n")
        return 1
    except Exception as error:  # noqa: BLE001  damaged bytes make decoders raise anything
        sys.stderr.write(reason_broken(error, "") + "\n")
        return 1
    sys.stdout.buffer.write(out.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
