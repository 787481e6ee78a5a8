"""Parquet and Arrow files of strangers: checked whole, unpacked in pieces, and held to the limit of unpacked bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warmstart.history_store.errors import DataError, UsageError
from warmstart.history_store.limits import UNPACKED, check_parquet, check_unpacked, ordinary_file
from warmstart.history_store.readers.base import printable

_FEWEST_ROWS, _MOST_ROWS = 4, 4096


@contextmanager
def arrow_errors(path: Path, content: str) -> Iterator[None]:
    """Turn whatever pyarrow raises on damaged files into a `DataError`.

    Args:
        path: of the file.
        content: what it should be, for the message.
    """
    try:
        yield
    except (DataError, UsageError):
        raise
    except (
        *(OSError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError, RecursionError, RuntimeError),
        *(SystemError, NotImplementedError),
    ) as error:
        text = " ".join(str(error).split())[:160] or type(error).__name__
        msg = f"{printable(str(path))}: expected {content}, got a damaged one or another ({text}). Copy or download it again."
        raise DataError(msg) from error


def parquet_batches(path: Path, *, columns: Sequence[str] | None = None, group: int | None = None) -> Iterator[Any]:
    """Yield the rows of a Parquet file in record batches.

    A value that a dictionary holds once may stand in any number of rows: bytes count once they are unpacked.

    Args:
        path: of the file.
        columns: names; None: all.
        group: number of the row group; None: all.

    Raises:
        DataError: more unpacked bytes than the limit, or whatever is damaged, in the words of `arrow_errors`.
    """
    import pyarrow.parquet as pq

    location = printable(str(path))
    with arrow_errors(path, "a Parquet file"), pq.ParquetFile(ordinary_file(path)) as file:
        packed, unpacked = path.stat().st_size, 0
        groups = list(range(file.metadata.num_row_groups)) if group is None else [group]
        check_parquet(file, groups, packed, location)
        for batch in file.iter_batches(
            batch_size=_rows_at_once(file.metadata, groups), row_groups=groups, columns=columns
        ):
            batch.validate(full=True)
            unpacked += batch.nbytes
            check_unpacked(unpacked, packed, location)
            yield batch


def _rows_at_once(metadata: Any, groups: Sequence[int]) -> int:
    """Return how many rows may be unpacked at once, if each held the largest text of a dictionary."""
    chunks = (metadata.row_group(group).column(index) for group in groups for index in range(metadata.num_columns))
    largest = max(
        (
            chunk.total_uncompressed_size
            for chunk in chunks
            if chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page
        ),
        default=1,
    )
    return int(min(max(UNPACKED.value() // max(largest, 1), _FEWEST_ROWS), _MOST_ROWS))
