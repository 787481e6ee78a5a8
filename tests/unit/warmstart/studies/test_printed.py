"""What a trial's program prints is read as a person sees it; negative numbers on command lines are no options."""

import argparse
import io

import pytest

from warmstart.studies.objectives.command import in_argument
from warmstart.studies.objectives.printed import printed_lines


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        (b"\x1b[32m0.5\x1b[0m\r\n\r\n", ["0.5"]),
        (b"\xef\xbb\xbf0.5\n", ["0.5"]),
        (b"\r10%|#\r0.5", ["10%|#", "0.5"]),
        (b'{\n "error": 0.5,\n "a": {\n  "b": 1\n }\n}\ndone\n', ['{  "error": 0.5,  "a": {   "b": 1  } }', "done"]),
        (b"{\n one\n}\n0.5\n", ["{", "one", "}", "0.5"]),
    ],
)
def test_lines_are_what_a_person_sees(printed: bytes, lines: list[str]) -> None:
    log = io.StringIO()
    assert list(printed_lines(io.BytesIO(printed), log)) == lines
    assert "0.5" in log.getvalue()


@pytest.mark.parametrize("value", [-3e-05, -1e22, 3e-05, -12])
def test_argparse_reads_a_number_behind_its_option(value: float) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shift", type=float)
    assert parser.parse_args(["--shift", in_argument(value)]).shift == value
