"""The commands that tell, draw and start: ``figures reproduce new describe cite doctor
version``.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

import giantstep as gs
from giantstep.faces.cli.options import Json, option, print_json

Family = Annotated[
    str, Argument(metavar="FAMILY", help="Name of a family, for example one-step.")
]


def figures(
    long: bool = Option(
        False, "--long", help="Also what each panel shows, parameters and times."
    ),
    json: Json = False,
) -> None:
    """List the figures that can be rebuilt: those of papers, and our own."""
    from giantstep.papers import list_figures

    recipes = list_figures()
    if json:
        names = (
            "name",
            "title",
            "paper",
            "ours",
            "description",
            "parameters",
            "seconds_quick",
            "seconds_full",
        )
        print_json(
            {
                "figures": [
                    {name: getattr(recipe, name) for name in names}
                    for recipe in recipes
                ]
            }
        )
        return
    for head, ours in (("Published figures", False), ("Figures of our own", True)):
        chosen = [recipe for recipe in recipes if recipe.ours is ours]
        print(f"{head} ({len(chosen)}):")
        print(
            (
                "\n\n".join(map(str, chosen))
                if long
                else "\n".join(recipe.line for recipe in chosen)
            ),
            end="\n\n",
        )
    print(
        "giantstep reproduce NAME rebuilds one"
        + (".", "; giantstep figures --long says what each shows.")[not long]
    )


def reproduce(
    name: Annotated[
        str,
        Argument(metavar="NAME", help="Name of a figure (see `giantstep figures`)."),
    ],
    quick: bool = Option(False, "--quick", help="A smaller size, in a minute or so."),
    device: str = Option("cpu", help="cpu or cuda."),
    out: Path = Option(Path("out"), metavar="DIR", help="Folder of the results."),
    store: Path | None = option(
        "FILE", "Keep every result here; what it holds is not computed again."
    ),
    check: bool = Option(
        False, "--check", help="Exit with status 1 where something disagrees."
    ),
    see: float | None = option(
        "GAP", "With --check: also where a relative gap of this size could not be seen."
    ),
) -> None:
    """Rebuild a figure, published or ours: PNG, PDF, data and agreement report."""
    from giantstep.core.result.verdicts import SEE
    from giantstep.core.scenario.checks import check_number
    from giantstep.faces.cli.options import check_new_folder
    from giantstep.papers.runner import reproduce as rebuild

    if see is None:
        gap = SEE
    else:
        gap = check_number("see", see, "a number above 0", lambda gap: gap > 0)
    check_new_folder(out)
    report = rebuild(name, out=out, quick=quick, device=device, store=store)
    print(report)
    for path in report.files:
        print(f"wrote {path}", file=sys.stderr)
    if check and (
        not report.agrees
        or (see is not None and report.verdict(gap).verdict != "agrees")
    ):
        print(f"giantstep: {report.verdict(gap).sentence}", file=sys.stderr)
        raise typer.Exit(1)


def new(family: Family) -> None:
    """Print a study of a family to start from, with every field explained."""
    from giantstep.core.scenario.describe import template

    sys.stdout.write(template(family))


def describe(family: Family, json: Json = False) -> None:
    """Describe a family: update rule, fields, symbols, bounds, questions, variables,
    theories, papers.
    """
    from giantstep.core.scenario import describe as about

    if json:
        print_json(about.describe(family))
    else:
        sys.stdout.write(about.describe_text(family))


def cite(
    study: Annotated[
        Path,
        Argument(metavar="S.toml", help="A study, or a result saved as .nc or .json."),
    ],
) -> None:
    """Print the BibTeX of the papers behind a study."""
    is_result = study.suffix.lower() in (".nc", ".json")
    sys.stdout.write(
        gs.cite(gs.load(study) if is_result else gs.Study.read(study).scenario)
    )


def doctor(json: Json = False) -> None:
    """Show versions, BLAS, cores, memory and GPU, and run a self-test."""
    findings = examine()
    print_json(findings) if json else print(report(findings))
    if not findings["self_test"]["passed"]:
        raise typer.Exit(1)


def version() -> None:
    """Print the version."""
    print(gs.__version__)


# -- What ``giantstep doctor`` finds out about this machine ----------------------------


_PACKAGES = (
    "numpy",
    "scipy",
    "xarray",
    "h5netcdf",
    "pydantic",
    "typer",
    "matplotlib",
    "threadpoolctl",
)
_PRECISION = 1e-7
"""Absolute difference to a reference value, to which families write theirs down."""


def examine() -> dict[str, Any]:
    """Return versions, BLAS, cores, memory, GPU and the self-test as plain data."""
    import platform
    from importlib.metadata import distributions

    from giantstep.core.lab.devices import available_memory
    from giantstep.tools.sweeps.workers import usable_cores

    passed, text = _self_test()
    return {
        "giantstep": gs.__version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "packages": {
            name: next((d.version for d in distributions(name=name)), None)
            for name in _PACKAGES
        },
        "cores": usable_cores(),
        "BLAS": _blas(),
        "memory": f"{available_memory() / 2**30:.1f} GiB free",
        "GPU": _gpu(),
        "self_test": {"passed": passed, "text": text},
    }


def report(findings: dict[str, Any]) -> str:
    """Return the findings for reading."""
    test = findings["self_test"]
    packages = ", ".join(
        f"{name} {version or 'MISSING'}"
        for name, version in findings["packages"].items()
    )
    verdict = f"{'passed' if test['passed'] else 'FAILED'}: {test['text']}"
    rows = {**findings, "packages": packages, "self_test": verdict}
    return "\n".join(
        f"{name.replace('_', '-'):<10} {text}" for name, text in rows.items()
    )


def _blas() -> str:
    import scipy.linalg  # noqa: F401, loads the libraries
    from threadpoolctl import threadpool_info

    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return (
        "; ".join(
            f"{b['internal_api']} {b['version']} with {b['num_threads']} threads"
            for b in found
        )
        or "unknown"
    )


def _gpu() -> str:
    from giantstep.core.lab.devices import namespace

    try:
        cupy = namespace("cuda")
    except gs.InputError as error:
        return f"none: {str(error.allowed).partition(', as ')[2]}"
    count = cupy.cuda.runtime.getDeviceCount()
    names = [
        cupy.cuda.runtime.getDeviceProperties(index)["name"].decode()
        for index in range(count)
    ]
    return f"{', '.join(names)} (CuPy {cupy.__version__})"


def _self_test() -> tuple[bool, str]:
    """Compute the reference value of every family that has one."""
    from giantstep.core.scenario.families import family_class, family_names

    texts = []
    passed = True
    for name in family_names():
        try:
            if (reference := family_class(name).reference()) is not None:
                scenario, variable, expected = reference
                value = float(gs.predict(scenario)[variable].item())
                passed &= math.isclose(value, expected, rel_tol=0, abs_tol=_PRECISION)
                texts.append(
                    f"{variable} of {name} {value:.8f}, expected {expected:.8f}"
                )
        except Exception as error:  # whatever is wrong with this machine
            passed = False
            texts.append(f"{name}: {error}")
    return passed and bool(texts), "; ".join(texts)
