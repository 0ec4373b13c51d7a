"""Execute the notebooks anew and store their outputs: ``python scripts/notebooks.py [NAME ...]``. Needs ``.[notebooks]``.

Each runs as from a checkout, in a folder of its own with ``../tests`` beside it, so that what it writes goes with it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),  # this checkout, whatever is installed
    "HF_HUB_OFFLINE": "1",
    "TQDM_DISABLE": "1",  # bars show times
    "PYTHONWARNINGS": "ignore:IProgress not found",  # tqdm, without widgets
}


def execute(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs that it has now."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(prefix="notebooks-") as place:
        (Path(place) / "tests").symlink_to(ROOT / "tests", target_is_directory=True)
        here = Path(place) / "notebooks"
        here.mkdir()
        client = NotebookClient(
            notebook, timeout=600, kernel_name="python3", record_timing=False, resources={"metadata": {"path": here}}
        )
        client.execute(env={**os.environ, **ENVIRONMENT})
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return notebook


def main(names: list[str]) -> None:
    """Execute and store all notebooks, or those whose names begin as given."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.name.startswith(tuple(names)):
            began = time.monotonic()
            nbformat.write(execute(path), path)
            print(f"{path.name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
