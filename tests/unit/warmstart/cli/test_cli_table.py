"""Tables of a given width."""

import re

import pytest
from rich.cells import cell_len

from warmstart.cli.table import MAX_TRANSPOSED_ROWS, cells, table

SUGGESTIONS = [
    {"": 1, "learning_rate": 0.00032668, "decay_rate": 1.912e-06, "from": "semeion", "regret left": 0.05367},
    {"": 2, "learning_rate": 0.00070412, "decay_rate": 9.417e-07, "from": "semeion@30", "regret left": 0.01919},
    {"": 3, "learning_rate": 0.00019587, "decay_rate": 9.611e-06, "from": "naruto_hands@30", "regret left": 0.01856},
]
MANY = [
    {"name": f"dataset{i}", "what": "pictures of many things", "n": 12345 + i, "error": i / 7, "more": i * 1.5}
    for i in range(MAX_TRANSPOSED_ROWS + 1)
]


def numbers(lines):
    return sorted(re.findall(r"(?<!\S)-?\d[\d.e+-]*(?!\S)", "\n".join(lines)))


def test_a_table_that_fits_is_drawn_as_it_is():
    drawn = table([{"a": 1, "text": "x"}, {"a": 10, "text": "yy"}], 80)
    assert drawn.lines == (" a   text", "─────────", " 1   x", "10   yy")
    assert table([], 80).lines == ()


@pytest.mark.parametrize("width", [20, 40, 100])
def test_every_number_is_whole_and_every_line_fits(width):
    drawn = table(SUGGESTIONS, width)
    # Where not even one suggestion fits beside the names of the hyperparameters, it is better too long than cut.
    assert width < 32 or max(map(cell_len, drawn.lines)) <= width
    seen = numbers(drawn.lines)
    values = cells([value for row in SUGGESTIONS for value in row.values() if not isinstance(value, str)])
    assert sorted(seen) == sorted(values)
    assert drawn.left_out == ()


def test_a_table_of_a_few_rows_is_turned():
    lines = table(SUGGESTIONS, 56).lines
    assert lines[0].split() == ["1", "2", "3"]
    assert lines[2].split() == ["learning_rate", "0.0003267", "0.0007041", "0.0001959"]
    assert lines[4].split() == ["from", "semeion", "semeion@30", "naruto_hands@30"]


def test_a_long_table_leaves_optional_columns_out_in_their_order():
    wide = max(map(len, table(MANY, 1000).lines))
    assert table(MANY, wide, optional=("n", "more")).left_out == ()
    drawn = table(MANY, 46, optional=("n", "more"))
    assert drawn.left_out == ("n",)
    assert "12345" not in "\n".join(drawn.lines)
    assert max(map(len, drawn.lines)) <= 46


def test_without_optional_columns_a_long_table_is_turned_in_parts():
    drawn = table(MANY, 46)
    assert numbers(drawn.lines) == sorted(cells([row[key] for row in MANY for key in ("n", "error", "more")]))
    assert max(map(len, drawn.lines)) <= 46


def test_wide_characters_count_double():
    lines = table([{"name": "数据", "n": 1}, {"name": "ab", "n": 2}], 80).lines
    assert {cell_len(line) for line in lines} == {8}


def test_escapes_have_room_in_a_table():
    lines = table([{"name": "a\x1b[2J", "n": 1}, {"name": "\udcff", "n": 2}], 80).lines
    assert lines[2:] == (r"a\u001b[2J   1", r"\udcff       2")


def test_cells():
    assert list(cells([None, float("nan"), 1.23456, 7, "two\nlines", 1e-9])) == [
        "-",
        "-",
        "1.235",
        "7",
        "two lines",
        "1e-09",
    ]
