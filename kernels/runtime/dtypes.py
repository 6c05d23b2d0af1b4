"""The dtypes that loops over whole arrays are compiled for, and a number of each as the type tag of the loops."""

from __future__ import annotations

import numpy as np

NUMBERS = {np.dtype(dtype): dtype(0) for dtype in (np.float32, np.float64, np.int64)}
FLOATS = {dtype: number for dtype, number in NUMBERS.items() if dtype.kind == "f"}
