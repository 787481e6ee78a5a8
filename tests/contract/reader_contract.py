"""The contract of readers, where tests look for it."""

from warmstart.testing.reader import ReaderContract as ReaderContract
