import pytest

from warmstart.training.siamese.checkpoint import Curves, Validation

CURVES = Curves([0.5, 0.25, 0.2], [Validation(2, 0.1, 0.6, 0.5), Validation(3, 0.1, 0.7, 0.6)], "done")


def test_json_round_trip(tmp_path):
    CURVES.save(tmp_path / "c.json")
    assert Curves.load(tmp_path / "c.json") == CURVES


@pytest.mark.parametrize("curves", [CURVES, Curves()])
def test_plot_writes_a_picture(tmp_path, curves):
    pytest.importorskip("matplotlib")
    curves.plot(tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
