"""``logitjudge show``: the tables of a run."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logitjudge.cli import _console, _tables
from logitjudge.errors import InputError

if TYPE_CHECKING:
    from logitjudge.run import Run

NAMES = ("uncertainty", "where", "people")
EXAMPLES = """
  logitjudge show runs/demo
  logitjudge show runs/demo --json > demo.json
  logitjudge show runs/demo --min-mass 0.5
  logitjudge show runs/demo --section where
  logitjudge show runs/going-on --partial
"""


def show(
    folder: _console.Folder,
    as_json: _console.AsJson = False,
    partial: _console.Partial = False,
    min_mass: Annotated[
        float | None,
        typer.Option(
            "--min-mass", metavar="X", help="Leave items out where some ordering has less mass; shown with and without."
        ),
    ] = None,
    aliases: Annotated[
        str,
        typer.Option("--aliases", help="ignore, or sum: count other forms of an option (' 4', 'four') as the option."),
    ] = "ignore",
    section: Annotated[
        list[str] | None,
        typer.Option(
            "--section", metavar="NAME", help=f"Print this part instead: {', '.join(NAMES)}, or all. Repeatable."
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", metavar="NAME", help="Debiasers to compare with the ratings (see 'list debiasers')."),
    ] = None,
) -> None:
    """Print the tables of a run.

    Score x position matrices, position distribution, Bias Cost, mass, noise floor, and agreement with the ratings. What was
    not observed is '-', with the reason below; in JSON it is null. --section shows more; --json has all.
    """
    from logitjudge.report.sections import sections
    from logitjudge.report.summary import summary
    from logitjudge.scored import is_scored
    from logitjudge.store import load_run

    if is_scored(folder):
        given = {
            "--min-mass": min_mass is not None, "--section": section is not None, "--method": method is not None,
            "--partial": partial, "--aliases": aliases != "ignore",
        }  # fmt: skip
        if unused := [name for name, there in given.items() if there]:
            raise InputError(f"{folder} holds pairs with points, for which {unused[0]} means nothing. Leave it out.")
        _scored(folder, as_json)
        return
    counted = _console.one_of("value for --aliases", aliases, ("ignore", "sum"))
    run = load_run(folder, partial=partial, aliases=counted)  # type: ignore[arg-type]  # one_of checked it
    if run.kind == "pairwise":
        _pairs(folder, run.select(run.enough_mass(min_mass)) if min_mass is not None else run, as_json)
        return
    kept = run if min_mass is None else run.select(run.enough_mass(min_mass))
    if section and not as_json:
        names = NAMES if "all" in section else section
        for name, part in sections(kept, names).items():
            _section(name).show(_console.out(), part)
        return
    made = summary(run, methods=method, min_mass=min_mass)
    if as_json:
        _console.print_json({**made, **sections(kept, NAMES)})
    else:
        _tables.print_summary(_console.out(), folder, made)


def _scored(folder: str, as_json: bool) -> None:
    """Print the numbers of pairs with points."""
    from logitjudge.cli._sections import scored as tables
    from logitjudge.report.scored import section
    from logitjudge.scored import load_scored

    made = section(load_scored(folder))
    if as_json:
        _console.print_json(made)
    else:
        tables.show(_console.out(), made)


def _pairs(folder: str, run: Run, as_json: bool) -> None:
    """Print the numbers of a pairwise run."""
    from logitjudge.report.pairs import summary

    made = summary(run)
    if as_json:
        _console.print_json(made)
    else:
        _tables.print_pairs(_console.out(), folder, made)


def _section(name: str) -> Any:
    """What prints a section."""
    return importlib.import_module(f"logitjudge.cli._sections.{name}")
