import os
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("untimed", deadline=None)  # timing has no place in tests: the machine may be busy
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The public data files beside the repository; not everybody has them."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"the shared data folder {folder} is not here")
    return folder


@pytest.fixture
def one_thread(monkeypatch):
    """This process and those that it starts compute with one thread: sums of another number of threads are rounded differently."""
    import torch

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_sessionfinish(session, exitstatus):
    """In CI everything must run: a skip is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter and reporter.stats.get("skipped"):
        reporter.write_line("CI runs every test that it selects: a skip is a failure", red=True)
        session.exitstatus = exitstatus or 1
