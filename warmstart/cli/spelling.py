"""Hints "Did you mean ...?" for misspelt names, and Typer's messages in our words."""

import difflib
import re

FORMER_NAMES = {"train": "fit-similarity"}
"""Names of commands in 0.2, and their present ones."""
_CHOICES = re.compile(r"expected [^.]*?(?:one of|among) (?P<choices>[^.]+?), got (?P<got>'[^']*'|[^\s',.]+)(?=[ .,])")
_OPTIONS = re.compile(r" \(Possible options: (?P<options>[^)]*)\)|(?<=\w)\. Did you mean (?P<option>-\S+?)\?")
_HELP_HINT = "`--help` lists them."
_LIBRARY = (
    (re.compile(r"^Missing (?:option|argument) '([^']+)'.*"), r"\1: expected a value, got none. `--help` tells of it."),
    (re.compile(r"^Option '([^']+)' requires an argument.*"), r"\1: expected a value, got none. Write it after that."),
    (re.compile(r"^Option '([^']+)' does not take a value.*"), r"\1: expected no value, got one. Leave it out."),
    (
        re.compile(r"^Got unexpected extra arguments?(?:\(s\))? \((.*)\)$"),
        r"expected nothing more, got \1. Put what has spaces in quotes.",
    ),
    (re.compile(r"^No such command ('[^']+')\.$"), rf"expected a command, got \1. {_HELP_HINT}"),
    (re.compile(r"^No such command ('[^']+')\."), r"expected a command, got \1."),
    (re.compile(r"^No such option: (\S+?)\.?$"), rf"expected an option of the command, got \1. {_HELP_HINT}"),
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
"""Messages of Click and Typer as patterns, and their replacements."""


def with_hint(message: str) -> str:
    """Add "Did you mean ...?" to a message whose wrong name is close to one that it lists."""
    for theirs, ours in _LIBRARY:
        message = theirs.sub(ours, message)
    if match := _OPTIONS.search(message):
        options = (match["options"] or match["option"]).split(", ")
        return f"{message[: match.start()].rstrip('.')}. Did you mean {_either(options)}?"
    match = None if "Did you mean " in message else _CHOICES.search(message)
    if match is None:
        return message
    names = [name.strip(" '") for name in match["choices"].replace(" or ", ", ").split(",")]
    return with_near(message, match["got"].strip("'"), names)


def with_near(message: str, name: str, choices: list[str]) -> str:
    """Add "Did you mean ...?" to a message if a choice is close to the wrong name."""
    near = closest(name, choices)
    return message if near is None else f"{message.rstrip()} Did you mean {near}?"


def closest(name: str, choices: list[str]) -> str | None:
    """Return the choice closest in spelling to a name; None if none is close or the name is a choice."""
    if name in choices:
        return None
    by_lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None


def _either(names: list[str]) -> str:
    return " or ".join(names)
