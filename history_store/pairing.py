"""Which hyperparameter of another space is which of ours, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from history_store.errors import UsageError

ABBREVIATIONS = {"lr": "learningrate", "bs": "batchsize", "wd": "weightdecay", "dropout": "dropoutrate"}
"""Short names that mean one thing only, letters and digits alone."""
LOGARITHMS = ("log10", "log2", "ln")


def split_logarithm(name: str) -> tuple[str, str]:
    """Split `log10_learning_rate` into `log10` and `learning_rate`; the first is empty where there is no such prefix."""
    for prefix in LOGARITHMS:
        if name.lower().startswith(prefix + "_") and len(name) > len(prefix) + 1:
            return prefix, name[len(prefix) + 1 :]
    return "", name


def last_part(name: str) -> str:
    """Give the last part of a nested name: `optimizer/lr` and `model.lr` become `lr`."""
    return re.split(r"[./]", name)[-1] or name


def pair_names(
    there: Collection[str], here: Collection[str], *, rename: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Pair the names of two spaces.

    In this order, each name once: as `rename` says; the same name; the same letters and digits; the same but for
    a logarithm before it or an abbreviation; the same last part of a nested name. Where several names of one space would
    fit, none is taken.

    Args:
        there: names of the other space.
        here: names of ours.
        rename: ours by theirs.

    Returns: theirs by ours; and, by theirs, which of ours it could have been where others could have been it as well.

    Raises:
        UsageError: `rename` names what neither space has, or one of ours twice.
    """
    pairs: dict[str, str] = {}
    for source, target in rename.items():
        if source not in there or target not in here or target in pairs:
            known = f"{', '.join(there)} = {', '.join(here)}"
            msg = f"expected a name of the source and one of the space ({known}), each once, got '{source}={target}'. Correct it."
            raise UsageError(msg, param="rename")
        pairs[target] = source
    rivals: dict[str, str] = {}
    levels: tuple[Callable[[str], str], ...] = (str, _letters, _root, lambda name: _root(last_part(name)))
    for level in levels:
        theirs = _grouped([name for name in there if name not in pairs.values()], level)
        ours = _grouped([name for name in here if name not in pairs], level)
        for key in theirs.keys() & ours.keys():
            if len(theirs[key]) == len(ours[key]) == 1:
                pairs[ours[key][0]] = theirs[key][0]
            else:
                rivals.update(dict.fromkeys(theirs[key], ", ".join(ours[key])))
    taken = set(pairs.values())
    return pairs, {source: targets for source, targets in rivals.items() if source not in taken}


def _grouped(names: Collection[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return groups


def _letters(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _root(name: str) -> str:
    root = _letters(split_logarithm(name)[1])
    return ABBREVIATIONS.get(root, root)
