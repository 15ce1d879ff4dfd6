"""Check the built documentation: local links, pictures and anchors exist, and nothing
is loaded from elsewhere.

    python docs/check_links.py docs/_build/html

Exit status 1 where something is missing.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links, the loaded files and the anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what one tag links to, loads or names."""
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("img", "script") and "src" in given:
            self.loaded.append(given["src"])
        if tag == "link" and given.get("rel") == "stylesheet":
            self.loaded.append(given["href"])


def problems(folder: Path) -> list[str]:
    """Return one sentence for each thing that is missing."""
    pages = {path.resolve(): Page(path) for path in folder.rglob("*.html")}
    found = []
    for path, page in pages.items():
        where = path.relative_to(folder.resolve())
        found += [
            f"{where} loads {name} from elsewhere"
            for name in page.loaded
            if urlsplit(name).netloc
        ]
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
            else:
                target = path
            if not target.exists():
                found.append(f"{where} links to {link}, which does not exist")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                found.append(f"{where} links to {link}, which has no such anchor")
    return found


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print(
        "\n".join(wrong) or "all links of the documentation exist",
        file=sys.stderr if wrong else sys.stdout,
    )
    raise SystemExit(bool(wrong))
