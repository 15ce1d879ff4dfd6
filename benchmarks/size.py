"""How large the project is: lines, files, constants, caches, names. Anybody can run it: `python benchmarks/size.py`.

Give a revision to see what changed since then: `python benchmarks/size.py v0.2.0`.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHES = {"cache", "lru_cache", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary", "LRU"}


def sources(revision: str | None) -> dict[str, str]:
    """Return the text of every Python and JavaScript file of src, now or at a revision."""
    if revision is None:
        names = [str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".js")]
        texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    else:
        listed = _git("ls-tree", "-r", "--name-only", revision, "src").split("\n")
        texts = {name: _git("show", f"{revision}:{name}") for name in listed if name.endswith((".py", ".js"))}
    return {name: text for name, text in texts.items() if not name.endswith(".min.js")}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def measures(texts: dict[str, str]) -> dict[str, int]:
    """Return every measure of a set of sources."""
    python = {name: text for name, text in texts.items() if name.endswith(".py")}
    library = {name: text for name, text in python.items() if "/papers/" not in name}
    trees = {name: ast.parse(text) for name, text in library.items()}
    constants = [wording for tree in trees.values() for wording in _constants(tree)]
    classes = Counter(node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    long = [line for text in library.values() for line in text.splitlines() if len(line) >= 100]
    return {
        "Python lines in src": _lines(python),
        "Python lines in src without papers": _lines(library),
        "files of them": len(library),
        "lines of families/network": _lines({n: t for n, t in library.items() if "/families/network/" in n}),
        "JavaScript lines of our own": _lines({n: t for n, t in texts.items() if n.endswith(".js")}),
        "comments": sum(map(_comments, library.values())),
        "lines of 100 characters or more": len(long),
        "classes": sum(classes.values()),
        "class names used twice": sum(count > 1 for count in classes.values()),
        "numeric module constants": len(constants),
        "of them without a word": constants.count(False),
        "module-level caches": sum(map(_caches, trees.values())),
        "imports inside functions": sum(map(_inner_imports, trees.values())),
    }


def _lines(texts: dict[str, str]) -> int:
    return sum(len(text.splitlines()) for text in texts.values())


def _comments(text: str) -> int:
    return sum(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(text).readline))


def _constants(tree: ast.Module) -> Iterator[bool]:
    """Yield for every numeric constant of a module whether a docstring or a comment line explains it.

    Constants that follow each other without a blank line share the docstring behind the last of them.
    """
    for place, node in enumerate(tree.body):
        if not (isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_number(node.value)):
            continue
        after = place + 1
        while after < len(tree.body) and isinstance(tree.body[after], ast.Assign | ast.AnnAssign):
            if tree.body[after].lineno != tree.body[after - 1].end_lineno + 1:  # type: ignore[operator]
                break
            after += 1
        words = tree.body[after] if after < len(tree.body) else None
        yield (
            isinstance(words, ast.Expr) and isinstance(words.value, ast.Constant) and isinstance(words.value.value, str)
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
    """Count functions that remember every call, and empty containers that a module fills while it runs."""
    count = 0
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            count += any(_called(decorator) in CACHES for decorator in node.decorator_list)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            count += _is_empty(node.value) or _called(node.value) in CACHES
    return count


def _is_empty(node: ast.expr) -> bool:
    return (isinstance(node, ast.Dict) and not node.keys) or (isinstance(node, ast.List) and not node.elts)


def _called(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _called(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _inner_imports(tree: ast.Module) -> int:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return len({inner for f in functions for inner in ast.walk(f) if isinstance(inner, ast.Import | ast.ImportFrom)})


def main() -> None:
    """Print the measures, beside those of a revision if one is given."""
    now = measures(sources(None))
    before = measures(sources(sys.argv[1])) if len(sys.argv) > 1 else {}
    for name, value in now.items():
        old = f"{before[name]:>9,}" if before else ""
        print(f"{name:<40}{old}{value:>9,}")


if __name__ == "__main__":
    main()
