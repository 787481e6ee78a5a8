"""The file under HDF5 during a write; it hides failures from HDF5, which would crash the process."""

import os
from pathlib import Path

from warmstart.history_store import system
from warmstart.history_store.file import durable


class Sink:
    """A file object for h5py that stores the first error of the system and then ignores all writes.

    Args:
        path: of the file, which is emptied if it exists.

    Attributes:
        error: the first error, for `check`.
        inode: number of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: OSError | MemoryError | None = None
        self._position = 0
        self._size = 0
        self._fd = system.open_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, follow=False)
        self.inode = os.fstat(self._fd).st_ino

    def check(self) -> None:
        """Raise the stored error, if there is one.

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
        """Move to a position."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def read(self, size: int) -> bytes:
        """Read back some bytes."""
        buffer = bytearray(size)
        self.readinto(memoryview(buffer))
        return bytes(buffer)

    def readinto(self, buffer: memoryview) -> int:
        """Read back bytes that HDF5 wrote; zeros in place of an ignored write."""
        content = system.read_at(self._fd, len(buffer), self._position)
        buffer[:] = content + bytes(len(buffer) - len(content))
        self._position += len(buffer)
        return len(buffer)

    def write(self, data: memoryview) -> int:
        """Write bytes; after an error, only count them."""
        view = memoryview(data).cast("B")
        if self.error is None:
            try:
                durable.write_at(self._fd, view, self._position, self.path)
            except (OSError, MemoryError) as error:
                self.error = error
        self._position += len(view)
        self._size = max(self._size, self._position)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the length; after an error, only note it."""
        self._size = self._position if size is None else size
        if self.error is None:
            try:
                durable.truncate(self._fd, self._size, self.path)
            except (OSError, MemoryError) as error:
                self.error = error
        return self._size

    def flush(self) -> None:
        """Do nothing: nothing is buffered here."""
