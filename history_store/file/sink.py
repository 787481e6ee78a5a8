"""The file under HDF5 while it is written: HDF5 crashes the process when a write fails, so it is never told."""

import os
from pathlib import Path

from warmstart.history_store.file import durable


class Sink:
    """A file object for h5py that keeps the first error of the system to itself and then swallows all writes.

    Args:
        path: of the file, which is emptied where it exists.

    Attributes:
        error: the first error, for `check`.
        inode: number of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: OSError | MemoryError | None = None
        self._at = 0
        self._size = 0
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        self.inode = os.fstat(self._fd).st_ino

    def check(self) -> None:
        """Raise the error that was kept, if there is one.

        Raises:
            OSError: no space, for example.
            MemoryError: none left.
        """
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Close the file; call it after HDF5 has."""
        os.close(self._fd)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """Tell the place."""
        return self._at

    def read(self, size: int) -> bytes:
        """Read back some bytes."""
        buffer = bytearray(size)
        self.readinto(memoryview(buffer))
        return bytes(buffer)

    def readinto(self, buffer: memoryview) -> int:
        """Read back what HDF5 wrote; zeros where a swallowed write belongs."""
        found = os.preadv(self._fd, [buffer], self._at)
        buffer[found:] = bytes(len(buffer) - found)
        self._at += len(buffer)
        return len(buffer)

    def write(self, data: memoryview) -> int:
        """Write, or seem to."""
        view = memoryview(data).cast("B")
        if self.error is None:
            try:
                durable.write_at(self._fd, view, self._at, self.path)
            except (OSError, MemoryError) as error:
                self.error = error
        self._at += len(view)
        self._size = max(self._size, self._at)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the length, or seem to."""
        self._size = self._at if size is None else size
        if self.error is None:
            try:
                durable.truncate(self._fd, self._size, self.path)
            except (OSError, MemoryError) as error:
                self.error = error
        return self._size

    def flush(self) -> None:
        """Do nothing: nothing is buffered here."""
