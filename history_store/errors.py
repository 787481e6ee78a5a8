"""Errors that warmstart raises on purpose.

::

    WarmstartError
    ├── UsageError (ValueError)                 a wrong call: option, name, number
    │   ├── OtherStudyError                     a study of that name was asked something else
    │   ├── SpaceExhaustedError                 asking on after every configuration was proposed
    │   └── LeaseLostError                      a report on a trial that its client does not hold, or no longer
    ├── MissingPathError (FileNotFoundError)    a path that is not there
    ├── DataError (ValueError)                  the user's data cannot be used as they are
    │   ├── BrokenImagesError                   pictures that cannot be decoded
    │   ├── LabelError                          labels missing, of a wrong kind, or one class only
    │   ├── ManifestError                       a manifest against its schema
    │   └── ImagesMissingError                  a history that holds no images where they are needed
    ├── StorageError (OSError)                  a file of ours cannot be read or written
    │   ├── HistoryDamagedError                 truncated, altered, not a history
    │   ├── HistoryVersionError                 written by a newer version
    │   ├── HistoryLockedError                  another writer holds it
    │   ├── HistoryReadOnlyError                opened for reading, or on a read-only place
    │   ├── StorageFullError                    no space left
    │   ├── ModelError                          a model file that cannot be used
    │   └── ModelMismatchError                  a model of another history, space or image size
    └── AllTrialsFailedError                    every trial of a run failed

Messages read ``<where>: expected <what>, got <what>. <next step>.``, or of arguments that exclude or need each other,
``<where> cannot be used with <argument>.`` and ``<where> needs <argument>.`` Where an argument is at fault, `param` names it and
stands for ``<where>``: Python shows ``strategy: expected ...``, the command line ``--strategy: expected ...``. Another
argument that a message speaks of stands in backquotes, and is spelled likewise: Leave `space` out. The mapping to exit
codes and HTTP statuses lives in `warmstart.status` alone.
"""

from collections.abc import Iterable, Sequence


def with_subject(subject: str, message: str) -> str:
    """Put the argument at fault before a message: "time: expected ...", "time cannot be used with ...", "labels needs ..."."""
    return f"{subject} {message}" if message.startswith(("needs ", "cannot be used ")) else f"{subject}: {message}"


class WarmstartError(Exception):
    """Base of every error raised on purpose.

    Attributes:
        message: what is wrong, without the arguments.
        params: names of the arguments at fault, as Python spells them; empty where none is.
        given: a name that is not known; empty where that is not the matter.
        choices: those that are, so that the nearest can be offered.
    """

    def __init__(
        self, message: str = "", *, param: str | Sequence[str] = (), given: object = "", choices: Iterable[str] = ()
    ) -> None:
        self.message, self.given, self.choices = message, str(given), tuple(map(str, choices))
        self.params = (param,) if isinstance(param, str) else tuple(param)
        super().__init__(with_subject(", ".join(self.params), message) if self.params else message)

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: one line, since the place in our code says nothing about a wrong call."""
        return [f"{type(self).__name__}: {self}"]


class HistoryWarning(UserWarning):
    """Warning about a history; work continues."""


class UsageError(WarmstartError, ValueError):
    """A call that cannot be carried out as given."""


class MissingExtraError(UsageError, ImportError):
    """What was asked needs packages of an extra that is not installed."""


class OtherStudyError(UsageError):
    """A study of the same name that was asked something else."""

    @property
    def differences(self) -> str:
        """Return in words what differs."""
        return self.message.partition("got another ")[2].partition(". Give the same")[0]


class SpaceExhaustedError(UsageError):
    """A search space without a configuration that was not proposed yet."""


class LeaseLostError(UsageError):
    """A report on a trial that its client does not hold, or no longer."""


class MissingPathError(WarmstartError, FileNotFoundError):
    """A path that does not exist."""


class DataError(WarmstartError, ValueError):
    """Data that cannot be used as they are."""


class BrokenImagesError(DataError):
    """Pictures that cannot be decoded.

    Attributes:
        paths: the broken files, in the order in which they were met.
    """

    def __init__(self, message: str, paths: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.paths = tuple(paths)


class LabelError(DataError):
    """Labels that are missing, of a wrong kind or without contrast."""


class ManifestError(DataError):
    """A manifest that does not fit its schema."""


class ImagesMissingError(DataError):
    """A history without images where images are needed."""


class StorageError(WarmstartError, OSError):
    """A file of ours that cannot be read or written."""


class HistoryDamagedError(StorageError):
    """A history that is truncated, altered or no history at all."""


class HistoryVersionError(StorageError):
    """A history written by a version that this one does not know."""


class HistoryLockedError(StorageError):
    """A history that another process is writing."""


class HistoryReadOnlyError(StorageError):
    """A write to a history that may only be read."""


class StorageFullError(StorageError):
    """No space left on the device."""


class ModelError(StorageError):
    """A model file that is damaged or of an unknown version."""


class ModelMismatchError(StorageError):
    """A model that was trained for another history, space or image size."""


class AllTrialsFailedError(WarmstartError, RuntimeError):
    """Every trial of a run failed."""
