"""Image sets that come with scikit-learn, or that it has downloaded before: ``sklearn:digits``."""

from __future__ import annotations

from typing import Any

import numpy as np

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.readers.arrays import ArraySource, Block
from warmstart.history_store.readers.labels import encode_labels
from warmstart.history_store.readers.registry import scheme_reader

_FETCHERS = {"olivetti_faces": "fetch_olivetti_faces", "lfw_people": "fetch_lfw_people"}
_NAMES = ("digits", *_FETCHERS)


def open_sklearn(name: str) -> ArraySource:
    """Open an image set of scikit-learn; nothing is downloaded.

    `digits` (1,797 pictures of 8 x 8, ten classes) comes with the package. `olivetti_faces` and `lfw_people` work where
    scikit-learn has fetched them before.

    Raises:
        UsageError: when the name is none of these.
        DataError: when the set is not on this machine.
    """
    import sklearn.datasets

    location = f"sklearn:{name}"
    if name not in _NAMES:
        msg = f"{location}: expected an image set of scikit-learn ({', '.join(_NAMES)}), got {name!r}. Use sklearn:digits."
        raise UsageError(msg)
    class_names: list[str] | None = None
    if name == "digits":
        bunch: Any = sklearn.datasets.load_digits()
        # Grey levels 0 .. 16.
        images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    else:
        fetch = getattr(sklearn.datasets, _FETCHERS[name])
        try:
            bunch = fetch(download_if_missing=False)
        except OSError as error:
            msg = f"{location}: expected a set that is on this machine, got none, and nothing is downloaded here. Fetch it once: python -c 'import sklearn.datasets as d; d.{_FETCHERS[name]}()'."
            raise DataError(msg) from error
        images = np.rint(np.asarray(bunch.images) * (255 / max(1.0, float(np.max(bunch.images))))).astype(np.uint8)
        class_names = [str(label) for label in getattr(bunch, "target_names", [])] or None
    labelling = encode_labels(bunch.target, location, n=len(images), class_names=class_names)
    return ArraySource(
        location,
        "sklearn",
        blocks=[Block(location, len(images), lambda: images)],
        labels=labelling.labels,
        class_names=labelling.class_names,
    )


READER = scheme_reader("sklearn", lambda location: open_sklearn(location.name))
