#!/usr/bin/env python3
"""Print which architecture takes which path, as a run decides it, and how exact that path is.

python scripts/architecture_table.py [--only NAME ...] [--check README.md | --write README.md]

For each tiny random model of tests/tiny_models.py the judge chooses its path by the proof at start, then reads one item under
all orderings of four levels, in float32, by that path and by plain forwards. `--check` compares paths and reasons with the
table in a file (not attention and differences, which other versions and machines have others of) and exits 1 where they
are not the same.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import tiny_models

from logitjudge import models
from logitjudge.backends.hf.load import quiet
from logitjudge.core import Level, Rubric
from logitjudge.study import study

BEGIN, END = "<!-- architectures:begin -->", "<!-- architectures:end -->"
HEAD = ("architecture", "attention", "path", "why not packed", "largest difference, nats")
ORDER = ("packed", "shared", "plain")
NUMBERS = re.compile(r"[\d.e-]+ nats")
TEMPLATE = '---\nprefill: "The score is "\n---\n{{ instruction }}\n{{ response }}\n{{ criterion_line }}\n{{ levels }}\n'


@dataclass(frozen=True, slots=True)
class Line:
    """What was found for one architecture; `nats` is None where the path is plain itself."""

    name: str
    attention: str
    path: str
    reason: str
    nats: float | None


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, then print, check or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(tiny_models.ARCHITECTURES)
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="a check then looks at these alone")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", type=Path, metavar="FILE")
    what.add_argument("--write", type=Path, metavar="FILE")
    args = parser.parse_args(argv)
    if args.write and args.only:
        parser.error("--write takes all architectures")
    lines = [measure(name) for name in args.only or names]
    if args.check:
        return check(lines, args.check.read_text(encoding="utf-8"), whole=not args.only)
    if args.write:
        args.write.write_text(written(lines, args.write.read_text(encoding="utf-8")), encoding="utf-8")
    print(table(lines))
    return 0


def measure(name: str) -> Line:
    """Let the judge choose, then compare its readings with plain ones."""
    with quiet():
        model, tokenizer = tiny_models.judge(name)
        judge = models.open_backend(models.parse(model, tokenizer=tokenizer))
        queries = asked(judge)
        judge.prepare(queries, queries)
        nats = difference(judge, queries)
    known = judge.provenance()
    reasons = {refused["path"]: refused["reason"] for refused in known["refused_paths"]}
    return Line(name, known["attention"], known["path"], reasons.get("packed", ""), nats)


def asked(judge: Any) -> Any:
    """One item under all orderings of four levels."""
    rubric = Rubric("short", "Is it true?", tuple(Level(k, f"text {'abcd'[k - 1]}") for k in range(1, 5)))
    with tempfile.TemporaryDirectory() as folder:
        template = Path(folder) / "short.j2"
        template.write_text(TEMPLATE, encoding="utf-8")
        made = study(tiny_models.items(1, rubric), orderings="full", template=template)
        return made.queries(judge, made.itemset.items)


def difference(judge: Any, queries: Any) -> float | None:
    """Largest difference from the plain forward, over all options of all queries, in nats."""
    plain = judge.read_plain(queries)
    if plain is None:
        return None
    read = judge.read(queries, judge.token_budget())
    rows = zip(read.logp, plain.logp, strict=True)
    return float(max(abs(a - b) for ours, theirs in rows for a, b in zip(ours, theirs, strict=True)))


def table(lines: Iterable[Line]) -> str:
    """Markdown; architectures of which the same is said share a row, with the largest of their differences."""

    def said(line: Line) -> tuple[int, str, str]:
        return ORDER.index(line.path), line.reason, line.attention

    rows = [HEAD, ("---",) * len(HEAD)]
    for (path, reason, attention), alike in groupby(sorted(lines, key=lambda line: (said(line), line.name)), said):
        group = list(alike)
        measured = [line.nats for line in group if line.nats is not None]
        shown = f"{max(measured):.0e}" if measured else "-"
        rows.append((", ".join(line.name for line in group), attention, ORDER[path], reason.replace("|", "\\|"), shown))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def parts(text: str) -> tuple[str, str, str]:
    """What stands before, between and behind the marks."""
    found = re.split(f"{BEGIN}|{END}", text)
    if len(found) != 3 or not text.find(BEGIN) < text.find(END):
        raise SystemExit(f"there must be one {BEGIN} and, behind it, one {END} in the file")
    before, between, behind = found
    return before, between, behind


def written(lines: Iterable[Line], text: str) -> str:
    """The text with the table between its marks."""
    before, _, behind = parts(text)
    return f"{before}{BEGIN}\n{table(lines)}\n{END}{behind}"


def check(lines: Sequence[Line], text: str, *, whole: bool) -> int:
    """0 where the text says the same (of these architectures, where they are not the whole), else 1, and prints a diff."""
    names = {line.name for line in lines}
    ours = sorted(told(table(lines)))
    theirs = sorted(row for row in told(parts(text)[1]) if whole or row.partition(":")[0] in names)
    if theirs == ours:
        print(f"{len(ours)} architectures: as the file says")
        return 0
    print("\n".join(difflib.unified_diff(theirs, ours, "the file", "this machine", lineterm="")))
    return 1


def told(markdown: str) -> Iterator[str]:
    """``name: path, reason`` for each architecture of a table."""
    for line in markdown.strip().splitlines()[2:]:
        names, _, path, reason, _ = line.removeprefix("| ").removesuffix(" |").split(" | ")
        yield from (f"{name}: {path}, {NUMBERS.sub('... nats', reason)}" for name in names.split(", "))


if __name__ == "__main__":
    sys.exit(main())
