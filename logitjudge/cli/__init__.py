"""The command line: one file a command.

A module of this folder whose name has no leading underscore is a command; its function of the same name does the work
(a trailing underscore is dropped: ``list_``), its docstring is the help, and its ``EXAMPLES``, if any, end the help.
Modules import what is heavy inside their functions, so that ``--help`` is quick.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from logitjudge import __version__
from logitjudge.cli import _console
from logitjudge.errors import InputError

ORDER = (
    "demo",
    "run",
    "pairwise",
    "show",
    "calibrate",
    "probe",
    "card",
    "sweep",
    "merge",
    "select",
    "compare",
    "report",
    "plot",
    "plan",
    "detect",
    "prompts",
    "doctor",
    "bench",
    "parity",
    "export",
    "list_",
)
USAGE: type[Exception] = typer.BadParameter.__bases__[
    0
]  # click's UsageError: newer versions of typer bring a click of their own
FOREIGN = r"(transformers|torch|accelerate|huggingface_hub|gguf|safetensors|peft|numpy|jinja2)(\.|$)"


def commands() -> list[str]:
    """Names of the command modules, in the order of the help; those that `ORDER` does not know come last."""
    found = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    return sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def build() -> typer.Typer:
    """Make the application with all its commands."""
    app = typer.Typer(
        rich_markup_mode=None, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
    )
    app.callback(invoke_without_command=True)(_root)
    for name in commands():
        module = importlib.import_module(f"{__name__}.{name}")
        app.command(name.rstrip("_"), epilog=_examples(getattr(module, "EXAMPLES", "")))(getattr(module, name))
    return app


def _examples(text: str) -> str | None:
    """Examples as the help prints them: verbatim, under a heading."""
    lines = [f"  {line.strip()}" for line in text.strip().splitlines()]
    return "\n".join(["\b", "Examples:", *lines]) if lines else None


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"logitjudge {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Exact score x position probabilities of open-weight LLM judges, under every ordering of the rubric."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns
    -------
    int
        0 done; 1 internal failure; 2 the user's input is wrong; 3 some items were refused; 130 interrupted.
    """
    with warnings.catch_warnings():
        _quiet_warnings()
        try:
            code: Any = build()(args=args, prog_name="logitjudge", standalone_mode=False)
        except InputError as error:
            return _console.fail(str(error))
        except USAGE as error:
            return _console.fail(_usage(error))
        except (KeyboardInterrupt, typer.Abort):
            return 130
        except BrokenPipeError:  # the reader of our output has gone: say nothing more, not even at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except Exception:
            traceback.print_exc()
            return 1
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> str:
    """Message of a wrong command line, with where to look."""
    path = getattr(error.ctx, "command_path", "logitjudge")
    return f"{error.format_message().rstrip('.')}. See: {path} --help"


def _quiet_warnings() -> None:
    """Our own warnings on one line each; other libraries' only where Python shows them and they concern the user."""
    warnings.showwarning = lambda message, *_, **__: _console.note(f"warning: {message}")
    warnings.filterwarnings("always", module=r"logitjudge(\.|$)")
    if "-v" not in sys.argv and "--verbose" not in sys.argv:
        warnings.filterwarnings("ignore", module=FOREIGN)
