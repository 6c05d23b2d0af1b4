"""Every function and method on torch's own samples (OpInfo): values, dtypes, shapes, gradients, and what is refused.

The counts are printed at the end (see conftest.py). OpInfo needs expecttest beside torch.
"""

from collections import Counter

import pytest
from torch.testing._internal.opinfo.core import OpInfo

from ..support.departures import CALL_DEPARTURES
from .opinfo import OPS, differences, found_here, name_of_op

INEXACT_IN_TORCH = {
    "the factor's other triangle, which is not read, gets a gradient": (
        "cholesky_inverse gradient, cholesky_solve gradient"
    ),
    "the quotient is rounded to the half type before it is cut": "div.trunc_rounding bfloat16",
    "coefficients are rounded to eight bits": "matrix_exp bfloat16",
    "bins are found in eight bits": "histc bfloat16",
    "places are rounded to eight bits": "nn.functional.grid_sample bfloat16",
    "each op of several is rounded to eight bits": (
        "nn.functional.hinge_embedding_loss bfloat16, nn.functional.cosine_similarity bfloat16"
    ),
    "the gradient of the input is that of the places that were overwritten": "as_strided_scatter gradient",
    "edges that do not increase count nothing, or what lies between": "histogramdd float32",
    "the sine of a rounded multiple of pi is not 0": "sinc int64, sinc bool",
    "the tail is 0": "special.ndtr float32, special.ndtr int64, special.ndtr bfloat16",
    "Bessel and Airy functions of large arguments have eight digits": (
        "special.airy_ai float64, special.bessel_j0 float64, special.bessel_j1 float64, special.bessel_y0 float64, "
        "special.bessel_y1 float64"
    ),
}
"""What torch does, and the ops and kinds of difference (a dtype, gradient or error) that come of it."""

EXPLAINED = {
    tuple(each.split()): reason
    for reason, names in {**CALL_DEPARTURES, **INEXACT_IN_TORCH}.items()
    for each in names.split(", ")
}
"""By op and kind of difference."""

COUNTS: Counter[str] = Counter()
"""What was compared, and how often."""


@pytest.mark.parametrize("op", OPS, ids=name_of_op)
def test_samples_of_torch(op: OpInfo) -> None:
    COUNTS["ops" if found_here(op) else "ops that are missing"] += 1
    name, kinds, wrong = name_of_op(op), set(), []
    for each in differences(op, COUNTS):
        kinds.add(each.kind)
        explained = (name, each.kind) in EXPLAINED
        COUNTS["explained differences" if explained else "differences"] += 1
        if not explained:
            wrong.append(each)
    assert not wrong, f"{name}: {len(wrong)} differences: {wrong[:4]}"
    gone = [kind for other, kind in EXPLAINED if other == name and kind not in kinds]
    assert not gone, f"{name} no longer differs in {gone}; take it off the table"
