"""The demo items: our own short tasks, two responses of known quality to each, rated by the authors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from logitjudge import rubrics
from logitjudge.core import Item, ItemSet, Rubric

FILE = Path(__file__).parent.parent / "data" / "demo.yaml"


def load() -> ItemSet:
    """Read the items that come with the package: no path, no options."""
    tasks = yaml.safe_load(FILE.read_text(encoding="utf-8"))["tasks"]
    items = tuple(item for task in tasks for item in _items(task, rubrics.load(task["rubric"])))
    return ItemSet(items, "authors' ratings", "same")


def _items(task: Mapping[str, Any], rubric: Rubric) -> list[Item]:
    return [
        Item(
            id=f"{task['id']}-{response['level']}",
            fields={"instruction": task["instruction"], "response": response["text"], "reference": task["reference"]},
            rubric=rubric,
            human=response["human"],
            cluster=task["id"],
            groups={"task_type": task["type"], "level": response["level"]},
        )
        for response in task["responses"]
    ]
