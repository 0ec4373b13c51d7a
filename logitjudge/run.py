"""A finished run: one finite reading for each (item, ordering). Everything after the model starts here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from logitjudge.core import BoolArray, FloatArray, IntArray, Item, Ordering, Rubric, frozen_array
from logitjudge.errors import InputError, NoLogProbabilities, NotExact, NotObserved

SHOWN = 12  # orderings of a run in a notebook

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Run:
    """All readings of one judge on one set of items.

    Parameters
    ----------
    logp
        (I, O, K) natural log-probability over the full vocabulary; never renormalised, never NaN. Where S texts were read
        for each item and ordering, that of their mean probability: logsumexp over S minus log S.
    alias_mass
        (I, O, K) probability of other single-token forms of each option; never part of `logp`. The mean over S texts.
    items, orderings
        (I,) and (O,).
    scores
        (K,) score values, increasing.
    rubric
        The one rubric of all items, or None where each item has its own.
    refused
        Items that could not be judged, each ``{"id": ..., "reason": ...}``.
    provenance
        The run folder's run.json.
    aliases
        "sum" adds `alias_mass` in `probs`; "ignore" is what was asked of the judge.
    exact
        (I, O, K) whether `logp` is what the judge says; false where a server gave only its most probable tokens, and
        `logp` is an upper bound. All true by default.
    logp_by_trace
        (I, S, O, K) log-probability behind each of the S texts that the judge wrote; S = 1, the same as `logp`, where it
        wrote one or none. With shared texts S runs over source orderings, then samples.
    """

    logp: FloatArray
    alias_mass: FloatArray
    items: tuple[Item, ...]
    orderings: tuple[Ordering, ...]
    scores: IntArray
    rubric: Rubric | None = None
    refused: tuple[Mapping[str, str], ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    aliases: Literal["ignore", "sum"] = "ignore"
    loaders: Mapping[str, Callable[[], pd.DataFrame]] = field(default_factory=dict)
    exact: BoolArray = None  # type: ignore[assignment]  # an array as soon as it is made
    logp_by_trace: FloatArray = None  # type: ignore[assignment]  # likewise
    folder: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "logp", frozen_array(self.logp))
        object.__setattr__(self, "alias_mass", frozen_array(self.alias_mass))
        object.__setattr__(self, "scores", frozen_array(self.scores, np.int64))
        shape = (len(self.items), len(self.orderings), len(self.scores))
        if self.logp.shape != shape or self.alias_mass.shape != shape:
            raise ValueError(
                f"logp has shape {self.logp.shape}, alias_mass {self.alias_mass.shape}; expected (I, O, K) = {shape}"
            )
        if not np.isfinite(self.logp).all():
            raise ValueError("logp has a value that is not finite")
        exact = np.broadcast_to(True, shape) if self.exact is None else frozen_array(self.exact, np.bool_)
        if exact.shape != shape:
            raise ValueError(f"exact has shape {exact.shape}; expected (I, O, K) = {shape}")
        object.__setattr__(self, "exact", exact)
        by_trace = self.logp[:, None] if self.logp_by_trace is None else frozen_array(self.logp_by_trace)
        if by_trace.shape != (shape[0], by_trace.shape[1], *shape[1:]):
            raise ValueError(
                f"logp_by_trace has shape {by_trace.shape}; expected (I, S, O, K) with (I, O, K) = {shape}"
            )
        object.__setattr__(self, "logp_by_trace", by_trace)

    @property
    def mass(self) -> FloatArray:
        """(I, O) probability that falls on any option at all; at most, where a reading is not exact."""
        mass: FloatArray = np.exp(self.logp).sum(axis=-1)
        return mass

    def require_exact(self) -> None:
        """Raise `NotExact` where some log-probability is only an upper bound."""
        if self.exact.all():
            return
        whole = self.exact.all(axis=-1)
        i, o = np.argwhere(~whole)[0]
        raise NotExact(
            f"{int((~whole).sum())} of {whole.size} readings are not exact (the first: item {self.items[i].id!r}, ordering "
            f"{list(self.orderings[o].values(self.scores.tolist()))}): the server gave only its most probable tokens, so an "
            "option outside them has an upper bound and no probability. Use a server that reads chosen tokens (vLLM's "
            "logprob_token_ids), or --backend hf. In Python, run.logp and run.exact hold what is known, and "
            "run.probs(bounds=True) takes the bounds for probabilities."
        )

    def probs(self, *, bounds: bool = False) -> FloatArray:
        """(I, O, K) probability of each score among the scores; rows sum to 1.

        Parameters
        ----------
        bounds
            Take upper bounds, where `exact` is false, for probabilities.

        Raises
        ------
        NotExact
            Some log-probability is only an upper bound, and `bounds` is false.
        """
        if not bounds:
            self.require_exact()
        logp = self.logp
        if self.aliases == "sum":
            with np.errstate(divide="ignore"):  # no alias mass is log 0
                logp = np.logaddexp(logp, np.log(self.alias_mass))
        weight = np.exp(logp - logp.max(axis=-1, keepdims=True))
        probs: FloatArray = weight / weight.sum(axis=-1, keepdims=True)
        return probs

    @property
    def shown(self) -> IntArray:
        """(O, P) score index shown at each position."""
        return np.array([ordering.shown for ordering in self.orderings], dtype=np.int64)

    @property
    def clusters(self) -> IntArray:
        """(I,) cluster of each item, numbered by first appearance."""
        number: dict[str, int] = {}
        return np.array([number.setdefault(item.cluster, len(number)) for item in self.items], dtype=np.int64)

    @property
    def ratings(self) -> FloatArray:
        """(I,) mean rating of each item; NaN where an item has none."""
        return np.array([np.nan if item.rating is None else item.rating for item in self.items])

    @property
    def ratings_name(self) -> str:
        """What the ratings are: "human", "GPT-4 reference" ..."""
        return str(self.provenance.get("ratings_name", "human"))

    @property
    def kind(self) -> str:
        """What was judged: "rubric", or "pairwise", where the scores are the candidates 1 and 2, and 0 for a tie."""
        return str(self.provenance.get("kind", "rubric"))

    def require_kind(self, kind: str) -> None:
        """Raise `InputError` where the run is of another kind."""
        if self.kind != kind:
            raise InputError(
                f"this is a {self.kind} run, and what was asked is of {kind} runs. "
                + (
                    "Its numbers: logitjudge show, report, calibrate."
                    if self.kind == "pairwise"
                    else "Make one with: logitjudge pairwise."
                )
            )

    def rubric_of(self, item: Item) -> Rubric | None:
        """The rubric that `item` was judged by."""
        return self.rubric or item.rubric

    def enough_mass(self, least: float) -> list[bool]:
        """(I,) whether an item has at least a mass of `least` under all its orderings.

        Raises
        ------
        InputError
            `least` is no probability.
        NotExact
            Some reading, and so its mass, is only an upper bound.
        NotObserved
            No item has that much.
        """
        if not 0 <= least <= 1:
            raise InputError(f"the least mass is {least}. Give a probability from 0 to 1.")
        self.require_exact()
        masses = self.mass.min(axis=1)
        if not (masses >= least).any():
            raise NotObserved(
                f"no item has a mass of {least} under all its orderings; the best has {masses.max():.3g}."
            )
        keep: list[bool] = (masses >= least).tolist()
        return keep

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.logp.shape))
        model = (self.provenance.get("configuration") or {}).get("model")
        return f"<Run of {model}: items x orderings x scores = {shape}, {len(self.refused)} refused>"

    def _repr_html_(self) -> str:
        from logitjudge import markup

        if not self.items or not self.exact.all():
            why = "Some readings are upper bounds, and no probabilities." if self.items else ""
            return markup.block(self._heading(), markup.note(self._size()), markup.note(why))
        rows = [[*map(markup.percent, row), f"{row @ self.scores:.2f}"] for row in self.probs().mean(axis=0)]
        mass = f"mass on the options {100 * self.mass.mean():.1f} % (least {100 * self.mass.min():.1f} %)"
        return markup.block(
            self._heading(),
            markup.note(f"{self._size()}, {mass}"),
            self._by_ordering(rows, ["mean score"]),
            markup.note("Mean probability of each score, %. The more the rows differ, the more the ordering decides."),
        )

    def _heading(self) -> str:
        kind = "Sampled run" if isinstance(self, SampledRun) else "Run"
        return f"{kind} of {(self.provenance.get('configuration') or {}).get('model', 'a judge')}"

    def _size(self) -> str:
        rated = int(np.isfinite(self.ratings).sum())
        ratings = f"{rated} rated ({self.ratings_name})" if rated else "none rated"
        clusters = len({item.cluster for item in self.items})
        return (
            f"{len(self.items)} items in {clusters} clusters x {len(self.orderings)} orderings, "
            f"{len(self.refused)} refused, {ratings}"
        )

    def _by_ordering(self, rows: list[list[str]], more: list[str]) -> Any:
        """Table with one row an ordering, its first `SHOWN`."""
        from logitjudge import markup

        texts = [",".join(map(str, ordering.values(self.scores.tolist()))) for ordering in self.orderings]
        made = [[text, *row] for text, row in zip(texts, rows, strict=True)]
        left = len(made) - SHOWN
        table = markup.table(["ordering", *(f"score {s}" for s in self.scores), *more], made[:SHOWN])
        return table if left <= 0 else markup.element("div", table, markup.note(f"and {left} more orderings"))

    def select(self, keep: Sequence[bool]) -> Run:
        """The same run with the items where `keep` (I,) is true."""
        rows = np.flatnonzero(np.asarray(keep))
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values |= {
            "logp": self.logp[rows],
            "alias_mass": self.alias_mass[rows],
            "exact": self.exact[rows],
            "logp_by_trace": self.logp_by_trace[rows],
            "items": tuple(self.items[i] for i in rows),
        }
        return Run(**values)

    def readings(self) -> pd.DataFrame:
        """Long frame of every stored column, one row a reading."""
        return self._stored("readings")

    def traces(self) -> pd.DataFrame:
        """Long frame of what the judge wrote, one row a text; empty where it wrote nothing.

        Columns: trace_id, item_id, source_ordering (score values), sample, text, token_ids, finish_reason ("marker",
        "end", "length"; "timeout", "broken" of items that are refused), picked (the parsed score value of a sampled run).
        """
        return self._stored("traces")

    def top_tokens(self) -> pd.DataFrame:
        """Long frame of the most probable tokens that begin no option, as far as they were stored.

        Columns: reading (its number in `readings`), item_id, best_option (log-probability of the reading's most probable
        option, nats), rank (0: the most probable), id, text, logp (nats).
        """
        return self._stored("top_tokens")

    def _stored(self, name: str) -> pd.DataFrame:
        if name not in self.loaders:
            raise ValueError(f"this run was not loaded from a folder, so it has no stored {name}; use to_frame()")
        return self.loaders[name]()

    def to_frame(self) -> pd.DataFrame:
        """Long frame, one row an (item, ordering, score).

        Columns: item, cluster, ordering (score values, first position first, joined by commas), score, position
        (1-based), logp (nats), prob, mass, and the items' group columns. Where labels do not move with their levels there is a column
        labels (score values whose options are printed, first position first), too. Where some reading is not exact there is a
        column exact, too; prob is NaN in such a reading, its logp and mass are upper bounds where exact is false.
        """
        import pandas as pd

        items, orders, k = self.logp.shape
        position = np.array([o.position_of for o in self.orderings], dtype=np.int64) + 1
        text = np.array([",".join(map(str, o.values(self.scores.tolist()))) for o in self.orderings])
        frame = pd.DataFrame(
            {
                "item": np.repeat([item.id for item in self.items], orders * k),
                "cluster": np.repeat([item.cluster for item in self.items], orders * k),
                "ordering": np.tile(np.repeat(text, k), items),
                "score": np.tile(self.scores, items * orders),
                "position": np.tile(position.ravel(), items),
                "logp": self.logp.ravel(),
                "prob": np.where(self.exact.all(axis=-1, keepdims=True), self.probs(bounds=True), np.nan).ravel(),
                "mass": np.repeat(self.mass.ravel(), k),
            }
        )
        if any(o.labels is not None for o in self.orderings):
            values = self.scores.tolist()
            printed = [",".join(str(values[k]) for k in (o.labels or o.shown)) for o in self.orderings]
            frame.insert(3, "labels", np.tile(np.repeat(printed, k), items))
        if not self.exact.all():
            frame["exact"] = self.exact.ravel()
        for name in dict.fromkeys(name for item in self.items for name in item.groups):
            column = name
            while column in frame.columns:
                column = f"group_{column}"
            frame[column] = [item.groups.get(name) for item in self.items for _ in range(orders * k)]
        return frame


class SampledRun(Run):
    """A run whose judge wrote texts from which a score was parsed: picks, and no probabilities.

    Whatever needs a probability (``logp``, ``probs()``, ``mass`` ...) raises `NoLogProbabilities`; estimators of winners
    ("hard", ``mean_winner``) take the picks.

    Parameters
    ----------
    picks
        (I, O, S) score value that each text picks; NaN where none could be parsed.
    """

    __slots__ = ("picks",)

    def __init__(
        self, picks: FloatArray, items: Sequence[Item], orderings: Sequence[Ordering], scores: Any, **fields: Any
    ):
        values: dict[str, Any] = {"rubric": None, "refused": (), "provenance": {}, "aliases": "ignore", "loaders": {}}
        values["folder"] = None
        values |= {"picks": frozen_array(picks), "items": tuple(items), "orderings": tuple(orderings)}
        for name, value in {**values, "scores": frozen_array(scores, np.int64), **fields}.items():
            object.__setattr__(self, name, value)
        if self.picks.shape[:2] != (len(self.items), len(self.orderings)) or self.picks.ndim != 3:
            raise ValueError(f"picks has shape {self.picks.shape}; expected (I, O, S)")

    def __getattr__(self, name: str) -> Any:
        if name in ("logp", "alias_mass", "exact", "logp_by_trace"):
            raise NoLogProbabilities(
                "this run was sampled (--verdict sampled): it holds the scores that were parsed from texts (run.picks), and no "
                "probabilities. Read them with --verdict feedback, or use what takes picks: the hard estimators and mean_winner "
                "(--method mean_winner)."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> Any:
        fields = {name: getattr(self, name) for name in SAMPLED}
        return _sampled, (self.picks, self.items, self.orderings, self.scores, fields)

    @property
    def shares(self) -> FloatArray:
        """(I, O, K) share of each score among the S texts; what is left of 1 could not be parsed."""
        shares: FloatArray = (self.picks[..., None] == self.scores).mean(axis=2)
        return shares

    @property
    def parsed(self) -> FloatArray:
        """(I, O) share of the S texts from which a score could be parsed."""
        parsed: FloatArray = np.isfinite(self.picks).mean(axis=2)
        return parsed

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.picks.shape))
        model = (self.provenance.get("configuration") or {}).get("model")
        return f"<Sampled run of {model}: items x orderings x samples = {shape}>"

    def _repr_html_(self) -> str:
        from logitjudge import markup

        if not self.items:
            return markup.block(self._heading(), markup.note(self._size()))
        share = np.concatenate([self.shares, 1 - self.parsed[..., None]], axis=2).mean(axis=0)
        return markup.block(
            self._heading(),
            markup.note(f"{self._size()}, {self.picks.shape[2]} texts each"),
            self._by_ordering([list(map(markup.percent, row)) for row in share], ["not parsed"]),
            markup.note("Share of the texts that pick each score, %. A sampled run has picks, and no probabilities."),
        )

    def select(self, keep: Sequence[bool]) -> SampledRun:
        """The same run with the items where `keep` (I,) is true."""
        rows = np.flatnonzero(np.asarray(keep))
        fields = {name: getattr(self, name) for name in SAMPLED}
        return SampledRun(self.picks[rows], [self.items[i] for i in rows], self.orderings, self.scores, **fields)

    def to_frame(self) -> pd.DataFrame:
        """Long frame, one row a text.

        Columns: item, cluster, ordering (score values, first position first, joined by commas), sample, picked (score
        value; NaN where none could be parsed), position (1-based, of the picked score).
        """
        import pandas as pd

        items, orders, samples = self.picks.shape
        text = np.array([",".join(map(str, o.values(self.scores.tolist()))) for o in self.orderings])
        place = np.argsort(self.shown, axis=1) + 1  # (O, K)
        known = ~np.isnan(self.picks)
        k = np.searchsorted(self.scores, np.where(known, self.picks, self.scores[0]).astype(np.int64))
        position = np.where(known, place[np.arange(orders)[:, None], k], np.nan)
        return pd.DataFrame(
            {
                "item": np.repeat([item.id for item in self.items], orders * samples),
                "cluster": np.repeat([item.cluster for item in self.items], orders * samples),
                "ordering": np.tile(np.repeat(text, samples), items),
                "sample": np.tile(np.arange(samples), items * orders),
                "picked": self.picks.ravel(),
                "position": position.ravel(),
            }
        )


SAMPLED = ("rubric", "refused", "provenance", "aliases", "loaders", "folder")  # of a SampledRun, beside its arrays


def _sampled(picks: FloatArray, items: Any, orderings: Any, scores: IntArray, fields: Mapping[str, Any]) -> SampledRun:
    return SampledRun(picks, items, orderings, scores, **fields)
