"""Forward mode on torch's own samples (OpInfo): derivatives along one direction, beside those of torch.func.jvp."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.opinfo.core import OpInfo

import minitorch_backends as mt
from minitorch_backends import Tensor

from .opinfo import OPS, SHAPES_ONLY, difference, found_here, here, name_of_op, show

MOST_SAMPLES = 6

DIFFERENT = {
    "the triangle that is not read has no share": "cholesky_inverse cholesky_solve linalg.cholesky linalg.cholesky_ex",
    "torch loses the tangent of the matrix": "triangular_solve",
    "places that are written twice have the tangents of both": (
        "nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d"
    ),
    "torch sums in float32": "logcumsumexp",
}
"""Why derivatives differ, and the ops for which they do."""

EXPLAINED = frozenset(" ".join(DIFFERENT.values()).split())
WITH_DERIVATIVE = [
    op
    for op in OPS
    if op.supports_forward_ad
    and torch.float64 in op.supported_dtypes("cpu")
    and op.name not in SHAPES_ONLY
    and name_of_op(op) not in ("zero_", "as_strided.partial_views")  # no function here; reads beyond its own memory
    and found_here(op)
]


def floating(result: Any, kinds: type) -> Any:
    """The parts of a result that have derivatives."""
    if not isinstance(result, (list, tuple)):
        return result
    tensors = [each for each in result if isinstance(each, kinds)]
    return tuple(each for each in tensors if each.is_floating_point() or each.is_complex())


def along(module: Any, function: Callable[..., Any], given: list, options: dict, tangents: dict[int, Any]) -> Any:
    """The value and derivative of a call along tangents of its operands, by place."""

    def of_operands(*operands: Any) -> Any:
        arguments = list(given)
        for place, operand in zip(tangents, operands, strict=True):
            arguments[place] = operand
        return floating(function(*arguments, **options), (torch.Tensor, Tensor))

    return module.func.jvp(of_operands, tuple(given[place] for place in tangents), tuple(tangents.values()))


@pytest.mark.parametrize("op", WITH_DERIVATIVE, ids=name_of_op)
def test_derivatives_along_a_direction(op: OpInfo) -> None:
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(op.sample_inputs("cpu", torch.float64, True))
    wrong, compared = [], 0
    for sample in samples[:: len(samples) // MOST_SAMPLES + 1]:
        given = [each.detach() if isinstance(each, torch.Tensor) else each for each in (sample.input, *sample.args)]
        places = [at for at, each in enumerate(given) if isinstance(each, torch.Tensor) and each.is_floating_point()]
        directions = {
            at: torch.linspace(-1, 1, given[at].numel(), dtype=given[at].dtype).reshape(given[at].shape)
            for at in places
        }
        if not places:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ours = here(given), here(sample.kwargs), here(directions)
                wanted = along(torch, op.op, given, sample.kwargs, directions)
            except Exception:  # what torch itself refuses, or does not exist here
                continue
            found = along(mt, found_here(op)[0], *ours)
        compared += 1
        what = difference(found[0], wanted[0], 1e-6, op.name) or difference(found[1], wanted[1], 1e-7, op.name, 1.0)
        if what:
            wrong.append((what, show([*given, sample.kwargs])))
    if name_of_op(op) in EXPLAINED:
        assert wrong, "it no longer differs; take it off the table"
    else:
        assert not wrong, f"{len(wrong)} of {compared} differ: {wrong[:3]}"
