"""Wrap paragraphs of Markdown pages that have a line beyond 120 columns; ``python scripts/wrap_prose.py docs/*.md``.

Code spans and links stay on one line. Fenced examples, tables, headings, pictures and indented formulas stay as they are.
"""

import re
import sys
from pathlib import Path

COLUMNS = 120
ATOM = re.compile(r"\s+|`+[^`]*`+|\]\([^)]*\)|[^\s`\]]+|\]|`")
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
FIXED = re.compile(r"\s*\||#|<|!\[|\[[^\]]+\]: |    ")


def words(text):
    """Return the words of a text; a code span, and the target of a link, count as parts of one word."""
    found, word = [], ""
    for match in ATOM.finditer(text):
        if match[0].isspace():
            found.append(word)
            word = ""
        else:
            word += match[0]
    joined = []
    for each in filter(None, (*found, word)):
        if joined and ITEM.match(f"{each} "):  # at the head of a line it would begin a list
            joined[-1] += f" {each}"
        else:
            joined.append(each)
    return joined


def wrapped(paragraph):
    """Return the lines of a paragraph, wrapped if one of them is too long."""
    if all(len(line) <= COLUMNS for line in paragraph):
        return paragraph
    item = ITEM.match(paragraph[0])
    first = item[0] if item else re.match(r"\s*", paragraph[0])[0]
    lines, line = [], first
    for word in words(" ".join([paragraph[0][len(first) :], *paragraph[1:]])):
        if line != first and len(line) + 1 + len(word) > COLUMNS:
            lines.append(line)
            line = f"{' ' * len(first)}{word}"
        else:
            line += word if line == first else f" {word}"
    return [*lines, line]


def wrap(text):
    """Return a page with its long paragraphs wrapped."""
    out, paragraph, fenced = [], [], False
    for line in [*text.split("\n"), ""]:
        fence = line.lstrip().startswith("```")
        if fence or fenced or not line.strip() or FIXED.match(line) or ITEM.match(line):
            out += wrapped(paragraph)
            paragraph = []
        if fence or fenced or not line.strip() or FIXED.match(line):
            out.append(line)
        else:
            paragraph.append(line)
        fenced ^= fence
    return "\n".join(out[:-1])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(wrap(page.read_text(encoding="utf-8")), encoding="utf-8")
