"""Directives that write a family's declarations into its page, in the words of `giantstep describe`.

``{update-rule} one-step``, ``{fields} one-step``, ``{questions} one-step``, ``{papers} one-step`` and
``{agreement} one-step``, the table that `make verify` measured. ``{public-names} NAMES`` documents public names,
``{benchmarks}`` what every benchmark printed when its result was stored, ``{stored-numbers} NAME`` and
``{stored-text} NAME`` one file of those results, ``{published-figures}`` what `giantstep reproduce` can draw,
``{paper-symbols}`` what `from_paper` takes.
"""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from giantstep.describe import describe

HEADING = "Fields, each with its symbol, meaning, what it allows and its default:"
"""Stands above the fields in the docstring of a family (`giantstep.scenario`)."""

DATA = Path(__file__).parents[1] / "data" / "verification.json"
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def _literal(text: str) -> nodes.literal:
    return nodes.literal(text, text)


def _said(text: str) -> list[nodes.Node]:
    """Return a text as nodes, with what stands between backticks as code."""
    parts = text.split("`")
    return [_literal(part) if number % 2 else nodes.Text(part) for number, part in enumerate(parts) if part]


def _cell(content: str | nodes.Node) -> nodes.entry:
    inside = _said(content) if isinstance(content, str) else [content]
    return nodes.entry("", nodes.paragraph("", "", *inside))


def _table(head: Sequence[str], rows: Iterable[Sequence[str | nodes.Node]]) -> nodes.table:
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in head), cols=len(head))
    group += nodes.thead("", nodes.row("", *map(_cell, head)))
    group += nodes.tbody("", *(nodes.row("", *map(_cell, row)) for row in rows))
    return nodes.table("", group)


def _title(text: str) -> nodes.rubric:
    return nodes.rubric(text, text)


class FamilyDirective(SphinxDirective):
    """A directive whose one argument is the name of a family."""

    required_arguments = 1

    def about(self) -> dict[str, Any]:
        return describe(self.arguments[0])


class UpdateRule(FamilyDirective):
    """The update rule, as `describe` prints it."""

    def run(self) -> list[nodes.Node]:
        rule = self.about()["update_rule"]
        return [nodes.literal_block(rule, rule, language="text")]


class Fields(FamilyDirective):
    """The table of fields, with those of the parts below."""

    def run(self) -> list[nodes.Node]:
        about = self.about()
        out: list[nodes.Node] = [self.fields(about["fields"])]
        for field in about["fields"]:
            for choice in field.get("choices", []):
                if choice.get("fields"):
                    kind = f' (kind "{choice["kind"]}")' if "kind" in choice else ""
                    out += [
                        _title(f"{field['name']}: {choice['name']}{kind}"),
                        nodes.paragraph("", "", *_said(choice["meaning"])),
                    ]
                    out.append(self.fields(choice["fields"]))
        return out

    @staticmethod
    def fields(fields: Iterable[dict[str, Any]]) -> nodes.table:
        rows = [
            (
                _literal(field["name"]),
                field["symbol"],
                field["meaning"],
                field["allowed"],
                "required" if field["required"] else _literal(json.dumps(field["default"])),
            )
            for field in fields
        ]
        return _table(("field", "symbol", "meaning", "allowed", "default"), rows)


class Questions(FamilyDirective):
    """The questions a family answers, each with its variables."""

    def run(self) -> list[nodes.Node]:
        out: list[nodes.Node] = []
        for name, question in self.about()["questions"].items():
            out += [_title(f'what="{name}"'), nodes.paragraph("", "", *_said(question["meaning"] + "."))]
            rows = []
            for variable in question["variables"]:
                dims = f"({', '.join(variable['dims'])})" if variable["dims"] else ""
                one = f" ({variable['engines'][0]} only)" if len(variable["engines"]) == 1 else ""
                rows.append((_literal(variable["name"] + dims), variable["symbol"], variable["meaning"] + one))
            out.append(_table(("variable", "symbol", "meaning"), rows))
            if question["settings"]:
                settings = [
                    (_literal(key), setting["meaning"], _literal(json.dumps(setting["default"])))
                    for key, setting in question["settings"].items()
                ]
                out.append(_table(("setting", "meaning", "default"), settings))
        return out


def _reference(bibtex: str) -> str:
    """Return a BibTeX entry as a line of text."""
    found = re.findall(r"(\w+)\s*=\s*\{(.*?)\},?\s*\n", bibtex, flags=re.S)
    entry = {name: _without_tex(value) for name, value in found}
    eprint = f"arXiv {entry['eprint']}" if "eprint" in entry else ""
    where = entry.get("journal", entry.get("booktitle", ""))
    parts = [entry.get("author", "").replace(" and ", "; "), entry["title"], where, eprint, entry.get("year", "")]
    return ". ".join(part.rstrip(".") for part in parts if part) + "."


def _without_tex(text: str) -> str:
    accented = re.sub(r"\{?\\'\{?(\w)\}?\}?", lambda found: unicodedata.normalize("NFC", found[1] + "\u0301"), text)
    accented = re.sub(r'\{?\\"\{?(\w)\}?\}?', lambda found: unicodedata.normalize("NFC", found[1] + "\u0308"), accented)
    return re.sub(r"\s+", " ", re.sub(r"[{}\\]", "", accented))


class Papers(FamilyDirective):
    """The papers behind a family; `giantstep cite` prints the same."""

    def run(self) -> list[nodes.Node]:
        items = [
            nodes.list_item("", nodes.paragraph("", _reference(paper["bibtex"]))) for paper in self.about()["papers"]
        ]
        return [nodes.bullet_list("", *items)]


class Agreement(FamilyDirective):
    """What `make verify` measured: limit against experiment, check by check."""

    def run(self) -> list[nodes.Node]:
        records = json.loads(DATA.read_text()) if DATA.exists() else {}
        own = [record for record in records.values() if record.get("family") == self.arguments[0]]
        rows = [row for record in own for row in record.get("rows", []) if row["shown"]]
        if not rows:
            text = "No agreement table has been made for this family yet: run make verify."
            return [nodes.paragraph("", text)]
        head = ("check", "variable", "d", "trials", "points", "largest |z|", "by chance", "largest gap", "visible gap",
                "verdict")  # fmt: skip
        cells = [
            (
                row["check"],
                _literal(row["variable"]),
                str(row["dim"]),
                str(row["trials"]),
                str(row["points"]),
                f"{row['largest_z']:.2f}",
                f"{row['line']:.2f}",
                f"{100 * row['largest_gap']:.2f}%",
                f"{100 * row['visible_gap']:.2f}%",
                row["brief"],
            )
            for row in rows
        ]
        return [_table(head, cells)]


class Benchmarks(Directive):
    """What every benchmark printed when it was last stored; those without a stored result are named."""

    def run(self) -> list[nodes.Node]:
        out: list[nodes.Node] = []
        missing = []
        for program in sorted(BENCHMARKS.glob("bench_*.py")):
            results = BENCHMARKS / "results"
            places = (results / f"{program.stem}.txt", results / f"{program.stem.removeprefix('bench_')}.txt")
            stored = next((place for place in places if place.exists()), None)
            if stored is None:
                missing.append(program.name)
                continue
            out += [_title(_first_line(program)), nodes.paragraph("", "", _literal(f"benchmarks/{program.name}"))]
            text = stored.read_text().rstrip()
            out.append(nodes.literal_block(text, text, language="text"))
        if missing:
            names = ", ".join(missing)
            out.append(nodes.paragraph("", f"Without a stored result: {names}; run make bench."))
        return out


class StoredNumbers(Directive):
    """The numbers of a JSON file of benchmarks/results as a table."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        content = json.loads((BENCHMARKS / "results" / f"{self.arguments[0]}.json").read_text())
        rows = [(name.replace("_", " "), _shown(value)) for name, value in _flat(content)]
        return [_table(("measured", "value"), rows)]


class StoredText(Directive):
    """A text file of benchmarks/results as it is."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        text = (BENCHMARKS / "results" / f"{self.arguments[0]}.txt").read_text().rstrip()
        return [nodes.literal_block(text, text, language="text")]


def _first_line(program: Path) -> str:
    found = ast.get_docstring(ast.parse(program.read_text())) or program.stem
    return found.splitlines()[0].rstrip(".")


def _flat(content: dict[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}: ")
        else:
            yield before + name, value


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class PublishedFigures(Directive):
    """The figures that `giantstep reproduce` rebuilds, those of papers before our own."""

    def run(self) -> list[nodes.Node]:
        from giantstep.papers import list_figures
        from giantstep.references import BIBTEX

        recipes = list_figures()
        out: list[nodes.Node] = []
        for ours in (False, True):
            out.append(_title("Figures of our own" if ours else "Figures of papers"))
            chosen = [recipe for recipe in recipes if recipe.ours is ours]
            for paper in dict.fromkeys(recipe.paper for recipe in chosen):
                rows = [
                    (
                        _literal(recipe.name),
                        f"{recipe.title}{'' if recipe.title.endswith('?') else '.'} {recipe.description}",
                        recipe.parameters,
                    )
                    for recipe in chosen
                    if recipe.paper == paper
                ]
                setting = "In the setting of: " if ours and not paper.startswith("giantstep") else ""
                out.append(_title(setting + _reference(BIBTEX[paper])))
                out.append(_table(("name", "what it shows", "parameters"), rows))
        return out


class PaperSymbols(Directive):
    """The symbols that `from_paper` takes, paper by paper, with what our fields are in them."""

    def run(self) -> list[nodes.Node]:
        from giantstep.families import SHIPPED, family_class
        from giantstep.references import BIBTEX

        out: list[nodes.Node] = []
        for cls in map(family_class, sorted(SHIPPED)):
            for key, paper in cls.paper_symbols.items():
                title = f'{cls.__name__}.from_paper("{key}", ...): {_reference(BIBTEX[key])}'
                theirs = [(_literal(name), meaning) for name, meaning in paper.symbols.items()]
                ours = [(_literal(name), _literal(" or ".join(paper.formulas(name)))) for name in paper.fields]
                out += [_title(title), _table(("symbol", "meaning"), theirs), _table(("ours", "in symbols"), ours)]
        return out


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
                kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
            lines += [f".. {kind}:: giantstep.{name}", ""]
        container = nodes.container()
        self.state.nested_parse(StringList(lines, "public-names"), self.content_offset, container)
        return list(container.children)


def _without_fields(lines: list[str]) -> list[str]:
    """Return a docstring without its table of fields, which the page of the family shows."""
    if HEADING not in lines:
        return lines
    start = lines.index(HEADING)
    end = next((place for place in range(start, len(lines)) if lines[place].startswith(">>>")), len(lines))
    return lines[:start] + lines[end:]


def _plain_text(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Keep |v| and n_clusters_ of a docstring as they are: docstrings are written to be read as plain text."""
    lines[:] = _without_fields(lines)
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = re.split(r"(``.*?``|`.*?`)", line)
        parts[::2] = [re.sub(r"\||(?<=\w)_(?!\w)", lambda found: "\\" + found[0], part) for part in parts[::2]]
        lines[number] = "".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("update-rule", UpdateRule)
    app.add_directive("fields", Fields)
    app.add_directive("questions", Questions)
    app.add_directive("papers", Papers)
    app.add_directive("agreement", Agreement)
    app.add_directive("public-names", PublicNames)
    app.add_directive("benchmarks", Benchmarks)
    app.add_directive("published-figures", PublishedFigures)
    app.add_directive("paper-symbols", PaperSymbols)
    app.add_directive("stored-numbers", StoredNumbers)
    app.add_directive("stored-text", StoredText)
    app.connect("autodoc-process-docstring", _plain_text, priority=100)
    return {"parallel_read_safe": True}
