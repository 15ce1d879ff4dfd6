"""Figures for a paper: widths, type, colours and lines that read in grey, PDF and PGF;
titles of a reader's own.
"""

import itertools
import re
import stat
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

import giantstep as gs
from giantstep.tools.figures import plot as plot_module
from giantstep.tools.figures.style import DASHES, MARKERS, PRINTED

ONE_STEP = gs.OneStep(
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.1,
    noise=0.1,
    step=gs.MaximalStep(2.0),
)
SIZES = {"samples_per_dim": [0.5, 1.0, 2.0, 4.0]}

FAKE_TEX = r"""#!PYTHON
# Answers as TeX does on a terminal: a prompt, and the size of every box it is asked for.
import re, sys
for line in sys.stdin:
    if "pgf_backend_query_start" in line:
        print("*pgf_backend_query_start\n\n*", end="", flush=True)
    elif r"\the\wd0" in line:
        text = line.partition(r"\selectfont")[2].partition(r"\typeout")[0]
        letters = len(re.sub(r"\\\w+|[$ {}]", "", text))
        print(f"{3.5 * letters}pt,6.0pt,2.0pt\n\n*", end="", flush=True)
""".replace("PYTHON", sys.executable)


@pytest.fixture(scope="module")
def both():
    return gs.compare(
        {"no step": ONE_STEP.replace(step=gs.NoStep()), "one step": ONE_STEP},
        dim=20,
        trials=3,
        **SIZES,
    )


def lightness(colour):
    """Return how light a colour prints, from 0 to 100 (CIE L*)."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in to_rgb(colour)
    ]
    y = float(np.dot([0.2126, 0.7152, 0.0722], linear))
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


@pytest.mark.parametrize(
    ("width", "inches"), [(None, 3.35), ("column", 3.35), ("page", 6.9), (5.0, 5.0)]
)
def test_a_figure_has_the_width_and_the_type_of_a_paper(both, width, inches):
    figure = gs.plot(both, "test_error", style="paper", width=width)
    assert figure.get_figwidth() == inches and 0.5 < figure.get_figheight() / inches < 1
    sizes = {text.get_fontsize() for text in figure.findobj(Text) if text.get_text()}
    assert sizes == {8.0}
    assert not any(
        axes.get_title(loc=place)
        for axes in figure.axes
        for place in ("left", "center", "right")
    )


def test_everything_lies_inside_a_column(both):
    figure = gs.plot(both, style="paper")
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    assert (
        box.x0 >= 0
        and box.y0 >= 0
        and box.x1 <= figure.get_figwidth()
        and box.y1 <= figure.get_figheight()
    )
    rows = [axes.get_position().y0 for axes in figure.axes]
    assert len(rows) == 2 and rows[0] > rows[1], (
        "panels of a column stand below each other"
    )


def test_curves_can_be_told_apart_in_grey(both):
    for one, other in itertools.combinations(PRINTED[:3], 2):
        assert abs(lightness(one) - lightness(other)) > 15
    looks = list(zip(map(str, DASHES), MARKERS))
    assert len(set(looks)) == len(PRINTED) == len(looks)
    (axes,) = gs.plot(both, "test_error", style="paper").axes
    wide = [line for line in axes.lines if len(line.get_xdata()) > 4]
    assert len({line.get_linestyle() for line in wide}) == 2
    dots = {
        line.get_marker()
        for line in axes.lines
        if line.get_marker() in MARKERS and len(line.get_xdata()) == 4
    }
    assert len(dots) == 2
    named = {text.get_text() for text in axes.get_legend().get_texts()}
    assert {"no step", "one step", "experiment"} <= named


def test_a_pdf_embeds_its_type(both, tmp_path):
    gs.plot(both, "test_error", style="paper", path=tmp_path / "a.pdf")
    text = (tmp_path / "a.pdf").read_bytes()
    assert b"STIXGeneral" in text and b"/Type3" not in text
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+)", text)
    assert float(box) == pytest.approx(72 * 3.35, abs=0.1)


@pytest.fixture
def tex(tmp_path, monkeypatch):
    """A TeX system that answers what matplotlib asks one for."""
    program = tmp_path / "bin" / "pdflatex"
    program.parent.mkdir()
    program.write_text(FAKE_TEX)
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(program.parent))


def test_pgf_is_written_where_tex_is(both, tex, tmp_path):
    gs.plot(both, "test_error", style="paper", path=tmp_path / "a.pgf")
    text = (tmp_path / "a.pgf").read_text()
    assert (
        r"\begin{pgfpicture}" in text
        and "experiment" in text
        and "includegraphics" not in text
    )
    rates = {
        "step__rate": np.linspace(0.5, 3.0, 9),
        "samples_per_dim": np.linspace(0.5, 4.0, 9),
    }
    gs.plot(
        gs.predict(ONE_STEP, **rates),
        "test_error",
        style="paper",
        path=tmp_path / "map.pgf",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.pgf",
        "bin",
        "map.pgf",
    ]


def test_pgf_is_refused_in_a_sentence_where_there_is_no_tex(
    both, monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        gs.InputError,
        match=(
            "needs a TeX system .* none of pdflatex, .* is installed; .pdf needs none"
        ),
    ):
        gs.plot(both, "test_error", path=tmp_path / "a.pgf")
    assert not list(tmp_path.iterdir())


def test_a_picture_of_dots_is_no_pgf(tex, tmp_path):
    scenario = gs.MixtureGLM(
        labels="sign", noise=0.5, loss="logistic", ridge=0.1, samples_per_dim=2.0
    )
    figure = gs.phase_diagram(scenario)
    with pytest.raises(gs.InputError, match="picture of dots"):
        plot_module.save_figure(figure, tmp_path / "a.pgf")


@pytest.mark.parametrize("place", ["left", "center", "right"])
def test_a_title_of_ones_own_takes_the_place_of_ours(place):
    figure = gs.plot(gs.predict(ONE_STEP, **SIZES), "test_error")
    (axes,) = figure.axes
    assert axes.get_title(loc="left")
    with matplotlib.rc_context({"axes.titlelocation": place}):
        axes.set_title("mine")
    shown = [axes.get_title(loc=where) for where in ("left", "center", "right")]
    assert sorted(shown) == ["", "", "mine"]
    (text,) = (text for text in figure.findobj(Text) if text.get_text() == "mine")
    assert text.get_color() == matplotlib.rcParams["text.color"]


def test_axes_that_are_given_get_no_title():
    figure, axes = plt.subplots()
    gs.plot(
        gs.predict(ONE_STEP, ridge=[0.1, 1.0], **SIZES),
        "test_error",
        ax=axes,
        style="paper",
    )
    plt.close(figure)
    assert not any(axes.get_title(loc=place) for place in ("left", "center", "right"))
    assert {text.get_fontsize() for text in axes.get_legend().get_texts()} == {8.0}


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"style": "poster"}, 'Field `style` must be "paper"'),
        ({"width": "page"}, 'left out unless style="paper"'),
        ({"style": "paper", "width": "wide"}, "'column', 'page' or a number of inches"),
        ({"style": "paper", "width": 0.5}, "a number of inches from 2 to 20"),
    ],
)
def test_bad_input(keywords, said):
    with pytest.raises(gs.InputError, match=re.escape(said)):
        gs.plot(gs.predict(ONE_STEP, **SIZES), **keywords)


def test_two_long_fields_and_few_steps_make_a_map_for_each_step():
    net = gs.FewSteps(
        steps=1, target="tanh(z1)", width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1
    )
    grid = {
        "samples_per_dim": np.linspace(0.5, 4.0, 9),
        "ridge": np.geomspace(0.1, 1.0, 9),
    }
    figure = gs.plot(gs.predict(net, **grid), "test_error")
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == [
        "after 0 steps",
        "after 1 step",
    ]


@pytest.mark.parametrize("width", ["column", "page"])
def test_the_legend_of_stacked_parts_stands_above_the_panels(width):
    """Catches panels that shrink to nothing beside each other in a column, and a legend
    over the areas.
    """
    net = gs.Network(
        target="tanh(z1)",
        noise=0.1,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        steps=[gs.MaximalStep(2.0)],
    )
    result = gs.predict(net, what="variance", samples_per_dim=[0.5, 1.0, 2.0])
    figure = gs.plot(result, style="paper", width=width)
    figure.canvas.draw()
    (legend,) = figure.legends
    lowest = legend.get_window_extent().y0
    for axes in figure.axes:
        box = axes.get_window_extent()
        assert box.y1 <= lowest and box.width > 1.2 * figure.dpi
