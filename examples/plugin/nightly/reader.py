"""Read a folder of pictures with a `labels.csv` of `file,label` lines beside them."""

import csv

import numpy as np
from PIL import Image

from warmstart.history_store.errors import DataError
from warmstart.history_store.images import ImageSource
from warmstart.history_store.readers import Place, Reader, open_arrays

SIDE = 64


def open_folder(place: Place) -> ImageSource:
    """Read all pictures, squeezed to `SIDE` pixels a side.

    Raises:
        DataError: when a line of the table is no `file,label`, or its picture is not there.
    """
    with (place.path / "labels.csv").open(newline="", encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    try:
        pictures = [Image.open(place.path / row["file"]).convert("RGB").resize((SIDE, SIDE)) for row in rows]
        return open_arrays(np.stack([np.asarray(picture) for picture in pictures]), [row["label"] for row in rows])
    except (KeyError, OSError) as error:
        msg = f"{place.path / 'labels.csv'}: expected lines of file,label and their pictures, got {error}. Correct it."
        raise DataError(msg) from error


READER = Reader(matches=lambda place: "labels.csv" in place.entries, open=open_folder)
