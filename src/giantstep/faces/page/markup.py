"""Text for the page: symbols with Greek letters and subscripts, numbers in few digits,
elements of HTML.
"""

from __future__ import annotations

import html
import math
import re
from typing import Any

_GREEK = dict(
    zip(
        "alpha beta gamma delta epsilon eps zeta eta theta kappa lambda mu nu xi pi rho"
        " sigma tau phi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega inf".split(),  # noqa: E501
        "αβγδεεζηθκλμνξπρστφχψωΓΔΘΛΣΦΨΩ∞",
        strict=True,
    )
)
_LETTERS = re.compile(rf"(?<![A-Za-z])({'|'.join(_GREEK)})(?![A-Za-z])")
_VOID = ("input",)


class Html(str):
    """A text that is HTML already."""

    __slots__ = ()


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """Return an element. Children that are no HTML are escaped; attributes that are
    None or False are left out.

    >>> tag("p", "a < b", class_="help", data_field="x", hidden=True)
    '<p class="help" data-field="x" hidden>a &lt; b</p>'
    """
    given = {
        key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()
    }
    written = "".join(
        f" {key}" if value is True else f' {key}="{html.escape(str(value))}"'
        for key, value in given.items()
        if value is not None and value is not False
    )
    inside = "".join(
        child if isinstance(child, Html) else html.escape(str(child))
        for child in children
    )
    return Html(
        f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{inside}</{name}>"
    )


def escaped(text: str) -> Html:
    """Return a text as HTML."""
    return Html(html.escape(text))


def joined(*parts: str) -> Html:
    """Return pieces of HTML one after the other."""
    return Html("".join(parts))


def greek(text: Any) -> str:
    """Write Greek letters for their names, and powers of e in one line.

    >>> greek("alpha0 = n0/d, lambda"), greek("log(1 + e^-yf/T)")
    ('α0 = n0/d, λ', 'log(1 + exp(-yf/T))')
    """
    plain = re.sub(r"\be\^(-\w+(?:/\w+)?)", r"exp(\1)", str(text))
    return _LETTERS.sub(lambda match: _GREEK[match[1]], plain)


def pretty(symbol: str) -> Html:
    """Return a symbol as HTML with subscripts and superscripts; what is made of long
    words stays text.

    >>> pretty("alpha_0 = n_0/d^2")
    'α<sub>0</sub> = n<sub>0</sub>/d<sup>2</sup>'
    """
    if symbol in ("", "-"):
        return Html("")
    text = (
        greek(symbol)
        .replace("->", "→")
        .replace("!=", "≠")
        .replace(" - ", " − ")
        .replace("sqrt(", "√(")
    )
    text = re.sub(r"\b([A-Za-z])_?hat\b", "\\1\u0302", text)
    text = re.sub(r"(?<![A-Za-z])sum ", "Σ ", text)
    text = html.escape(re.sub(r"(?<![A-Za-z])int ", "∫ ", text))
    text = re.sub(
        r"_\{?([A-Za-z0-9α-ω*∞+'-]{1,6}?)\}?(?![A-Za-z0-9α-ω])", r"<sub>\1</sub>", text
    )
    text = text.replace("</sub><sub>", ",")
    text = re.sub(
        r"\^(?:\(([^()]{1,8})\)|([A-Za-zα-ω]|-?\d+))",
        lambda match: f"<sup>{match[1] or match[2]}</sup>",
        text,
    )
    return Html(re.sub(r"([α-ωA-Za-z])(\d)(?![\d<])", r"\1<sub>\2</sub>", text))


def short(value: Any, digits: int = 4) -> str:
    """Return a number in few digits, as the page writes it.

    >>> short(0.12345678), short(250000.0), short("inf"), short(2.0)
    ('0.1235', '2.5e5', '∞', '2')
    """
    if value is None:
        return "–"
    if isinstance(value, str | bool) or not isinstance(value, int | float):
        return {"inf": "∞", "-inf": "−∞", "True": "true", "False": "false"}.get(
            str(value), str(value)
        )
    if not math.isfinite(value):
        return {"inf": "∞", "-inf": "−∞"}.get(str(float(value)), "–")
    if value == 0:
        return "0"
    if abs(value) >= 1e5 or abs(value) < 1e-3:
        mantissa, _, power = f"{value:.{digits - 2}e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(power)}"  # noqa: E501
    return f"{float(f'{value:.{digits}g}'):.12g}"


def words(name: str) -> str:
    """Return ``test_error`` as words; what is but a letter with an index stays so."""
    if re.fullmatch("[a-z]_[a-z]", name):
        return name
    return re.sub(r"_|\.(?!\d)", " ", name)


def last_name(name: str) -> str:
    """Return a dotted name without what it lies in; an entry of a list keeps the list,
    ``steps.0``.
    """
    found = re.search(r"[^.]+(\.\d+)?$", name)
    return found[0] if found else name
