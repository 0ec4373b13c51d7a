"""A finished run: one finite reading for each (item, ordering). Everything after the model starts here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from logitjudge.core import BoolArray, FloatArray, IntArray, Item, Ordering, Rubric, frozen_array
from logitjudge.errors import InputError, NotExact, NotObserved

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Run:
    """All readings of one judge on one set of items.

    Parameters
    ----------
    logp
        (I, O, K) natural log-probability over the full vocabulary; never renormalised, never NaN.
    alias_mass
        (I, O, K) probability of other single-token forms of each option; never part of `logp`.
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
    loader: Callable[[], pd.DataFrame] | None = None
    exact: BoolArray = None  # type: ignore[assignment]  # an array as soon as it is made

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

    def select(self, keep: Sequence[bool]) -> Run:
        """The same run with the items where `keep` (I,) is true."""
        rows = np.flatnonzero(np.asarray(keep))
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values |= {
            "logp": self.logp[rows],
            "alias_mass": self.alias_mass[rows],
            "exact": self.exact[rows],
            "items": tuple(self.items[i] for i in rows),
        }
        return Run(**values)

    def readings(self) -> pd.DataFrame:
        """Long frame of every stored column, one row a reading."""
        if self.loader is None:
            raise ValueError("this run was not loaded from a folder, so it has no stored columns; use to_frame()")
        return self.loader()

    def to_frame(self) -> pd.DataFrame:
        """Long frame, one row an (item, ordering, score).

        Columns: item, cluster, ordering (score values, first position first, joined by commas), score, position
        (1-based), logp (nats), prob, mass, and the items' group columns. Where some reading is not exact there is a
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
        if not self.exact.all():
            frame["exact"] = self.exact.ravel()
        for name in dict.fromkeys(name for item in self.items for name in item.groups):
            column = name
            while column in frame.columns:
                column = f"group_{column}"
            frame[column] = [item.groups.get(name) for item in self.items for _ in range(orders * k)]
        return frame
