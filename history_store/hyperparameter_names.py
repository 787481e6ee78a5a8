"""Pairs of hyperparameters of two spaces, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

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
"""What a narrower name may stand for where nothing else does: most layers of a network for images are convolutions."""
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
    """Split `log10_learning_rate` into `log10` and `learning_rate`; the first is empty where there is no such prefix."""
    for prefix in LOGARITHMS:
        if name.lower().startswith(prefix + "_") and len(name) > len(prefix) + 1:
            return prefix, name[len(prefix) + 1 :]
    return "", name


def in_names(names: Collection[str], name: str) -> str:
    """Return the name that a natural one stands for: `learning_rate` where only `log10_learning_rate` is there."""
    return f"log10_{name}" if name not in names and f"log10_{name}" in names else name


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
        exclusive: tells of several of ours whether never two of them are active; one of theirs is then all of them.

    Returns: theirs by ours; and, by theirs, which of ours it could have been where others could have been it as well.

    Raises:
        UsageError: `rename` names what neither space has, or one of ours twice.
    """
    pairs: dict[str, str] = {}
    for source, target in rename.items():
        if source not in there:
            raise _unknown(source, "source", there)
        if target not in here:
            raise _unknown(target, "space", here)
        if target in pairs:
            msg = f"expected each name of the space once, got {target!r} for {pairs[target]!r} and for {source!r}. Leave one of them out."
            raise UsageError(msg, param="rename")
        pairs[target] = source
    rivals: dict[str, str] = {}
    for level in (*_LEVELS.values(), _broader)[: None if guess else -1]:
        theirs = _grouped([name for name in there if name not in pairs.values()], level)
        ours = _grouped([name for name in here if name not in pairs], level)
        for key in theirs.keys() & ours.keys():
            if len(theirs[key]) == 1 and (len(ours[key]) == 1 or exclusive(ours[key])):
                pairs.update(dict.fromkeys(ours[key], theirs[key][0]))
            else:
                rivals.update(dict.fromkeys(theirs[key], ", ".join(ours[key])))
    taken = set(pairs.values())
    return pairs, {source: targets for source, targets in rivals.items() if source not in taken}


def _unknown(name: str, where: str, known: Collection[str]) -> UsageError:
    msg = f"expected a name of the {where} ({', '.join(known)}), got {name!r}. Correct it."
    return UsageError(msg, param="rename", given=name, choices=known)


def pairing_rule(there: str, here: str) -> str:
    """Say by which rule two names are a pair, in words: the first of those of `pair_names` that holds."""
    return next((rule for rule, level in _LEVELS.items() if level(there) == level(here)), BROADER_RULE)


def _grouped(names: Collection[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return groups


def _letters(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _scaleless(name: str) -> str:
    return _letters(split_logarithm(name)[1])


def meaning_of(name: str) -> str:
    """Return the key of `COMMON_NAMES` that a name stands for, else its letters."""
    root = _scaleless(name)
    return _MEANING.get(root, root)


def _last_meaning(name: str) -> str:
    """Return what the last part of a nested name stands for, its owner left out."""
    last = split_logarithm(last_part(name))[1]
    first, _, rest = last.partition("_")
    own = rest if rest and first.casefold() in _OWNERS and _letters(last) not in _MEANING else last
    found = meaning_of(own)
    is_weight = found == "lrdecay" and re.search("weight|l2", name.casefold()) is not None
    return "weightdecay" if is_weight else found


def _broader(name: str) -> str:
    found = _last_meaning(name)
    return BROADER.get(found, found)


_LEVELS: Mapping[str, Callable[[str], str]] = {
    "same name": str,
    "same letters": _letters,
    "same name but for its scale": _scaleless,
    "common name": meaning_of,
    "last part of the name": _last_meaning,
}
"""What must be equal, by the rule's name; strictest first."""
