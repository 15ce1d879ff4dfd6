"""Every code block of the README and of docs/ runs: the README as it stands, in a fresh
shell; pages block by block.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = {"_build", "examples"}
README = ROOT / "README.md"
PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if not MADE & set(page.relative_to(ROOT / "docs").parts)
]
NOT_RUN_HERE = ("make", "pip", "git")


def blocks(page, language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.M | re.S
    )


def run(arguments, folder, output=None):
    environment = {**os.environ, "PYTHONWARNINGS": "error", "MPLBACKEND": "Agg"}
    return subprocess.run(
        arguments,
        cwd=folder,
        env=environment,
        stdout=output or subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_readme_runs_in_a_fresh_shell_as_it_stands(tmp_path):
    """Commands that are not found, files that are not there, a status that is not zero;
    only `make demo` is not run.
    """
    environment = Path(sys.prefix)
    if not (environment / "bin" / "activate").exists():
        pytest.skip("these tests do not run in a virtual environment")
    (tmp_path / ".venv").symlink_to(environment)
    lines = ["set -e"]
    for language, block in re.findall(
        r"^```(sh|python)\n(.*?)^```", README.read_text(), flags=re.M | re.S
    ):
        python = language == "python"
        if python:
            lines += ["python - <<'END'", block, "END"]
        else:
            lines += [re.sub(r"^make demo\b", ":", block, flags=re.M)]
    kept = (
        "PYTHONPATH",
        "HOME",
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_CORETYPE",
    )
    fresh = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        **{name: os.environ[name] for name in kept if name in os.environ},
    }
    script = "\n".join(lines)
    assert "\n: " in script and "source .venv/bin/activate" in script
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=fresh, capture_output=True, text=True
    )
    assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr
    assert (tmp_path / "curve.png").exists() and (tmp_path / "S.toml").exists()


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page, "python")],
    ids=lambda page: page.name,
)
def test_python_blocks_run_in_order(page, tmp_path):
    done = run([sys.executable, "-c", "\n".join(blocks(page, "python"))], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "sh")], ids=lambda page: page.name
)
def test_commands_run_in_order(page, tmp_path):
    for line in "\n".join(blocks(page, "sh")).splitlines():
        command, _, target = line.partition("#")[0].partition(">")
        words = shlex.split(command)
        if not words or words[0] in NOT_RUN_HERE:
            continue
        assert words[0] == "giantstep", f"say how to test {line!r}"
        with open(tmp_path / (target.strip() or "stdout.txt"), "w") as output:
            done = run(
                [sys.executable, "-m", "giantstep", *words[1:]], tmp_path, output
            )
        assert done.returncode == 0, (line, done.stderr)


def test_the_first_page_says_how_to_install_and_cuts_no_code_off():
    page = ROOT / "docs" / "index.md"
    text = page.read_text()
    assert text.index("## Install") < text.index("import giantstep")
    for language in ("python", "sh"):
        assert (
            max(
                len(line)
                for block in blocks(page, language)
                for line in block.splitlines()
            )
            <= 80
        )


def test_links_and_figures_exist():
    for page in [README, *PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            # gallery and course, written by the build
            made = link in (
                "examples/index",
                "examples/course/index",
            )
            assert (
                made or link.startswith("https://") or (page.parent / link).exists()
            ), (page.name, link)


def test_no_block_in_an_unknown_language():
    for page in [README, *PAGES]:
        for language in re.findall(r"^```(\w+)$", page.read_text(), flags=re.M):
            assert language in ("python", "sh", "toml", "text"), (page.name, language)


def not_run():
    """Yield the names of files with programs or commands that no test above runs."""
    for page in PAGES:
        if page.parent.name != "docs":
            continue  # equations of the theory
        text = page.read_text()
        programs = [
            block
            for block in blocks(page, "text")
            if block.startswith(("import ", "from "))
        ]
        indented = re.findall(
            r"^    (?:giantstep |pip |import |\w+ = gs\.)",
            re.sub(r"^```.*?^```", "", text, flags=re.M | re.S),
            flags=re.M,
        )
        if programs or indented:
            yield page.name
    yield from (
        path.name
        for path in (ROOT / "docs" / "gallery").glob("*.py")
        if not path.name.startswith("plot_")
    )
    yield "slurm_sweep.py"


def test_what_is_not_run_is_listed_with_its_reason():
    page = (ROOT / "docs" / "releases.md").read_text()
    listed = page.partition("## Examples that are not run")[2].partition("\n## ")[0]
    assert [name for name in not_run() if name not in listed] == []
