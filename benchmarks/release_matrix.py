"""Build the source archive and from it the wheel, try that in fresh environments; write
the table of docs/releases.md.

    python benchmarks/release_matrix.py [--only oldest newest types extras large] [--out
    docs/data/release_matrix.md]

The environments have the Python that runs this file: run it with each. Nothing is
compiled: pip may only take wheels.

`oldest` has the lowest version that pyproject.toml allows of every dependency, `newest`
what the registry gives today. Both run `giantstep doctor` and the recorded numbers of
every family (tests/unchanged) on the installed wheel, with the extra `estimators`,
which two of them need. `types` has mypy judge a right and a wrong example against the
wheel's `py.typed`. Every extra is then installed alone and its packages are imported
(`large`: those of gigabytes). Rows that are not chosen are kept.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LARGE = ("cuda", "torch")
"""Extras that are gigabytes; they are imported, whether or not there is a device to run
them on.
"""
TOOLS = ("dev", "docs")
"""Extras for those who change the project: its own tests and documentation install
them.
"""

RIGHT = """import giantstep as gs

scenario = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
study = gs.Study(scenario, grid={"ridge": [0.1, 1.0]})
print(study.predict().sizes, gs.__version__.upper())
"""
"""A program that mypy accepts."""
WRONG = RIGHT + "gs.Study(3)\ngs.__version__.nothing()\n"
"""The same with two errors that only types of the package can show."""


def lowest(requirements: list[str]) -> list[str]:
    """Return the lowest version that each requirement allows."""
    return [requirement.replace(">=", "==") for requirement in requirements]


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True
    )


def environment(folder: Path, requirements: list[str]) -> Path:
    """Return the Python of a fresh environment with these packages."""
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"
    installed = run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--only-binary",
        ":all:",
        *requirements,
        cwd=folder,
    )
    if installed.returncode:
        raise SystemExit(f"{folder.name}: pip failed\n{installed.stderr[-2000:]}")
    return python


def build(folder: Path) -> tuple[Path, Path]:
    """Return the source archive of this tree and the wheel made of that archive."""
    python = environment(folder / "build", ["build"])
    built = run(python, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    if built.returncode:
        raise SystemExit(f"build failed\n{built.stdout[-1000:]}{built.stderr[-1000:]}")
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def size(file: Path) -> str:
    return f"{file.name}, {file.stat().st_size / 2**20:.1f} MiB"


def versions(python: Path, folder: Path) -> dict[str, str]:
    listed = json.loads(
        run(python, "-m", "pip", "list", "--format", "json", cwd=folder).stdout
    )
    return {
        package["name"].lower().replace("-", "_"): package["version"]
        for package in listed
    }


def try_numbers(name: str, wheel: Path, folder: Path, pins: list[str]) -> str:
    """Install the wheel with these pins, run doctor and the recorded numbers; return a
    row of the table.
    """
    python = environment(folder / name, [str(wheel), "pytest", "pytest-timeout", *pins])
    doctor = run(python, "-m", "giantstep", "doctor", "--json", cwd=folder)
    shutil.copytree(ROOT / "tests" / "unchanged", folder / name / "unchanged")
    tests = run(
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "unchanged",
        cwd=folder / name,
    )
    seen = versions(python, folder)
    wanted = [requirement.split(">=")[0] for requirement in PROJECT["dependencies"]]
    packages = ", ".join(
        f"{package} {seen[package.replace('-', '_')]}" for package in wanted
    )
    said = tests.stdout.strip().splitlines()[-1].strip("= ")
    health = "passed" if doctor.returncode == 0 else "failed"
    return (
        f"| {platform.python_version()} | {name} | {packages} | doctor {health};"
        f" {said.split(' in ')[0]} |"
    )


def try_types(wheel: Path, folder: Path) -> str:
    """Let mypy judge a right and a wrong program against the installed wheel; return a
    row of the table.
    """
    python = environment(folder / "types", [str(wheel), "mypy"])
    found = []
    for name, program in (("right", RIGHT), ("wrong", WRONG)):
        (folder / f"{name}.py").write_text(program)
        judged = run(
            python,
            "-m",
            "mypy",
            "--strict",
            "--no-error-summary",
            f"{name}.py",
            cwd=folder,
        )
        found.append(
            [line for line in judged.stdout.splitlines() if ": error:" in line]
        )
    good = not found[0] and len(found[1]) == 2
    version = versions(python, folder)["mypy"]
    if good:
        verdict = "accepts a right example, finds both errors of a wrong one"
    else:
        verdict = f"FAILS: {found}"
    return (
        f"| {platform.python_version()} | types | mypy {version} --strict | {verdict} |"
    )


def try_extra(name: str, wheel: Path, folder: Path) -> str:
    """Install one extra alone and import what it brings; return a row of the table."""
    python = environment(folder / f"extra-{name}", [f"{wheel}[{name}]"])
    modules = {
        "scikit-learn": "sklearn",
        "dask-jobqueue": "dask_jobqueue",
        "cupy-cuda12x": "cupy",
    }
    names = [
        requirement.split(">=")[0]
        for requirement in PROJECT["optional-dependencies"][name]
    ]
    imports = "; ".join(
        f"import {modules.get(package, package)}" for package in ["giantstep", *names]
    )
    outcome = run(python, "-c", imports, cwd=folder)
    verdict = "FAILS" if outcome.returncode else "imports"
    return f"| {platform.python_version()} | `[{name}]` alone | newest | {verdict} |"


def merged(file: Path, rows: list[str]) -> list[str]:
    """Return the table of a file with these rows in place of those of the same Python
    and environment.
    """
    stored = file.read_text().splitlines() if file.exists() else []
    kept = {
        tuple(row.split("|")[1:3]): row
        for row in stored
        if row.startswith("|") and row[2].isdigit()
    }
    kept |= {tuple(row.split("|")[1:3]): row for row in rows}
    return [
        "| Python | environment | versions | outcome | wheel |",
        "| --- | --- | --- | --- | --- |",
        *kept.values(),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ["oldest", "newest", "types", "extras", "large"]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "data" / "release_matrix.md"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive, wheel = build(folder)
        sizes = f"{size(wheel)}, pure Python, built from {size(archive)}."
        lines = []
        estimators = PROJECT["optional-dependencies"]["estimators"]
        if "oldest" in chosen.only:
            lines.append(
                try_numbers(
                    "oldest",
                    wheel,
                    folder,
                    lowest(PROJECT["dependencies"] + estimators),
                )
            )
        if "newest" in chosen.only:
            lines.append(try_numbers("newest", wheel, folder, estimators))
        if "types" in chosen.only:
            lines.append(try_types(wheel, folder))
        if "extras" in chosen.only:
            extras = [
                extra
                for extra in PROJECT["optional-dependencies"]
                if extra not in LARGE + TOOLS
            ]
            lines += [try_extra(extra, wheel, folder) for extra in extras]
        if "large" in chosen.only:
            lines += [try_extra(extra, wheel, folder) for extra in LARGE]
    day = datetime.date.today().isoformat()
    tried = [f"{line} {PROJECT['version']}, {day} |" for line in lines]
    text = "\n".join([*merged(chosen.out, tried), "", sizes])
    chosen.out.write_text(text + "\n")
    print(text)
    return int("FAILS" in text or "failed" in text)


if __name__ == "__main__":
    sys.exit(main())
