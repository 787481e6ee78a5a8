"""Pairs of hyperparameters of two spaces, by name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from warmstart.history_store.errors import UsageError

COMMON_NAMES: Mapping[str, str] = {
    "learningrate": "lr learnrate eta eta0 initiallr initlr lrinit initiallearningrate learningrateinit baselr baselearningrate peaklr peaklearningrate maxlr maxlearningrate lr0",
    "lrdecay": "decayrate lrdecayrate learningratedecay learningratedecayrate",
    "batchsize": "bs batch bsz batchsz minibatch minibatchsize trainbatchsize perdevicetrainbatchsize batchsizetrain batchsizepergpu",
    "weightdecay": "wd weightdecayrate l2 l2reg l2penalty l2regularization weightdecayl2",
    "dropoutrate": "dropout drop droprate dropouts dropoutp dropoutprob dropoutprobability dropprob pdrop pdropout dropoutratio",
    "momentum": "mom sgdmomentum",
    "epochs": "nepochs numepochs maxepochs numtrainepochs epoch",
    "optimizer": "opt optim optimiser optimizername",
    "activation": "act nonlinearity activationfunction",
    "numlayers": "nlayers nlayer layers depth numberoflayers",
    "numlayersconv": "nconv numconv numconvlayers nconvlayers convlayers nlayersconv convdepth",
    "numlayersfc": "nfc numfc numfclayers nfclayers fclayers nlayersfc ndenselayers numdenselayers denselayers nlinear",
    "imagesize": "imgsize imgsz inputsize resolution",
}
"""Names that mean one thing wherever they are used, letters and digits alone."""
_MEANING = {name: key for key, names in COMMON_NAMES.items() for name in (key, *names.split())}
BROADER = {"numlayersconv": "numlayers"}
"""Broader names that a narrower one may match if no other does: most layers of image networks are convolutions."""
BROADER_RULE = "broader name"
LOGARITHMS = ("log10", "log2", "ln")
_OWNERS = frozenset(
    [
        "model",
        "net",
        "network",
        "optimizer",
        "optim",
        "opt",
        "sgd",
        "adam",
        "adamw",
        "train",
        "training",
        "trainer",
        "data",
        "loader",
        "hparams",
        "hp",
        "params",
        "param",
        "args",
        "cfg",
        "config",
        "head",
        "backbone",
    ]
)
"""First words that say whose hyperparameter it is: `optimizer_lr`."""


def split_logarithm(name: str) -> tuple[str, str]:
    """Split `log10_learning_rate` into `log10` and `learning_rate`; the first is empty without such a prefix."""
    for prefix in LOGARITHMS:
        if name.lower().startswith(prefix + "_") and len(name) > len(prefix) + 1:
            return prefix, name[len(prefix) + 1 :]
    return "", name


def in_names(names: Collection[str], name: str) -> str:
    """Return a name as a space has it: `learning_rate` becomes `log10_learning_rate` if only that is there."""
    return f"log10_{name}" if name not in names and f"log10_{name}" in names else name


def both_scales(name: str) -> tuple[str, str]:
    """Return the natural and the logarithmic name of a value."""
    natural = name.removeprefix("log10_")
    return natural, f"log10_{natural}"


def last_part(name: str) -> str:
    """Return the last part of a nested name: `optimizer/lr`, `model.lr`, `sgd:lr` and `model__lr` become `lr`."""
    return re.split(r"[./:]|__", name)[-1] or name


def pair_names(
    there: Collection[str],
    here: Collection[str],
    *,
    rename: Mapping[str, str],
    guess: bool = False,
    exclusive: Callable[[Collection[str]], bool] = lambda names: False,  # noqa: ARG005
) -> tuple[dict[str, str], dict[str, str]]:
    """Pair the names of two spaces.

    In this order, each name once: as `rename` says; the same name; the same letters and digits; the same but for a
    logarithm before it, or two common names of one thing; the same last part of a nested name; with `guess`, a broader
    name. Where several names of one space would fit, none is taken.

    Args:
        there: names of the other space.
        here: names of ours.
        rename: ours by theirs.
        guess: pair `n_layers` with `num_layers_conv` too.
        exclusive: returns whether at most one of several of ours is active; one of theirs then matches all of them.

    Returns: theirs by ours; and, by theirs, ours of an ambiguous match.

    Raises:
        UsageError: `rename` names what neither space has, or one of ours twice.
    """
    pairs: dict[str, str] = {}
    for source, target in rename.items():
        if source not in there:
            raise _unknown_name(source, "source", there)
        if target not in here:
            raise _unknown_name(target, "space", here)
        if target in pairs:
            msg = f"expected each name of the space once, got {target!r} for {pairs[target]!r} and for {source!r}. Leave one of them out."
            raise UsageError(msg, param="rename")
        pairs[target] = source
    rivals: dict[str, str] = {}
    for level in (*_LEVELS.values(), _broader_meaning)[: None if guess else -1]:
        theirs = _group_names([name for name in there if name not in pairs.values()], level)
        ours = _group_names([name for name in here if name not in pairs], level)
        for key in theirs.keys() & ours.keys():
            if len(theirs[key]) == 1 and (len(ours[key]) == 1 or exclusive(ours[key])):
                pairs.update(dict.fromkeys(ours[key], theirs[key][0]))
            else:
                rivals.update(dict.fromkeys(theirs[key], ", ".join(ours[key])))
    taken = set(pairs.values())
    return pairs, {source: targets for source, targets in rivals.items() if source not in taken}


def _unknown_name(name: str, noun: str, names: Collection[str]) -> UsageError:
    msg = f"expected a name of the {noun} ({', '.join(names)}), got {name!r}. Correct it."
    return UsageError(msg, param="rename", given=name, choices=names)


def pairing_rule(there: str, here: str) -> str:
    """Return the rule by which two names are a pair, in words: the first that holds, in the order of `pair_names`."""
    return next((rule for rule, level in _LEVELS.items() if level(there) == level(here)), BROADER_RULE)


def _group_names(names: Collection[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return groups


def _letters(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _scaleless(name: str) -> str:
    return _letters(split_logarithm(name)[1])


def meaning_of(name: str) -> str:
    """Return the key of `COMMON_NAMES` to which a name belongs, else its letters."""
    root = _scaleless(name)
    return _MEANING.get(root, root)


def _last_meaning(name: str) -> str:
    """Return the meaning of the last part of a nested name, without its owner."""
    last = split_logarithm(last_part(name))[1]
    first, _, rest = last.partition("_")
    name_part = rest if rest and first.casefold() in _OWNERS and _letters(last) not in _MEANING else last
    meaning = meaning_of(name_part)
    is_weight = meaning == "lrdecay" and re.search("weight|l2", name.casefold()) is not None
    return "weightdecay" if is_weight else meaning


def _broader_meaning(name: str) -> str:
    meaning = _last_meaning(name)
    return BROADER.get(meaning, meaning)


_LEVELS: Mapping[str, Callable[[str], str]] = {
    "same name": str,
    "same letters": _letters,
    "same name but for its scale": _scaleless,
    "common name": meaning_of,
    "last part of the name": _last_meaning,
}
"""Keys of a name that must be equal, by the rule's name; strictest first."""


Columns = Mapping[str, Sequence[object]]


def join_spellings(params: Columns, *, ours: Collection[str], apart: Collection[str]) -> tuple[Columns, dict[str, str]]:
    """Join the columns of names that mean one thing, such as `lr` and `learning_rate`, `epochs` and `Epochs`.

    Columns stay apart where a run has different values under two of the names.

    Args:
        params: `n` values a name, None = not set.
        ours: names of our space; one of these is the name that remains, else the one with the most values.
        apart: names that are left as they are.

    Returns: the columns; and the name that each joined one went to.
    """
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in params:
        if name not in apart:
            groups[split_logarithm(name)[0], meaning_of(name)].append(name)
    joined, target_by_name = dict(params), dict[str, str]()
    for names in groups.values():
        rows = list(zip(*(params[name] for name in names), strict=True))
        values = [{str(value): value for value in row if value is not None} for row in rows]
        if len(names) < 2 or any(len(distinct) > 1 for distinct in values):
            continue
        counts = {name: sum(value is not None for value in params[name]) for name in names}
        target = max(names, key=lambda name: (name in ours, counts[name]))
        if counts[target] == sum(map(bool, values)):
            continue  # no other name adds to it
        joined[target] = [next(iter(distinct.values()), None) for distinct in values]
        for name in names:
            if name != target:
                del joined[name]
                target_by_name[name] = target
    return joined, target_by_name
