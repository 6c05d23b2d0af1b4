"""The laboratory: what each precision of the live flags does to answers, errors and speed on this machine.

`python -m bench` runs its parts and writes results.json, plots and one HTML report.
"""

import os

# The package has OpenBLAS's idle threads sleep at once, which costs a small product of NumPy's some 15 % (256-cube: 250
# GFLOP/s, then 210). Here NumPy is a peer: it keeps its own default, 2**26 clock ticks, and rests follow its samples.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "26")
os.environ.setdefault("GOMP_SPINCOUNT", "300000")  # so does torch
