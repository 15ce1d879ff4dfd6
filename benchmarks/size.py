"""How large the project is: lines, files, constants, caches, names, refusals. Anybody
can run it.

`python benchmarks/size.py` counts what is here, `python benchmarks/size.py v0.2.0` also
a revision. `python benchmarks/size.py --page` writes docs/size.md: what there is beside
the revision where the counting began.
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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHES = {
    "cache",
    "lru_cache",
    "OrderedDict",
    "WeakKeyDictionary",
    "WeakValueDictionary",
    "LRU",
}
BEGINNING = "095c856"
"""Revision at which the third review counted: the page compares with it."""
REFUSALS = """
from giantstep.problems.network.composition import all_pairs
print(sum(pair.verdict == "no theory" for steps in (1, 2) for pair in all_pairs(steps)))
"""
"""Program that counts the pairs of options of a network for which the limit has no
theory.
"""
FEATURES = (
    # several steps on finite batches each; the one batch of `BEGINNING` (112 lines of
    # its family) is a case of them
    "families/network/finite_batches.py",
    # the sign step, Adam's first
    *("families/network/steps/sign.py", "families/network/coordinates.py"),
    *("readout/sign_bulk.py", "readout/sign_signal.py", "readout/sign_statistics.py"),
    # beyond the mean error: variance, calibration, shift, sensitivity, disagreement
    *(
        "families/network/beyond.py",
        "families/network/answers/variance.py",
        "families/network/answers/tested.py",
    ),
    *("families/network/answers/laws.py", "families/network/disagreement.py"),
    *(
        "families/network/measure_beyond.py",
        "families/network/shift.py",
        "families/network/fresh_inputs.py",
    ),
    *(
        "readout/calibration.py",
        "readout/class_pairs.py",
        "readout/output_law.py",
        "readout/pairs.py",
    ),
    *("readout/sensitivity.py", "readout/unlike_pairs.py", "figures/beyond.py"),
    # programs without giantstep, several scenarios in one table, slopes
    *(
        "scripts.py",
        "script.py",
        "gaussian/source.py",
        "several.py",
        "design/slopes.py",
    ),
    # first gradients (5.2c) and every step at a finite dimension; what composes, lists
    # of parts, undeclared kinks
    *(
        "families/giant_steps/finite_orientation.py",
        "readout/finite_size.py",
        "families/network/composition.py",
        "partlists.py",
        "gaussian/edges.py",
    ),
    # notebooks: a figure is shown once
    "figures/shown.py",
    # the page is written by the server: controls, stages, pictures
    *(
        "explorer/controls.py",
        "explorer/fields.py",
        "explorer/markup.py",
        "explorer/picture.py",
    ),
    *(
        "explorer/reopen.py",
        "explorer/reports.py",
        "explorer/stages.py",
        "explorer/theory.py",
        "explorer/views.py",
    ),
)
"""Ends of the paths of modules that answer what the program could not do at
`BEGINNING`.
"""
PAGE = """\
# Size

How large the code base is, now and at revision `{revision}`. `python benchmarks/size.py --page` writes this page.

{table}

- Python is counted with docstrings and blank lines, `papers` (the published figures) apart. JavaScript is that of the
  page, without libraries.
- *New features* are modules for what could not be asked at `095c856`: several finite batches, the sign step, questions
  beyond the mean error, several steps at a finite dimension, lists of steps, programs without giantstep, several
  scenarios, slopes, a page that is written by the server. What they need inside older modules is not counted as new.
- A numeric constant is explained where a docstring stands behind it, or behind the block of constants that it ends.
- A cache is a function that remembers its calls, or a container that a module fills while it runs.
- Refusals are pairs of the ten options of a network after one and after two maximal steps (90 in all) for which there
  is no theory. At `095c856` two families held the network, and refused 61 of the same 90.
"""


def measured_at(revision: str) -> dict[str, int | None]:
    """Return every measure of a revision."""
    packed = subprocess.run(
        ["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with (
        tempfile.TemporaryDirectory() as folder,
        tarfile.open(fileobj=io.BytesIO(packed)) as archive,
    ):
        archive.extractall(folder, filter="data")
        return measures(Path(folder))


def measures(root: Path) -> dict[str, int | None]:
    """Return every measure of the sources below a folder; None for what they do not
    have.
    """
    paths = [
        path for path in (root / "src").rglob("*") if path.suffix in (".py", ".js")
    ]
    texts = {
        str(path): path.read_text(encoding="utf-8")
        for path in paths
        if not path.name.endswith(".min.js")
    }
    python = {name: text for name, text in texts.items() if name.endswith(".py")}
    library = {name: text for name, text in python.items() if "/papers/" not in name}
    trees = {name: ast.parse(text) for name, text in library.items()}
    network = {
        name: text for name, text in library.items() if "/families/network/" in name
    }
    constants = [wording for tree in trees.values() for wording in _constants(tree)]
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    long = [
        line
        for text in library.values()
        for line in text.splitlines()
        if len(line) >= 100
    ]
    return {
        "Python lines in src": _lines(python),
        "Python lines in src without papers": _lines(library),
        "and without new features": _lines(_without_features(library)),
        "files without papers": len(library),
        "lines of families/network": _lines(network),
        "of them without new features": _lines(_without_features(network)),
        "JavaScript lines of our own": _lines(
            {n: t for n, t in texts.items() if n.endswith(".js")}
        ),
        "comments": sum(map(_comments, library.values())),
        "lines of 100 characters or more": len(long),
        "classes": sum(classes.values()),
        "class names used twice": sum(count > 1 for count in classes.values()),
        "numeric module constants": len(constants),
        "constants without a word": constants.count(False),
        "module-level caches": sum(map(_caches, trees.values())),
        "imports inside functions": sum(map(_inner_imports, trees.values())),
        "public names": _public_names(root / "src/giantstep/__init__.pyi"),
        "pairs of options of a network refused": _refusals(root),
    }


def _public_names(stub: Path) -> int:
    imports = [
        node
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
    ]
    return sum(len(node.names) for node in imports)


def _refusals(root: Path) -> int | None:
    """Return how many pairs of options have no theory, as the sources below a folder
    say themselves.
    """
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    said = subprocess.run(
        [sys.executable, "-c", REFUSALS],
        env=environment,
        capture_output=True,
        text=True,
    )
    return int(said.stdout) if said.returncode == 0 else None


def _lines(texts: dict[str, str]) -> int:
    return sum(len(text.splitlines()) for text in texts.values())


def _without_features(texts: dict[str, str]) -> dict[str, str]:
    return {
        name: text
        for name, text in texts.items()
        if not name.endswith(tuple(f"/{end}" for end in FEATURES))
    }


def _comments(text: str) -> int:
    return sum(
        token.type == tokenize.COMMENT
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
    )


def _constants(tree: ast.Module) -> Iterator[bool]:
    """Yield for every numeric constant of a module whether a docstring or a comment
    line explains it.

    Constants that follow each other without a blank line share the docstring behind the
    last of them.
    """
    for place, node in enumerate(tree.body):
        if not (
            isinstance(node, ast.Assign | ast.AnnAssign)
            and node.value is not None
            and _is_number(node.value)
        ):
            continue
        after = place + 1
        while after < len(tree.body) and isinstance(
            tree.body[after], ast.Assign | ast.AnnAssign
        ):
            if tree.body[after].lineno != tree.body[after - 1].end_lineno + 1:  # type: ignore[operator]
                break
            after += 1
        words = tree.body[after] if after < len(tree.body) else None
        yield (
            isinstance(words, ast.Expr)
            and isinstance(words.value, ast.Constant)
            and isinstance(words.value.value, str)
        )


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List):
        return bool(node.elts) and all(map(_is_number, node.elts))
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float, complex)


def _caches(tree: ast.Module) -> int:
    """Count functions that remember every call, and empty containers that a module
    fills while it runs.
    """
    count = 0
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            count += any(
                _called(decorator) in CACHES for decorator in node.decorator_list
            )
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            count += _is_empty(node.value) or _called(node.value) in CACHES
    return count


def _is_empty(node: ast.expr) -> bool:
    return (isinstance(node, ast.Dict) and not node.keys) or (
        isinstance(node, ast.List) and not node.elts
    )


def _called(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _called(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return ""


def _inner_imports(tree: ast.Module) -> int:
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return len(
        {
            inner
            for f in functions
            for inner in ast.walk(f)
            if isinstance(inner, ast.Import | ast.ImportFrom)
        }
    )


def main() -> None:
    """Print the measures, beside those of a revision if one is given, or write the
    page.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", nargs="?", help="a revision to compare with")
    parser.add_argument(
        "--page",
        action="store_true",
        help=f"write docs/size.md, beside {BEGINNING} if none is given",
    )
    options = parser.parse_args()
    revision = options.revision or (BEGINNING if options.page else None)
    if revision is None:
        columns = [measures(ROOT)]
    else:
        columns = [measured_at(revision), measures(ROOT)]
    rows = [
        (name, *map(_shown, values))
        for name, *values in zip(columns[0], *(c.values() for c in columns))
    ]
    if options.page:
        lines = [("", f"`{revision}`", "now"), ("---", "---:", "---:"), *rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        (ROOT / "docs/size.md").write_text(
            PAGE.format(revision=revision, table=table), encoding="utf-8"
        )
        return
    for name, *values in rows:
        print(f"{name:<40}{''.join(f'{value:>9}' for value in values)}")


def _shown(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


if __name__ == "__main__":
    main()
