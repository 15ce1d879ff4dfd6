"""Phase diagrams in one call: their regions are those of the scenario's own answers,
their lines its thresholds.
"""

from __future__ import annotations

import numpy as np
import pytest

import giantstep as gs
from giantstep.problems.learnability.batch_exponents import phase_names
from giantstep.tools.figures.phase_diagram import fill_regions
from giantstep.tools.figures.style import new_figure

CLUSTERS = gs.SubspaceClustering(
    clusters=2, sparsity=0.05, snr=1.2, samples_per_dim=2.0
)
CLASSES = gs.MixtureGLM(
    labels="sign", noise=0.5, loss="logistic", ridge=0.1, samples_per_dim=2.0
)


def said(axes) -> set[str]:
    return {text.get_text() for text in [*axes.texts, *axes.get_legend().get_texts()]}


def test_phases_of_clustering_lie_between_the_thresholds():
    """The map is filled from thresholds; single points know their phase by free
    entropy.
    """
    sparsity = [0.05, 0.19, 0.3]
    unit = CLUSTERS.threshold
    snr = (
        np.concatenate([np.linspace(0.31, 1.31, 11), [1.003, 1.006, 1.009, 1.012]])
        * unit
    )
    lines = gs.predict(CLUSTERS, sparsity=sparsity, what="thresholds", progress=False)
    diagram = CLUSTERS.diagram()
    named = diagram.regions({name: lines[name].values for name in diagram.lines}, snr)
    expected = gs.predict(CLUSTERS, snr=snr, sparsity=sparsity, progress=False).phase
    np.testing.assert_array_equal(named, expected.transpose("snr", "sparsity").values)
    assert set(np.unique(named)) == {"impossible", "hard", "suboptimal", "optimal"}


def test_the_diagram_of_clustering_names_its_regions_and_lines(tmp_path):
    figure = gs.phase_diagram(
        CLUSTERS, sparsity=[0.02, 0.06, 0.1], path=tmp_path / "phases.png"
    )
    (axes,) = figure.axes
    assert (tmp_path / "phases.png").stat().st_size > 10_000
    assert {"impossible", "hard", "optimal", "this scenario"} <= said(axes)
    assert r"$\lambda_{\mathrm{alg}}$: AMP finds something" in said(axes)
    (star,) = [line for line in axes.lines if line.get_marker() == "*"]
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (
        CLUSTERS.sparsity,
        CLUSTERS.snr,
    )


def test_unequal_clusters_have_the_one_threshold_that_is_known():
    unequal = CLUSTERS.replace(clusters=3, weights=[0.5, 0.3, 0.2])
    with pytest.warns(gs.GiantstepWarning, match="only lam_alg"):
        (axes,) = gs.phase_diagram(unequal, sparsity=[0.02, 0.1], snr=[0.5, 3.0]).axes
    assert {"AMP finds something", "AMP finds nothing"} <= said(axes)
    assert axes.get_ylim() == (0.5, 3.0)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({}, "noise"),
        ({"labels": "logit", "noise": 0.0}, "teacher_norm"),
        ({"labels": "random", "noise": 0.0}, "flip"),
    ],
)
def test_the_line_of_separability_is_the_threshold(change, field):
    scenario = CLASSES.replace(change)
    places = [0.1, 0.2, 0.4]
    (axes,) = gs.phase_diagram(scenario, {field: places}).axes
    threshold = gs.predict(scenario, {field: places}, what="thresholds").alpha_c.values
    (line,) = [line for line in axes.lines if line.get_marker() != "*"]
    drawn = np.interp(places, *line.get_data())
    np.testing.assert_allclose(drawn[[0, -1]], threshold[[0, -1]], rtol=1e-12)
    np.testing.assert_allclose(drawn, threshold, rtol=1e-3)
    assert {"separable", "not separable"} <= said(axes)
    assert scenario.diagram().across == field


def test_classes_that_are_always_separable_have_no_line():
    (axes,) = gs.phase_diagram(CLASSES, noise=0.0, flip=[0.0, 0.1, 0.2]).axes
    (line,) = axes.lines[:1]
    # infinite without flips
    assert np.isnan(line.get_ydata()[0]) and np.isfinite(line.get_ydata()[-1])


def test_one_pass_training_has_its_phases_in_exponents():
    scenario = gs.OnlineSGD(
        target="h3(z1)", dim=1024, batch_size=1024, rate=0.001, steps=2000
    )
    figure = gs.phase_diagram(scenario, rate=[0.001, 0.01])
    assert [
        len([line for line in axes.lines if line.get_marker() == "*"])
        for axes in figure.axes
    ] == [1, 1, 1]
    names = [{text.replace("\n", " ") for text in said(axes)} for axes in figure.axes]
    assert (
        {"recovered", "too few steps"} <= names[0]
        and "too large: noise" in names[1]
        and "noise" in names[2]
    )
    result = gs.predict(scenario, rate=[0.001, 0.5], what="phases")
    again = phase_names(3.0, result.mu.values, result.delta.values, correlation=False)
    np.testing.assert_array_equal(result.phase.values, again)


def test_what_is_no_phase_diagram_is_refused_in_a_sentence():
    with pytest.raises(
        gs.InputError,
        match="OneStep has no phase diagram; .*SubspaceClustering.* have one",
    ):
        gs.phase_diagram(gs.OneStep.example())
    with pytest.raises(
        gs.InputError, match="one horizontal axis, but noise, flip are lists"
    ):
        gs.phase_diagram(CLASSES, noise=[0.1, 0.2], flip=[0.1, 0.2])
    with pytest.raises(gs.InputError, match="a list of at least two numbers"):
        gs.phase_diagram(CLASSES, noise=[0.1])
    with pytest.raises(gs.InputError, match="labels"):
        gs.phase_diagram(CLASSES.replace(labels="linear", loss="square"))
    with pytest.raises(gs.InputError, match="takes a scenario, not a str"):
        gs.phase_diagram("clusters")


def test_a_name_without_room_is_in_the_legend():
    figure, (axes,) = new_figure(1, 1, width=4, height=3)
    y = np.linspace(0, 1, 101)
    names = np.where(
        y[:, None] < 0.02, "a long name of a thin region", "wide"
    ) + np.zeros(80, dtype="<U1")
    (thin,) = fill_regions(axes, np.linspace(0, 1, 80), y, names)
    assert thin.get_label() == "a long name of a thin region"
    assert [text.get_text() for text in axes.texts] == ["wide"]


@pytest.mark.parametrize(
    "rate", [1e-3, 3e-5]
)  # the second run lies where the legends stood
def test_no_legend_hides_the_run_and_no_line_goes_through_a_name(rate):
    run = gs.OnlineSGD(target="h3(z1)", dim=1024, batch_size=900, rate=rate, steps=2000)
    figure = gs.phase_diagram(run)
    figure.draw_without_rendering()
    for axes in figure.axes:
        stars = [line for line in axes.lines if line.get_marker() == "*"]
        assert len(stars) == 1
        legend = axes.get_legend().get_window_extent()
        assert not legend.contains(*axes.transData.transform(stars[0].get_xydata()[0]))
        assert legend.y1 < axes.get_window_extent().y0  # below the axes
        written = [text for text in axes.texts if text.get_zorder() == 5]
        assert written
        for text in written:
            box = text.get_window_extent()
            for line in axes.lines:
                path = axes.transData.transform_path(line.get_path())
                assert not path.intersects_bbox(box, filled=False), text.get_text()
