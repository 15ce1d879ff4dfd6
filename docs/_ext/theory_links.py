"""Citations of the theory pages become links wherever they are written, in pages and in
docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from citations import EQUATION, PAGES, find_citations, find_targets
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class Links(SphinxTransform):
    """Make a link of every citation in the prose of a page."""

    default_priority = 700
    LEFT_ALONE = (
        nodes.literal_block,
        nodes.literal,
        nodes.reference,
        nodes.title,
        nodes.math,
        pending_xref,
    )

    def apply(self) -> None:
        """Replace the numbers in the text by links; a page of the theory cites its own
        equations by number alone.
        """
        page = self.env.docname.removeprefix("theory/")
        if page in PAGES and page != self.env.docname:
            own = find_targets(page)
        else:
            own = set()
        for node in list(self.document.findall(nodes.Text)):
            if any(isinstance(above, self.LEFT_ALONE) for above in _ancestors(node)):
                continue
            text = node.astext()
            links = {
                (cited.start, cited.end): cited.target for cited in find_citations(text)
            }
            for match in re.finditer(EQUATION, text):
                target = f"{page}-{match.group()[1:-1]}"
                if target in own:
                    links.setdefault((match.start() + 1, match.end() - 1), target)
            if links:
                node.parent.replace(node, list(self.split(text, links)))

    def split(
        self, text: str, links: dict[tuple[int, int], str]
    ) -> Iterator[nodes.Node]:
        """Yield a text with links at the positions given."""
        position = 0
        for (start, end), target in sorted(links.items()):
            yield nodes.Text(text[position:start])
            number = text[start:end]
            about = {
                "refdomain": "std",
                "reftype": "ref",
                "refexplicit": True,
                "refwarn": True,
            }
            yield pending_xref(
                number,
                nodes.inline(number, number),
                reftarget=target,
                refdoc=self.env.docname,
                **about,
            )
            position = end
        yield nodes.Text(text[position:])


def _ancestors(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def setup(app: Sphinx) -> dict[str, bool]:
    """Make citations links; Sphinx calls it."""
    app.add_transform(Links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
