"""Scenarios from a paper's symbols: the scalings of every paper, wrong and missing
symbols.
"""

from typing import Annotated

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.scenario.families import SHIPPED, family_class
from giantstep.core.scenario.paper_symbols import (
    Formula,
    Paper,
    either,
    nearest_integer,
    sqrt,
)

RELU = {"activation": "relu", "target": "tanh(z)"}
PAPERS_OF_ONE_STEP = [
    # our parameters of the papers' own figures and of the theory pages
    (
        gs.OneStep,
        "dandi2025random",
        {"alpha": 0.8, "beta": 2.0, "lambda_": 0.01, "eta": 100.0, "d": 50},
        {
            "samples_per_dim": 1.6,
            "width_per_dim": 2.0,
            "ridge": 0.01,
            "step": gs.MaximalStep(2.0),
        },
    ),
    (
        gs.OneStep,
        "dandi2025random",
        {
            "alpha": 1.0,
            "beta": 1.5,
            "lambda_": 0.01,
            "u": 1.0,
            "cos": 0.5,
            "zeta": [1, -1],
            "pi": [0.9, 0.1],
        },
        {
            "samples_per_dim": 1.5,
            "step": gs.PlantedSpike(1.0, alignment=0.5),
            "second_layer": gs.Vocabulary([1, -1], [0.9, 0.1]),
        },
    ),
    (
        gs.OneStep,
        "cui2024asymptotics",
        {
            "sigma": "tanh",
            "sigma_star": "sin(z)",
            "alpha": 1.5,
            "lambda_": 0.1,
            "eta_tilde": 3.0,
            "alpha0": 20.0,
        },
        {
            "width_per_dim": 1.0,
            "samples_per_dim": 1.5,
            "step": gs.MaximalStep(3.0, 20.0),
        },
    ),
    (
        gs.OneStep,
        "cui2024asymptotics",
        {
            "alpha": 1.5,
            "beta": 2.0,
            "lambda_": 0.1,
            "r_s": 0.5,
            "theta": 2.2,
            "c": 1.1025,
            "gamma": 0.95,
        },
        {"width_per_dim": 2.0, "step": gs.PlantedSpike(1.1, 1.05, 0.95)},
    ),
    (
        gs.OneStep,
        "moniri2024theory",
        {"phi": 0.25, "psi": 0.5, "lambda_": 0.1, "eta": 1.0},
        {
            "samples_per_dim": 4.0,
            "width_per_dim": 2.0,
            "ridge": 0.2,
            "step": gs.SmallStep(1.0, 4.0),
        },
    ),
    (
        gs.OneStep,
        "moniri2024theory",
        {
            "phi": 0.25,
            "psi": 0.5,
            "lambda_": 0.1,
            "eta": 200.0,
            "n": 10**4,
            "alpha": 0.25,
        },
        {"step": gs.GrowingStep(20.0, 0.25, 4.0), "second_layer": "gaussian"},
    ),
    (
        gs.OneStep,
        "mei2022generalization",
        {"psi1": 6.0, "psi2": 3.0, "lambda_": 1e-2, "tau2": 0.2},
        {
            "width_per_dim": 6.0,
            "samples_per_dim": 3.0,
            "ridge": 0.03,
            "noise": 0.2,
            "step": gs.NoStep(),
        },
    ),
    (
        gs.OneStep,
        "ba2022high",
        {"psi1": 4.0, "psi2": 2.0, "lambda_": 0.1, "eta": 1.5, "sigma_eps2": 0.3},
        {
            "samples_per_dim": 4.0,
            "width_per_dim": 2.0,
            "ridge": 0.2,
            "noise": 0.3,
            "step": gs.SmallStep(1.5, 4.0),
            "second_layer": "gaussian",
            "rows": "gaussian",
        },
    ),
]
KNOWN = [
    *PAPERS_OF_ONE_STEP,
    *[(gs.Network, key, symbols, {}) for _, key, symbols, _ in PAPERS_OF_ONE_STEP],
    (
        gs.GiantSteps,
        "dandi2023giant",
        {
            "f_star": "z1*z2",
            "eta": 8.0,
            "p": 4,
            "a": [0.5, -0.5, 0.5, -0.5],
            "alpha": 3.0,
            "l": 2.0,
            "T": 5,
        },
        {
            "rate": 2.0,
            "second_layer": (1.0, -1.0, 1.0, -1.0),
            "batch_per_dim": 3.0,
            "batch_exponent": 2.0,
            "steps": 5,
        },
    ),
    (
        gs.OnlineSGD,
        "arnaboldi2024online",
        {"h_star": "h2(z1)", "gamma": 0.1, "n_b": 30, "d": 100, "Delta": 0.5},
        {"rate": 0.1, "batch_size": 30, "dim": 100, "noise": 0.5},
    ),
    (
        gs.OnlineSGD,
        "arnaboldi2024online",
        {"gamma0": 8.0, "delta": 0.5, "mu": 1.5, "d": 100},
        {"rate": 0.8, "batch_size": 1000},
    ),
    (
        gs.OnlineSGD,
        "arnaboldi2024repetita",
        {"gamma0": 0.01, "p": 2, "d": 200, "rho0": 0.1, "a": [1.0, -1.0]},
        {"rate": 1e-4, "inner_rate": 0.1, "batch_size": 1, "second_layer": (1.0, -1.0)},
    ),
    (
        gs.OnlineSGD,
        "arnaboldi2024repetita",
        {"gamma0": 0.01, "p": 1, "d": 200, "rho": 5e-4, "n_b": 400},
        {"rate": 0.02, "inner_rate": 0.1, "batch_size": 400},
    ),
    (
        gs.BatchReuse,
        "dandi2024benefits",
        {"alpha": 3.0, "eta": 0.1, "lambda_": 0.2, "T": 4, "f_star": "h3(z)"},
        {"samples_per_dim": 3.0, "rate": 0.1, "decay": 0.2, "steps": 4},
    ),
    (
        gs.SubspaceClustering,
        "pesce2022subspace",
        {"alpha": 2.0, "rho": 0.1, "K": 3, "ratio": 2.0},
        {"snr": 6 / 2**0.5, "clusters": 3, "sparsity": 0.1},
    ),
    (
        gs.SubspaceClustering,
        "pesce2022subspace",
        {"alpha": 2.0, "rho": 0.1, "K": 2, "lambda_": 4.0},
        {"snr": 4.0},
    ),
    (
        gs.MixtureGLM,
        "loureiro2021learning",
        {"alpha": 2.0, "lambda_": 0.1, "rho": 1.5, "Delta": 0.3, "labels": "linear"},
        {
            "samples_per_dim": 2.0,
            "ridge": 0.1,
            "teacher_norm": 1.5,
            "noise": 0.3,
            "labels": "linear",
        },
    ),
    (
        gs.MixtureGLM,
        "loureiro2021mixtures",
        {"alpha": 2.0, "lambda_": 0.1, "rho": [0.3, 0.7]},
        {"weights": (0.3, 0.7)},
    ),
    (
        gs.MixtureGLM,
        "pesce2023gaussian",
        {"alpha": 2.0, "lambda_": 0.1, "p": [0.3, 0.7], "Delta": 0.5},
        {"samples_per_dim": 2.0, "ridge": 0.1, "weights": (0.3, 0.7), "noise": 0.5},
    ),
    (
        gs.MixtureGLM,
        "gerace2024gaussian",
        {"alpha": 2.0, "lambda_": 0.1, "rho": [0.3, 0.7]},
        {"weights": (0.3, 0.7)},
    ),
]


@pytest.mark.parametrize(
    ("cls", "key", "symbols", "ours"),
    KNOWN,
    ids=[f"{c.family}-{k}" for c, k, *_ in KNOWN],
)
def test_the_scalings_of_every_paper(cls, key, symbols, ours, capsys):
    scenario = cls.from_paper(key, **symbols)
    for name, value in ours.items():
        found = getattr(scenario, name)
        assert found == (
            pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
        ), name
    printed = capsys.readouterr().out
    assert printed.startswith(f"{key}:\n") and "\ngiantstep:\n" in printed
    for name in symbols:
        assert f"  {name.rstrip('_')} " in printed or name in cls.model_fields


@pytest.mark.parametrize(("key", "symbols"), [case[1:3] for case in PAPERS_OF_ONE_STEP])
def test_a_paper_of_one_step_says_the_same_network(key, symbols):
    """A field that the network names otherwise and the translation forgets would leave
    its default.
    """
    one = gs.OneStep.from_paper(key, **symbols)
    assert gs.Network.from_paper(key, **symbols) == one.network(1)


def test_every_paper_of_the_notation_was_tried():
    declared = {(name, key) for name in SHIPPED for key in family_class(name).notation}
    assert declared == {(cls.family, key) for cls, key, *_ in KNOWN}


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_declarations_name_fields_and_symbols_that_exist(family):
    cls = family_class(family)
    for key, paper in cls.paper_symbols.items():
        assert key in cls.papers
        assert paper.fields_of.__doc__, key
        used = set()
        twos = dict.fromkeys(paper.symbols, 2.0)
        for name in paper.fields:
            assert name.partition("(")[0].partition(".")[0] in cls.model_fields, name
            for formula in paper.formulas(name):
                used |= set(formula.symbols)
                assert isinstance(paper.value(name, formula, twos), int | float)
        assert used == set(paper.symbols), key
        assert cls.notation[key] == paper.notation()


A, B, C = map(Formula.of_symbol, "abc")


@pytest.mark.parametrize(
    ("formula", "text", "symbols"),
    [
        (A, "a", "a"),
        (B * A / C, "b*a/c", "bac"),
        (A * (B / C), "a*(b/c)", "abc"),
        (A / (B * C), "a/(b*c)", "abc"),
        (1 / A, "1/a", "a"),
        (2.5 * A, "2.5*a", "a"),
        (A / B**C, "a/b**c", "abc"),
        ((A / B) ** C, "(a/b)**c", "abc"),
        ((A**B) ** C, "(a**b)**c", "abc"),
        (A ** (B**C), "a**b**c", "abc"),
        (2**A, "2**a", "a"),
        (A * B ** (-C), "a*b**(-c)", "abc"),
        (-(A * B), "(-a*b)", "ab"),
        (sqrt(A * B) * A, "sqrt(a*b)*a", "ab"),
        (nearest_integer(A**B), "round(a**b)", "ab"),
        (np.array([1.0]) * A, "[1.]*a", "a"),
    ],
)
def test_a_formula_writes_itself_down(formula, text, symbols):
    assert str(formula) == text
    assert formula.symbols == tuple(symbols)


def test_a_paper_is_a_plain_function():
    """Its arguments are the symbols, its result our fields; nothing but the formula
    that is used is computed.
    """

    def fields_of(
        *,
        lambda_: Annotated[float, "a penalty"],
        n: Annotated[int, "a number"] = 4,
        a: Annotated[list[float], "a list"],
    ):
        """Give three fields."""
        return {"ridge": either(1 / n, lambda_ / n), "list": a, "scaled": sqrt(n) * a}

    paper = Paper(fields_of, shown={"list": "a_j"})
    assert paper.symbols == {"lambda": "a penalty", "n": "a number", "a": "a list"}
    assert paper.defaults == {"n": 4}
    first, second = paper.formulas("ridge")
    assert (str(first), str(second)) == ("1/n", "lambda/n")
    assert paper.notation() == {
        "ridge": "1/n",
        "list": "a_j",
        "scaled": "sqrt(n) a",
    }
    given = {"lambda": 3.0, "n": 2, "a": [1, 2]}
    assert paper.value("ridge", second, given) == 1.5
    assert paper.value("list", paper.formulas("list")[0], given) is given["a"]
    scaled = paper.formulas("scaled")[0]
    assert paper.value("scaled", scaled, {"n": 4, "a": [1, 2]}) == [2.0, 4.0]
    assert paper.value("list", paper.formulas("list")[0], {"a": "x", "n": 0}) == "x"
    with pytest.raises(ZeroDivisionError):
        paper.value("ridge", first, {"n": 0})
    with pytest.raises(gs.InputError, match="`n` must be a finite number"):
        paper.value("ridge", first, {"n": "x"})


BASE = {"alpha": 0.8, "beta": 2.0, "lambda_": 0.01}


@pytest.mark.parametrize(
    ("key", "symbols", "said"),
    [
        ("dandi2025rando", BASE, "did you mean `dandi2025random`"),
        (
            "dandi2025random",
            {**BASE, "etaa": 1.0},
            "no symbol `etaa` in dandi2025random \\(did you mean `eta`",
        ),
        (
            "dandi2025random",
            {**BASE, "eta": 1.0},
            "Symbol `d` of dandi2025random is missing",
        ),
        ("dandi2025random", {"beta": 2.0, "lambda_": 0.1}, "needs `alpha` \\(n/p"),
        (
            "dandi2025random",
            {**BASE, "samples_per_dim": 1.0},
            "is alpha\\*beta; give alpha, beta",
        ),
        (
            "dandi2025random",
            {**BASE, "eta": 1.0, "d": 9, "u": 1.0},
            "`u` .* does not go with",
        ),
        ("dandi2025random", {**BASE, "alpha": "x"}, "`alpha` must be a finite number"),
        (
            "dandi2025random",
            {**BASE, "alpha": -1.0},
            "`samples_per_dim` must be a number above 0",
        ),
        (
            "moniri2024theory",
            {"phi": 0.0, "psi": 1.0, "lambda_": 0.1},
            "cannot be turned into ours: phi=0.0",
        ),
        (
            "moniri2024theory",
            {"phi": 1.0, "psi": 1.0, "lambda_": 0.1, "eta": 1.0, "alpha": 0.2},
            "Symbol `n` .* missing",
        ),
    ],
)
def test_wrong_and_missing_symbols_are_one_sentence(key, symbols, said):
    with pytest.raises(gs.InputError, match=said) as error:
        gs.OneStep.from_paper(key, **symbols)
    assert "\n" not in str(error.value)


def test_a_figure_of_a_paper_from_its_own_symbols():
    s = gs.OneStep.from_paper(
        "dandi2025random",
        sigma="relu",
        g="tanh(z)",
        alpha=0.3,
        beta=1.5,
        lambda_=0.01,
        u=1.0,
        cos=0.5,
        zeta=[1.0],
    )
    # spiked_features section 15, k = 1
    np.testing.assert_allclose(gs.predict(s).test_error, 0.524416, atol=5e-7)
