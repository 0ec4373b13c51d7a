"""What `show --json` says, made again from the run folder and the definitions alone: nothing of logitjudge is imported."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats


def load(folder):
    """run.json, items, and one row a reading: item number, shown score indices, q, mass, alias mass."""
    folder = Path(folder)
    head = json.loads((folder / "run.json").read_text())
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    refused = {json.loads(line)["id"] for line in (folder / "refused.jsonl").read_text().splitlines()}
    items = [item for item in items if item["id"] not in refused]
    table = pd.read_parquet(folder / "readings" / "all.parquet")
    number = {item["id"]: n for n, item in enumerate(items)}
    index = {score: k for k, score in enumerate(head["scores"])}
    readings = []
    for row in table.itertuples():
        p = np.exp(np.array(row.logp))
        shown = [index[score] for score in row.ordering]
        readings.append((number[row.item_id], shown, p / p.sum(), p.sum(), np.sum(row.alias_mass)))
    return head, items, readings


def winners(q):
    """1 for the most probable score, split among ties."""
    best = np.array([value >= q.max() * (1 - 1e-12) for value in q])
    return best / best.sum()


def matrix(readings, levels, hard):
    """P(position | score): mean weight of each cell over the readings that show the score there, rows divided by their sum."""
    total, count = np.zeros((levels, levels)), np.zeros((levels, levels))
    picks, by_item = np.zeros(levels), {}
    for item, shown, q, _, _ in readings:
        weight = winners(q) if hard else q
        for position, score in enumerate(shown):
            total[score, position] += weight[score]
            count[score, position] += 1
        picks += weight
        by_item[item] = by_item.get(item, np.zeros(levels)) + weight
    with np.errstate(all="ignore"):
        cells = total / np.where(count > 0, count, np.nan)
        rows = cells / cells.sum(axis=1, keepdims=True)
        squares = sum(weight**2 for weight in by_item.values())
        effective = np.where(squares > 0, picks**2 / squares, 0)
    return rows, picks, effective


def cost(rows, ordering):
    """Sum over positions of |P(p | score shown at p) - 1/K|."""
    return sum(abs(rows[score, position] - 1 / len(ordering)) for position, score in enumerate(ordering))


def correlations(scores, ratings):
    """Pearson and Spearman, as scipy has them; None where a column does not vary."""
    if len(scores) < 3 or np.ptp(scores) <= 1e-9 * np.abs(scores).max() or np.ptp(ratings) == 0:
        return {"pearson": None, "spearman": None}
    scores = np.round(scores, 12)
    return {"pearson": stats.pearsonr(scores, ratings)[0], "spearman": stats.spearmanr(scores, ratings)[0]}


def none(values):
    """Lists with None for NaN."""
    return [None if math.isnan(value) else float(value) for value in values]


def recompute(folder):
    """The core of `show --json`."""
    head, items, readings = load(folder)
    scores, levels = np.array(head["scores"]), len(head["scores"])
    made = {"items": len(items), "clusters": len({item["cluster"] for item in items}), "readings": len(readings)}
    found = {name: matrix(readings, levels, name == "hard") for name in ("soft", "hard")}
    made["score_position"] = {name: [none(row) for row in rows] for name, (rows, _, _) in found.items()}
    made["position_distribution"], made["picks"], made["effective_items"] = {}, {}, {}
    for name, (rows, picks, effective) in found.items():
        there = picks > 0
        made["position_distribution"][name] = none((picks[there] / picks.sum()) @ rows[there])
        made["picks"][name], made["effective_items"][name] = picks.tolist(), effective.tolist()
    orderings = [[int(np.flatnonzero(scores == score)[0]) for score in row["values"]] for row in head["orderings"]]
    made["bias_cost"] = {name: none(cost(rows, o) for o in orderings) for name, (rows, _, _) in found.items()}
    everything = [cost(found["soft"][0], o) for o in itertools.permutations(range(levels))]
    made["spread"] = {"cheapest": min(everything), "dearest": max(everything), "mean": float(np.mean(everything))}
    masses = np.array([mass for _, _, _, mass, _ in readings])
    made["mass"] = {"mean": masses.mean(), "min": masses.min()}
    made["alias"] = float(np.mean([alias for *_, alias in readings]))
    of_item = [[q for item, _, q, _, _ in readings if item == n] for n in range(len(items))]
    means = {
        "mean_prob": np.array([np.mean(q, axis=0) @ scores for q in of_item]),
        "mean_winner": np.array([np.mean([winners(one) for one in q], axis=0) @ scores for q in of_item]),
    }
    rated = [n for n, item in enumerate(items) if item["human"]]
    ratings = np.array([np.mean(items[n]["human"]) for n in rated])
    made["agreement"] = {
        (method, measure): value
        for method, values in means.items()
        for measure, value in correlations(values[rated], ratings).items()
    }
    return made
