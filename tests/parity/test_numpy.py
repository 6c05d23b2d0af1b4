"""NumPy's functions of tensors, and memory that is shared by DLPack, as torch has both."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch_backends as mt

FUNCTIONS = {
    "sqrt": lambda x, a: np.sqrt(2 * x),
    "exp of integers": lambda x, a: np.exp(x.int()),
    "add": np.add,
    "add of an array": lambda x, a: np.add(a, x),
    "maximum": lambda x, a: np.maximum(x, a.astype(np.float32)),
    "matmul": lambda x, a: np.matmul(x, x),
    "times a number of NumPy's": lambda x, a: np.float64(2) * x,
    "cumsum": lambda x, a: np.cumsum(x, 0),
    "clip": lambda x, a: np.clip(x, 0.5, 2),
    "reshape": lambda x, a: np.reshape(x, (2, 1)),
    "square root of a 0-dim tensor": lambda x, a: np.sqrt(x[0]),
    "concatenate": lambda x, a: np.concatenate([x, x]),
    "dot": lambda x, a: np.dot(x, x),
    "where": lambda x, a: np.where(x > 1, x, x),
}


@pytest.mark.filterwarnings("ignore:__array:DeprecationWarning")  # of torch's __array__ and __array_wrap__
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_give_what_they_give_for_torchs(name: str) -> None:
    found, expected = (FUNCTIONS[name](m.tensor([1.0, 4.0]), np.array([2.0, 3.0])) for m in (mt, torch))
    assert (type(found).__name__, str(found.dtype).split(".")[-1]) == (
        type(expected).__name__,
        str(expected.dtype).split(".")[-1],
    )
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected))


def test_tensors_that_require_gradients_are_refused() -> None:
    for m in (mt, torch):
        with pytest.raises(RuntimeError, match="grad"):
            np.sqrt(m.ones(2, requires_grad=True))


@pytest.mark.parametrize("dtype", ["bool", "uint16", "uint64", "int8", "float16", "bfloat16", "float64", "complex64"])
@pytest.mark.parametrize("copy", [None, False, True])
def test_memory_goes_both_ways(dtype: str, copy: bool | None) -> None:
    for here, there in ((mt, torch), (torch, mt)):
        x = here.arange(6).reshape(2, 3).to(getattr(here, dtype))[:, 1:]
        y: Any = there.from_dlpack(x, copy=copy, device="cpu")
        assert (str(y.dtype).split(".")[-1], y.tolist(), y.stride()) == (dtype, x.tolist(), (2, 1) if copy else (3, 1))
        y[0, 0] = 0
        assert (x[0, 0].item() == 0) is not bool(copy)
