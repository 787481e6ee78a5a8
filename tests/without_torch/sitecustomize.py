"""For processes that tests start: an installation without the extra `pictures`."""

from importlib.machinery import PathFinder

HIDDEN = ("torch", "torchvision", "timm")  # not None in sys.modules: scipy takes that for a module
found = PathFinder.find_spec


def find_spec(fullname, path=None, target=None):
    return None if fullname.partition(".")[0] in HIDDEN else found(fullname, path, target)


PathFinder.find_spec = find_spec
