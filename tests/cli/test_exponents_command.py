"""``giantstep exponents`` and ``giantstep learnable``: the report, strict JSON, and
exit status 2 for bad input.
"""

import json

import pytest

from giantstep.faces.cli.app import app


def run(capsys, *words):
    status = app(list(words), standalone_mode=False)
    out = capsys.readouterr()
    return status, out.out, out.err


def test_exponents_prints_the_report(capsys):
    status, out, _ = run(capsys, "exponents", "z1 + z1*z2", "--activation", "tanh")
    assert status == 0
    assert "information exponent   1" in out and "never finds z2" in out


def test_exponents_as_json(capsys):
    status, out, _ = run(capsys, "exponents", "h3(z)", "--json")
    data = json.loads(out, parse_constant=pytest.fail)
    assert status == 0 and (data["information"], data["generative"]) == (3, 1)
    assert data["one_pass"] == "d^2" and data["repetition"] == "d"


def test_many_directions_are_strict_json_too(capsys):
    _, out, _ = run(capsys, "exponents", "z1*z2*z3*z4", "--json")
    # beyond the highest order
    assert json.loads(out, parse_constant=pytest.fail)["hermite"][-1] is None


def test_learnable(capsys):
    status, out, _ = run(capsys, "learnable", "h3(z)", "relu", "--algorithm", "squared")
    assert status == 0 and "never, because c_3 = 0 for relu" in out
    _, out, _ = run(
        capsys, "learnable", "h4(z)", "relu", "--second-layer", "1,-1", "--json"
    )
    assert json.loads(out, parse_constant=pytest.fail)["samples"] == "d^3"


@pytest.mark.parametrize(
    "words",
    [
        ("exponents", "z1*z9"),
        ("exponents", "z1 +"),
        ("exponents", "sign(z1**2 + z2**2 - 1)"),
        ("learnable", "h3(z)", "relu", "--algorithm", "adam"),
        ("learnable", "h3(z)", "relu", "--second-layer", "1,x"),
    ],
)
def test_bad_input_is_one_sentence(capsys, words):
    status, out, err = run(capsys, *words)
    assert status == 2 and out == ""
    assert err.startswith("giantstep: ") and len(err.strip().splitlines()) == 1
