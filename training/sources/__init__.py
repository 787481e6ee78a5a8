"""Sources of images: files of manifests, downloads, and the datasets of torchvision.

Importing it lets `warmstart.history_store.readers.open_images` open ``torchvision:NAME``, which imports torchvision.
"""

from warmstart.history_store.images import ImageSource
from warmstart.history_store.readers import READERS, Place, scheme_reader

SCHEME = "torchvision"


def _open(location: Place) -> ImageSource:
    from warmstart.training.sources.torchvision_source import open_torchvision

    return open_torchvision(location.name, download=location.download)


READERS.register(SCHEME, scheme_reader(SCHEME, _open))
