import subprocess
import sys

import pytest

import warmstart


def test_all_is_exactly_the_public_names():
    assert warmstart.__all__ == sorted(warmstart.__all__)
    assert set(warmstart.__all__) == {
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
    }
    for name in warmstart.__all__:
        assert getattr(warmstart, name) is not None
        assert name in dir(warmstart)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'sugest'"):
        getattr(warmstart, "sugest")  # noqa: B009


def test_import_loads_nothing_heavy():
    code = "import sys, warmstart; print(*{'torch', 'numpy', 'h5py', 'typer', 'PIL'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
