"""The page on objectives names what there is."""

from pathlib import Path

from warmstart.studies.objectives.base import TrialStatus

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tune.md").read_text(encoding="utf-8")


def test_the_page_names_every_status():
    assert {status for status in TrialStatus if f"`{status}`" not in PAGE} == {TrialStatus.OK}
