"""Arrays as fields: compared by content, written out where small, beside the file where
large.
"""

import json

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.scenario.arrays import (
    WRITTEN_OUT,
    ArrayField,
    FrozenArray,
    as_array,
    with_arrays,
    write_arrays,
)
from giantstep.core.scenario.fields import field
from giantstep.core.scenario.model import Part


class Holder(Part):
    """A part with an array, for these tests."""

    table: ArrayField = field("A", "an array")


def test_equality_is_that_of_the_content():
    one = FrozenArray([[1, 2], [3, 4]])
    two = FrozenArray(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert one == two and hash(one) == hash(two) and one.file == two.file
    assert (
        one != FrozenArray([1, 2, 3, 4]) and one.file != FrozenArray([1, 2, 3, 4]).file
    )
    assert FrozenArray([0.0]).file == FrozenArray([-0.0]).file


def test_it_cannot_be_changed_from_outside():
    source = np.ones(3)
    frozen = FrozenArray(source)
    source[0] = 5
    assert np.asarray(frozen)[0] == 1
    with pytest.raises(ValueError):
        np.asarray(frozen)[0] = 2


@pytest.mark.parametrize(
    "bad",
    [
        "text",
        True,
        [[1, 2], [3]],
        [1, float("nan")],
        [1, float("inf")],
        {"a": 1},
        [1j],
        ["1"],
    ],
)
def test_what_is_no_array_of_finite_numbers_is_refused(bad):
    with pytest.raises(gs.InputError, match="`table` must be an array"):
        Holder(bad)


def test_small_arrays_are_written_out_and_large_ones_beside(tmp_path):
    small = Holder(np.ones(WRITTEN_OUT))
    large = Holder(np.ones(WRITTEN_OUT + 1))
    assert small.model_dump(mode="json")["table"] == [1.0] * WRITTEN_OUT
    written = json.loads(json.dumps(large.model_dump(mode="json")))["table"]
    assert written == {"npz": large.table.file, "shape": [WRITTEN_OUT + 1]}
    assert write_arrays(small, tmp_path) == []
    assert (
        write_arrays(large, tmp_path)
        == write_arrays(large, tmp_path)
        == [tmp_path / large.table.file]
    )
    assert with_arrays({"table": written}, tmp_path)["table"] == large.table


def test_an_array_of_another_content_is_not_read(tmp_path):
    holder = Holder(np.ones(WRITTEN_OUT + 1))
    (path,) = write_arrays(holder, tmp_path)
    np.savez(path, array=np.zeros(3))
    with pytest.raises(gs.InputError, match="was changed"):
        with_arrays({"npz": path.name}, tmp_path)
    path.write_bytes(b"no array")
    with pytest.raises(gs.InputError, match="not one giantstep wrote"):
        with_arrays({"npz": path.name}, tmp_path)
    with pytest.raises(gs.InputError, match="no such file"):
        with_arrays({"npz": "0.npz"}, tmp_path)
    with pytest.raises(gs.InputError, match="beside"):
        with_arrays({"npz": "../0.npz"}, tmp_path)


def test_a_reference_without_its_file_says_so():
    with pytest.raises(gs.InputError, match="not here"):
        as_array({"npz": "0.npz", "shape": [3]})
