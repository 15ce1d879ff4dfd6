"""The directive ``{public-names} NAMES``, which documents public names, and docstrings
as plain text.

What a family declares is written into its page by `docs/tables.py`.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

HEADING = "Fields, each with its symbol, meaning, what it allows and its default:"
"""Stands above the fields in the docstring of a family
(`giantstep.core.scenario.model`).
"""


class PublicNames(Directive):
    """The public names given, each with its docstring."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        import giantstep

        lines: list[str] = []
        for name in self.arguments[0].split():
            thing = getattr(giantstep, name)
            kind = "autofunction"
            if isinstance(thing, type):
                if issubclass(thing, BaseException):
                    kind = "autoexception"
                else:
                    kind = "autoclass"
            lines += [f".. {kind}:: giantstep.{name}", ""]
        container = nodes.container()
        self.state.nested_parse(
            StringList(lines, "public-names"), self.content_offset, container
        )
        return list(container.children)


def _without_fields(lines: list[str]) -> list[str]:
    """Return a docstring without its table of fields, which the page of the family
    shows.
    """
    if HEADING not in lines:
        return lines
    start = lines.index(HEADING)
    end = next(
        (place for place in range(start, len(lines)) if lines[place].startswith(">>>")),
        len(lines),
    )
    return lines[:start] + lines[end:]


def _plain_text(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Keep |v| and n_clusters_ of a docstring as they are: docstrings are written to be
    read as plain text.
    """
    lines[:] = _without_fields(lines)
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = re.split(r"(``.*?``|`.*?`)", line)
        parts[::2] = [
            re.sub(r"\||(?<=\w)_(?!\w)", lambda found: "\\" + found[0], part)
            for part in parts[::2]
        ]
        lines[number] = "".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", _plain_text, priority=100)
    return {"parallel_read_safe": True}
