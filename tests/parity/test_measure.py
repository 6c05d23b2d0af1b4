"""The rules of torch's and NumPy's products on this CPU, checked on 10,000 random dot products each."""

import numpy as np
import pytest
import torch

from minitorch_backends.kernels.matrix_units import multiply
from minitorch_backends.profiles import measure


def numpy_product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return a @ b + c


def torch_product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> torch.Tensor:
    return torch.addmm(torch.from_numpy(c), torch.from_numpy(a), torch.from_numpy(b))


def torch_bfloat16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> torch.Tensor:
    left, right = (torch.from_numpy(x.astype(np.float32)).bfloat16() for x in (a, b))
    return torch.mm(left, right)


@pytest.mark.parametrize(
    ("product", "operand"), [(numpy_product, "fp32"), (torch_product, "fp32"), (torch_bfloat16, "bf16")]
)
def test_random_products_have_the_bits_of_the_measured_rule(product, operand) -> None:
    """Of the depth up to which sums do not start anew. A library whose order no rule describes is refused by name."""
    try:
        way = measure(product, [operand]).format(operand)
    except ValueError as refusal:
        pytest.skip(f"this CPU's library adds otherwise: {refusal}")
    depth = min(way.promote_every or 150, 150)
    random = np.random.default_rng(0)
    a, b = random.standard_normal((100, depth), np.float32), random.standard_normal((depth, 100), np.float32)
    if operand == "bf16":
        a, b = (torch.from_numpy(x).bfloat16().float().numpy() for x in (a, b))
    wanted = torch.as_tensor(product(a, b, np.zeros((100, 100), np.float32))).float().numpy()
    found = multiply(way.rule, operand, a, b, promote=way.promote_every)
    found = torch.from_numpy(found).bfloat16().float().numpy() if operand == "bf16" else found
    assert np.array_equal(found, wanted)
