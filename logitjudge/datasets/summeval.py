"""SummEval: news summaries by several systems, three experts each, four criteria; the levels are in our own wording.

A. Fabbri et al. (2021), SummEval: Re-evaluating Summarization Evaluation, TACL 9, 391-409. The annotations say nothing of levels, so
the rubrics are worded by us (`data/criteria/summeval.yaml`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from logitjudge.core import Item, ItemSet
from logitjudge.datasets._choice import chosen, own_rubrics, switch, turns
from logitjudge.datasets._ratings import ratings
from logitjudge.datasets._read import Row, fail, json_lines, read_text
from logitjudge.errors import ItemError

TEXTS = {"id": "an article's id", "model_id": "a system", "decoded": "a summary", "text": "an article"}


def load(path: Path, *, systems: str = "", criteria: str = "", rotate: str = "") -> ItemSet:
    """Read the annotations with the articles' texts: one item an article, system and criterion; its cluster is the article.

    Parameters
    ----------
    path
        A JSONL file, or a folder of them (``M17_outputs_annotations.jsonl`` ...), with ``id``, ``model_id``, ``decoded``, ``text`` and
        ``expert_annotations``.
    systems, criteria
        Keep only these, separated by commas; all by default. Criteria: coherence, consistency, fluency, relevance.
    rotate
        ``true``: one system an article, in turns in the order of `systems`, so that no article comes twice for a criterion.

    Raises
    ------
    ItemError
        A row that is not of this form, or a summary that comes twice.
    InputError
        A system or criterion that there is not.
    """
    known = own_rubrics("summeval")
    wanted = chosen("criterion", criteria, known, f"{path}: option 'criteria'")
    one = switch(rotate, f"{path}: option 'rotate'")
    rows = _by_article(path)
    there = sorted({name for row in rows.values() for name in row}, key=_number)
    names = chosen("system", systems, there, f"{path}: option 'systems'")
    made = []
    for number, (article, row) in enumerate(rows.items()):
        for system in turns(names, row, number, f"{path}: article {article!r}") if one else names:
            if system in row:
                made += [_item(article, row[system], criterion, known[criterion]) for criterion in wanted]
    return ItemSet(tuple(made), "human experts", "same")


def _number(system: str) -> tuple[str, int]:
    """M8 before M10."""
    head = system.rstrip("0123456789")
    return head, int(system[len(head) :] or 0)


def _by_article(path: Path) -> dict[str, dict[str, Row]]:
    """Article -> system -> row, articles in the order of the first file that has them."""
    found: dict[str, dict[str, Row]] = {}
    for row in _rows(path):
        for name, what in TEXTS.items():
            if not isinstance(row.values.get(name), str) or not row.values[name].strip():
                hint = " Pair the annotations with the CNN/DailyMail articles first." if name == "text" else ""
                raise fail(row, name, row.values.get(name), f"is not {what}.{hint}")
        systems = found.setdefault(row.values["id"], {})
        if row.values["model_id"] in systems:
            raise ItemError(
                f"{row.place}: the summary of {row.values['id']!r} by {row.values['model_id']} comes twice."
            )
        systems[row.values["model_id"]] = row
    return found


def _rows(path: Path) -> Iterator[Row]:
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise ItemError(f"{path} holds no .jsonl file. Name the folder of SummEval's annotations, or one file.")
    for file in files:
        yield from json_lines(read_text(file), file)


def _item(article: str, row: Row, criterion: str, rubric: Any) -> Item:
    system = row.values["model_id"]
    return Item(
        id=f"{article}-{system}-{criterion}",
        fields={"instruction": f"Summarise this article.\n\n{row.values['text']}", "response": row.values["decoded"]},
        rubric=rubric,
        human=_ratings(row, criterion),
        cluster=article,
        groups={"system": system, "criterion": criterion, "document": article},
    )


def _ratings(row: Row, criterion: str) -> tuple[float, ...] | None:
    """Ratings of the experts, in their order."""
    experts = row.values.get("expert_annotations")
    if not isinstance(experts, list) or not all(isinstance(one, dict) and criterion in one for one in experts):
        raise fail(row, "expert_annotations", experts, f"is no list of ratings of {criterion!r}.")
    return ratings(row, "expert_annotations", [one[criterion] for one in experts])
