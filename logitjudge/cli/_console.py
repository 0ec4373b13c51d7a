"""What every command shares: where text goes, how numbers look, options that several commands have."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logitjudge.errors import InputError, unknown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from logitjudge.run import Run

ABSENT = "-"
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
SILENT = {
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",  # read when tqdm is imported
}


def out() -> Console:
    """Console of results: the terminal's width, 80 columns where there is none, and no escape codes there."""
    from rich.console import Console

    class Plain(Console):
        """A console whose texts command nothing: ids, names and notes come from files of other people."""

        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(printable(text), **how)

    return Plain(highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """A text in which control characters, which a terminal would obey, are written out."""
    return text.translate(CONTROLS)


def note(text: str) -> None:
    """Print one line to stderr."""
    print(printable(" ".join(text.split("\n"))), file=sys.stderr, flush=True)


def fail(message: str) -> int:
    """Print the one message of a mistake, and give the exit code for it."""
    print(f"error: {printable(message.strip())}", file=sys.stderr, flush=True)
    return 2


def print_json(value: Any) -> None:
    """Print one JSON value to stdout, in ASCII, so that every terminal and pipe can carry it."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def rubric_run(folder: str, partial: bool = False) -> Run:
    """Load a run that was judged by a rubric. Raises `InputError` where it is of another kind."""
    from logitjudge.store import load_run

    run = load_run(folder, partial=partial)
    run.require_kind("rubric")
    return run


def run_names(folders: Sequence[str]) -> list[str]:
    """A run is named by its folder; by the whole path where two folders have one name."""
    paths = [Path(folder) for folder in folders]
    last = [path.resolve().name for path in paths]
    return last if len(set(last)) == len(last) else [str(path) for path in paths]


def one_of(kind: str, value: str, known: Iterable[str]) -> str:
    """`value`, if it is a known one. Raises `InputError` with the nearest."""
    if value not in (names := list(known)):
        raise InputError(unknown(kind, value, names))
    return value


def ordering(values: Iterable[int]) -> str:
    """Write an ordering as the command line does."""
    return ",".join(map(str, values))


def percent(value: float | None) -> str:
    """Write a probability in percent, at most four characters wide, without the sign."""
    if value is None:
        return ABSENT
    return "100" if value >= 0.9995 else f"{100 * value:.1f}"


def number(value: float | None, form: str = ".3f") -> str:
    """Write a number with sensible digits."""
    return ABSENT if value is None else format(value, form)


def plural(count: int, thing: str) -> str:
    """``1 item``, ``2 items``."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _verbosity(wanted: bool) -> bool:
    if wanted:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
        logging.getLogger("logitjudge").setLevel(logging.INFO)
    else:
        for name, value in SILENT.items():
            os.environ.setdefault(name, value)
    return wanted


Folder = Annotated[str, typer.Argument(metavar="DIR", help="A run folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value instead of tables.")]
Partial = Annotated[
    bool, typer.Option("--partial", help="Take an unfinished run: the items whose readings are all there.")
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", callback=_verbosity, help="Show what the libraries underneath say, and their progress bars."
    ),
]
