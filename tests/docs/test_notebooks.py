"""Gallery and course as notebooks in a real kernel: every cell runs, pictures and tables appear, nothing warns."""

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
GALLERY = sorted([*(DOCS / "gallery").glob("plot_*.py"), *(DOCS / "course").glob("plot_*.py")])
NEEDS_TORCH = DOCS / "gallery" / "forecast_pytorch.py"

FIRST_MINUTES = """\
import giantstep as gs
s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1, step=gs.MaximalStep(2.0))
both = gs.compare(s, dim=60, trials=4, samples_per_dim=[0.5, 1.0, 2.0])
gs.plot(both)
# %%
gs.agreement(both)
# %%
s
# %%
gs.Study(s, grid={"ridge": [0.1, 1.0]})
# %%
gs.exponents("z1 + h3(z2)", "relu")
# %%
gs.learnable("h3(z)", "relu")
# %%
gs.regime(s, 200)
"""


def executed(text, folder, monkeypatch):
    """Return the outputs of every cell of a script, run in a kernel."""
    nbclient = pytest.importorskip("nbclient", reason="install .[dev]")
    pytest.importorskip("ipykernel", reason="install .[dev]")
    import nbformat

    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    cells = [nbformat.v4.new_code_cell(cell) for cell in re.split(r"^# %%.*$", text, flags=re.M)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(
        notebook, timeout=280, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return [cell.outputs for cell in notebook.cells]


def forms(outputs):
    """Return the forms in which a cell's outputs can be shown, and the text of its streams."""
    data = [dict(output.data) for output in outputs if "data" in output]
    said = "".join(output.text for output in outputs if output.output_type == "stream")
    return data, said


def pictures(outputs):
    return [base64.b64decode(data["image/png"]) for data in forms(outputs)[0] if "image/png" in data]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_last_lines_of_cells_are_shown(tmp_path, monkeypatch):
    plot, *others = executed(FIRST_MINUTES, tmp_path, monkeypatch)
    assert len(pictures(plot)) == 1 and pictures(plot)[0].startswith(b"\x89PNG")
    (tmp_path / "plot.png").write_bytes(pictures(plot)[0])
    for outputs in (plot, *others):
        assert "warning" not in forms(outputs)[1].lower() and "ipywidgets" not in forms(outputs)[1]
    for outputs, word in zip(others, ("verdict", "width_per_dim", "ridge", "information", "never", "maximal step")):
        data, _ = forms(outputs)
        assert word in data[-1]["text/html"] and word in data[-1]["text/plain"]
        assert "array(" not in data[-1]["text/plain"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_the_gallery_runs_as_notebooks(path, tmp_path, monkeypatch):
    outputs = executed(path.read_text(), tmp_path, monkeypatch)
    shown = [picture for cell in outputs for picture in pictures(cell)]
    assert shown, "no picture"
    if keep := os.environ.get("GIANTSTEP_NOTEBOOK_PICTURES"):
        for number, picture in enumerate(shown):
            (Path(keep) / f"{path.stem}-{number}.png").write_bytes(picture)
    for cell in outputs:
        assert "ipywidgets" not in forms(cell)[1]
        assert not re.search(r"^\S*Warning", forms(cell)[1], flags=re.M)


@pytest.mark.slow
def test_the_example_of_pytorch_runs(tmp_path):
    """The build of the documentation does not run it, and shows a picture that it made before."""
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, str(NEEDS_TORCH)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "pytorch_digits.png").exists()
