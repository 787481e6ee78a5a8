"""Texts of others in every format: read back as they were, and nothing of them acts. The page has the same rules."""

import ast
import csv
import io
import json
import re
import shutil
import subprocess
import xml.dom.minidom
from importlib.resources import files

import pytest
import yaml

from warmstart.history_store.quoting import (
    from_csv,
    in_code,
    in_csv,
    in_json,
    in_line,
    in_markdown,
    in_markup,
    in_python,
    in_yaml,
)
from warmstart.history_store.space_yaml import read_yaml

TEXTS = [
    "plain",
    "joint\nopen('x')\n#",
    "a\r\nb\rc",
    "\x1b[31mred\x00\x7f\x85",
    "a\u2028b\u202ec\u2066",
    "\ud800",
    "=1+1",
    "'=1+1",
    "-3e-05",
    "+cmd|' /C calc'!A0",
    "@x",
    "\tx",
    "\"quoted\", 'both'",
    "<script>&amp;",
    "| `a` *b* [c](d) _e_ f_g",
    "1e-5",
    "0o17",
    "on",
    "null",
    "",
    " # no comment: {a: b}",
    "emoji 😀",
]


@pytest.mark.parametrize("text", TEXTS)
def test_programs_read_a_text_as_it_was(text):
    table = in_csv([text, "n"], [[text, -3e-05], [None, text]])
    cells = [[from_csv(cell) for cell in row] for row in csv.reader(io.StringIO(table, newline=""))]
    assert cells == [[text, "n"], [text, "-3e-05"], ["", text]]
    assert [*csv.reader(io.StringIO(in_csv(["n"], [["x" + text]], raw=True), newline=""))][1] == ["x" + text]
    assert json.loads(in_json({text: text})) == {text: text}
    assert ast.literal_eval(in_python([{text: text}])) == [{text: text}]
    if text != "\ud800":  # no reader of YAML takes it
        written = in_yaml({"a": text, "b" + text: [1e-05, text]})
        assert yaml.safe_load(written) == {"a": text, "b" + text: [1e-05, text]}
        assert read_yaml(written, "here", expected="a document")[0] == {"a": text, "b" + text: [1e-05, text]}


@pytest.mark.parametrize("text", TEXTS)
def test_nothing_of_a_text_acts_on_people(text):
    for written in (in_line(text), in_markup(text), in_markdown(text), in_code(text)):
        assert len(written.splitlines()) <= 1
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", written)
    node = xml.dom.minidom.parseString(f"<a b='{in_markup(text)}'>{in_markup(text)}</a>").documentElement
    assert node.getAttribute("b") == in_line(text)


def test_spreadsheets_find_no_formula():
    rows = [*csv.reader(io.StringIO(in_csv(["a"], [[text] for text in TEXTS]), newline=""))]
    assert not [cell for row in rows for cell in row if cell[:1] in tuple("=+@\t\r") or re.match("-[^0-9]", cell)]
    assert in_csv(["a"], [[-0.5], ["-3e-05"]]) == "a\n-0.5\n-3e-05\n"
    assert in_csv(["a"], [["=1"]], raw=True) == "a\n=1\n"


def test_markdown_has_no_markup_of_others():
    assert in_markdown("| `a` *b* [c](d) _e_ f_g") == r"\| \`a\` \*b\* \[c\](d) \_e\_ f_g"
    assert in_code("a`b") == "`` a`b ``"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_page_quotes_alike(tmp_path):
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for name in ("quoting.js", "formats.js"):
        (tmp_path / name).write_bytes((files("warmstart.service") / "static" / name).read_bytes())
    (tmp_path / "run.js").write_text(
        """import { inCsv, inLine, inPython, inYaml } from "./quoting.js";
import { asText, FORMATS } from "./formats.js";
const texts = JSON.parse(process.argv[2]);
const answer = (text) => ({ strategy: text, space: { [text]: text }, suggestions: [{ config: { [text]: text, n: -3e-7 } }] });
console.log(JSON.stringify(texts.map((text) => ({ line: inLine(text), csv: inCsv(text), python: inPython(text), yaml: inYaml(text),
  whole: Object.fromEntries(FORMATS.map((format) => [format, asText(format, answer(text))])) }))));
"""
    )
    command = ["node", "run.js", json.dumps(TEXTS)]
    answers = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, text=True).stdout)
    for text, page in zip(TEXTS, answers, strict=True):
        assert page["line"] == in_line(text)
        assert page["csv"] == in_csv([text], ())[:-1] or (text, page["csv"]) == ("", "")
        assert ast.literal_eval(page["python"]) == text
        whole = page["whole"]
        config = {text: text, "n": -3e-7} if text != "n" else {}
        assert json.loads(whole["ray"]) == [config] == json.loads(whole["configspace"])["configurations"]
        program = ast.parse(whole["optuna"])
        assert [type(line).__name__ for line in program.body] == ["Import", "Assign", "Assign", "For"]
        assert ast.literal_eval(program.body[1].value) == [config]
        if text != "\ud800":
            assert yaml.safe_load(page["yaml"]) == text
            assert yaml.safe_load(whole["yaml"]) == [config]
        table = [*csv.reader(io.StringIO(whole["csv"], newline=""))]
        assert [from_csv(cell) for cell in table[1]] == ["1", text, "-3e-7"]
