"""Install the wheel into fresh environments and try it there; write the table of docs/releases.md.

    python benchmarks/release_matrix.py [--only oldest newest extras] [--out docs/data/release_matrix.md]

`oldest` has the lowest version that pyproject.toml allows of every dependency, `newest` what the registry gives today.
Both run `giantstep doctor` and the recorded numbers of every family (tests/unchanged) on the installed wheel, with
the extra `estimators`, which two of them need. Every extra is then installed alone and its packages are imported.
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
NEEDS_A_DEVICE = ("cuda", "torch")
"""Extras that are gigabytes; they are tried on the machine that has the device."""
TOOLS = ("dev", "docs")
"""Extras for those who change the project: its own tests and documentation install them."""


def lowest(requirements: list[str]) -> list[str]:
    """Return the lowest version that each requirement allows."""
    return [requirement.replace(">=", "==") for requirement in requirements]


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)


def environment(folder: Path, requirements: list[str]) -> Path:
    """Return the Python of a fresh environment with these packages."""
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"
    installed = run(python, "-m", "pip", "install", "--quiet", *requirements, cwd=folder)
    if installed.returncode:
        raise SystemExit(f"{folder.name}: pip failed\n{installed.stderr[-2000:]}")
    return python


def versions(python: Path, folder: Path) -> dict[str, str]:
    listed = json.loads(run(python, "-m", "pip", "list", "--format", "json", cwd=folder).stdout)
    return {package["name"].lower(): package["version"] for package in listed}


def try_numbers(name: str, wheel: Path, folder: Path, pins: list[str]) -> str:
    """Install the wheel with these pins, run doctor and the recorded numbers; return a row of the table."""
    python = environment(folder / name, [str(wheel), "pytest", "pytest-timeout", *pins])
    doctor = run(python, "-m", "giantstep", "doctor", "--json", cwd=folder)
    shutil.copytree(ROOT / "tests" / "unchanged", folder / name / "unchanged")
    tests = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "unchanged", cwd=folder / name)
    seen = versions(python, folder)
    wanted = [requirement.split(">=")[0] for requirement in PROJECT["dependencies"]]
    packages = ", ".join(f"{package} {seen[package]}" for package in wanted)
    said = tests.stdout.strip().splitlines()[-1].strip("= ")
    health = "passed" if doctor.returncode == 0 else "failed"
    return f"| {platform.python_version()} | {name} | {packages} | doctor {health}; {said.split(' in ')[0]} |"


def try_extra(name: str, wheel: Path, folder: Path) -> str:
    """Install one extra alone and import what it brings; return a row of the table."""
    python = environment(folder / f"extra-{name}", [f"{wheel}[{name}]"])
    modules = {"scikit-learn": "sklearn", "dask-jobqueue": "dask_jobqueue"}
    names = [requirement.split(">=")[0] for requirement in PROJECT["optional-dependencies"][name]]
    imports = "; ".join(f"import {modules.get(package, package)}" for package in ["giantstep", *names])
    outcome = run(python, "-c", imports, cwd=folder)
    verdict = "FAILS" if outcome.returncode else "imports"
    return f"| {platform.python_version()} | `[{name}]` alone | newest | {verdict} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=["oldest", "newest", "extras"], default=["oldest", "newest", "extras"]
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "data" / "release_matrix.md")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT, cwd=folder)
        if built.returncode:
            raise SystemExit(built.stderr)
        wheel = next(folder.glob("*.whl"))
        size = wheel.stat().st_size / 2**20
        lines = ["| Python | environment | versions | outcome |", "| --- | --- | --- | --- |"]
        estimators = PROJECT["optional-dependencies"]["estimators"]
        if "oldest" in chosen.only:
            lines.append(try_numbers("oldest", wheel, folder, lowest(PROJECT["dependencies"] + estimators)))
        if "newest" in chosen.only:
            lines.append(try_numbers("newest", wheel, folder, estimators))
        if "extras" in chosen.only:
            extras = [extra for extra in PROJECT["optional-dependencies"] if extra not in NEEDS_A_DEVICE + TOOLS]
            lines += [try_extra(extra, wheel, folder) for extra in extras]
    day = datetime.date.today().isoformat()
    text = "\n".join([*lines, "", f"{wheel.name}, {size:.1f} MiB, pure Python; tried on {day}."])
    chosen.out.write_text(text + "\n")
    print(text)
    return int("FAILS" in text or "failed" in text)


if __name__ == "__main__":
    sys.exit(main())
