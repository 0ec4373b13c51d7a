"""Judges behind an OpenAI-compatible server, such as a running ``vllm serve``: one completion of one token a place.

Prompts go as token ids. Where the server reads chosen tokens (vLLM's ``logprob_token_ids``), readings are exact. Where it
gives its most probable tokens only, an option outside them has an upper bound, and is marked so.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from logitjudge.backends import Query, Trace, _http
from logitjudge.backends._asked import MOST_IDS, SMALLEST, TOP, Request, Served, requests, trace
from logitjudge.backends._harvest import Harvest, resolved
from logitjudge.backends._http import Client, Refused
from logitjudge.backends.hf import open_tokenizer
from logitjudge.backends.hf.tokenizer import HFTokenizer
from logitjudge.core import Readings
from logitjudge.errors import ModelError
from logitjudge.models import ModelSpec
from logitjudge.tokens import Path

BUDGET = 1 << 16  # tokens of one batch: what a server that dies takes along
ASKS = ((True, MOST_IDS), (True, 20), (True, 5), (False, 20), (False, 5))  # (chosen tokens?, how many), the best first
LEAST = -9_999.0  # what servers write for log 0, which JSON does not know
NEUTRAL = {"temperature": 0, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}
EXTRA = {
    "return_tokens_as_token_ids": True,
    "add_special_tokens": False,
    "repetition_penalty": 1,
    "top_k": 0,
    "min_p": 0,
}
ID = "token_id:"
A = TypeVar("A")
B = TypeVar("B")


@dataclass(slots=True)
class Listed:
    """A place of which a server has listed tokens.

    Parameters
    ----------
    logp
        Of the tokens that it listed.
    bounds
        Of those that it did not, though they were asked for: the least that stands in its list.
    """

    logp: dict[int, float] = field(default_factory=dict)
    bounds: dict[int, float] = field(default_factory=dict)

    def take(self, listed: Mapping[int, float], wanted: Sequence[int]) -> None:
        """Add an answer, and what it says about the tokens that were wanted."""
        self.logp.update(listed)
        self.bounds.update({token: min(listed.values()) for token in wanted if token not in listed})

    def has(self, token: int) -> bool:
        """Whether a token was listed."""
        return token in self.logp

    def of(self, ids: Sequence[int]) -> list[float]:
        """Those of some tokens, or their upper bounds."""
        return [self.logp[token] if token in self.logp else self.bounds[token] for token in ids]

    def rest(self, ids: Sequence[int]) -> float:
        """Log of the probability of all other tokens together; at most, where some of these are not listed."""
        return math.log(max(SMALLEST, 1 - math.fsum(math.exp(self.logp[token]) for token in ids if token in self.logp)))

    def top(self, count: int) -> list[tuple[int, float]]:
        """The most probable of those listed: the greedy token is always among them."""
        return sorted(self.logp.items(), key=lambda pair: -pair[1])[:count]


def open(spec: ModelSpec) -> RemoteJudge:  # noqa: A001  (the protocol's name)
    """Look up a server's model, and load the tokenizer that its prompts are made with."""
    client = Client.of(spec)
    cards = {card["id"]: card for card in _http.models(client)}
    name = spec.served_model
    if name not in cards:
        raise ModelError(f"the server at {client.url} has no model {name!r}. It has: {', '.join(cards) or 'none'}.")
    return RemoteJudge(client, open_tokenizer(spec), cards[name], spec.concurrency)


@dataclass(slots=True)
class RemoteJudge:
    """A judge that a server runs.

    Parameters
    ----------
    client
        The server.
    tokenizer
        What makes the prompts; the server's model must have the same.
    card
        What the server says of its model.
    concurrency
        Requests in flight.
    chosen, most
        Whether the server reads chosen tokens, and how many log-probabilities it gives; found by `prepare`.
    """

    client: Client
    tokenizer: HFTokenizer
    card: Mapping[str, Any]
    concurrency: int = 8
    chosen: bool = True
    most: int = MOST_IDS
    served: Served = field(default_factory=Served)
    said: dict[str, Any] = field(default_factory=dict)
    proof: dict[str, Any] = field(default_factory=lambda: {"ok": False, "reason": "not proven yet"})
    vocabulary: int | None = None  # a server refuses what it does not know

    @property
    def max_length(self) -> int | None:
        """Tokens of the longest prompt, so that one more fits; None where the server does not say."""
        longest = self.card.get("max_model_len")
        return int(longest) - 1 if longest else None

    def provenance(self) -> Mapping[str, Any]:
        """What can be known of the server, and the hashes of the tokenizer."""
        import transformers

        return {
            "device": "server",
            "dtype": "own dtype",
            "head": "the server's own",
            "path": "remote",
            "proof": self.proof,
            "aliases_seen": self.chosen,
            "server": {"model": self.card["id"], "owned_by": self.card.get("owned_by"), **self.said},
            "logprobs": {"chosen_tokens": self.chosen, "most": self.most},
            "concurrency": self.concurrency,
            "versions": {"server": self.said.get("version"), "transformers": transformers.__version__},
            "tokenizer_hash": self.tokenizer.hash(),
            "chat_template_hash": self.tokenizer.template_hash(),
            "system_folded": self.tokenizer.system_folded,
            **self.served.rates(),
        }

    def prepare(self, longest: Sequence[Query], shortest: Sequence[Query]) -> None:
        """Find out what the server gives: chosen tokens, at most how many; and whether it has the tokenizer's tokens."""
        self._same_tokens(resolved(shortest[0]).text)
        begins = dict.fromkeys(tail[0] for tail in resolved(shortest[0]).tails)
        request = Request(0, (), resolved(shortest[0]).context, tuple(begins))
        refusals = []
        for self.chosen, self.most in ASKS:
            try:
                answer = self._ask(filled := _filled(request, self.most))
            except Refused as error:
                refusals.append(str(error))
                continue
            if self.chosen and not set(filled.wanted) <= set(_listed(answer)):
                continue
            self.said |= {"system_fingerprint": answer.get("system_fingerprint"), "version": self._version()}
            self.proof = {"ok": True, "reason": self._reason()}
            return
        raise ModelError(f"{refusals[-1].rstrip('.')}. Readings need /v1/completions with token ids and logprobs.")

    def _reason(self) -> str:
        if self.chosen:
            return f"the server reads chosen tokens, {self.most} a request"
        return f"the server gives its {self.most} most probable tokens only: options outside them get upper bounds"

    def _same_tokens(self, text: str) -> None:
        """A server that tokenises (vLLM does) must make the same tokens of a prompt."""
        body = {"model": self.card["id"], "prompt": text, "add_special_tokens": False}
        try:
            theirs = self.client.post("//tokenize", body)["tokens"]
        except (ModelError, KeyError, TypeError):
            return
        if list(theirs) != self.tokenizer.pieces([text])[0]:
            raise ModelError(
                f"the server's model {self.card['id']!r} makes other tokens of a prompt than --model does: they are different "
                "models. Give the folder or hub id that the server was started with."
            )

    def _version(self) -> str | None:
        try:
            return str(self.client.get("//version")["version"])
        except (ModelError, KeyError, TypeError):
            return None

    def token_budget(self) -> int:
        """Tokens, as written, of one batch."""
        return BUDGET

    def read(self, queries: Sequence[Query], budget: int) -> Readings:
        """Read queries, several requests in flight; the first one's most probable tokens are asked for, too."""
        return self._read(queries)

    def read_plain(self, queries: Sequence[Query]) -> Readings | None:
        """Read queries again, each alone and without cached prefixes; None where the server reads no chosen tokens."""
        if not self.chosen:
            return None
        return Readings.join([self._read([query], cache_salt=secrets.token_hex(16)) for query in queries])

    def _read(self, queries: Sequence[Query], **extra: Any) -> Readings:
        found = Harvest(queries, self.tokenizer.decode)
        asked = requests(queries, found.nodes, self.most if self.chosen else 1 << 30)
        if self.chosen:
            asked.append(Request(0, (), resolved(queries[0]).context, ()))
        places: dict[tuple[int, Path], Listed] = {}
        for request, answer in zip(asked, self._answers(asked, extra), strict=True):
            places.setdefault((request.number, request.path), Listed()).take(_listed(answer), request.wanted)
        return found.take(places.items()).readings()

    def _answers(self, asked: Sequence[Request], extra: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Answers to requests, in their order."""
        start = time.perf_counter()
        answers = self._several(lambda request: self._ask(request, **extra), asked)
        _count(self.served, answers, time.perf_counter() - start)
        return answers

    def generate(
        self, contexts: Sequence[Path], marker: str, most: int, temperature: float = 0.0, seeds: Sequence[int] = ()
    ) -> list[Trace]:
        """Texts behind contexts, each up to the marker or at most so many tokens."""
        stop = {"stop": [marker], "include_stop_str_in_output": True} if marker else {}
        common = {"model": self.card["id"], **NEUTRAL, **EXTRA, **stop, "skip_special_tokens": False, "logprobs": 1}
        drawn = [{"seed": seed} for seed in seeds] if temperature else [{}] * len(contexts)
        bodies = [
            {**common, "max_tokens": most, "temperature": temperature, "prompt": list(ids), **each}
            for ids, each in zip(contexts, drawn, strict=True)
        ]
        ends = {token for token in [self.tokenizer.end_token] if token is not None}
        written = self._several(lambda body: self._checked(_written, body), bodies)
        return [trace(self.tokenizer, ids, finish, marker, ends) for ids, finish in map(_written, written)]

    def _several(self, ask: Callable[[A], B], asked: Sequence[A]) -> list[B]:
        """Answers in the order of what is asked, some in flight; the first failure stops those that have not begun."""
        pool = ThreadPoolExecutor(self.concurrency)
        try:
            return list(pool.map(ask, asked))
        except BaseException:
            self.client.stopped.set()  # no further tries
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            self.client.stopped.clear()

    def _ask(self, request: Request, **extra: Any) -> Mapping[str, Any]:
        """Answer to one request, checked; `Refused` is the server's word."""
        chosen: dict[str, Any] = {"logprobs": min(TOP, self.most)}
        if self.chosen and request.wanted:
            chosen = {"logprobs": len(request.wanted), "logprob_token_ids": list(request.wanted)}
        body = {
            "model": self.card["id"],
            "prompt": list(request.ids),
            "max_tokens": 1,
            **NEUTRAL,
            **EXTRA,
            **chosen,
            **extra,
        }
        return self._checked(_listed, body)

    def _checked(self, read: Callable[[Mapping[str, Any]], Any], body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A completion that `read` can read; `Refused` is the server's word."""
        answer = self.client.post("/completions", body)
        try:
            read(answer)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(
                f"the server at {self.client.url} answers with something else: {_wrong(error)}."
            ) from error
        return dict(answer)


def _count(served: Served, answers: Sequence[Mapping[str, Any]], seconds: float) -> None:
    """Count what answers say of themselves."""
    usage = [answer.get("usage") or {} for answer in answers]
    cached = [(one.get("prompt_tokens_details") or {}).get("cached_tokens") for one in usage]
    served.prompts += len(answers)
    served.tokens += sum(one.get("prompt_tokens") or 0 for one in usage)
    if any(count is not None for count in cached):
        served.cached = (served.cached or 0) + sum(count or 0 for count in cached)
    served.seconds += seconds


def _filled(request: Request, most: int) -> Request:
    """The same request for as many tokens as one may hold, so that the server says whether it may."""
    wanted = list(dict.fromkeys([*request.wanted, *range(most)]))[:most]
    return Request(request.number, request.path, request.ids, tuple(wanted))


def _listed(answer: Mapping[str, Any]) -> dict[int, float]:
    """Log-probabilities that an answer lists, by token id, the one that was taken among them.

    Raises
    ------
    KeyError, IndexError, TypeError, ValueError, AttributeError
        It is no answer with log-probabilities by token id.
    """
    logprobs = answer["choices"][0]["logprobs"]
    texts = {**logprobs["top_logprobs"][0], logprobs["tokens"][0]: logprobs["token_logprobs"][0]}
    if strange := [text for text in texts if not text.startswith(ID)]:
        raise ValueError(f"it writes tokens as text ({strange[0]!r}) and not as token ids, and texts are not unique")
    listed = {int(text.removeprefix(ID)): float(logp) for text, logp in texts.items()}
    if not all(logp <= 1e-3 for logp in listed.values()):
        raise ValueError("it gives numbers that are no log-probabilities; start vLLM with --logprobs-mode raw_logprobs")
    return {token: logp if logp > LEAST else -math.inf for token, logp in listed.items()}


def _written(answer: Mapping[str, Any]) -> tuple[list[int], str]:
    """Token ids that an answer has written, and how it ended. Raises as `_listed`."""
    choice = answer["choices"][0]
    tokens = choice["logprobs"]["tokens"]
    if strange := [text for text in tokens if not text.startswith(ID)]:
        raise ValueError(f"it writes tokens as text ({strange[0]!r}) and not as token ids, and texts are not unique")
    return [int(text.removeprefix(ID)) for text in tokens], str(choice["finish_reason"])


def _wrong(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else f"no log-probabilities ({type(error).__name__}: {error})"
