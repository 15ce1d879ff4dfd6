"""Random scenarios of every family, made from the declared fields: ordinary values,
boundaries, nonsense.

A case is its number: the same number is the same case everywhere. Only three ends are
allowed: an `InputError`, a point flagged with its reason, or an answer whose NaN the
variable declares (`Variable.absent`). Everything else is a fault: another exception, a
warning of NumPy or SciPy, a NaN without a reason, more than `CPU_LIMIT` seconds of CPU
whatever the end.

As a program it runs many cases on many processes, appends a line of JSON for each to a
file, and goes on where it was::

    python tests/robustness/random_scenarios.py --first 0 --count 10000 --processes 2 --out out/random.jsonl
"""

from __future__ import annotations

import os

# the limit counts one thread, this program all of them
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import functools
import json
import math
import multiprocessing
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

import giantstep as gs
from giantstep.core.base.deadline import deadline
from giantstep.core.maths.gaussian import Function, Target
from giantstep.core.scenario.arrays import FrozenArray
from giantstep.core.scenario.families import SHIPPED, family_class
from giantstep.core.scenario.family import Question, Setting
from giantstep.core.scenario.fields import allowed_types, bounds_of
from giantstep.core.scenario.model import Scenario, from_content
from giantstep.core.scenario.toml import read_toml, write_toml

CPU_LIMIT = 20.0
"""Seconds of CPU after which a case is a fault."""
AGAIN = 5.0
"""Seconds of CPU after which a case that swallowed the end of its time is told so
again.
"""
FAULTS = ("exception", "warning", "nan", "too long")
_SEED = 20261116
_EXAMPLES = Path(__file__).parents[2] / "examples"

_ONE_VARIABLE = (
    "relu",
    "tanh(z)",
    "erf(z)",
    "z",
    "z**2",
    "h2(z)",
    "h3(z)",
    "sign(z)",
    "abs(z)",
    "sin(3*z)",
    "relu(z-1)",
    "tanh(2*z)",
    "z**3 - 3*z + 1",
    "exp(z)",
    "sigmoid(z)",
    "gelu(z)",
)
_SEVERAL = (
    "z1*z2",
    "z1 + z1*z2",
    "z1*z2*z3",
    "relu(z1) + z2**2",
    "sign(z1*z2)",
    "tanh(z1) + h3(z2)",
    "z1",
    "z1**2 - z2**2",
)
_ODD_FUNCTIONS = (
    "0",
    "1",
    "1/z",
    "log(z)",
    "sqrt(z)",
    "tanh(100*z)",
    "1e300*z",
    "1e-300*z",
    "z**30",
    "exp(z**2)",
    "h12(z)",
    "1e-9*z + 1",
    "sign(z) - 0.5",
    "z1 + z7",
    "abs(z)**0.5",
)
_BAD_FUNCTIONS = (
    "",
    "z +",
    "foo(z)",
    "__import__('os')",
    "z" * 2000,
    5,
    None,
    [],
    {"z": 1},
    float("nan"),
    "z^2",
    "x",
)
_EDGES = (
    0.0,
    1e-300,
    1e-100,
    1e-30,
    1e-12,
    1e-6,
    1e-3,
    0.5,
    1.0,
    1e3,
    1e6,
    1e12,
    1e30,
    1e100,
    1e300,
    math.inf,
)
_WHOLE_EDGES = (0, 1, 2, 3, 20, 100, 1000, 10**6, 10**9, 2**63, 10**30)
_NONSENSE: tuple[Any, ...] = (
    math.nan,
    -math.inf,
    -1.0,
    "text",
    "",
    None,
    True,
    [],
    [1.0, "a"],
    [math.nan],
    {},
    {"kind": "none"},
    {"kind": 3},
    1j,
    b"1",
    [[1.0], [2.0, 3.0]],
    object,
    (),
    "nan",
    "inf",
    -1e300,
    {"inputs": 1.0, "labels": 2.0},
    {"values": [1.0]},
    [[]],
)


@dataclass(frozen=True)
class Case:
    """A scenario by its family and fields, and what is asked of it."""

    number: int
    family: str
    fields: dict[str, Any]
    what: str | None
    keywords: dict[str, Any]

    def __str__(self) -> str:
        asked = {"what": self.what, **self.keywords}
        return f"family_class({self.family!r})(**{self.fields!r}), **{asked!r}"


@dataclass(frozen=True)
class Outcome:
    """How a case ended: refused, answered, flagged, or one of `FAULTS`; a sentence, and
    the CPU seconds it took.

    `silence` are the most of them between two looks at the deadline, `after` is where
    they ended: it is heard so late.
    """

    number: int
    family: str
    end: str
    text: str
    seconds: float
    case: str = ""
    silence: float = 0.0
    after: str = ""

    @property
    def is_fault(self) -> bool:
        return self.end in FAULTS


# -- drawing ---------------------------------------------------------------------------


@functools.cache
def _starts(family: str) -> list[dict[str, Any]]:
    """Return valid scenarios of a family: its examples for every question, and those of
    the example studies.
    """
    cls = family_class(family)
    found = [cls.example(), *(cls.example_for(what) for what in cls.questions)]
    for path in sorted(_EXAMPLES.rglob("*.toml")):
        content = read_toml(path.read_text()).get("scenario", {})
        if content.get("family") == family:
            found.append(from_content(content))
    contents = {
        json.dumps(scenario.content(), sort_keys=True): scenario for scenario in found
    }
    return [{name: value for name, value in scenario} for scenario in contents.values()]


@dataclass
class _Draw:
    """Draws the values of one case: `edge` and `nonsense` are the shares of such
    values.
    """

    rng: np.random.Generator
    edge: float
    nonsense: float

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def of(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def value(self, info: Any, now: Any) -> Any:
        """Return a value for a field that holds `now`."""
        if self.chance(self.nonsense):
            return self.of(_NONSENSE)
        leaves = list(allowed_types(info.annotation))
        leaf = self.of(leaves)
        if isinstance(now, BaseModel) and self.chance(0.7):
            return self.part(type(now), now)
        if isinstance(leaf, type) and issubclass(leaf, BaseModel):
            return self.part(leaf, None)
        return self.leaf(leaf, info, now)

    def leaf(self, leaf: Any, info: Any, now: Any) -> Any:
        drawers: dict[Any, Callable[[], Any]] = {
            float: lambda: self.number(info),
            int: lambda: self.whole(info),
            bool: lambda: self.chance(0.5),
            tuple: lambda: self.numbers(now),
            FrozenArray: lambda: self.array(now),
            Function: lambda: self.function(_ONE_VARIABLE),
            Target: lambda: self.function(_ONE_VARIABLE + _SEVERAL),
            type(None): lambda: None,
        }
        if leaf in drawers:
            return drawers[leaf]()
        return now if isinstance(leaf, type) else leaf

    def part(self, leaf: type[BaseModel], now: BaseModel | None) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for name, info in leaf.model_fields.items():
            value = getattr(now, name) if now is not None else None
            if name == "kind":
                table[name] = info.default
            elif info.is_required() or now is not None or self.chance(0.4):
                if now is not None and self.chance(0.6):
                    table[name] = value
                else:
                    table[name] = self.value(info, value)
        return table

    def number(self, info: Any) -> float:
        bounds = {name: float(value) for name, value in bounds_of(info).items()}
        low = bounds.get("gt", bounds.get("ge", -math.inf))
        high = bounds.get("lt", bounds.get("le", math.inf))
        if self.chance(self.edge):
            ends = [
                end for bound in bounds.values() for end in (bound, *_beside(bound))
            ]
            return float(self.of([*_EDGES, *ends]))
        if math.isfinite(low) and math.isfinite(high):
            return float(self.rng.uniform(low, high))
        size = float(np.exp(self.rng.uniform(math.log(0.05), math.log(8.0))))
        return -size if low < 0 and self.chance(0.3) else size

    def whole(self, info: Any) -> int:
        bounds = {name: float(value) for name, value in bounds_of(info).items()}
        if self.chance(self.edge):
            return int(
                self.of(
                    [
                        *_WHOLE_EDGES,
                        *(
                            int(bound) + shift
                            for bound in bounds.values()
                            for shift in (-1, 0, 1)
                        ),
                    ]
                )
            )
        low = int(bounds.get("ge", 0))
        high = int(min(bounds.get("le", low + 12), low + 12))
        return int(self.rng.integers(low, high + 1))

    def numbers(self, now: Any) -> list[float]:
        if isinstance(now, tuple) and now and self.chance(0.7):
            length = len(now)
        else:
            length = int(self.rng.integers(0, 5))
        values = np.round(self.rng.standard_normal(length), 2)
        if self.chance(0.5):
            values = np.abs(values) / max(float(np.abs(values).sum()), 1e-9)
        listed = [float(value) for value in values]
        if listed and self.chance(self.edge):
            listed[0] = float(self.of(_EDGES))
        return listed

    def array(self, now: Any) -> Any:
        if isinstance(now, FrozenArray) and self.chance(0.7):
            shape = now.values.shape
        else:
            shape = ()
        if not shape:
            shape = tuple(
                int(n)
                for n in self.rng.integers(0, 4, size=int(self.rng.integers(1, 4)))
            )
        values = self.rng.standard_normal(shape)
        if self.chance(0.4) and len(shape) >= 2 and shape[-1] == shape[-2]:
            values = np.eye(shape[-1]) + 0.1 * (values + np.swapaxes(values, -1, -2))
        if values.size and self.chance(self.edge):
            values.flat[0] = self.of(_EDGES)
        return values.tolist()

    def function(self, usual: tuple[str, ...]) -> Any:
        if self.chance(self.nonsense):
            return self.of(_BAD_FUNCTIONS)
        if self.chance(self.edge):
            return self.of((*_ODD_FUNCTIONS, np.tanh, _constant))
        return self.of(usual)

    def setting(self, setting: Setting) -> Any:
        if self.chance(self.nonsense):
            return self.of(_NONSENSE)
        if setting.choices:
            return self.of(setting.choices)
        if isinstance(setting.default, bool):
            return self.chance(0.5)
        if isinstance(setting.default, int):
            if self.chance(self.edge):
                return int(self.of(_WHOLE_EDGES))
            return int(self.rng.integers(1, 65))
        if isinstance(setting.default, str):
            return setting.default
        if self.chance(self.edge):
            return self.of((*_EDGES, -1.0, [0.0, 1e300], [1e-300]))
        numbers = np.round(
            np.sort(np.abs(self.rng.standard_normal(int(self.rng.integers(1, 5))))), 2
        )
        if setting.example is not None:
            return setting.example
        if self.chance(0.5):
            return numbers.tolist()
        return float(numbers[0])


def _constant(z: Any) -> Any:
    return 0.0 * z + 2.0


def _beside(bound: float) -> tuple[float, float]:
    return float(np.nextafter(bound, -np.inf)), float(np.nextafter(bound, np.inf))


_MOODS = ((0.0, 0.0), (0.15, 0.0), (0.5, 0.0), (0.1, 0.25))
"""Shares of boundary values and of nonsense: ordinary, some boundaries, many, and
nonsense among them.
"""


def draw_case(number: int, family: str | None = None) -> Case:
    """Return the case of a number: an example with a few of its fields and of its
    settings drawn anew.
    """
    rng = np.random.default_rng([_SEED, number])
    names = list(SHIPPED)  # not those that a test or a folder registers
    family = family or names[number % len(names)]
    draw = _Draw(rng, *_MOODS[int(rng.choice(4, p=[0.35, 0.25, 0.2, 0.2]))])
    cls = family_class(family)
    fields = dict(draw.of(_starts(family)))
    for name in rng.permutation(list(cls.model_fields))[: int(rng.integers(1, 5))]:
        fields[str(name)] = draw.value(cls.model_fields[str(name)], fields[str(name)])
    if draw.nonsense and draw.chance(0.2):
        fields[draw.of(("ridgee", "Noise", "kind", "family", ""))] = 1.0
    what = str(draw.of(list(cls.questions)))
    keywords = _keywords(draw, cls, cls.questions[what])
    return Case(number, family, fields, what, keywords)


def _keywords(draw: _Draw, cls: type[Scenario], question: Question) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    for name, setting in question.settings.items():
        if setting.example is not None or draw.chance(0.25):
            keywords[name] = draw.setting(setting)
    if draw.chance(0.25):
        keywords["theory"] = draw.of(
            [*cls.theories, "exact", *(["none", 3] if draw.nonsense else [])]
        )
    if "dim" not in cls.model_fields and draw.chance(0.2):
        keywords["dim"] = draw.of(
            [10, 100, 1000]
            if not draw.chance(draw.edge)
            else [1, 2, 10**9, 0, 1e300, math.inf]
        )
    if draw.chance(0.05):
        keywords["tolerance"] = draw.of((1e-6, 1e-14, 1e-300, 0.5, 0.0))
    return keywords


def study_text(case: Case) -> str | None:
    """Return a case as the text of a study file; None where a value cannot be
    written.
    """
    scenario = {
        "family": case.family,
        **{name: _plain(value) for name, value in case.fields.items()},
    }
    settings = {
        name: value
        for name, value in case.keywords.items()
        if name not in ("theory", "dim", "tolerance")
    }
    limit = {
        name: value for name, value in case.keywords.items() if name not in settings
    }
    try:
        return write_toml(
            {
                "what": case.what,
                "scenario": scenario,
                "settings": settings,
                "limit": limit,
            }
        )
    except gs.InputError:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {name: _plain(inner) for name, inner in value}
    if isinstance(value, FrozenArray):
        return value.values.tolist()
    return value.expression if isinstance(value, Function | Target) else value


# -- judging ---------------------------------------------------------------------------


class TooLongError(BaseException):
    """The case used more CPU than `CPU_LIMIT`; no handler of an `Exception` may swallow
    it.
    """


def judge(
    case: Case,
    limit: float = CPU_LIMIT,
    *,
    only_check: bool = False,
    patience: float | None = None,
) -> Outcome:
    """Run a case (or only check its scenario) and say how it ended; `patience` is the
    ``cpu_limit`` of `predict`.
    """
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught, CpuWatch(limit) as watch:
        warnings.simplefilter("always")
        try:
            end, text = _run(case, only_check, patience)
        except gs.InputError as error:
            if _is_clear(str(error)):
                end = "refused"
                text = str(error)
            else:
                end = "exception"
                text = f"unclear: {error}"
        except TooLongError:
            end = "too long"
            text = _where(20)
        except Exception:
            end = "exception"
            text = traceback.format_exc(limit=-6)
    # a point given up may leave a file that SciPy had opened
    ours = (
        gs.GiantstepWarning,
        ResourceWarning,
    )
    leaks = [caution for caution in caught if not issubclass(caution.category, ours)]
    if end not in FAULTS and leaks:
        end = "warning"
        text = f"{leaks[0].filename}:{leaks[0].lineno}: {leaks[0].message}"
    seconds = time.process_time() - start
    if end not in FAULTS and seconds > limit:
        end = "too long"
        text = (
            f"it took {seconds:.1f} s of CPU; {watch.silence:.1f} s of them ended at"
            f" {watch.after}"
        )
    told = str(case) if end in FAULTS else ""
    return Outcome(
        case.number,
        case.family,
        end,
        text,
        round(seconds, 3),
        told,
        round(watch.silence, 3),
        watch.after,
    )


def _run(case: Case, only_check: bool, patience: float | None) -> tuple[str, str]:
    scenario = family_class(case.family)(**case.fields)
    if only_check:
        return "answered", ""
    result = gs.predict(
        scenario, what=case.what, progress=False, cpu_limit=patience, **case.keywords
    )
    reasons = [str(reason) for reason in result.status.values.reshape(-1) if reason]
    silent = _silent_nans(result, type(scenario).questions[str(case.what)])
    if silent:
        return "nan", silent
    return ("flagged", reasons[0]) if reasons else ("answered", "")


def _silent_nans(result: Any, question: Question) -> str:
    """Name the variables that are NaN at a solved point without having declared what
    that means.
    """
    if not bool(result.converged.all()):
        return ""
    silent = []
    for variable in question.variables:
        if (
            variable.name in result
            and "limit" in variable.engines
            and not variable.absent
        ):
            values = result[variable.name].values
            if values.dtype.kind == "f" and (
                np.isnan(values).any() if values.size else False
            ):
                silent.append(variable.name)
    return ", ".join(silent)


def _is_clear(message: str) -> bool:
    return (
        message.endswith(".")
        and "Traceback" not in message
        and "pydantic" not in message
        and len(message) < 1500
    )


class CpuWatch:
    """Measures the CPU of this process between two looks at the deadline; raises
    `TooLongError` after `seconds`.

    What lies between two looks is the time in which no deadline would have been heard.
    `silence` is the longest, `after` the line at which it ended.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.silence = 0.0
        self.after = ""
        self.start = self.last = time.process_time()
        self.watched = deadline(1e9, self.look)

    def __enter__(self) -> CpuWatch:
        self.watched.__enter__()
        self.before = signal.signal(signal.SIGPROF, self.end)
        signal.setitimer(signal.ITIMER_PROF, self.seconds, AGAIN)
        return self

    def __exit__(self, *error: Any) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self.before)
        self.look()
        self.watched.__exit__(*error)

    def look(self) -> float:
        """Be the clock of a deadline: it is asked for the time at every look."""
        now = time.process_time()
        if now - self.last > self.silence:
            frame = sys._getframe(1)
            while frame.f_back and "deadline" in frame.f_code.co_filename:
                frame = frame.f_back
            self.silence = now - self.last
            self.after = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        self.last = now
        return 0.0

    def end(self, *_: object) -> None:
        raise TooLongError


def _where(lines: int) -> str:
    return "\n".join(traceback.format_exc().splitlines()[-lines:])


# -- many of them ----------------------------------------------------------------------


def run_many(
    numbers: list[int],
    processes: int,
    out: Path,
    limit: float = CPU_LIMIT,
    stop_after: float = math.inf,
) -> Iterator[Outcome]:
    """Yield the outcome of every number that `out` does not hold, appending each to
    it.
    """
    if out.exists():
        known = {json.loads(line)["number"] for line in out.read_text().splitlines()}
    else:
        known = set()
    todo = [number for number in numbers if number not in known]
    out.parent.mkdir(parents=True, exist_ok=True)
    stop = time.monotonic() + stop_after
    with (
        multiprocessing.get_context("spawn").Pool(
            processes, maxtasksperchild=200
        ) as pool,
        out.open("a") as file,
    ):
        for outcome in pool.imap_unordered(
            functools.partial(_judge_number, limit=limit), todo
        ):
            file.write(json.dumps(vars(outcome)) + "\n")
            file.flush()
            yield outcome
            if time.monotonic() > stop:
                pool.terminate()
                return


def _judge_number(number: int, limit: float) -> Outcome:
    return judge(draw_case(number), limit)


def summary(outcomes: list[Mapping[str, Any]]) -> str:
    """Return how many cases of each family ended how, and every fault."""
    ends = ("refused", "answered", "flagged", *FAULTS)
    lines = [
        f"{'family':22}"
        + "".join(f"{end:>10}" for end in ends)
        + f"{'max CPU s':>11}{'silence s':>11}"
    ]
    for family in [*SHIPPED, "all"]:
        own = [outcome for outcome in outcomes if family in (outcome["family"], "all")]
        count = Counter(str(outcome["end"]) for outcome in own)
        most, silence = (
            max((float(outcome.get(name, 0.0)) for outcome in own), default=0.0)
            for name in ("seconds", "silence")
        )
        lines.append(
            f"{family:22}"
            + "".join(f"{count[end]:>10}" for end in ends)
            + f"{most:>11.2f}{silence:>11.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/random_scenarios.jsonl"))
    parser.add_argument(
        "--limit", type=float, default=CPU_LIMIT, help="seconds of CPU for one case"
    )
    parser.add_argument(
        "--stop-after",
        type=float,
        default=math.inf,
        help="seconds of wall time for all",
    )
    options = parser.parse_args()
    numbers = list(range(options.first, options.first + options.count))
    for outcome in run_many(
        numbers, options.processes, options.out, options.limit, options.stop_after
    ):
        if outcome.is_fault:
            print(
                f"{outcome.number} {outcome.family} {outcome.end} {outcome.seconds:.1f}"
                f" s: {outcome.text}",
                flush=True,
            )
    wanted = set(numbers)
    outcomes = [json.loads(line) for line in options.out.read_text().splitlines()]
    print(summary([outcome for outcome in outcomes if outcome["number"] in wanted]))


if __name__ == "__main__":
    main()
