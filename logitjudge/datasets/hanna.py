"""HANNA: stories by people and by machines, three raters a story, six criteria; the levels are in our own wording.

C. Chhun et al. (2022), Of Human Criteria and Automatic Metrics, COLING; (2024), Do Language Models Enjoy Their Own Stories?, TACL 12.
The raters of a story are exchangeable slots. The levels are worded by us (`data/criteria/hanna.yaml`).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from logitjudge.core import Item, ItemSet
from logitjudge.datasets._choice import chosen, own_rubrics, switch, turns
from logitjudge.datasets._read import read_text
from logitjudge.errors import ItemError

ANNOTATIONS = "hanna_stories_annotations.csv"
SCORES, TEXTS = "hanna_metric_scores_llm.csv", "hanna_llm_stories.csv"
SHORT = {
    "relevance": "RE",
    "coherence": "CH",
    "empathy": "EM",
    "surprise": "SU",
    "engagement": "EG",
    "complexity": "CX",
}
PEOPLE = "Human"
Ratings = dict[str, tuple[float, ...]]  # by criterion


@dataclass(frozen=True, slots=True)
class Story:
    """One story with its ratings."""

    prompt: str
    text: str
    ratings: Ratings


def load(path: Path, *, systems: str = "", criteria: str = "", rotate: str = "") -> ItemSet:
    """Read the annotations: one item a prompt, system and criterion; its cluster is the prompt.

    Parameters
    ----------
    path
        ``hanna_stories_annotations.csv`` (one row a rating: Prompt, Story, Model, Relevance ...), or a folder with it, or one with
        ``hanna_metric_scores_llm.csv`` and ``hanna_llm_stories.csv``, which together hold the stories by people only.
    systems, criteria
        Keep only these, separated by commas; all by default. Criteria: relevance, coherence, empathy, surprise, engagement,
        complexity, in capitals or not.
    rotate
        ``true``: one system a prompt, in turns.

    Raises
    ------
    ItemError
        A file or column that is not there, or a value that is no rating.
    InputError
        A system or criterion that there is not.
    """
    known = own_rubrics("hanna")
    wanted = chosen("criterion", criteria.lower(), known, f"{path}: option 'criteria'")
    one = switch(rotate, f"{path}: option 'rotate'")
    stories = _stories(path)
    names = chosen("system", systems, sorted({name for row in stories for name in row}), f"{path}: option 'systems'")
    made = [
        Item(
            id=f"{number}-{system}-{criterion}",
            fields={"instruction": f"Write a story.\n\n{row[system].prompt}", "response": row[system].text},
            rubric=known[criterion],
            human=row[system].ratings[criterion],
            cluster=str(number),
            groups={"system": system, "criterion": criterion, "document": str(number)},
        )
        for number, row in enumerate(stories)
        for system in (turns(names, row, number, f"{path}: prompt {number}") if one else names)
        if system in row
        for criterion in wanted
    ]
    return ItemSet(tuple(made), "human raters", "slots")


def _stories(path: Path) -> list[dict[str, Story]]:
    """Prompt by prompt, the stories by system, from whichever of HANNA's files `path` means."""
    if path.name in (SCORES, TEXTS):
        path = path.parent
    if path.is_dir() and not (path / ANNOTATIONS).is_file():
        return _two_files(path)
    return _annotations(path / ANNOTATIONS if path.is_dir() else path)


def _rows(path: Path, columns: list[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Place and values of each row of a CSV file that has these columns."""
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""))
    there = rows.fieldnames or []
    if missing := [name for name in columns if name not in there]:
        raise ItemError(
            f"{path} has no column {missing[0]!r}: it is not this file of HANNA. It has: {', '.join(there[:8])} ..."
        )
    for row in rows:
        yield f"{path}, line {rows.line_num}", row


def _annotations(path: Path) -> list[dict[str, Story]]:
    """Prompt by prompt, the stories by system."""
    titles = {name: name.capitalize() for name in SHORT}
    found: dict[str, dict[str, tuple[str, dict[str, list[float]]]]] = {}
    for place, row in _rows(path, ["Prompt", "Story", "Model", *titles.values()]):
        text, ratings = found.setdefault(row["Prompt"], {}).setdefault(
            row["Model"], (row["Story"], {name: [] for name in SHORT})
        )
        if not text.strip():
            raise ItemError(f"{place}, field 'Story': the story is empty. Fill it, or remove its rows.")
        if text != row["Story"]:
            raise ItemError(f"{place}: {row['Model']} has two stories to one prompt.")
        for name, title in titles.items():
            ratings[name].append(_rating(row[title], f"{place}, field {title!r}"))
    return [
        {
            model: Story(prompt, text, {n: tuple(r) for n, r in ratings.items()})
            for model, (text, ratings) in row.items()
        }
        for prompt, row in found.items()
    ]


def _two_files(path: Path) -> list[dict[str, Story]]:
    """The stories by people: their texts from one file, their ratings from the other, both in the order of the prompts."""
    raters = sorted({int(m[1]) for name in _header(path / SCORES) if (m := re.fullmatch(r"Human (\d+) RE", name))})
    columns = {name: [f"Human {rater} {short}" for rater in raters] for name, short in SHORT.items()}
    scores = {row["Model"]: (place, row) for place, row in _rows(path / SCORES, ["Model", *sum(columns.values(), [])])}
    if not raters or PEOPLE not in scores:
        raise ItemError(f"{path / SCORES} has no ratings of the stories by {PEOPLE!r}.")
    place, row = scores[PEOPLE]
    lists = {
        name: [_list(row[column], f"{place}, field {column!r}") for column in each] for name, each in columns.items()
    }
    texts = {values["Prompt"]: values["Human"] for _, values in _rows(path / TEXTS, ["Prompt", "Human"])}
    for name, each in lists.items():
        if any(len(values) != len(texts) for values in each):
            raise ItemError(f"{path}: there are {len(texts)} stories and {len(each[0])} ratings of {name}.")
    return [
        {PEOPLE: Story(prompt, text, {name: tuple(values[n] for values in each) for name, each in lists.items()})}
        for n, (prompt, text) in enumerate(texts.items())
    ]


def _header(path: Path) -> list[str]:
    return next(csv.reader(io.StringIO(read_text(path), newline="")))


def _list(text: str, place: str) -> list[float]:
    """Numbers of a cell such as ``[4, 5, 5]``."""
    return [_rating(part, place) for part in text.strip().strip("[]").split(",")]


def _rating(text: str, place: str) -> float:
    try:
        return float(text)
    except (TypeError, ValueError) as error:
        raise ItemError(f"{place}: {text!r} is no rating. Write a number.") from error
