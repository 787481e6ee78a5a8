import sys
from pathlib import Path

import pytest

from warmstart.history_store.errors import UsageError
from warmstart.plots.style import check_target, new_figure, save_figure, series, styled


def picture(path, name="a dataset"):
    with styled():
        figure = new_figure(3, 2)
        figure.add_subplot().plot([1, 2], [3, 4], label=name)
        figure.legend()
        save_figure(figure, path)
    return path.read_bytes()


@pytest.mark.parametrize("ending", ["svg", "PNG"])
def test_the_same_picture_has_the_same_bytes_and_no_date(tmp_path, ending):
    first, second = (picture(tmp_path / f"{i}.{ending}") for i in range(2))
    assert first == second
    assert first.startswith(b"\x89PNG" if ending.lower() == "png" else b"<?xml")
    assert b"Matplotlib v" not in first
    assert b"<dc:date>" not in first


def test_the_users_own_settings_do_not_count(tmp_path):
    import matplotlib as mpl

    with mpl.rc_context({"lines.linewidth": 9, "font.size": 30, "svg.fonttype": "path"}):
        changed = picture(tmp_path / "a.svg")
        assert mpl.rcParams["font.size"] == 30
    assert changed == picture(tmp_path / "b.svg")


@pytest.mark.parametrize("name", ["数字 Ä/ö ☃", "cost in $ and $x^2$"])
def test_any_name_is_drawn_as_it_is(tmp_path, name):
    assert name in picture(tmp_path / "a.svg", name).decode()
    assert picture(tmp_path / "a.png", name)


def test_no_two_of_eight_look_alike_in_colour_or_in_print():
    looks = [series(number) for number in range(8)]
    for part in ("colour", "dash", "marker", "hatch"):
        assert len({str(getattr(look, part)) for look in looks}) == 8
    assert len({(look.colour, str(look.dash)) for look in map(series, range(24))}) == 24


def test_what_cannot_be_drawn_is_refused_beforehand(tmp_path, monkeypatch):
    check_target(tmp_path / "a.svg")
    check_target(Path("map.png"))
    with pytest.raises(UsageError, match=r"out: expected a file that ends in .png or .svg, got .*a.jpg"):
        check_target(tmp_path / "a.jpg")
    with pytest.raises(UsageError, match="out: expected a file in a folder that exists"):
        check_target(tmp_path / "none" / "a.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"A plot needs the extra `plots`: pip install 'warmstart\[plots\]'"):
        check_target(tmp_path / "a.svg")
