"""Suggestions for a misspelt name."""

import difflib
import re

_KNOWN = re.compile(r"expected [^.]*?(?:one of|among) (?P<known>[^.]+?), got (?P<got>'[^']*'|[^\s',.]+)(?=[ .,])")
_OPTIONS = re.compile(r" \(Possible options: (?P<options>[^)]*)\)|(?<=\w)\. Did you mean (?P<one>-\S+?)\?")
_LISTED = "`--help` lists them."
_LIBRARY = (
    (re.compile(r"^Missing (?:option|argument) '([^']+)'.*"), r"\1: expected a value, got none. `--help` tells of it."),
    (re.compile(r"^Option '([^']+)' requires an argument.*"), r"\1: expected a value, got none. Write it after that."),
    (re.compile(r"^Option '([^']+)' does not take a value.*"), r"\1: expected no value, got one. Leave it out."),
    (
        re.compile(r"^Got unexpected extra arguments?(?:\(s\))? \((.*)\)$"),
        r"expected nothing more, got \1. Put what has spaces in quotes.",
    ),
    (re.compile(r"^No such command ('[^']+')\.$"), rf"expected a command, got \1. {_LISTED}"),
    (re.compile(r"^No such command ('[^']+')\."), r"expected a command, got \1."),
    (re.compile(r"^No such option: (\S+?)\.?$"), rf"expected an option of the command, got \1. {_LISTED}"),
    (re.compile(r"^No such option: "), "expected an option of the command, got "),
    (re.compile(r"^Invalid value for '([^']+)'(?: / '[^']+')*: "), r"\1: "),
    (re.compile(r"('[^']*') is not one of ([^.]+)\.$"), r"expected one of \2, got \1. Correct it."),
    (re.compile(r"Value error, "), ""),
    (re.compile(r"Input should be a valid integer\b.*?(, got .*)?$"), r"expected a whole number\1. Correct it."),
    (re.compile(r"Input should be a valid number\b.*?(, got .*)?$"), r"expected a number\1. Correct it."),
    (
        re.compile(r"Input should be greater than or equal to (\S+?)(, got .*)?$"),
        r"expected at least \1\2. Correct it.",
    ),
    (re.compile(r"Input should be less than or equal to (\S+?)(, got .*)?$"), r"expected at most \1\2. Correct it."),
)
"""A library's own words, and ours."""


def with_hint(message: str) -> str:
    """Return a message with "Did you mean ...?" where a name in it is nearly one of those that it lists."""
    for theirs, ours in _LIBRARY:
        message = theirs.sub(ours, message)
    if found := _OPTIONS.search(message):
        options = (found["options"] or found["one"]).split(", ")
        return f"{message[: found.start()].rstrip('.')}. Did you mean {_either(options)}?"
    found = None if "Did you mean " in message else _KNOWN.search(message)
    if found is None:
        return message
    known = [name.strip(" '") for name in found["known"].replace(" or ", ", ").split(",")]
    return with_near(message, found["got"].strip("'"), known)


def with_near(message: str, given: str, known: list[str]) -> str:
    """Return a message with "Did you mean ...?" where a name is nearly one of those that are known."""
    near = closest(given, known)
    return message if near is None else f"{message.rstrip()} Did you mean {near}?"


def closest(name: str, known: list[str]) -> str | None:
    """Return the name that another is nearly spelled as; None where there is none, or it is known."""
    if name in known:
        return None
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None


def _either(names: list[str]) -> str:
    return " or ".join(names)
