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
    ("product", "operand", "places"),
    [(numpy_product, "fp32", range(6)), (numpy_product, "fp32", range(6, 12)), (torch_product, "fp32", range(64)),
     (torch_bfloat16, "bf16", range(64)), (our_tf32, "tf32", range(64))],
)  # fmt: skip
def test_random_products_have_the_bits_of_the_measured_rule(product, operand, places) -> None:
    """At places of one order, with a K for which the rule was shown. A library with another rule is skipped."""
    try:
        way = measure(product, [operand], places=places).format(operand)
    except ValueError as refusal:
        pytest.skip(f"this CPU's library adds otherwise: {refusal}")
    depth = range(*way.depths)[len(range(*way.depths)) // 3]
    random, kept = np.random.default_rng(0), np.uint32(2**32 - (1 << {"fp32": 0, "tf32": 13, "bf16": 16}[operand]))
    for _ in range(-(-10_000 // len(places) ** 2)):
        numbers = (random.standard_normal(shape, np.float32) for shape in ((64, depth), (depth, 64)))
        a, b = ((x.view(np.uint32) & kept).view(np.float32) for x in numbers)
        wanted = torch.as_tensor(product(a, b, np.zeros((64, 64), np.float32))).float().numpy()[np.ix_(places, places)]
        found = multiply(way.rule, operand, a[places], b[:, places], promote=way.promote_every, halve_to=way.halve_to)
        found = torch.from_numpy(found).bfloat16().float().numpy() if operand == "bf16" else found
        assert np.array_equal(found, wanted)
