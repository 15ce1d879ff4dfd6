"""Types that everything shares: arrays by what they hold, and the points of a grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Real or complex numbers."""
DeviceArray: TypeAlias = Any
"""An array of whichever namespace computes (NumPy or CuPy)."""
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]
Booleans = NDArray[np.bool_]
Strings = NDArray[np.str_]
Points = Mapping[str, Floats]
"""Every numeric field of a scenario by its dotted name, one value for each of the B
points: arrays of shape (B,).
"""
