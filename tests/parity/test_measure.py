"""The rules of torch's and NumPy's products on this CPU, checked on 10,000 random dot products each."""

import numpy as np
import pytest
import torch

import minitorch_backends as mt
from minitorch_backends.kernels.matrix_units import multiply
from minitorch_backends.profiles import measure


def numpy_product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return a @ b + c


def torch_product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> torch.Tensor:
    return torch.addmm(torch.from_numpy(c), torch.from_numpy(a), torch.from_numpy(b))


def torch_bfloat16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> torch.Tensor:
    left, right = (torch.from_numpy(x.astype(np.float32)).bfloat16() for x in (a, b))
    return torch.mm(left, right)


def our_tf32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    with mt.backends.flags(fp32_precision="tf32"):
        return (mt.from_numpy(a) @ mt.from_numpy(b)).numpy() + c


@pytest.mark.parametrize(
    ("product", "operand"),
    [(numpy_product, "fp32"), (torch_product, "fp32"), (torch_bfloat16, "bf16"), (our_tf32, "tf32")],
)
def test_random_products_have_the_bits_of_the_measured_rule(product, operand) -> None:
    """Of a K that the rule is shown for. A library whose order no rule describes is refused by name."""
    try:
        way = measure(product, [operand]).format(operand)
    except ValueError as refusal:
        pytest.skip(f"this CPU's library adds otherwise: {refusal}")
    depth = range(*way.depths)[-1] // 3
    depth -= (depth - way.depths[0]) % way.depths[2]
    random = np.random.default_rng(0)
    a, b = random.standard_normal((128, depth), np.float32), random.standard_normal((depth, 128), np.float32)
    if operand == "tf32":
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    if operand == "bf16":
        a, b = (torch.from_numpy(x).bfloat16().float().numpy() for x in (a, b))
    wanted = torch.as_tensor(product(a, b, np.zeros((128, 128), np.float32))).float().numpy()
    found = multiply(way.rule, operand, a, b, promote=way.promote_every, halve_to=way.halve_to)
    found = torch.from_numpy(found).bfloat16().float().numpy() if operand == "bf16" else found
    assert np.array_equal(found, wanted)
