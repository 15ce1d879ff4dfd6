"""How large the code is and how it reads: tokens, density, comments, imports against the
order of the rooms. Lines are not counted, since wider lines would improve them.

    python benchmarks/size.py                 # what is here
    python benchmarks/size.py v0.3.0          # beside a revision
    python benchmarks/size.py --page          # writes docs/size.md

A *token* is one of Python's own tokenizer, without comments, docstrings, line ends and
indentation; a text with values in it (an f-string) is one. A *statement* is a logical
line of code.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "giantstep"
LONG_FUNCTION = 300
"""Tokens above which a function is hard to take in at once."""
SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
"""Kinds of tokens that are no code."""
REFUSALS = """
from giantstep.problems.network.composition import all_pairs
print(sum(pair.verdict == "no theory" for steps in (1, 2) for pair in all_pairs(steps)))
"""
"""Program that counts the pairs of options of a network for which the limit has no
theory.
"""
PAGE = """\
# Size

How large the code is, room by room, in the order in which rooms may import each other
([architecture](architecture.md)). `python benchmarks/size.py --page` writes this page.

{rooms}

{measures}

- A *token* is one of Python's own tokenizer, without comments, docstrings and line ends. A
  *statement* is a logical line. Neither changes when a line is broken, so neither can be improved
  by wider lines.
- A *parallel assignment* is `a, b = x, y`. It is two statements in one.
- An import goes *against the order* where its room stands above the room that imports it.
  `make lint` fails on the first one.
- *Refused pairs* are pairs of the ten options of a network after one and after two maximal steps
  (90 in all) for which there is no theory.
"""


@dataclass
class Count:
    """What is counted in one module, or in many."""

    files: int = 0
    tokens: int = 0
    lines: int = 0
    statements: int = 0
    comments: int = 0
    conditionals: int = 0
    nested_conditionals: int = 0
    parallel_assignments: int = 0
    tokens_in_long_functions: int = 0
    inner_imports: int = 0
    imports: list[tuple[str, str]] = field(default_factory=list)

    def __iadd__(self, other: Count) -> Count:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self

    @property
    def tokens_a_statement(self) -> float:
        """Tokens of a logical line."""
        return self.tokens / max(self.statements, 1)

    @property
    def tokens_a_line(self) -> float:
        """Tokens of a line that has some."""
        return self.tokens / max(self.lines, 1)

    @property
    def comment_share(self) -> float:
        """Comments to 1,000 tokens."""
        return 1000 * self.comments / max(self.tokens, 1)

    def of_thousand(self, number: int) -> float:
        """Return a number to 1,000 statements."""
        return 1000 * number / max(self.statements, 1)


# -- one module ------------------------------------------------------------------------


def count_module(name: str, text: str) -> Count:
    """Count one module of the package, by its dotted name."""
    tree = ast.parse(text)
    silent = _bare_strings(tree)
    code = [token for token in _tokens(text) if _is_code(token, silent)]
    count = Count(files=1, tokens=len(code))
    count.lines = len({token.start[0] for token in code})
    count.statements = _statements(text, silent)
    count.comments = sum(token.type == tokenize.COMMENT for token in _tokens(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            count.conditionals += 1
            count.nested_conditionals += _holds_conditional(node)
        elif isinstance(node, ast.Assign):
            count.parallel_assignments += _is_parallel(node)
    for function in _functions(tree):
        size = _tokens_between(code, function.lineno, function.end_lineno or 0)
        if size > LONG_FUNCTION:
            count.tokens_in_long_functions += size
    count.inner_imports = len(set(_inner_imports(tree)))
    count.imports = [(name, other) for other in _imported(tree)]
    return count


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens of a source; the pieces of an f-string as one of them."""
    depth = 0
    start = getattr(tokenize, "FSTRING_START", None)
    end = getattr(tokenize, "FSTRING_END", None)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == end:
            depth -= 1
        if depth == 0 and token.type != end:
            yield token
        if token.type == start:
            depth += 1


def _is_code(token: tokenize.TokenInfo, silent: set[tuple[int, int]]) -> bool:
    return token.type not in SILENT and token.start not in silent


def _bare_strings(tree: ast.Module) -> set[tuple[int, int]]:
    """Return where docstrings begin, those behind constants included."""
    return {
        (node.lineno, node.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def _statements(text: str, silent: set[tuple[int, int]]) -> int:
    """Return how many logical lines hold code."""
    count = 0
    has_code = False
    for token in _tokens(text):
        has_code |= _is_code(token, silent)
        if token.type == tokenize.NEWLINE:
            count += has_code
            has_code = False
    return count


def _tokens_between(code: list[tokenize.TokenInfo], first: int, last: int) -> int:
    return sum(first <= token.start[0] <= last for token in code)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _holds_conditional(node: ast.IfExp) -> bool:
    return any(
        isinstance(inner, ast.IfExp) for inner in ast.walk(node) if inner is not node
    )


def _is_parallel(node: ast.Assign) -> bool:
    return isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)


# -- imports ---------------------------------------------------------------------------


def _inner_imports(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the imports of the package inside functions."""
    for function in _functions(tree):
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom) and any(_modules(node)):
                yield node


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _modules(node)


def _modules(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the modules of the package that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    else:
        names = [alias.name for alias in node.names]
    for name in names:
        if name.startswith(f"{PACKAGE}."):
            yield name


def rooms(root: Path) -> list[str]:
    """Return the rooms in the order of the contracts in ``pyproject.toml``, lowest
    first; problems and tools folder by folder.
    """
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]
    layers = contracts["importlinter"]["contracts"]
    core = reversed(layers[1]["layers"])
    found = [f"{PACKAGE}.core.{room}" for room in core]
    for floor in ("problems", "tools"):
        folders = sorted((root / "src" / PACKAGE / floor).glob("*/__init__.py"))
        found += [f"{PACKAGE}.{floor}.{path.parent.name}" for path in folders]
        found.append(f"{PACKAGE}.{floor}")
    return [*found, f"{PACKAGE}.papers", f"{PACKAGE}.faces"]


def room_of(module: str, order: list[str]) -> str | None:
    """Return the room of a module; None at the root and in ``reference``."""
    inside = [room for room in order if f"{module}.".startswith(f"{room}.")]
    return max(inside, key=len, default=None)


def floor_of(room: str) -> str:
    """Return the part of the order that a room belongs to: problems are equals."""
    parts = room.split(".")
    if parts[1] == "core":
        return room
    return ".".join(parts[:2])


def against_order(count: Count, order: list[str]) -> list[tuple[str, str]]:
    """Return the imports (module, what it imports) that go up."""
    floors = list(dict.fromkeys(map(floor_of, order)))
    found = []
    for module, other in count.imports:
        below = room_of(module, order)
        above = room_of(other, order)
        if below is None or above is None:
            continue
        if floors.index(floor_of(above)) > floors.index(floor_of(below)):
            found.append((module, other))
    return found


# -- the whole -------------------------------------------------------------------------


def count_package(root: Path) -> dict[str, Count]:
    """Return the counts of the package below a folder, dotted module -> count."""
    source = root / "src"
    counts = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        counts[name] = count_module(name, path.read_text(encoding="utf-8"))
    return counts


def total(counts: dict[str, Count]) -> Count:
    """Return the sum of counts."""
    whole = Count()
    for count in counts.values():
        whole += count
    return whole


def measures(root: Path) -> dict[str, str]:
    """Return what is said of the package below a folder, name -> number."""
    counts = count_package(root)
    whole = total(counts)
    try:
        upwards = str(len(against_order(whole, rooms(root))))
    except KeyError:  # a revision from before the order was a contract
        upwards = "-"
    refused = _refusals(root)
    return {
        "files": f"{whole.files:,}",
        "tokens": f"{whole.tokens:,}",
        "tokens a statement": f"{whole.tokens_a_statement:.1f}",
        "tokens a line of code": f"{whole.tokens_a_line:.1f}",
        "comments, of 1,000 tokens": f"{whole.comment_share:.1f}",
        "conditional expressions, of 1,000 statements": (
            f"{whole.of_thousand(whole.conditionals):.1f}"
        ),
        "nested conditional expressions": f"{whole.nested_conditionals}",
        "parallel assignments, of 1,000 statements": (
            f"{whole.of_thousand(whole.parallel_assignments):.1f}"
        ),
        f"share of tokens in functions above {LONG_FUNCTION}": (
            f"{whole.tokens_in_long_functions / whole.tokens:.0%}"
        ),
        "imports of the package inside functions": f"{whole.inner_imports}",
        "imports against the order": upwards,
        "public names": f"{_public_names(root)}",
        "refused pairs of options of a network": "-" if refused is None else refused,
    }


def _public_names(root: Path) -> int:
    stub = ast.parse((root / "src" / PACKAGE / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return sum(len(node.names) for node in imports)


def _refusals(root: Path) -> str | None:
    """Return how many pairs of options have no theory, as the sources below a folder
    say themselves.
    """
    done = subprocess.run(
        [sys.executable, "-c", REFUSALS],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        return None
    return done.stdout.strip()


def room_rows(root: Path) -> Iterator[tuple[str, ...]]:
    """Yield a row for each room: name, files, tokens, density, comments."""
    order = rooms(root)
    counts = count_package(root)
    for room in order:
        inside = {n: c for n, c in counts.items() if room_of(n, order) == room}
        whole = total(inside)
        if whole.tokens:
            yield (
                f"`{room.removeprefix(f'{PACKAGE}.').replace('.', '/')}`",
                f"{whole.files}",
                f"{whole.tokens:,}",
                f"{whole.tokens_a_statement:.1f}",
                f"{whole.comment_share:.1f}",
            )


def measures_at(revision: str) -> dict[str, str]:
    """Return every measure of a revision."""
    packed = subprocess.run(
        ["git", "archive", revision, "src", "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    with (
        tempfile.TemporaryDirectory() as folder,
        tarfile.open(fileobj=io.BytesIO(packed)) as archive,
    ):
        archive.extractall(folder, filter="data")
        return measures(Path(folder))


def markdown(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table: names to the left, numbers to the right."""
    line = "| --- |" + " ---: |" * (len(heads) - 1)
    return "\n".join(
        [
            f"| {' | '.join(heads)} |",
            line,
            *(f"| {' | '.join(row)} |" for row in rows),
        ]
    )


def main() -> None:
    """Print the measures, beside those of a revision if one is given, or write the
    page.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", nargs="?", help="a revision to compare with")
    parser.add_argument("--page", action="store_true", help="write docs/size.md")
    options = parser.parse_args()
    now = measures(ROOT)
    by_room = list(room_rows(ROOT))
    heads = ("room", "files", "tokens", "tokens a statement", "comments of 1,000")
    if options.page:
        page = PAGE.format(
            rooms=markdown(heads, by_room),
            measures=markdown(("", "all"), list(now.items())),
        )
        (ROOT / "docs" / "size.md").write_text(page, encoding="utf-8")
        return
    columns = [now]
    if options.revision:
        columns.insert(0, measures_at(options.revision))
    for row in by_room:
        print(f"{row[0].strip('`'):<32}" + "".join(f"{cell:>20}" for cell in row[1:]))
    for name in now:
        numbers = "".join(f"{column[name]:>14}" for column in columns)
        print(f"{name:<52}{numbers}")


if __name__ == "__main__":
    main()
