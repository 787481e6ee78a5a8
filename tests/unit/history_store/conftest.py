"""A history that is made once a module, and a copy of it for each test that asks for its path."""

import shutil
from pathlib import Path

import histories
import pytest


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    with histories.to_be_copied():
        histories.filled(folder / "h.h5").close()
    return folder


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return tmp_path / "h.h5"
