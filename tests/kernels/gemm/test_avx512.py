"""The instructions of AVX-512 that kernels name beside models in NumPy: in software, and those that the CPU has."""

import re
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels.attention.powers import Powers
from minitorch_backends.kernels.block.avx512 import instruction
from minitorch_backends.kernels.block.emit import BF16, F32, F64, I8, I32, POINTER, VOID, load, store, vector, zero
from minitorch_backends.kernels.runtime import cpu
from minitorch_backends.kernels.runtime.jit import intrinsic, ir, njit, types

VENDORS = {
    "avx512.mask.reduce.ps.512": "zero of an infinity has another sign: test_powers_do_not_depend_on_the_vendor",
    "avx512.mask.reduce.pd.512": "as in float32: test_powers_do_not_depend_on_the_vendor",
    "avx512.mask.scalef.ps.512": None,
    "avx512.mask.scalef.pd.512": None,
    "avx512.mask.gather.dpi.512": None,
    "avx512.mask.scatter.dps.512": None,
    "avx512.permvar.qi.512": None,
    "avx512.vpdpbusd.512": None,
    "avx512bf16.cvtne2ps2bf16.512": "subnormal numbers become zero on all: test_rounding_two_vectors_to_bf16",
    "avx512bf16.cvtneps2bf16.512": "subnormal numbers become zero on all: test_rounding_to_bf16",
    "avx512bf16.dpbf16ps.512": "subnormal operands and sums become zero on all: test_products_of_pairs",
    "avx2.permd": None,
    "avx2.gather.d.d.256": None,
    "bmi.pdep.32": None,
    "sse2.pause": None,
}
"""The instructions that kernels name (tiles aside), and where vendors differ, or could be thought to, the test that
results do not. RCP14 and RSQRT14, whose digits differ, are none of them, and LLVM emits these only where a fastmath set
allows `arcp` or `afn`. MIN and MAX are compares and selects of LLVM, which say what becomes of NaN."""

pytestmark = pytest.mark.skipif(cpu.hardware() == "portable", reason="what emulates the rest is compiled for AVX2")

TINY = 2.0**-126
NUMBERS = np.array([0, -0.0, 1, -1.5, TINY, -TINY, TINY / 2, -TINY / 4, 3e38, 1 + 2**-8, 1 + 3 * 2**-8, -np.pi], "f4")
NUMBERS = np.append(NUMBERS, np.array([np.inf, -np.inf, np.nan, 1e-30], "f4"))
BYTES = np.random.default_rng(7).integers(0, 256, (2, 64), np.uint8)
PLACES = np.random.default_rng(8).permutation(32)[:16].astype(np.int32)
MASK = np.arange(16) % 3 > 0


@pytest.fixture(params=["software", "the CPU's"])
def compute(request, monkeypatch) -> Callable:
    """Runs what `emit(builder, *pointers)` emits on the arrays that are given, and fills `result` with its value."""
    software = request.param == "software"

    def compute(level: str, emit: Callable, result: np.ndarray, *operands: np.ndarray) -> np.ndarray:
        if not software and (cpu.refusal(level) or cpu.is_emulated(level)):
            pytest.skip(f"this process has no {level} of the CPU's own")
        monkeypatch.setattr(cpu, "is_emulated", lambda level: software)

        @intrinsic
        def emit_code(typingctx, addresses):
            def codegen(context, builder, signature, arguments):
                pointers = [
                    builder.inttoptr(builder.extract_value(arguments[0], index), POINTER)
                    for index in range(1 + len(operands))
                ]
                value = emit(builder, *pointers[1:])
                if value.type != VOID:
                    store(builder, value, pointers[0], 1)
                return context.get_dummy_value()

            return types.void(addresses), codegen

        @njit(cache=False)
        def run(addresses):
            emit_code(addresses)

        run(tuple(each.ctypes.data for each in (result, *operands)))
        return result

    return compute


def vectors(name: str, result: ir.Type, *kinds: ir.Type, constants: tuple = ()) -> Callable:
    """Emits an instruction of vectors and constants."""

    def emit(builder: ir.IRBuilder, *pointers: ir.Value) -> ir.Value:
        operands = [load(builder, kind, at, 1) for kind, at in zip(kinds, pointers, strict=True)]
        return instruction(builder, name, result, *operands, *constants)

    return emit


def flush(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < TINY, np.copysign(np.float32(0), x), x)


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
    some = ~np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(found)[some], np.signbit(expected)[some])


def test_rounding_to_bf16(compute):
    emit = vectors("avx512bf16.cvtneps2bf16.512", vector(BF16), vector(F32))
    found = compute("avx512_bf16", emit, np.empty(16, ml_dtypes.bfloat16), NUMBERS)
    assert_same(found, flush(NUMBERS).astype(ml_dtypes.bfloat16))


def test_rounding_two_vectors_to_bf16(compute):
    emit = vectors("avx512bf16.cvtne2ps2bf16.512", vector(BF16, 32), vector(F32), vector(F32))
    upper = NUMBERS[::-1].copy()
    found = compute("avx512_bf16", emit, np.empty(32, ml_dtypes.bfloat16), upper, NUMBERS)
    assert_same(found, flush(np.append(NUMBERS, upper)).astype(ml_dtypes.bfloat16))


def test_products_of_pairs(compute):
    emit = vectors("avx512bf16.dpbf16ps.512", vector(F32), vector(F32), vector(BF16, 32), vector(BF16, 32))
    a, b = np.random.default_rng(9).standard_normal((2, 32)).astype(ml_dtypes.bfloat16)
    total = np.random.default_rng(10).standard_normal(16).astype(np.float32)
    a[0], b[0] = TINY / 2, 2.0**60  # a subnormal operand counts as zero
    a[2:4], b[2:4], total[1] = [2.0**-70, 0], [2.0**-60, 0], 0  # and so does a subnormal sum
    a[4:6], b[4:6], total[2] = [1, np.inf], [1, 1], 1
    expected = total
    for place in (1, 0):
        products = flush(a.astype(np.float32)).astype(np.float64)[place::2] * b.astype(np.float64)[place::2]
        expected = flush((expected + products).astype(np.float32))
    assert_same(compute("avx512_bf16", emit, np.empty(16, np.float32), total, a, b), expected)


def test_looking_up_bytes(compute):
    emit = vectors("avx512.permvar.qi.512", vector(I8, 64), vector(I8, 64), vector(I8, 64))
    found = compute("amx", emit, np.empty(64, np.uint8), *BYTES)  # all CPUs with AMX have AVX512_VBMI
    np.testing.assert_array_equal(found, BYTES[0][BYTES[1] % 64])


def test_products_of_bytes(compute):
    emit = vectors("avx512.vpdpbusd.512", vector(I32), vector(I32), vector(I32), vector(I32))
    found = compute("amx", emit, np.empty(16, np.int32), PLACES, *BYTES)  # and AVX512_VNNI
    products = BYTES[0].astype(np.int32) * BYTES[1].view(np.int8)
    np.testing.assert_array_equal(found, PLACES + products.reshape(16, 4).sum(axis=1))


def mask(builder: ir.IRBuilder, at: ir.Value) -> ir.Value:
    return builder.icmp_unsigned("!=", load(builder, vector(I8), at, 1), zero(vector(I8)))


def test_gathering(compute):
    def emit(builder, base, offsets, wanted):
        given = zero(vector(I32)), base, load(builder, vector(I32), offsets, 1), mask(builder, wanted), I32(1)
        return instruction(builder, "avx512.mask.gather.dpi.512", vector(I32), *given)

    found = compute("avx512", emit, np.empty(16, np.int32), np.arange(32, dtype=np.int32), 4 * PLACES, MASK)
    np.testing.assert_array_equal(found, np.where(MASK, PLACES, 0))


def test_scattering(compute):
    def emit(builder, base, offsets, wanted, values):
        offsets, values = load(builder, vector(I32), offsets, 1), load(builder, vector(F32), values, 1)
        return instruction(
            builder, "avx512.mask.scatter.dps.512", VOID, base, mask(builder, wanted), offsets, values, I32(1)
        )

    written, expected = np.zeros(32, np.float32), np.zeros(32, np.float32)
    compute("avx512", emit, np.empty(0), written, 4 * PLACES, MASK, NUMBERS)
    expected[PLACES[MASK]] = NUMBERS[MASK]
    assert_same(written, expected)


def of_all_lanes(name: str, element: ir.Type, count: int, *constants: ir.Constant) -> Callable:
    lanes = 64 // (4 if element is F32 else 8)
    kind, letter = vector(element, lanes), "s" if element is F32 else "d"
    constants = (*constants, zero(kind), ir.IntType(lanes)(-1), I32(4))
    return vectors(f"avx512.mask.{name}.p{letter}.512", kind, *[kind] * count, constants=constants)


@pytest.mark.parametrize(("element", "dtype"), [(F32, np.float32), (F64, np.float64)])
def test_what_lies_beyond_an_integer(compute, element, dtype):
    x = np.array([-0.25, -1.75, 2.5, -np.inf, np.inf, np.nan, -140.625, 0, -1e30, 5, -7, 1.5, -3.125, 9, -2.5, 0.875])
    x = x.astype(dtype)[: 64 // np.dtype(dtype).itemsize]
    with np.errstate(invalid="ignore"):
        expected = np.where(np.isinf(x) | (x == np.floor(x)), dtype(-0.0), x - np.floor(x))
    found = compute("avx512", of_all_lanes("reduce", element, 1, I32(9)), np.empty_like(x), x)
    found[np.isinf(x) & (found == 0)] = -0.0  # Intel's zero of an infinity is negative, AMD's is not
    assert_same(found, expected)


@pytest.mark.parametrize(("element", "dtype", "steps"), [(F32, np.float32, 1), (F64, np.float64, 8)])
@pytest.mark.parametrize("first", [0, 8])
def test_scaling_by_powers(compute, element, dtype, steps, first):
    x = [-0.25, -1, -125.5, -126, -140.75, -149, -150, -1e30, 0, 3.5, 126, -37, -2, -np.inf, np.nan, -64.5]
    x = np.roll(np.array(x, dtype) * steps, first)[: 64 // np.dtype(dtype).itemsize]
    value = np.linspace(1, 2, len(x), endpoint=False, dtype=dtype)
    whole = np.floor(np.clip(np.nan_to_num(x), -5000, 5000)).astype(np.int32)
    expected = np.where(np.isnan(x), x, np.ldexp(value, whole))
    found = compute("avx512", of_all_lanes("scalef", element, 2), np.empty_like(x), value, x)
    np.testing.assert_array_equal(found, expected)


def test_instructions_whose_results_differ_between_vendors_are_listed():
    kernels = {path: path.read_text(encoding="utf-8") for path in Path(cpu.__file__).parents[1].rglob("*.py")}
    pattern = r'"(?:llvm\.x86\.)?((?:avx2|avx512(?:bf16)?|bmi|sse\w*|fma)\.[\w.]*\w)"'
    named = {name for text in kernels.values() for name in re.findall(pattern, text)}
    assert named == VENDORS.keys()
    for sentence in filter(None, VENDORS.values()):
        assert sentence.rsplit(" ", 1)[1] in globals()
    for path, text in kernels.items():
        assert not re.search(r"fastmath=True|[\"'](?:arcp|afn|fast)[\"']", text), path


@pytest.mark.parametrize(("element", "dtype", "degree"), [(F32, np.float32, 5), (F64, np.float64, 11)])
def test_powers_do_not_depend_on_the_vendor(compute, element, dtype, degree):
    """The fraction of an infinity is a zero of either sign, and a polynomial of it is 1."""
    x = np.array([0, -0.0, -np.inf, np.nan, -1, -0.5, -1e30, -126] * 2, dtype)[: 64 // np.dtype(dtype).itemsize]

    def emit(builder, at):
        powers = Powers(builder, element, len(x), avx512=True)
        return powers.power(load(builder, vector(element, len(x)), at, 1), powers.splat(1.0), powers.splat(0.0), degree)

    found = compute("avx512", emit, np.empty_like(x), x)
    np.testing.assert_allclose(found, np.exp2(x), rtol=2 * np.finfo(dtype).eps)
    assert not np.signbit(found).any() or np.isnan(found[np.signbit(found)]).all()
