"""A transformers tokenizer as the readings need it: one rendered text, one beginning-of-sequence token, nothing stripped."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError as JinjaError

from logitjudge.core import Message
from logitjudge.errors import ModelError

THOUGHT = "<think>"
_STRFTIME = re.compile(r"""strftime_now\(\s*(['"])(.*?)\1\s*\)""")
_STRFTIME_LEFT = re.compile(r"strftime_now\s*\(")


class HFTokenizer:
    """Renders chats and encodes whole texts.

    Parameters
    ----------
    tokenizer
        A transformers tokenizer.
    chat_template
        Another chat template than the tokenizer's own.
    date
        ISO date that a template prints as today's, so that a run resumed on another day reads the same prompts.
    thinks
        The judge may think before it answers (verdict mode ``think``).
    """

    def __init__(self, tokenizer: Any, chat_template: str | None = None, date: str = "", thinks: bool = False) -> None:
        self._tokenizer = tokenizer
        self._thinks = thinks
        self._template = chat_template or _default(getattr(tokenizer, "chat_template", None))
        today = dt.datetime.fromisoformat(date) if date else dt.datetime.now()
        self._dated = _dated(self._template, today) if self._template else None
        self._end = self._appended()
        self.system_folded = self.has_chat and not self._takes_system()

    def again(self, chat_template: str | None, date: str, thinks: bool) -> HFTokenizer:
        """The same tokenizer at another date, or with another chat template."""
        return HFTokenizer(self._tokenizer, chat_template, date, thinks)

    @property
    def has_chat(self) -> bool:
        """Whether there is a chat template; without one the prompt is plain text."""
        return bool(self._template)

    @property
    def chat_template(self) -> str | None:
        """The chat template's source."""
        return self._template

    def render(self, messages: Sequence[Message], prefill: str) -> str:
        """Text that the model reads. A system message that the chat template refuses or drops goes before the user's."""
        if not self.has_chat:
            return "\n\n".join(message.content for message in messages) + "\n" + prefill
        text = self._chat(_folded(messages) if self.system_folded else messages)
        if text is None or not _says_all(text, messages):
            raise ModelError(
                "the chat template does not print the messages as they are. Use another one: --chat-template FILE."
            )
        if text.rstrip().endswith(THOUGHT) and not self._thinks:
            raise ModelError(
                f"the chat template opens a reasoning trace ({THOUGHT}): a score read there would be read inside the thoughts. "
                "Use --verdict think, or a template that answers at once: --chat-template FILE."
            )
        return text + prefill

    def _takes_system(self) -> bool:
        """Whether the chat template prints a system message; decided once, so that all prompts of a judge are alike."""
        probe = [Message("system", "logitjudge-system"), Message("user", "logitjudge-user")]
        text = self._chat(probe)
        return text is not None and _says_all(text, probe)

    def _chat(self, messages: Sequence[Message]) -> str | None:
        """The chat template's text, or None where it refuses these roles."""
        try:
            text: str = self._tokenizer.apply_chat_template(
                [message._asdict() for message in messages],
                chat_template=self._dated,
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=self._thinks,  # known to thinking models' templates, ignored by the others
            )
        except Exception as error:  # a template is a program of the model's authors: it may fail in any way
            if messages[0].role == "system" and isinstance(error, JinjaError):
                return None
            raise ModelError(f"the chat template failed: {type(error).__name__}: {error}") from error
        return text

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids. A chat template writes the special tokens itself; a plain prompt gets the tokenizer's own."""
        ids: list[list[int]] = self._tokenizer(list(texts), add_special_tokens=not self.has_chat)["input_ids"]
        return [row[: len(row) - self._end] for row in ids]

    def _appended(self) -> int:
        """How many tokens the tokenizer puts behind a plain text to close it: the judge has still to answer."""
        if self.has_chat:
            return 0
        bare, whole = (self._tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True))
        return next((n for n in range(len(whole)) if whole[len(whole) - n - len(bare) : len(whole) - n] == bare), 0)

    def pieces(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of strings on their own, without special tokens."""
        ids: list[list[int]] = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return ids

    @property
    def end_token(self) -> int | None:
        """The end-of-sequence token."""
        end: int | None = self._tokenizer.eos_token_id
        return end

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens written out."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def hash(self) -> str:
        """SHA-256 of the tokenizer's rules."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        rules = backend.to_str() if backend is not None else repr(self._tokenizer)
        return hashlib.sha256(rules.encode()).hexdigest()

    def template_hash(self) -> str | None:
        """SHA-256 of the chat template."""
        return hashlib.sha256(str(self._template).encode()).hexdigest() if self._template else None

    def begins(self, ids: Sequence[int]) -> int:
        """How many beginning-of-sequence tokens a prompt starts with."""
        bos = self._tokenizer.bos_token_id
        return next((n for n, token in enumerate(ids) if token != bos), len(ids))


def _default(template: Any) -> str | None:
    """The template itself, or the default one where a tokenizer has several by name."""
    if isinstance(template, dict):
        template = template.get("default") or next(iter(template.values()))
    return str(template) if template else None


def _dated(template: str, today: dt.datetime) -> str:
    """Write the date into a template that prints today's, so that a run resumed tomorrow reads the same prompts."""
    made = _STRFTIME.sub(lambda call: repr(today.strftime(call[2])), template)
    if _STRFTIME_LEFT.search(made):
        raise ModelError(
            "the chat template computes its date format, so the date cannot be fixed. Use another one: --chat-template FILE."
        )
    return made


def _says_all(text: str, messages: Sequence[Message]) -> bool:
    """Whether every message stands in the text; templates may trim its ends."""
    return all(message.content.strip() in text for message in messages)


def _folded(messages: Sequence[Message]) -> list[Message]:
    """The messages with the system's text put before the first user message."""
    if len(messages) < 2 or messages[0].role != "system":
        return list(messages)
    system, user, *rest = messages
    return [Message("user", f"{system.content}\n\n{user.content}"), *rest]
