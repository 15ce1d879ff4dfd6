"""What the package itself knows, written into its pages: `python docs/tables.py`.

A page has a pair of comments, which no reader sees, and between them what this program
writes:

    <!-- fields network -->
    ...
    <!-- end of fields -->

So a page reads the same on the site and where its source is shown. A test holds every
page to this program.

`update-rule FAMILY`, `fields FAMILY`, `questions FAMILY` and `papers FAMILY` are the
words of `giantstep describe`; `agreement FAMILY` is the table that `make verify`
measured; `benchmarks` is what every benchmark printed when its result was stored,
`stored-numbers NAME` and `stored-text NAME` are one file of those results;
`published-figures` is what `giantstep reproduce` can draw, `paper-symbols` what
`from_paper` takes, `file PATH` a file of this folder.
"""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from giantstep.core.scenario.describe import describe

DOCS = Path(__file__).parent
VERIFICATION = DOCS / "data" / "verification.json"
BENCHMARKS = DOCS.parent / "benchmarks"
WRITTEN = re.compile(
    r"^<!-- (?P<kind>[a-z-]+)(?: (?P<about>\S+))? -->\n.*?^<!-- end of (?P=kind) -->$",
    re.M | re.S,
)


# -- Markdown --------------------------------------------------------------------------


def code(text: str) -> str:
    """Return a text as code."""
    return f"`{text}`"


def prose(text: str) -> str:
    """Return a text as it is, what stands between backticks as code."""
    parts = text.split("`")
    parts[::2] = [_escaped(part) for part in parts[::2]]
    return "`".join(parts)


def _escaped(text: str) -> str:
    """Keep Markdown from reading *, $, <tag> and _ at the end of a word as marks."""
    text = re.sub(r"([*$\\])", r"\\\1", text)
    text = re.sub(r"<(?=[A-Za-z/!])", r"\\<", text)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = [_row(head), "|" + "---|" * len(head), *map(_row, rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def block(text: str) -> str:
    """Return a text as it was printed."""
    return f"```text\n{text.rstrip()}\n```"


# -- Families --------------------------------------------------------------------------


def update_rule(family: str) -> Iterator[str]:
    """Yield the update rule, as `describe` prints it."""
    yield block(describe(family)["update_rule"])


def fields(family: str) -> Iterator[str]:
    """Yield the table of fields, then those of the parts that a field may hold."""
    about = describe(family)
    yield _fields(about["fields"])
    for field in about["fields"]:
        for choice in field.get("choices", []):
            if choice.get("fields"):
                kind = f' (kind "{choice["kind"]}")' if "kind" in choice else ""
                yield f"**{code(field['name'])}: {choice['name']}{kind}**"
                yield prose(choice["meaning"])
                yield _fields(choice["fields"])


def _fields(described: Iterable[dict[str, Any]]) -> str:
    rows = []
    for field in described:
        if field["required"]:
            default = "required"
        else:
            default = code(json.dumps(field["default"]))
        symbol = code(field["symbol"]) if field["symbol"] else ""
        rows.append(
            (
                code(field["name"]),
                symbol,
                prose(field["meaning"]),
                prose(field["allowed"]),
                default,
            )
        )
    return table(("field", "symbol", "meaning", "allowed", "default"), rows)


def questions(family: str) -> Iterator[str]:
    """Yield the questions that a family answers, each with its variables and
    settings.
    """
    for name, question in describe(family)["questions"].items():
        asked = f'what="{name}"'
        yield f"**{code(asked)}**: {prose(question['meaning'])}."
        yield table(
            ("variable", "symbol", "meaning"), map(_variable, question["variables"])
        )
        if question["settings"]:
            settings = [
                (
                    code(key),
                    prose(setting["meaning"]),
                    code(json.dumps(setting["default"])),
                )
                for key, setting in question["settings"].items()
            ]
            yield table(("setting", "meaning", "default"), settings)


def _variable(variable: dict[str, Any]) -> tuple[str, str, str]:
    dims = f"({', '.join(variable['dims'])})" if variable["dims"] else ""
    if len(variable["engines"]) == 1:
        only = f" ({variable['engines'][0]} only)"
    else:
        only = ""
    return (
        code(variable["name"] + dims),
        code(variable["symbol"]),
        prose(variable["meaning"] + only),
    )


def papers(family: str) -> Iterator[str]:
    """Yield the papers behind a family; `giantstep cite` prints the same."""
    yield "\n".join(
        f"- {prose(reference(paper['bibtex']))}" for paper in describe(family)["papers"]
    )


def reference(bibtex: str) -> str:
    """Return a BibTeX entry as a line of text."""
    found = re.findall(r"(\w+)\s*=\s*\{(.*?)\},?\s*\n", bibtex, flags=re.S)
    entry = {name: _without_tex(value) for name, value in found}
    eprint = f"arXiv {entry['eprint']}" if "eprint" in entry else ""
    where = entry.get("journal", entry.get("booktitle", ""))
    parts = [
        entry.get("author", "").replace(" and ", "; "),
        entry["title"],
        where,
        eprint,
        entry.get("year", ""),
    ]
    return ". ".join(part.rstrip(".") for part in parts if part) + "."


def _without_tex(text: str) -> str:
    accented = re.sub(
        r"\{?\\'\{?(\w)\}?\}?",
        lambda found: unicodedata.normalize("NFC", found[1] + "\u0301"),
        text,
    )
    accented = re.sub(
        r'\{?\\"\{?(\w)\}?\}?',
        lambda found: unicodedata.normalize("NFC", found[1] + "\u0308"),
        accented,
    )
    return re.sub(r"\s+", " ", re.sub(r"[{}\\]", "", accented))


def agreement(family: str) -> Iterator[str]:
    """Yield what `make verify` measured: limit against experiment, check by check."""
    records = json.loads(VERIFICATION.read_text())
    own = [record for record in records.values() if record.get("family") == family]
    rows = [
        _judged(row) for record in own for row in record.get("rows", []) if row["shown"]
    ]
    head = (
        "check",
        "variable",
        "d",
        "trials",
        "points",
        "largest |z|",
        "by chance",
        "largest gap",
        "visible gap",
        "verdict",
    )
    yield table(head, rows)


def _judged(row: dict[str, Any]) -> tuple[str, ...]:
    gaps = [f"{100 * row[name]:.2f}%" for name in ("largest_gap", "visible_gap")]
    counts = [str(row[name]) for name in ("dim", "trials", "points")]
    scores = [f"{row[name]:.2f}" for name in ("largest_z", "line")]
    return (
        prose(row["check"]),
        code(row["variable"]),
        *counts,
        *scores,
        *gaps,
        prose(row["brief"]),
    )


def paper_symbols(_: str) -> Iterator[str]:
    """Yield the symbols that `from_paper` takes, paper by paper, with what our fields
    are in them.
    """
    from giantstep.core.scenario.families import SHIPPED, family_class
    from giantstep.core.scenario.references import BIBTEX

    for cls in map(family_class, sorted(SHIPPED)):
        for key, paper in cls.paper_symbols.items():
            asked = f'{cls.__name__}.from_paper("{key}", ...)'
            yield f"**{code(asked)}**: {prose(reference(BIBTEX[key]))}"
            yield table(
                ("symbol", "meaning"),
                [(code(name), prose(said)) for name, said in paper.symbols.items()],
            )
            ours = [
                (code(name), code(" or ".join(map(str, paper.formulas(name)))))
                for name in paper.fields
            ]
            yield table(("ours", "in symbols"), ours)


# -- Benchmarks, figures, files --------------------------------------------------------


def benchmarks(_: str) -> Iterator[str]:
    """Yield what every benchmark printed when it was last stored; those without a
    stored result are named.
    """
    missing = []
    for program in sorted(BENCHMARKS.glob("bench_*.py")):
        results = BENCHMARKS / "results"
        places = (
            results / f"{program.stem}.txt",
            results / f"{program.stem.removeprefix('bench_')}.txt",
        )
        stored = next((place for place in places if place.exists()), None)
        if stored is None:
            missing.append(program.name)
            continue
        yield (
            f"**{prose(_first_line(program))}** ({code(f'benchmarks/{program.name}')})"
        )
        yield block(stored.read_text())
    if missing:
        yield f"Without a stored result: {', '.join(missing)}; run make bench."


def stored_numbers(name: str) -> Iterator[str]:
    """Yield the numbers of a JSON file of benchmarks/results as a table."""
    content = json.loads((BENCHMARKS / "results" / f"{name}.json").read_text())
    rows = [
        (prose(measured.replace("_", " ")), _shown(value))
        for measured, value in _flat(content)
    ]
    yield table(("measured", "value"), rows)


def stored_text(name: str) -> Iterator[str]:
    """Yield a text file of benchmarks/results as it is."""
    yield block((BENCHMARKS / "results" / f"{name}.txt").read_text())


def _first_line(program: Path) -> str:
    found = ast.get_docstring(ast.parse(program.read_text())) or program.stem
    first = found.split("\n\n")[0]
    return " ".join(first.split()).rstrip(".")


def _flat(content: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}: ")
        else:
            yield before + name, value


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return prose(str(value))


def published_figures(_: str) -> Iterator[str]:
    """Yield the figures that `giantstep reproduce` rebuilds, those of papers before our
    own.
    """
    from giantstep.core.scenario.references import BIBTEX
    from giantstep.papers import list_figures

    recipes = list_figures()
    for ours in (False, True):
        yield f"## {'Figures of our own' if ours else 'Figures of papers'}"
        chosen = [recipe for recipe in recipes if recipe.ours is ours]
        for paper in dict.fromkeys(recipe.paper for recipe in chosen):
            if ours and not paper.startswith("giantstep"):
                setting = "In the setting of: "
            else:
                setting = ""
            yield f"**{prose(setting + reference(BIBTEX[paper]))}**"
            rows = []
            for recipe in chosen:
                if recipe.paper == paper:
                    if recipe.title.endswith("?"):
                        title = recipe.title
                    else:
                        title = f"{recipe.title}."
                    shows = prose(f"{title} {recipe.description}")
                    rows.append((code(recipe.name), shows, prose(recipe.parameters)))
            yield table(("name", "what it shows", "parameters"), rows)


def file(path: str) -> Iterator[str]:
    """Yield a file of this folder as it is."""
    yield (DOCS / path).read_text().strip()


# -- Pages -----------------------------------------------------------------------------

WRITERS: dict[str, Callable[[str], Iterator[str]]] = {
    "update-rule": update_rule,
    "fields": fields,
    "questions": questions,
    "papers": papers,
    "agreement": agreement,
    "benchmarks": benchmarks,
    "stored-numbers": stored_numbers,
    "stored-text": stored_text,
    "published-figures": published_figures,
    "paper-symbols": paper_symbols,
    "file": file,
}


def written(text: str) -> str:
    """Return a page with everything between its comments as the package knows it
    now.
    """
    return WRITTEN.sub(_between_comments, text)


def _between_comments(found: re.Match[str]) -> str:
    kind = found["kind"]
    about = found["about"] or ""
    parts = "\n\n".join(WRITERS[kind](about))
    return (
        f"<!-- {kind}{' ' * bool(about)}{about} -->\n\n{parts}\n\n<!-- end of"
        f" {kind} -->"
    )


def main() -> None:
    """Write every page anew that is not current."""
    for page in sorted(DOCS.glob("*.md")):
        before = page.read_text()
        after = written(before)
        if after != before:
            page.write_text(after)
            print(f"docs/{page.name} is written.")


if __name__ == "__main__":
    main()
