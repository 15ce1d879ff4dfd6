import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giantstep.core.base.errors import InputError
from giantstep.core.lab import Draws, chunk_rows

CHUNK = chunk_rows("cpu")

REFERENCE = [0.8687954108345711, 0.16835411969832728]


def test_numbers_depend_on_seed_key_trial_and_stream_only():
    first = Draws(1, "point", 2).normal("weights", (3, 4))
    again = Draws(1, "point", 2)
    again.normal("other", 100)
    assert (again.normal("weights", (3, 4)) == first).all()
    for other in (Draws(2, "point", 2), Draws(1, "Point", 2), Draws(1, "point", 3)):
        assert not np.isin(other.normal("weights", (3, 4)), first).any()
    assert not np.isin(Draws(1, "point", 2).normal("weight", (3, 4)), first).any()


def test_seed_and_trial_do_not_run_into_each_other():
    assert Draws(2**32, "", 0).normal("s", 1) != Draws(0, "", 1).normal("s", 1)
    assert Draws(2**64 - 1, "", 0).normal("s", 1) != Draws(2**32 - 1, "", 0).normal(
        "s", 1
    )


def test_numbers_of_this_version_are_kept():
    assert Draws(0, "point", 0).normal("weights", 2).tolist() == REFERENCE


def test_calls_continue_a_stream():
    draws = Draws(0, "point", 0)
    pieces = np.concatenate([draws.normal("x", 3), draws.normal("x", 4)])
    assert (pieces == Draws(0, "point", 0).normal("x", 7)).all()


def test_global_state_is_not_touched():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    Draws(0, "point", 0).normal("x", 10)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_moments():
    draws = Draws(0, "point", 0)
    x = draws.normal("x", 200_000)
    assert abs(x.mean()) < 0.01 and abs(x.var() - 1) < 0.02
    u = draws.uniform("u", 200_000)
    assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.004
    s = draws.signs("s", 200_000)
    assert set(np.unique(s)) == {-1.0, 1.0} and abs(s.mean()) < 0.012
    out = np.empty(5)
    assert draws.normal("y", 5, out=out) is out


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 4 * CHUNK))
def test_first_rows_are_the_same_whatever_the_total(rows):
    whole = np.concatenate(
        [x.copy() for _, _, x in Draws(0, "point", 0).chunks("x", 4 * CHUNK, 2)]
    )
    spans = []
    parts = []
    for start, stop, x in Draws(0, "point", 0).chunks("x", rows, 2):
        spans.append((start, stop))
        parts.append(x.copy())
    assert (np.concatenate(parts) == whole[:rows]).all()
    assert spans[0][0] == 0 and spans[-1][1] == rows
    assert all(stop == start for (_, stop), (start, _) in zip(spans, spans[1:]))


@pytest.mark.parametrize("seed", [-1, 0.5, True, 2**64, "0", None])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(InputError, match="Field `seed` must be"):
        Draws(seed, "point", 0)
