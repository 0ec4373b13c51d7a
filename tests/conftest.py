from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"the shared data folder {folder} is not here")
    return folder
