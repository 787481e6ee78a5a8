"""Names ``torchvision:NAME`` for `warmstart.history_store.readers.open_images`; torchvision is imported when one is opened."""

from warmstart.history_store.images import ImageSource
from warmstart.history_store.readers import READERS, Place, scheme_reader

SCHEME = "torchvision"


def _open(place: Place) -> ImageSource:
    from warmstart.training.sources.obtain import open_torchvision

    return open_torchvision(place.name, download=place.download)


READERS.register(SCHEME, scheme_reader(SCHEME, _open))
