"""A result says where its error is worse than that of having learnt nothing; it says
nothing else.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.result.notes import notes_in
from giantstep.core.result.text import Result

HURT = gs.OneStep(
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.01,
    second_layer=gs.Vocabulary([1]),
    step=gs.MaximalStep(rate=2.0),
)
SAMPLES = [0.5, 1.0, 2.0, 3.0]
UNEVEN = gs.MixtureGLM(
    labels="cluster",
    weights=[0.9, 0.1],
    mean_gram=[[0.1, -0.1], [-0.1, 0.1]],
    ridge=1e-3,
    samples_per_dim=2.0,
)


def test_a_step_that_hurts_is_noted_at_its_points():
    result = gs.predict(HURT, samples_per_dim=SAMPLES)
    worse = result.test_error > result.null_error
    assert 0 < int(worse.sum()) < len(SAMPLES)
    (note,) = result.attrs["notes"]
    assert f"predicting zero at {int(worse.sum())} of {len(SAMPLES)} points" in note
    assert (
        f"{float(result.test_error.max()):.3g} where that gives"
        f" {float(result.null_error[0]):.3g}" in note
    )


@pytest.mark.parametrize(
    ("scenario", "words", "nothing"),
    [
        (
            gs.MixtureGLM(labels="linear", noise=3.0, ridge=1e-3, samples_per_dim=1.2),
            "predicting zero",
            4.0,
        ),
        (UNEVEN, "always saying the same class", 0.1),
        (
            UNEVEN.replace(flip=0.2),
            "always saying the same class",
            0.1 * 0.8 + 0.9 * 0.2,
        ),
    ],
)
def test_the_error_of_having_learnt_nothing(scenario, words, nothing):
    result = gs.predict(scenario)
    assert float(result.test_error) > nothing
    error = f"{float(result.test_error):.3g}"
    assert notes_in(result.attrs) == [
        f"test_error = {error} is worse than {words}, which gives {nothing:.3g}."
    ]


def test_only_the_end_of_a_trajectory_is_judged():
    s = gs.FewSteps(
        target="tanh(z)",
        rate=2.0,
        steps=1,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=1e-4,
    )
    learnt = gs.predict(s)
    assert (
        float(learnt.test_error[0])
        > float(learnt.null_error)
        > float(learnt.test_error[1])
    )
    assert notes_in(learnt.attrs) == []
    assert len(notes_in(gs.predict(s, steps=[0, 1]).attrs)) == 1


def test_what_learns_or_failed_has_no_notes():
    assert (
        "notes" not in gs.predict(gs.OneStep.example(), samples_per_dim=SAMPLES).attrs
    )
    with pytest.warns(gs.GiantstepWarning):
        given_up = gs.predict(HURT, cpu_limit=1e-9)
    assert np.isnan(given_up.test_error) and "notes" not in given_up.attrs


@pytest.mark.parametrize("suffix", [".nc", ".json"])
def test_files_and_stores_keep_them(tmp_path, suffix):
    result = gs.predict(HURT)
    gs.save(result, tmp_path / f"r{suffix}")
    assert gs.load(tmp_path / f"r{suffix}").attrs["notes"] == result.attrs["notes"]
    stored = gs.sweep(HURT, source="limit", store=tmp_path / "s.db", progress=False)
    assert stored.attrs["notes"] == result.attrs["notes"]


def test_reports_show_them(capsys):
    both = gs.compare(HURT, dim=40, trials=2, finite_size=False)
    (note,) = gs.predict(HURT).attrs["notes"]
    report = gs.agreement(both)
    assert both.attrs["notes"] == [note] and report.notes == (note,)
    assert (
        note in str(report).splitlines()
        and note in report._repr_html_()
        and note in report.to_dict()["notes"]
    )
    print(Result.of(gs.predict(HURT)).listed())
    assert capsys.readouterr().out.rstrip().endswith(note)


def test_numbers_out_of_proportion_are_said_in_plain_numbers():
    """Who writes samples_per_dim=2000 may have meant n = 2000."""
    s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    (note,) = gs.predict(s, samples_per_dim=2000, dim=200).attrs["notes"]
    assert (
        "n = 400000 samples and p = 300 neurons at d = 200, 1333 samples for each"
        " neuron" in note
    )
    (note,) = gs.predict(s, width_per_dim=[1.0, 2048]).attrs["notes"]
    assert (
        "n = 2 d samples and p = 2048 d neurons, 1024 neurons for each sample" in note
    )
    assert "notes" not in gs.predict(s, dim=200, samples_per_dim=[2.0, 20.0]).attrs
