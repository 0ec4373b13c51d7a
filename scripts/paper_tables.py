"""The paper's figure and tables from run folders: ``python scripts/paper_tables.py RUN... [--placebo RUN...]``.

Each RUN is one judge on one dataset, read under the ten balanced orderings (or all). --placebo takes runs of the same judges and
items under the identity ordering with other words (another template or rubric text); --sampled takes sampled runs of that
ordering. --csv DIR also writes every table there. No model is opened.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

import pandas as pd

from logitjudge.errors import InputError
from logitjudge.measures import claims, paper, permutation, pools
from logitjudge.run import SampledRun
from logitjudge.store import load_run

WIDTH = 120


def tables(runs, placebo=(), sampled=(), *, by="items", temperature=0.0, draws=1000):
    """Name to (heading, frame, note) of every table, as far as the runs give it."""
    options = {"sampled": sampled, "temperature": temperature, "draws": draws}
    no_placebo = "" if placebo else "Placebo (ten rewordings at a fixed ordering): not run."
    made = {
        "figure_5": ("Figure 5: share of picks at each position", paper.figure_5(runs, draws=draws), ""),
        "table_2": (
            "Table 2: permutation against repeat, correlation with people",
            permutation.table_2(runs, placebo=placebo, **options),
            "identity_expected: expected score of the one ordering, as fine as a mean of ten. " + no_placebo,
        ),
        "table_3": (
            "Table 3: standard deviation of one item's scores",
            permutation.table_3(runs, **options),
            ZERO if temperature == 0 and not sampled else "",
        ),
        "table_4": ("Table 4: rank of the identity ordering among the ten", paper.table_4(runs, draws=draws), RANKS),
        "table_5": (f"Table 5: score x position, pooled by {by}", paper.table_5(runs, by=by), ""),
        "table_6": (f"Table 6: the cheapest ordering, pooled by {by}", paper.table_6(runs, by=by, draws=draws), RANKS),
    }
    try:
        made["claims"] = ("The claims of the text, over models", claims.to_frame(claims.claims(runs)), ATTAINABLE)
    except InputError as error:
        made["claims"] = ("The claims of the text, over models", pd.DataFrame(), str(error))
    return made


ZERO = "Repeat is 0 by construction at temperature 0: all answers are the winner."
RANKS = "low and high: the ranks that simultaneous 95 % paired differences of correlations leave (max-t over clusters)."
ATTAINABLE = "p: exact, that chance gives at least as many; attainable: the least p that so many models can reach."


def layout(name, frame):
    """A frame as the paper sets it: models as rows."""
    if frame.empty:
        return frame
    if name == "figure_5":
        wide = frame.pivot_table(
            index=["model", "dataset", "estimator"], columns="position", values="share", sort=False, observed=True
        )
        return (100 * wide).round(1)
    if name == "table_2":
        keep = ["permutation", "repeat", "difference", "low", "high", "identity_expected", "placebo"]
        return frame.set_index(["model", "dataset", "measure"])[keep].round(3)
    if name == "table_5":
        places = [column for column in frame if column[0] == "p" and column[1:].isdigit()]
        shown = frame.set_index(["model", "estimator", "score"])[[*places, "picks", "effective_items"]]
        shown[places] *= 100
        return shown.round(1)
    if name == "claims":
        return frame.set_index("claim")[["holds", "of", "p", "attainable"]].round(4)
    drop = [column for column in ("protocol", "by", "how", "items", "clusters", "note") if column in frame]
    return frame.drop(columns=drop).round(4)


def print_tables(made):
    """Print every table with its heading, its note and its rows' notes."""
    for name, (heading, frame, note) in made.items():
        print(f"\n{heading}")
        shown = layout(name, frame)
        if shown.empty:
            print("  no rows: no run has what this needs (ratings, for the tables of correlations)")
        else:
            with pd.option_context("display.width", WIDTH, "display.max_columns", None, "display.max_rows", None):
                print(shown.to_string(na_rep="-", index=not isinstance(shown.index, pd.RangeIndex)))
        notes = [note, *(dict.fromkeys(text for text in frame.get("note", []) if text and name != "claims"))]
        for text in filter(None, notes):
            print(textwrap.fill(text.strip(), WIDTH))


def main(args=None):
    """Parse, load, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--placebo", nargs="+", default=[], metavar="RUN")
    parser.add_argument("--sampled", nargs="+", default=[], metavar="RUN")
    parser.add_argument("--by", choices=pools.WAYS, default="items", help="what counts alike across datasets")
    parser.add_argument("--temperature", type=float, default=0.0, help="of the repeated answers (direct judges)")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--csv", type=Path, metavar="DIR")
    asked = parser.parse_args(args)
    try:
        runs, placebo, sampled = (
            [load_run(path) for path in paths] for paths in (asked.runs, asked.placebo, asked.sampled)
        )
        if any(not isinstance(run, SampledRun) for run in sampled):
            raise InputError("--sampled takes runs of --verdict sampled.")
        made = tables(runs, placebo, sampled, by=asked.by, temperature=asked.temperature, draws=asked.draws)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(pools.protocol_note(runs))
    print_tables(made)
    if asked.csv:
        asked.csv.mkdir(parents=True, exist_ok=True)
        for name, (_, frame, _) in made.items():
            frame.to_csv(asked.csv / f"{name}.csv", index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
