"""A client of an OpenAI-compatible server: one model, bounded retries, a key from the environment and nowhere else."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2

from logitjudge.errors import ModelError

KEYS = ("LOGITJUDGE_API_KEY", "OPENAI_API_KEY")  # of the environment, the first that is set
SHOWN = 300  # characters of what a server says
KEPT = "What was read is kept: run the same command again to go on"


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long a request is tried again.

    Parameters
    ----------
    retries
        Further tries.
    first, most
        Seconds before the first of them, doubled each time, and the most.
    """

    retries: int = 5
    first: float = 0.5
    most: float = 30.0

    def pause(self, tried: int, asked: str | None = None) -> float:
        """Seconds to wait before try `tried` (1, 2 ...); the server may ask for more (Retry-After), up to `most`.

        Examples
        --------
        >>> [Patience().pause(tried) for tried in (1, 2, 3)], Patience().pause(1, "7")
        ([0.5, 1.0, 2.0], 7.0)
        """
        wanted = float(asked) if asked and asked.isascii() and asked.isdecimal() else 0.0
        return min(self.most, max(wanted, self.first * 2.0 ** (tried - 1)))


PATIENCE = Patience()


class Refused(ModelError):
    """A server that understands a request and does not do what it asks for (4xx)."""


class Where(Protocol):
    """What a client needs of a model specification."""

    @property
    def base_url(self) -> str | None:
        """Where the server is."""

    @property
    def timeout(self) -> float | None:
        """Seconds."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Client:
    """JSON in and out of one server; several threads may use it at once.

    Parameters
    ----------
    url
        Of the API, such as ``http://127.0.0.1:8000/v1``.
    key
        Sent as a bearer token; it appears in no message.
    """

    url: str
    http: httpx2.Client
    key: str = field(default="", repr=False)
    patience: Patience = PATIENCE
    stopped: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, spec: Where) -> Client:
        """Client of a specification's server."""
        assert spec.base_url is not None
        key = next((value for name in KEYS if (value := os.environ.get(name, "").strip())), "")
        if not key.isascii() or not key.isprintable():
            raise ModelError(f"the API key in the environment ({' or '.join(KEYS)}) is no line of plain characters.")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx2.Limits(max_connections=None)
        http = httpx2.Client(headers=headers, timeout=spec.timeout, limits=limits)
        made = cls(api_url(spec.base_url), http, key, PATIENCE)
        weakref.finalize(made, http.close)  # no connection outlives the client
        return made

    def get(self, path: str) -> Any:
        """JSON of a GET. `path` is below the API, or below the server where it begins with ``//``. Raises as `post`."""
        return self._json(self._answer("GET", path))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """JSON of a POST.

        Raises
        ------
        Refused
            The server understands the request and refuses it.
        ModelError
            It does not answer, or not with JSON.
        """
        return self._json(self._answer("POST", path, body))

    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx2.Response:
        """A good response; overload, failures of the server and lost connections are tried again."""
        url = self.url.removesuffix("/v1") + path[1:] if path.startswith("//") else self.url + path
        for tried in range(1, self.patience.retries + 2):
            response, reason = self._try(method, url, body)
            if response is not None and response.is_success:
                return response
            if response is not None and response.status_code != 429 and response.status_code < 500:
                raise Refused(self._hidden(f"the server at {self.url} refuses: {reason}{self._advice(response)}"))
            asked = response.headers.get("retry-after") if response is not None else None
            if tried > self.patience.retries or self.stopped.wait(self.patience.pause(tried, asked)):
                break
        raise ModelError(
            self._hidden(f"the server at {self.url} does not answer ({tried} tries; the last: {reason}). {KEPT}.")
        )

    def _try(self, method: str, url: str, body: Mapping[str, Any] | None) -> tuple[httpx2.Response | None, str]:
        """What the server said to one request, and what is wrong with it."""
        try:
            response = self.http.request(method, url, json=body)
        except httpx2.TimeoutException as error:
            return None, f"no answer in time ({type(error).__name__}; see --timeout)"
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            return None, f"{type(error).__name__}: {error}"
        return response, f"{response.status_code}: {' '.join(response.text.split())[:SHOWN]}"

    def _advice(self, response: httpx2.Response) -> str:
        if response.status_code not in (401, 403):
            return ""
        return f". Put its key into the environment as {KEYS[0]}" + (", where another one is now." if self.key else ".")

    def _hidden(self, text: str) -> str:
        """Take the key out of a text; a server may repeat it."""
        return text.replace(self.key, "***") if self.key else text

    def _json(self, response: httpx2.Response) -> Any:
        try:
            return response.json()
        except ValueError as error:
            begin = self._hidden(" ".join(response.text.split())[:SHOWN])
            raise ModelError(f"the server at {self.url} does not answer with JSON, but with {begin!r}.") from error


def api_url(base_url: str) -> str:
    """URL of the API of a server; ``/v1`` is added where there is no path.

    Raises
    ------
    ModelError
        It is no http(s) URL, or holds a password or a query.

    Examples
    --------
    >>> api_url("http://localhost:8000"), api_url("https://host/api/v1/")
    ('http://localhost:8000/v1', 'https://host/api/v1')
    """
    try:
        url = httpx2.URL(base_url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ModelError(
            f"--base-url {base_url!r} is no URL: {error}. Give one like http://127.0.0.1:8000/v1."
        ) from error
    if url.userinfo or url.query:
        raise ModelError(f"--base-url holds more than an address. Give a key in the environment, as {KEYS[0]}.")
    if url.scheme not in ("http", "https") or not url.host:
        raise ModelError(f"--base-url {base_url!r} is no address. Give one like http://127.0.0.1:8000/v1.")
    text = str(url).split("#")[0].rstrip("/")
    return text if url.path.strip("/") else f"{text}/v1"


def models(client: Client) -> list[dict[str, Any]]:
    """What a server serves: mappings with ``id`` and whatever else it says. Raises `ModelError`."""
    answer = client.get("/models")
    try:
        return [dict(row, id=str(row["id"])) for row in answer["data"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"the server at {client.url} does not say which models it has. Is it OpenAI-compatible?"
        ) from error


def served_model(spec: Where) -> str:
    """The one model that a server serves. Raises `ModelError`, with the list, where there is another number of them."""
    names = [row["id"] for row in models(Client.of(spec))]
    if len(names) != 1:
        listed = ", ".join(names) or "none"
        raise ModelError(
            f"the server at {spec.base_url} serves {len(names)} models ({listed}). Name one: --served-model NAME."
        )
    return str(names[0])
