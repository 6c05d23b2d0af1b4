"""Tiles in software: what the instructions compute, beside a model of them in NumPy and beside the hardware."""

import numpy as np
import pytest

from minitorch_backends.kernels.gemm.product import product
from minitorch_backends.kernels.runtime import cpu

from ...support.processes import python

EMULATED = """
import numpy as np
from minitorch_backends.kernels.runtime import cpu
from minitorch_backends.kernels.gemm.product import product
if cpu.refusal("amx"):
    print(cpu.refusal("amx"))
else:
    with np.load({path!r}) as given:
        a, b = given["a"], given["b"]
    np.savez({path!r}, **{{precision: product(a, b, isa="amx", precision=precision) for precision in {precisions!r}}})
"""
PRECISIONS = ("bf16", "bf16x3", "tf32", "bf16x6", "tf32x3", "bf16x9")


@pytest.fixture(scope="module")
def operands() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(shape) for shape in ((65, 96), (96, 70)))
    scale = 2.0 ** random.integers(-6, 7, 96)
    return (a * scale).astype(np.float32), (b / scale[:, None]).astype(np.float32)


@pytest.fixture(scope="module")
def emulated_products(operands, tmp_path_factory) -> dict[str, np.ndarray]:
    """Products of a process whose tiles are software, by precision."""
    path = str(tmp_path_factory.mktemp("amx") / "arrays.npz")
    np.savez(path, a=operands[0], b=operands[1])
    printed = python(EMULATED.format(path=path, precisions=PRECISIONS), **{cpu.EMULATION: "1"})
    assert not printed.error
    if printed.out:
        pytest.skip(f"the CPU cannot emulate: {printed.out.strip()}")
    with np.load(path) as found:
        return dict(found)


def to_bf16(x: np.ndarray) -> np.ndarray:
    """Rounded to nearest even, as float64."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32).astype(np.float64)


def tile_products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b as TDPBF16PS adds it up: for each 32 values along K, a chain of fused steps over the even ones and one over
    the odd ones. A product of two bf16 and its sum with a float32 of a near exponent are exact in float64."""
    sums = np.zeros((len(a), b.shape[1]), np.float32)
    for start in range(0, a.shape[1], 32):
        chains = np.zeros((2, *sums.shape), np.float32)
        for k in range(start, start + 32):
            chains[k % 2] = (chains[k % 2] + np.multiply.outer(a[:, k], b[k])).astype(np.float32)
        sums = sums + (chains[0] + chains[1])
    return sums


def test_the_model(operands, emulated_products):
    a, b = (to_bf16(x) for x in operands)
    np.testing.assert_array_equal(emulated_products["bf16"], tile_products(a, b))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_hardware(operands, emulated_products, precision):
    if cpu.refusal("amx") or cpu.is_emulated("amx"):
        pytest.skip("this process has no tiles of the CPU's own to compare with")
    np.testing.assert_array_equal(emulated_products[precision], product(*operands, isa="amx", precision=precision))


SUBNORMAL = """
import ml_dtypes, numpy as np
from minitorch_backends.kernels.runtime import cpu
from minitorch_backends.kernels.runtime.jit import ir, intrinsic, types, njit
from minitorch_backends.kernels.block.amx import tile
from minitorch_backends.kernels.block.emit import I64, POINTER

@intrinsic
def multiply(typingctx, c, a, b):
    def codegen(context, builder, signature, arguments):
        for register, address in enumerate(arguments):
            tile(builder, "tileloadd64", register, builder.inttoptr(address, POINTER), I64(64))
        tile(builder, "tdpbf16ps", 0, 1, 2)
        tile(builder, "tilestored64", 0, builder.inttoptr(arguments[0], POINTER), I64(64))
        return context.get_dummy_value()
    return types.void(types.int64, types.int64, types.int64), codegen

@njit(cache=False)
def run(c, a, b):
    multiply(c, a, b)

if cpu.refusal("amx"):
    print("none")
else:
    c, (a, b) = np.zeros((16, 16), np.float32), np.zeros((2, 16, 32), ml_dtypes.bfloat16)
    tiny = np.float32(2.0**-126)
    a[0, 0], b[0, 0] = tiny / 2, 1        # a subnormal operand
    a[1, 2], b[1, 2] = 2.0**-63, 2.0**-64 # a subnormal product
    c[2, :] = tiny / 4                    # a subnormal sum from before
    c[3, 0], a[3, 0] = -tiny, tiny * 1.5  # a sum that is subnormal
    c[4, 0], a[4, 1], b[0, 1] = 1, 3, 5   # odd elements of a pair
    run(c.ctypes.data, a.ctypes.data, b.ctypes.data)
    print(*c[:5, :2].ravel().tolist())
"""


def test_subnormal_numbers_count_as_zero():
    printed = python(SUBNORMAL, **{cpu.EMULATION: "1"})
    assert not printed.error
    if printed.out == "none\n":
        pytest.skip("the CPU cannot emulate tiles: it lacks AVX2")
    assert [float(value) for value in printed.out.split()] == [0, 0, 0, 0, 0, 0, 0, 0, 16, 0]


def test_other_texts_are_refused():
    printed = python("from minitorch_backends.kernels.runtime import cpu; cpu.capability()", **{cpu.EMULATION: "yes"})
    assert f"{cpu.EMULATION}='yes' is neither '1', which emulates AMX, nor '0'" in printed.error


def test_the_refusal_says_what_emulation_needs():
    code = (
        "from minitorch_backends.kernels.runtime import cpu; cpu.cpuinfo_field = lambda field: frozenset();"
        "print(cpu.refusal('amx'))"
    )
    expected = f"needs amx, and the CPU capability in force is portable (CPU and {cpu.VARIABLE}"
    assert python(code, **{cpu.EMULATION: "1"}).out.strip() == f"{expected}; {cpu.EMULATION} needs AVX2)"
    assert python(code).out.strip() == f"{expected})"
