"""The lessons of the course: each has one question, draws one picture, sets one
exercise, and runs.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

LESSONS = sorted((Path(__file__).parents[2] / "docs" / "course").glob("plot_*.py"))
COUNTED = """
import sys
from pathlib import Path
import matplotlib.pyplot as plt
exec(compile(Path(sys.argv[1]).read_text(), sys.argv[1], "exec"), {"__name__": "lesson"})
print("pictures", len(plt.get_fignums()))
"""


def test_there_are_six_lessons_in_order():
    assert [path.stem.split("_")[1] for path in LESSONS] == list("123456")


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_runs_and_draws_one_picture(path, tmp_path, monkeypatch):
    """Its solution has assertions of its own."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    command = [sys.executable, "-W", "error", "-c", COUNTED, str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "pictures 1"


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_one_question_and_one_exercise(path):
    text = path.read_text()
    opening = text.split('"""')[1]
    assert len(re.findall(r"^\*[^*]+\?\*$", opening, flags=re.M)) == 1
    assert text.count("# Exercise\n# ---") == 1 and text.count("# **Solution.**") == 1
    assert text.index("# Exercise") < text.index("# **Solution.**")
