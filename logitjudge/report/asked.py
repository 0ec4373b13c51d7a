"""What exactly was asked: the text and the token ids of one reading, made again from its run folder.

Only the judge's tokenizer is opened, never its weights; a tokenizer other than the run's is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from logitjudge import models, orderings as designs, parts, prompts, rubrics, store, tokens, verdicts
from logitjudge.backends import Query
from logitjudge.core import Item, Ordering, Prompt, Rubric
from logitjudge.errors import InputError, ModelError, RunFolderError, unknown
from logitjudge.prompts import Template

Json = dict[str, Any]
HASHES = (("hash", "tokenizer_hash", "tokenizer"), ("template_hash", "chat_template_hash", "chat template"))


def asked(folder: str | Path, item: str, ordering: str, *, model: str | None = None, trace: str | None = None) -> Json:
    """Text and token ids of one reading.

    Parameters
    ----------
    folder
        A run folder, finished or not.
    item
        Id of the item.
    ordering
        Score values, first position first: ``5,4,3,2,1``.
    model
        Where the judge is now, if it is not where it was.
    trace
        Which of the judge's texts the reading stands behind, by its trace_id; the first by default.

    Returns
    -------
    dict
        ``text``, what the judge read; ``context_token_ids``, the same in tokens, up to where the options part;
        ``options``, in score order, each with ``score``, ``text`` and the ``token_ids`` that are read behind the
        context; ``event``; ``trace_id``, where the judge wrote first. Token ids are None for a judge without a
        tokenizer.

    Raises
    ------
    InputError
        No such item or ordering in the run, or the judge's tokenizer cannot be opened or is another one.
    """
    head = _head(Path(folder))
    query, _, name = placed(Path(folder), item, _ordering(head, ordering), model=model, trace=trace)
    prompt, found = query.prompt, query.tokens
    tails = [None] * len(prompt.options) if found is None else [list(tail) for tail in found.tails]
    pairs = zip(head["scores"], prompt.options, tails, strict=True)
    return {
        "text": plain(prompt) if found is None else found.text,
        "context_token_ids": None if found is None else list(found.context),
        "options": [{"score": score, "text": option, "token_ids": tail} for score, option, tail in pairs],
        "event": head["event"],
        **({} if name is None else {"trace_id": name}),
    }


def placed(
    folder: Path, item: str, ordering: Ordering, *, model: str | None = None, trace: str | None = None
) -> tuple[Query, tokens.Tokenizer | None, str | None]:
    """The query of one reading with its tokens, the judge's tokenizer, and the text behind which it stands (None: none).

    Raises
    ------
    InputError
        As `asked`; of these `ModelError` where the judge's tokenizer cannot be opened or is another one.
    """
    head = _head(folder)
    query = _query(head, _item(folder, item), ordering)
    tokenizer = _tokenizer(head, model)
    if tokenizer is None:
        return query, None, None
    query = replace(query, tokens=_tokens(tokenizer, query.prompt))
    query, name = _behind(folder, head, tokenizer, query, trace)
    return query, tokenizer, name


def unplaced(folder: Path, item: str, ordering: Ordering) -> Prompt:
    """The prompt of one reading, for which the judge's tokenizer is not needed. Raises `InputError` as `asked` does."""
    return _query(_head(folder), _item(folder, item), ordering).prompt


def plain(prompt: Prompt) -> str:
    """The text of a prompt for a judge without a tokenizer."""
    return "\n\n".join(message.content for message in prompt.messages) + "\n" + prompt.prefill


def _head(folder: Path) -> dict[str, Any]:
    head = store.header(folder)
    if head is None:
        raise RunFolderError(f"there is no run in {folder}. Make one with: logitjudge run --out {folder} ...")
    return head


def _behind(
    folder: Path, head: Mapping[str, Any], tokenizer: Any, query: Query, trace: str | None
) -> tuple[Query, str | None]:
    """The query behind what the judge wrote, and that text's name; as it is where the judge wrote nothing, or nothing was read."""
    how = verdicts.of_run(head, Template(**head["template"]))
    if how is None or how.parsed:
        if trace is not None:
            raise InputError("this run has no readings behind texts of the judge. Leave --trace out.")
        return query, None
    names = [how.name(query.item.id, *source, head["scores"]) for source in how.behind(query.ordering)]
    if trace is not None and trace not in names:
        raise InputError(unknown("trace", trace, names))
    name = trace or names[0]
    rows = [row for row in parts.traces(folder) if row["trace_id"] == name]
    if not rows:
        raise InputError(f"the text {name!r} is not in the run: it is unfinished, or was exported without texts.")
    placed = verdicts.place(tokenizer, query, verdicts.trace_of(rows[0]), how)
    if placed is None:
        raise InputError(f"the text {name!r} did not reach {how.marker!r}, so nothing was read behind it.")
    return placed, name


def _item(folder: Path, name: str) -> Item:
    items = {item.id: item for item in store.read_items(folder)}
    if name not in items:
        near = unknown("item", name, items)
        raise InputError(
            near
            if len(items) <= 20
            else near.split(" Known:")[0] + f" The run has {len(items)} items: see {folder / 'items.jsonl'}."
        )
    for row in store.refusals(folder):
        if row["id"] == name:
            raise InputError(f"item {name!r} was refused, so it was not read: {row['reason']}.")
    if not any(items[name].fields.values()):
        raise InputError(
            f"item {name!r} has no text: this run folder was exported without texts. Use the original one."
        )
    return items[name]


def _ordering(head: Mapping[str, Any], spec: str) -> Ordering:
    made = [Ordering(tuple(row["shown"]), row["labels"] and tuple(row["labels"])) for row in head["orderings"]]
    wanted = designs.parse(spec, head["scores"])
    found = [ordering for ordering in made if ordering.shown == wanted[0].shown]
    if len(wanted) > 1 or not found:
        known = [",".join(map(str, ordering.values(head["scores"]))) for ordering in made]
        shown = "; ".join(known[:10]) + (f"; ... ({len(known)} in all)" if len(known) > 10 else "")
        raise InputError(f"the run has no ordering {spec!r}. It has: {shown}.")
    return found[0]


def _query(head: Mapping[str, Any], item: Item, ordering: Ordering) -> Query:
    rubric: Rubric | None = rubrics.from_dict(head["rubric"]) if head["rubric"] else item.rubric
    assert rubric is not None
    return Query(item, rubric, ordering, prompts.render(Template(**head["template"]), item, rubric, ordering))


def _tokens(tokenizer: Any, prompt: Prompt) -> tokens.Resolved:
    text = tokenizer.render(prompt.messages, prompt.prefill)
    return tokens.resolve(tokenizer, text, prompt.options, prompt.close)


def _tokenizer(head: Mapping[str, Any], model: str | None) -> Any:
    session = (head["sessions"] or [{}])[-1]
    tokenizer: Any = models.open_tokenizer(_spec(head, model))
    for method, key, what in HASHES:
        if tokenizer is not None and session.get(key) not in (None, getattr(tokenizer, method)()):
            raise ModelError(f"the judge's {what} is not the one that the run used. Give the same judge: --model PATH.")
    return tokenizer


def _spec(head: Mapping[str, Any], model: str | None) -> models.ModelSpec:
    """Judge as the run opened it: the same commit, chat template and date."""
    spec = models.from_dict(head["model"], head["started"])
    if model is not None:
        now = models.parse(model)
        return models.from_dict(
            {**head["model"], **{name: models.to_dict(now)[name] for name in ("kind", "name", "path")}}, head["started"]
        )
    if spec.path is not None and not spec.path.exists():
        raise ModelError(f"the judge is no longer at {spec.path}. Say where it is: --model PATH.")
    commit = str(head["identity"]["fingerprint"])
    return (
        models.from_dict({**head["model"], "revision": commit[4:]}, head["started"])
        if commit.startswith("hub:")
        else spec
    )
