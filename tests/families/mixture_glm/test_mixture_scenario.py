"""What `MixtureGLM` refuses, each with its sentence, and how it is written to files."""

import numpy as np
import pytest

import giantstep as gs

TWO = {"weights": [0.5, 0.5], "samples_per_dim": 2.0, "ridge": 0.1}
ONE = {"samples_per_dim": 2.0, "ridge": 0.1}
EYE = np.eye(3)

REFUSED = {
    "weights sum": ({**TWO, "weights": [0.5, 0.6]}, "`weights` must be .*sum to one"),
    "negative weight": (
        {**TWO, "weights": [1.5, -0.5]},
        "`weights` must be at least 0",
    ),
    "no samples": (
        {**ONE, "samples_per_dim": 0},
        "`samples_per_dim` must be a number above 0",
    ),
    "negative samples": ({**ONE, "samples_per_dim": -1}, "`samples_per_dim`"),
    "ridge": ({**ONE, "ridge": -0.1}, "`ridge` must be a number at least 0"),
    "l1": ({**ONE, "l1": -0.1}, "`l1` must be a number at least 0"),
    "noise": ({**ONE, "noise": -0.1}, "`noise` must be a number at least 0"),
    "flip": (
        {**ONE, "flip": 0.6},
        "`flip` must be a number at least 0 and at most 0.5",
    ),
    "huber": (
        {**ONE, "loss": "huber", "huber_threshold": 0},
        "`huber_threshold` must be a number above 0",
    ),
    "asymmetric covariance": (
        {**ONE, "covariances": {"kind": "dense", "matrices": [[[1, 0.5], [0, 1]]]}},
        "`covariances.matrices` must be symmetric",
    ),
    "indefinite covariance": (
        {**ONE, "covariances": {"kind": "dense", "matrices": [[[1, 2], [2, 1]]]}},
        "`covariances.matrices` must be positive semidefinite .*-1",
    ),
    "negative variance": (
        {**ONE, "covariances": [-1.0]},
        "`covariances.values` must be .* at least 0",
    ),
    "no variance": (
        {**TWO, "covariances": [0.0, 1.0]},
        "`covariances` must be such that every cluster varies",
    ),
    "indefinite Gram matrix": (
        {**TWO, "mean_gram": [[1, 2], [2, 1]]},
        "`mean_gram` must be positive semidefinite",
    ),
    "Gram matrix shape": (
        {**TWO, "mean_gram": [[1]]},
        "`mean_gram` must be a matrix of 2 by 2",
    ),
    "Gram matrix ragged": (
        {**TWO, "mean_gram": [[1, 2], [2]]},
        "`mean_gram` must be an array of numbers with rows",
    ),
    "Gram matrix text": (
        {**TWO, "mean_gram": [["a"]]},
        "`mean_gram` must be an array of numbers",
    ),
    "teacher and means": (
        {**TWO, "mean_gram": [[1, -1], [-1, 1]], "teacher_means": [1.5, -1.5]},
        "`teacher_means` must be such that .* positive semidefinite",
    ),
    "teacher along no mean": (
        {**TWO, "teacher_means": [0.5, 0.0]},
        "`teacher_means` must be such that",
    ),
    "block Gram matrix": (
        {
            **ONE,
            "covariances": {
                "kind": "blocks",
                "weights": [0.5, 0.5],
                "values": [[1, 1]],
                "teacher": [1, 0],
                "means": [[[0]], [[1]]],
                "teacher_means": [[0.5], [0]],
            },
        },
        "block 1.* positive semidefinite",
    ),
    "block of means alone": (
        {
            **ONE,
            "covariances": {
                "kind": "blocks",
                "weights": [0.5, 0.5],
                "values": [[1, 1]],
                "means": [[[-1]], [[1]]],
            },
        },
        "`covariances.means` must be positive semidefinite",
    ),
    "block Gram matrix with teacher_norm": (
        {
            **ONE,
            "covariances": {
                "kind": "blocks",
                "weights": [0.5, 0.5],
                "values": [[1, 1]],
                "means": [[[0.1]], [[1.9]]],
                "teacher_means": [[1], [0]],
            },
        },
        r"`covariances.teacher_means \(block 1\)` must be such that",
    ),
    "moments beyond the teacher's variance": (
        {
            **ONE,
            "covariances": {
                "kind": "blocks",
                "weights": [1],
                "values": [[0.5]],
                "moments": [[[1, 0], [0, 1]]],
                "teacher_variance": [1.9],
            },
        },
        r"`covariances.teacher_variance` must be at least what .* explain, \[2.0\]",
    ),
    "covariances beyond the teacher's variance": (
        {
            **ONE,
            "covariances": {
                "kind": "dense",
                "matrices": [[[2, 0], [0, 1]]],
                "cross": [[2, 2]],
                "teacher_variance": [2.9],
            },
        },
        r"`covariances.teacher_variance` must be at least what .* explain, \[3.0\]",
    ),
    "block moments": (
        {
            **ONE,
            "covariances": {
                "kind": "blocks",
                "weights": [1],
                "values": [[1]],
                "moments": [[[1, 2], [2, 1]]],
                "teacher_variance": [1],
            },
        },
        "`covariances.moments` must be positive semidefinite",
    ),
    "block weights": (
        {
            **ONE,
            "covariances": {
                "kind": "blocks",
                "weights": [0.5, 0.6],
                "values": [[1, 1]],
            },
        },
        "`covariances.weights` must be above 0 and sum to one",
    ),
    "block values": (
        {
            **ONE,
            "covariances": {
                "kind": "blocks",
                "weights": [0.5, 0.5],
                "values": [[1, 1, 1]],
            },
        },
        "`covariances.values` must be rows of 2 numbers",
    ),
    "moments shape": (
        {
            **ONE,
            "covariances": {
                "kind": "blocks",
                "weights": [1],
                "values": [[1]],
                "moments": [[[1]]],
            },
        },
        "`covariances.moments` must be of shape 1x2x2",
    ),
    "wrong number of clusters": (
        {**TWO, "covariances": [1.0]},
        "`covariances` must be given for 2 clusters",
    ),
    "spike strength": (
        {**ONE, "covariances": {"kind": "spiked", "strengths": [-1]}},
        "`covariances.strengths`",
    ),
    "spike alignment": (
        {
            **ONE,
            "covariances": {
                "kind": "spiked",
                "strengths": [1],
                "teacher_alignment": [2],
            },
        },
        "`covariances.teacher_alignment` must be such that",
    ),
    "teacher of no variance": (
        {**ONE, "teacher_norm": 0},
        "`teacher_norm` must be such that the teacher field varies",
    ),
    "margin loss of real labels": (
        {**ONE, "labels": "linear", "loss": "logistic"},
        "`loss` must be square, huber or interpolate where labels are real",
    ),
    "hard margin of real labels": (
        {"labels": "z**2", "loss": "maxmargin", "samples_per_dim": 0.5},
        "`loss` must be",
    ),
    "flips of real labels": (
        {**ONE, "labels": "linear", "flip": 0.1},
        "`flip` must be 0",
    ),
    "noise of logit labels": (
        {**ONE, "labels": "logit", "noise": 0.1},
        "`noise` must be 0",
    ),
    "unknown labels": ({**ONE, "labels": "sgin"}, "`labels` must be one of"),
    "unknown loss": ({**ONE, "loss": "hinges"}, "`loss` must be one of"),
    "label of a cluster": (
        {**TWO, "labels": "cluster", "cluster_labels": [1, 2]},
        "`cluster_labels` must be 1 or -1",
    ),
    "labels of three clusters": (
        {**TWO, "weights": [0.2, 0.3, 0.5], "labels": "cluster"},
        "`cluster_labels` must be 3 numbers 1 or -1",
    ),
    "one class": (
        {**TWO, "labels": "cluster", "cluster_labels": [1, 1], "intercept": True},
        "one class only",
    ),
    "labels nobody asks for": (
        {**TWO, "cluster_labels": [1, -1]},
        "`cluster_labels` must be left out",
    ),
    "l1 with matrices": (
        {**ONE, "l1": 0.1, "covariances": {"kind": "dense", "matrices": [EYE]}},
        "`l1` must be 0",
    ),
    "l1 with spikes": (
        {**ONE, "l1": 0.1, "covariances": {"kind": "spiked", "strengths": [1]}},
        "`l1` must be 0",
    ),
    "square without ridge": (
        {"labels": "linear", "samples_per_dim": 0.5},
        '`ridge` must be above 0 where samples_per_dim <= 1 .*"interpolate"',
    ),
    "square at the peak": (
        {"labels": "linear", "samples_per_dim": 1},
        "`ridge` must be above 0 .*diverges",
    ),
    "huber without ridge": (
        {"labels": "linear", "loss": "huber", "samples_per_dim": 0.5},
        "`ridge` must be above 0",
    ),
    "interpolation": (
        {"loss": "interpolate", "samples_per_dim": 1.0},
        "`samples_per_dim` must be below 1",
    ),
    "logistic without ridge": (
        {"noise": 0.3, "loss": "logistic", "samples_per_dim": 3},
        '`ridge` must be above 0 .*alpha_c=3.863532 .*"maxmargin"',
    ),
    "hinge without ridge": (
        {"noise": 0.3, "loss": "hinge", "samples_per_dim": 3},
        "`ridge` must be above 0 .*alpha_c",
    ),
    "not separable": (
        {"noise": 0.3, "loss": "maxmargin", "samples_per_dim": 4},
        "`samples_per_dim` must be below alpha_c=3.863532 .not separable",
    ),
    "ridge of a limit": (
        {"loss": "maxmargin", "ridge": 0.1, "samples_per_dim": 1},
        "`ridge` must be 0 where",
    ),
    "singular covariance": (
        {
            "labels": "linear",
            "covariances": {
                "kind": "blocks",
                "weights": [0.5, 0.5],
                "values": [[1, 0]],
            },
            "samples_per_dim": 2,
        },
        "`ridge` must be above 0 where the covariances .* singular",
    ),
    "teacher twice": (
        {
            **ONE,
            "covariances": {"kind": "dense", "matrices": [EYE], "teacher": [1, 1, 1]},
            "teacher_norm": 2,
        },
        "`teacher_norm` must be left out",
    ),
    "means twice": (
        {
            **ONE,
            "covariances": {"kind": "dense", "matrices": [EYE], "means": [[1, 0, 0]]},
            "mean_gram": [[1]],
        },
        "`mean_gram` must be left out",
    ),
    "vector length": (
        {**ONE, "covariances": {"kind": "dense", "matrices": [EYE], "teacher": [1, 1]}},
        "of shape 3",
    ),
    "loss weights": ({**TWO, "loss_weights": [1, 0]}, "`loss_weights` must be above 0"),
    "test weights": (
        {**TWO, "test_weights": [1, 1]},
        "`test_weights` must be at least 0 each and sum to one",
    ),
    "fixed blocks of higher rank": (
        {
            "labels": "linear",
            "l1": 0.1,
            "samples_per_dim": 2,
            "mean_gram": [[1.0]],
            "covariances": {
                "kind": "blocks",
                "weights": [1],
                "values": [[1]],
                "law": "fixed",
            },
        },
        "`covariances.law` must be",
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_bad_input_is_refused_with_its_sentence(name):
    fields, match = REFUSED[name]
    with pytest.raises(gs.InputError, match=match):
        gs.MixtureGLM(**fields)


@pytest.mark.parametrize(
    ("fields", "grid", "match"),
    [
        (
            {"labels": "linear", "samples_per_dim": 2.0},
            {"samples_per_dim": [2.0, 0.5]},
            "`ridge` must be above 0",
        ),
        (
            {"noise": 0.3, "loss": "maxmargin", "samples_per_dim": 1},
            {"samples_per_dim": [1, 4]},
            "alpha_c=3.863532",
        ),
        (
            {"noise": 0.3, "loss": "maxmargin", "samples_per_dim": 3.0},
            {"noise": [0.3, 3.0]},
            "alpha_c=2.254868",
        ),
        (
            {**TWO, "mean_gram": [[1, -1], [-1, 1]], "teacher_means": [0.8, -0.8]},
            {"teacher_norm": [1, 0.5]},
            "semi",
        ),
    ],
)
def test_a_whole_grid_is_checked_before_anything_runs(fields, grid, match):
    with pytest.raises(gs.InputError, match=match):
        gs.predict(gs.MixtureGLM(**fields), grid)


def test_a_teacher_may_be_missing_where_nobody_asks_it():
    result = gs.predict(
        gs.MixtureGLM(
            **TWO, teacher_norm=0.0, mean_gram=[[1, -1], [-1, 1]], labels="cluster"
        )
    )
    assert bool(result.converged)


def test_a_plain_list_is_isotropic():
    assert gs.MixtureGLM(**TWO, covariances=[0.2, 1.8]) == gs.MixtureGLM(
        **TWO, covariances=gs.Isotropic([0.2, 1.8])
    )


def test_large_arrays_lie_beside_the_file(tmp_path):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(2, 30, 40))
    s = gs.MixtureGLM(
        **TWO, covariances=gs.Dense(A @ A.swapaxes(1, 2) / 40), loss="logistic"
    )
    path = tmp_path / "study.toml"
    gs.Study(s).write(path)
    files = sorted(file.name for file in tmp_path.iterdir())
    assert files == sorted([s.covariances.matrices.file, "study.toml"])
    assert path.stat().st_size < 2000
    again = gs.Study.read(path)
    assert again.scenario == s
    assert float(again.predict().test_error) == float(gs.predict(s).test_error)


def test_expressions_and_names_may_vary():
    s = gs.MixtureGLM(labels="linear", ridge=0.1, samples_per_dim=2.0)
    result = gs.predict(
        s, labels=["linear", "phase", "z**2 - 1"], loss=["square", "huber"]
    )
    assert result.test_error.dims == ("labels", "loss")
    assert bool(result.converged.all())


def test_a_matrix_may_be_replaced_in_a_call():
    s = gs.MixtureGLM(
        **TWO, mean_gram=[[1, -1], [-1, 1]], labels="cluster", loss="logistic"
    )
    wider = gs.predict(s, mean_gram=[[4, -4], [-4, 4]])
    assert float(wider.test_error) < float(gs.predict(s).test_error)


@pytest.mark.parametrize(("inputs", "shape"), [(1.0, r"\(\)"), ([1.0], r"\(1,\)")])
def test_a_number_is_no_table(inputs, shape):
    """A number where a table belongs made the translation of messages fail."""
    with pytest.raises(
        gs.InputError, match=rf"`data.inputs` must be a table .* not of shape {shape}"
    ):
        gs.MixtureGLM(samples_per_dim=1.0, data={"inputs": inputs, "labels": 2.0})
