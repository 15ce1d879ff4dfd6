"""The teeth of the tests: seeded random faults in the code, and whether a test notices.

    python benchmarks/mutants.py --map               # which quick test runs which line
    python benchmarks/mutants.py --count 300         # 300 faults, two at a time
    python benchmarks/mutants.py --count 300 --only core.readout
    python benchmarks/mutants.py --again             # the survivors of the last run

A *mutant* is a copy of the package with one fault in ``core`` or ``problems``. It is run
against the quick tests that run its line, the fastest first, until one of them fails.
A mutant that no test notices is a *survivor*; it is printed with its diff. Survivors
that compute the same as the original are listed with a reason in
``tests/equivalent_mutants.toml`` and count neither way.

Why no library: mutmut and cosmic-ray know operators and constants, but none of the
faults of numerical code (a constant off by 1%, a dropped term of a sum, a transposed
product, swapped indices), and neither chooses its tests by line.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "giantstep"
FLOORS = ("core", "problems")
BUILD = ROOT / "out" / "mutants"
"""Where the map of lines and tests, the times of tests and the last run are kept."""
EQUIVALENT = ROOT / "tests" / "equivalent_mutants.toml"
TIME_LIMIT = 300.0
"""Seconds of tests for one mutant; what is not noticed by then has survived."""
MOST_TESTS = 60
"""Tests run on one mutant; a line that more tests run is seen by these, if by any."""
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}

Edit = tuple[ast.AST, str]
"""A node of the source, and the text that takes its place."""


# -- the kinds of faults ---------------------------------------------------------------


def flipped_sign(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[Edit]:
    """-x for x, and x for -x."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node, text(node.operand)


def other_operator(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[Edit]:
    """+ for -, * for /, and the other way round."""
    swapped = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
    if isinstance(node, ast.BinOp) and type(node.op) in swapped:
        sign = swapped[type(node.op)]
        yield node, f"(({text(node.left)}) {sign} ({text(node.right)}))"


def dropped_term(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[Edit]:
    """X for x + y, x - y, and x y."""
    if isinstance(node, ast.BinOp) and isinstance(
        node.op, ast.Add | ast.Sub | ast.Mult
    ):
        yield node, f"({text(node.left)})"


def transposed_product(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[Edit]:
    """B @ A for A @ B."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield node, f"(({text(node.right)}) @ ({text(node.left)}))"


def other_comparison(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[Edit]:
    """< for <=, > for >=, == for !=, and the other way round."""
    swapped = {
        ast.Lt: "<=",
        ast.LtE: "<",
        ast.Gt: ">=",
        ast.GtE: ">",
        ast.Eq: "!=",
        ast.NotEq: "==",
    }
    if isinstance(node, ast.Compare) and type(node.ops[0]) in swapped:
        sign = swapped[type(node.ops[0])]
        if len(node.ops) == 1:
            yield node, f"(({text(node.left)}) {sign} ({text(node.comparators[0])}))"


def constant_off(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[Edit]:
    """A number that is 1% larger, or a whole one larger by one."""
    if not isinstance(node, ast.Constant):
        return
    if type(node.value) is float and node.value != 0:
        yield node, repr(node.value * 1.01)
    elif type(node.value) is int:
        yield node, repr(node.value + 1)


def swapped_indices(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[Edit]:
    """x[j, i] for x[i, j]."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        entries = [text(entry) for entry in node.slice.elts]
        if len(entries) >= 2 and entries[0] != entries[1]:
            entries[0], entries[1] = entries[1], entries[0]
            yield node, f"{text(node.value)}[{', '.join(entries)}]"


def shifted_slice(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[Edit]:
    """x[a + 1 : b] for x[a:b], and x[: b - 1] for x[:b]."""
    if not isinstance(node, ast.Slice) or node.step is not None:
        return
    lower = "" if node.lower is None else text(node.lower)
    upper = "" if node.upper is None else text(node.upper)
    if lower:
        yield node, f"({lower}) + 1:{upper}"
    elif upper:
        yield node, f":({upper}) - 1"


def turned_condition(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[Edit]:
    """If not c for if c."""
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield node.test, f"(not ({text(node.test)}))"


def other_end_of_loop(node: ast.AST, text: Callable[[ast.AST], str]) -> Iterator[Edit]:
    """`break` for `continue`, and the other way round."""
    if isinstance(node, ast.Continue):
        yield node, "break"
    elif isinstance(node, ast.Break):
        yield node, "continue"


KINDS = (
    flipped_sign,
    other_operator,
    dropped_term,
    transposed_product,
    other_comparison,
    constant_off,
    swapped_indices,
    shifted_slice,
    turned_condition,
    other_end_of_loop,
)


# -- mutants ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """One fault: which kind, in which file and line, and both texts of the file's
    piece.
    """

    kind: str
    file: str
    line: int
    start: int
    stop: int
    before: str
    after: str

    def source(self) -> str:
        """Return the text of the file with the fault in it."""
        original = (ROOT / self.file).read_bytes()
        faulty = original[: self.start] + self.after.encode() + original[self.stop :]
        return faulty.decode()

    def diff(self) -> str:
        """Return the changed lines."""
        original = (ROOT / self.file).read_text(encoding="utf-8").splitlines()
        changed = self.source().splitlines()
        lines = difflib.unified_diff(original, changed, self.file, self.kind, n=1)
        return "\n".join(line.rstrip("\n") for line in lines)

    @property
    def key(self) -> tuple[str, str, str]:
        """What names a mutant where other lines of its file have changed."""
        return self.file, self.before, self.after


def all_mutants() -> list[Mutant]:
    """Return every fault that could be made, in the order of the files."""
    found = []
    for floor in FLOORS:
        for path in sorted((SOURCE / floor).rglob("*.py")):
            if "_skeleton" not in path.parts:
                found += list(mutants_of(path))
    return found


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield the faults of one file; texts, types and declarations are left alone."""
    source = path.read_text(encoding="utf-8")
    starts = _line_starts(source)

    def span(node: ast.AST) -> tuple[int, int]:
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[node.end_lineno - 1] + node.end_col_offset
        return first, last

    def text(node: ast.AST) -> str:
        first, last = span(node)
        return source.encode()[first:last].decode()

    for node in _code_of(ast.parse(source)):
        for kind in KINDS:
            for place, after in kind(node, text):
                first, last = span(place)
                yield Mutant(
                    kind=kind.__name__,
                    file=str(path.relative_to(ROOT)),
                    line=place.lineno,
                    start=first,
                    stop=last,
                    before=text(place),
                    after=after,
                )


def _line_starts(source: str) -> list[int]:
    """Return at which byte every line begins."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _code_of(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes inside functions, without annotations, decorators and texts."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and not _is_nested(function, tree):
            for statement in function.body:
                yield from _nodes(statement)


def _is_nested(function: ast.FunctionDef, tree: ast.Module) -> bool:
    """Tell whether a function stands in another one, which yields its nodes."""
    for other in ast.walk(tree):
        if isinstance(other, ast.FunctionDef) and other is not function:
            if any(inner is function for inner in ast.walk(other)):
                return True
    return False


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    # an error sentence is judged by its readers, and a type by mypy
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        children = value if isinstance(value, list) else [value]
        for child in children:
            if isinstance(child, ast.AST):
                yield from _nodes(child)


def chosen(count: int, seed: int, only: str) -> list[Mutant]:
    """Return random mutants, as many of each kind as there are sites for."""
    generator = random.Random(seed)
    folder = only.replace(".", "/")
    possible = [mutant for mutant in all_mutants() if f"/{folder}" in mutant.file]
    by_kind = {kind.__name__: [] for kind in KINDS}
    for mutant in possible:
        by_kind[mutant.kind].append(mutant)
    for mutants in by_kind.values():
        generator.shuffle(mutants)
    taken: list[Mutant] = []
    while len(taken) < count and any(by_kind.values()):
        for mutants in by_kind.values():
            if mutants and len(taken) < count:
                taken.append(mutants.pop())
    return taken


# -- which tests run a line ------------------------------------------------------------


def make_map() -> None:
    """Run the quick tests once with coverage, and keep which test runs which line."""
    BUILD.mkdir(parents=True, exist_ok=True)
    data = BUILD / "coverage"
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not slow"),
        *("-p", "no:cacheprovider", "--cov=giantstep", "--cov-context=test"),
        *("--cov-report=", "--timeout=900", f"--junitxml={BUILD / 'times.xml'}"),
    ]
    environment = {**os.environ, **ENVIRONMENT, "COVERAGE_FILE": str(data)}
    subprocess.run(command, cwd=ROOT, env=environment, check=False)


class LineMap:
    """Which test runs which line, from coverage's contexts, and how long it takes."""

    def __init__(self) -> None:
        data = BUILD / "coverage"
        if not data.exists():
            sys.exit("There is no map yet: python benchmarks/mutants.py --map")
        self.connection = sqlite3.connect(data, check_same_thread=False)
        self.times = _times(BUILD / "times.xml")

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests that run the line of a mutant, the fastest first."""
        rows = self.connection.execute(
            "select context.context, line_bits.numbits from line_bits"
            " join context on context.id = line_bits.context_id"
            " join file on file.id = line_bits.file_id where file.path = ?",
            (str(ROOT / mutant.file),),
        )
        found = set()
        for context, bits in rows:
            byte, bit = divmod(mutant.line, 8)
            runs_line = byte < len(bits) and bits[byte] >> bit & 1
            name = context.partition("|")[0]
            if runs_line and "::" in name:
                found.add(name)
        return sorted(found, key=lambda name: (self.times.get(name, 1.0), name))


def _times(report: Path) -> dict[str, float]:
    """Return the seconds of every test of a JUnit report."""
    from xml.etree import ElementTree

    times = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        times[f"{file}::{case.get('name')}"] = float(case.get("time", 0.0))
    return times


# -- one mutant ------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: the test that noticed it, or why none did."""

    mutant: Mutant
    fate: str  # noticed, survived, or not run (no quick test runs its line)
    test: str
    seconds: float


def outcome_of(mutant: Mutant, tests: list[str]) -> Outcome:
    """Run tests on a mutant until one of them fails."""
    if not tests:
        return Outcome(mutant, "not run", "", 0.0)
    try:
        ast.parse(mutant.source())
    except SyntaxError:
        return Outcome(mutant, "no code", "", 0.0)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        package = Path(folder) / "giantstep"
        shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
        file = package / Path(mutant.file).relative_to("src/giantstep")
        file.write_text(mutant.source(), encoding="utf-8")
        fate, test = _run(tests[:MOST_TESTS], folder)
    return Outcome(mutant, fate, test, time.monotonic() - started)


def _run(tests: list[str], folder: str) -> tuple[str, str]:
    """Return the fate of the package in a folder, and the first test that failed."""
    command = [
        *(sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--no-header"),
        *("-p", "no:cacheprovider", "--timeout=120", "-m", "slow or not slow"),
        *tests,
    ]
    # a mutant may loop for ever: being late is a failure that a user would notice, too
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": folder}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return "survived", "out of time"
    if done.returncode == 0:
        return "survived", ""
    failed = [
        line
        for line in done.stdout.splitlines()
        if line.startswith(("FAILED", "ERROR"))
    ]
    return "noticed", failed[0][:160] if failed else done.stdout[-160:]


# -- the report ------------------------------------------------------------------------


def equivalents() -> dict[tuple[str, str, str], str]:
    """Return the mutants that compute the same as the original, with the reason."""
    if not EQUIVALENT.exists():
        return {}
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    return {(e["file"], e["before"], e["after"]): e["reason"] for e in entries}


def report(outcomes: list[Outcome]) -> str:
    """Return the share that was noticed, by kind, and every survivor with its diff."""
    known = equivalents()
    judged = [o for o in outcomes if o.fate != "no code" and o.mutant.key not in known]
    lines = []
    for kind in KINDS:
        of_kind = [o for o in judged if o.mutant.kind == kind.__name__]
        noticed = sum(o.fate == "noticed" for o in of_kind)
        if of_kind:
            lines.append(f"{kind.__name__:<20}{noticed:>5} of {len(of_kind)}")
    noticed = sum(o.fate == "noticed" for o in judged)
    share = noticed / max(len(judged), 1)
    equivalent = len(outcomes) - len(judged)
    lines.append(
        f"{'all':<20}{noticed:>5} of {len(judged)} noticed: {share:.1%}"
        f" ({equivalent} are equivalent or no code)"
    )
    for outcome in judged:
        if outcome.fate != "noticed":
            why = outcome.test or outcome.fate
            lines += ["", f"# {outcome.mutant.kind}: {why}", outcome.mutant.diff()]
    return "\n".join(lines)


def last_run() -> list[Outcome]:
    """Return the outcomes that the last run has written."""
    rows = json.loads((BUILD / "outcomes.json").read_text())
    return [Outcome(**{**row, "mutant": Mutant(**row["mutant"])}) for row in rows]


def main() -> None:
    """Make the map, or run mutants and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--map", action="store_true", help="run the tests for the map")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="modules that begin so")
    parser.add_argument("--again", action="store_true", help="the last survivors")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.map:
        make_map()
        return
    lines = LineMap()
    if options.again:
        mutants = [o.mutant for o in last_run() if o.fate != "noticed"]
    else:
        mutants = chosen(options.count, options.seed, options.only)
    outcomes = []
    with ThreadPoolExecutor(options.processes) as pool:
        tasks = [pool.submit(outcome_of, m, lines.tests(m)) for m in mutants]
        for place, task in enumerate(tasks, 1):
            outcome = task.result()
            outcomes.append(outcome)
            where = f"{outcome.mutant.file}:{outcome.mutant.line}"
            print(
                f"{place}/{len(tasks)} {outcome.fate:<9} {outcome.seconds:5.0f} s"
                f"  {outcome.mutant.kind:<20} {where}",
                flush=True,
            )
    rows = [asdict(outcome) for outcome in outcomes]
    (BUILD / "outcomes.json").write_text(json.dumps(rows, indent=1))
    text = report(outcomes)
    (BUILD / "report.txt").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
