"""HTML of our values for notebooks: one block each, no scripts, no style sheet. Whatever is not made here is escaped here.

Colours are translucent and text has the page's own colour, so that one HTML fits a light and a dark page; where styles are
taken out, tables still say everything.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

ABOVE, BELOW = "213, 94, 0", "0, 114, 178"  # Okabe and Ito, as in the figures
LINE = "1px solid rgba(128, 128, 128, 0.35)"
PLAIN = "tex2jax_ignore mathjax_ignore"  # a $ of the data begins no formula


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


class Shaded(NamedTuple):
    """Content of a cell, and how strongly it is shaded: -1 .. 1, orange above 0, blue below."""

    content: Any
    amount: float


def element(tag: str, *parts: Any, style: str = "", **attributes: str) -> Html:
    """One element; parts that are no `Html` are escaped, and so are the attributes.

    Examples
    --------
    >>> element("b", "a < b", Html("<br>"), title='"')
    '<b title="&quot;">a &lt; b<br></b>'
    """
    named = {"style": style, **attributes}
    written = "".join(f' {name.rstrip("_")}="{html.escape(value)}"' for name, value in named.items() if value)
    return Html(f"<{tag}{written}>{''.join(map(escaped, parts))}</{tag}>")


def escaped(value: Any) -> Html:
    """Text of a value as HTML."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def block(heading: str, *parts: Any) -> str:
    """Everything that a value shows: a heading and what stands below it."""
    return str(element("div", element("div", element("b", heading)), *parts, class_=PLAIN))


def note(*parts: Any) -> Html:
    """One line of explanation."""
    return element("div", *parts, style="opacity: 0.8; margin: 0.3em 0; white-space: normal; overflow-wrap: anywhere")


def passage(*parts: Any) -> Html:
    """Text with its own line breaks; a long one scrolls."""
    style = (
        "white-space: pre-wrap; overflow-wrap: anywhere; max-height: 30em; overflow: auto; text-align: left; "
        f"unicode-bidi: isolate; border: {LINE}; padding: 0.5em; margin: 0.3em 0; font-family: monospace"
    )
    return element("div", *parts, style=style, tabindex="0")


def shade(amount: float) -> str:
    """CSS of a shade in -1 .. 1.

    Examples
    --------
    >>> shade(-0.2)
    'background: rgba(0, 114, 178, 0.09)'
    """
    colour = ABOVE if amount > 0 else BELOW
    return f"background: rgba({colour}, {min(abs(amount), 1.0) * 0.45:.2f})"  # text on it stays readable


def table(heads: Sequence[Any], rows: Iterable[Sequence[Any]], *, left: Sequence[int] = (0,)) -> Html:
    """Table whose first column heads its rows; columns `left` are texts, the others numbers."""
    named = element("tr", *(_cell("th", head, n in left, scope="col") for n, head in enumerate(heads)))
    made = [
        element(
            "tr",
            *(
                _cell("td" if n else "th", value, n in left, **({} if n else {"scope": "row"}))
                for n, value in enumerate(row)
            ),
        )
        for row in rows
    ]
    return element("table", element("thead", named), element("tbody", *made), style="border-collapse: collapse")


def _cell(tag: str, value: Any, left: bool, **attributes: str) -> Html:
    content, colour = (value.content, shade(value.amount)) if isinstance(value, Shaded) else (value, "")
    side = "left; white-space: pre-wrap; overflow-wrap: anywhere; max-width: 50em" if left else "right"
    style = "; ".join(filter(None, (f"text-align: {side}", f"border-bottom: {LINE}", "padding: 0.2em 0.6em", colour)))
    return element(tag, content, style=style, **attributes)


def percent(value: float) -> str:
    """Write a probability as a percentage, one digit behind the point; what is less than that says so.

    Examples
    --------
    >>> [percent(p) for p in (0.25, 0.0001, 0.0, float("nan"))]
    ['25.0', '< 0.1', '0.0', '–']
    """
    if value != value:
        return "–"
    return "< 0.1" if 0 < value < 0.0005 else f"{100 * value:.1f}"
