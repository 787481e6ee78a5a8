"""Warm starts for hyperparameter search on image datasets.

Names load on first use: ``import warmstart`` does not import numpy, h5py or torch.
"""

TYPE_CHECKING = False
# Nothing is imported here: with `python -m warmstart`, a file of the working folder may still stand first.
if TYPE_CHECKING:
    from typing import Any

    from warmstart.api import answer, neighbours, suggest
    from warmstart.classification.classify import classify
    from warmstart.client import Client
    from warmstart.descriptor import Descriptor
    from warmstart.pickles import load_pickle
    from warmstart.prediction import Prediction, Predictions, predict
    from warmstart.studies.results.summary import JointResult, TuneResult
    from warmstart.studies.tune import tune, tune_many
    from warmstart.suggestions.advisor import Advisor
    from warmstart.suggestions.answer import Answer
    from warmstart.suggestions.location import Location
    from warmstart.suggestions.records import Confidence, InitialDesign, Neighbour

    __version__: str

_HOMES = {
    "Advisor": "warmstart.suggestions.advisor",
    "Answer": "warmstart.suggestions.answer",
    "Client": "warmstart.client",
    "Confidence": "warmstart.suggestions.answer",
    "Descriptor": "warmstart.descriptor",
    "InitialDesign": "warmstart.suggestions.answer",
    "JointResult": "warmstart.studies.results.summary",
    "Location": "warmstart.suggestions.location",
    "Neighbour": "warmstart.suggestions.answer",
    "Prediction": "warmstart.prediction",
    "Predictions": "warmstart.prediction",
    "TuneResult": "warmstart.studies.results.summary",
    "answer": "warmstart.api",
    "classify": "warmstart.classification.classify",
    "load_pickle": "warmstart.pickles",
    "neighbours": "warmstart.api",
    "predict": "warmstart.prediction",
    "suggest": "warmstart.api",
    "tune": "warmstart.studies.tune",
    "tune_many": "warmstart.studies.tune",
}

__all__ = [
    "Advisor",
    "Answer",
    "Client",
    "Confidence",
    "Descriptor",
    "InitialDesign",
    "JointResult",
    "Location",
    "Neighbour",
    "Prediction",
    "Predictions",
    "TuneResult",
    "__version__",
    "answer",
    "classify",
    "load_pickle",
    "neighbours",
    "predict",
    "suggest",
    "tune",
    "tune_many",
]


def __getattr__(name: str) -> "Any":
    """Load a public name from its module."""
    if name == "__version__":
        from importlib.metadata import version

        return version("warmstart")
    if name not in _HOMES:
        msg = f"module 'warmstart' has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module
    from warnings import filterwarnings

    # Optuna loads tqdm, which asks notebooks for a widget that nobody uses here.
    filterwarnings("ignore", "IProgress not found")
    globals()[name] = value = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*globals(), *__all__})
