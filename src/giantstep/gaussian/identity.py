"""What functions and targets have in common: they are immutable, and equal where their content is."""

from __future__ import annotations

from typing import Any

from giantstep.gaussian.expression import Expression


class Immutable:
    """A function given by an expression or a callable, known by the digest of its content."""

    __slots__ = ()

    name: str
    _expression: Expression | None
    _fingerprint: Any

    def _content(self) -> tuple[Any, ...]:
        """Return what makes two of them equal."""
        return (self._fingerprint,)

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; {attribute!r} cannot be set")

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is immutable; {attribute!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return self._content() == other._content() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def fingerprint(self) -> str:
        """Return a hex digest of the canonical expression, or of a callable's values on fixed nodes."""
        return str(self._fingerprint)

    @property
    def expression(self) -> str | None:
        """The canonical expression, or None for a Python callable."""
        return None if self._expression is None else self._expression.text
