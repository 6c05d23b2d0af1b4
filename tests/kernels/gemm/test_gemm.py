"""The compiled loops, whichever microkernel: strides, batches, what is fused in, packed operands, ranges, the cache."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from minitorch_backends.kernels.block import ranges
from minitorch_backends.kernels.gemm import addmm, exact_addmm, exact_matmul, matmul, multiply_packed, pack
from minitorch_backends.kernels.gemm.compiled import passed_over
from minitorch_backends.kernels.gemm.product import Packed
from minitorch_backends.kernels.gemm.warm import warmup
from minitorch_backends.kernels.precisions.parts import split
from minitorch_backends.kernels.precisions.products import PRECISIONS, PRODUCT_BOUND
from minitorch_backends.kernels.registry import Refused
from minitorch_backends.kernels.runtime import cpu, workspace

from ...support.processes import python


def param(isa):
    """An instruction set as a parameter. "portable" is tested where its loops are taken (`tests.levels` runs that), and
    the odd sizes, which are for tests alone, not again with tiles in software."""
    if isa == "portable":
        reason = passed_over(isa)
    elif isa == "odd":
        reason = "these are as without emulation" if cpu.is_emulated("amx") else None
    else:
        reason = cpu.refusal(isa) and f"no {isa}"
    return pytest.param(isa, marks=pytest.mark.skipif(reason is not None, reason=reason or ""))


VECTORS = [param(isa) for isa in ("odd", "portable", "avx2", "avx512")]
PAIRS, TILES = param("avx512_bf16"), param("amx")

every_isa = pytest.mark.parametrize("isa", [*VECTORS, PAIRS, TILES])
every_vector_isa = pytest.mark.parametrize("isa", VECTORS)
every_isa_of_parts = pytest.mark.parametrize("isa", [PAIRS, TILES])

FINEST = {"amx": "bf16x9", "avx512_bf16": "bf16"}
"""Of the instruction sets that do not multiply float32 numbers: the precision at which they are nearest to it. The
tests here give them numbers that it holds."""


def product(a, b, *, isa, **keywords):
    from minitorch_backends.kernels.gemm.product import product

    keywords.setdefault("precision", FINEST.get(isa, "ieee"))
    return product(a, b, isa=isa, **keywords)


def round_held(isa, *arrays):
    """Arrays rounded to what the finest precision of an instruction set holds."""
    return [x.astype(ml_dtypes.bfloat16).astype(x.dtype) if isa == "avx512_bf16" else x for x in arrays]


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def assert_close(result, a, b, unit=2.0**-24):
    exact = exact_matmul(a, b)
    magnitudes = np.matmul(np.abs(a).astype(np.float64), np.abs(b).astype(np.float64))
    assert result.dtype == a.dtype
    assert result.shape == exact.shape
    assert np.all(np.abs(result.astype(np.float64) - exact) <= (a.shape[-1] + 8) * unit * magnitudes)


def layouts(x):
    """The same values in every layout that packing reads differently."""
    wide = np.zeros((*x.shape[:-2], 2 * x.shape[-2], 3 * x.shape[-1]), x.dtype)
    wide[..., ::2, ::3] = x
    return {
        "rows": np.ascontiguousarray(x),
        "columns": np.ascontiguousarray(x.mT).mT,
        "both strided": wide[..., ::2, ::3],
        "columns strided": np.ascontiguousarray(wide.mT)[..., ::3, ::2].mT,
        "backwards": np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1],
        "misaligned": np.frombuffer(b"\0" + np.ascontiguousarray(x).tobytes(), np.uint8)[1:]
        .view(x.dtype)
        .reshape(x.shape),
    }


LAYOUTS = list(layouts(np.zeros((1, 1), np.float32)))


@every_isa
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(45, 70, 39), (3, 300, 5), (70, 3, 70)])
def test_strides(isa, layout, shape):
    m, k, n = shape
    a, b = round_held(isa, normal(m, k, seed=1), normal(k, n, seed=2))
    expected = product(a, b, isa=isa)
    assert_close(expected, a, b)
    np.testing.assert_array_equal(product(layouts(a)[layout], b, isa=isa), expected)
    np.testing.assert_array_equal(product(a, layouts(b)[layout], isa=isa), expected)


@every_isa
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (37, 41, 43), (260, 530, 130), (600, 70, 33), (33, 70, 1100), (1, 3000, 700)]
)
def test_blocks_and_edges(isa, shape):
    m, k, n = shape
    a, b = round_held(isa, normal(m, k, seed=3), normal(k, n, seed=4))
    assert_close(product(a, b, isa=isa), a, b)


@pytest.mark.parametrize("isa", [*VECTORS, PAIRS])
@pytest.mark.parametrize("shape", [(45, 70, 39), (3, 300, 5), (70, 1, 70), (260, 530, 130)])
def test_two_parts(isa, shape):
    """Three products of the parts, summed in float32; the same bits in every layout, and nothing that parts lose."""
    m, k, n = shape
    a, b = normal(m, k, seed=1), normal(k, n, seed=2)
    result = product(a, b, isa=isa, precision="bf16x3")
    for layout in LAYOUTS:
        np.testing.assert_array_equal(product(layouts(a)[layout], b, isa=isa, precision="bf16x3"), result)
        np.testing.assert_array_equal(product(a, layouts(b)[layout], isa=isa, precision="bf16x3"), result)
    (a0, a1), (b0, b1) = ([part.astype(np.float64) for part in split(x, "bf16x3")] for x in (a, b))
    if k == 1 and isa != "avx512_bf16":
        expected = (a0 * (b0 + b1)).astype(np.float32).astype(np.float64) + a1 * b0
        np.testing.assert_array_equal(result, expected.astype(np.float32))
    magnitudes = np.abs(a).astype(np.float64) @ np.abs(b)
    assert np.all(np.abs(result - (a0 @ (b0 + b1) + a1 @ b0)) <= (k + 8) * 2.0**-24 * magnitudes)
    for value in (np.inf, np.nan, np.finfo(np.float32).max):
        for x in (a, b):
            hostile = x.copy()
            hostile[-1, -1] = value
            with pytest.raises(Refused, match="parts must stay below"):
                product(*((hostile, b) if x is a else (a, hostile)), isa=isa, precision="bf16x3")


@pytest.mark.parametrize("isa", [isa for isa in VECTORS if isa.values[0] != "odd"])
def test_float64(isa):
    for m, k, n in ((1, 1, 1), (37, 41, 43), (150, 300, 170)):
        a, b = normal(m, k, dtype=np.float64), normal(k, n, seed=1, dtype=np.float64)
        for right in (b, np.asfortranarray(b)):
            assert_close(product(a, right, isa=isa), a, right, unit=2.0**-53)


@every_isa
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sixteen_bits_are_rounded_once(isa, dtype):
    """Accumulated in float32: the error is half a unit in the last place of the result, whatever k."""
    a, b = normal(50, 2000, dtype=dtype), normal(2000, 40, seed=1, dtype=dtype)
    precision = {"float16": "fp16", "bfloat16": "bf16"}[np.dtype(dtype).name] if isa in FINEST else "ieee"
    if isa == "avx512_bf16" and precision == "fp16":
        pytest.skip("float16 takes four terms by pairs, and is left to vectors")
    if dtype == np.float16 and cpu.capability() == "portable":
        with pytest.raises(Refused, match="F16C"):
            product(a, b, isa=isa, precision=precision)
        return
    for left, right in ((a, b), (np.asfortranarray(a), np.asfortranarray(b))):
        result = product(left, right, isa=isa, precision=precision)
        exact = exact_matmul(a, b)
        assert result.dtype == dtype
        unit = float(ml_dtypes.finfo(dtype).eps)
        assert np.all(np.abs(result.astype(np.float64) - exact) <= 0.51 * unit * np.abs(exact) + 1e-3)


@every_isa
@pytest.mark.parametrize(
    ("shape_a", "shape_b"),
    [
        ((7, 5, 6), (7, 6, 4)),
        ((2, 1, 5, 6), (3, 6, 4)),
        ((5, 6), (3, 6, 4)),
        ((2, 3, 5, 6), (6, 4)),
        ((0, 5, 6), (0, 6, 4)),
    ],
)
def test_batches(isa, shape_a, shape_b):
    a, b = round_held(isa, normal(*shape_a), normal(*shape_b, seed=1))
    assert_close(product(a, b, isa=isa), a, b)
    flipped = product(b.mT, a.mT, isa=isa)
    np.testing.assert_array_equal(flipped, product(np.ascontiguousarray(b.mT), np.ascontiguousarray(a.mT), isa=isa))


@every_isa
@pytest.mark.parametrize("layout", ["rows", "columns", "both strided"])
def test_strips_of_columns_have_the_same_bits(isa, layout, monkeypatch):
    """Few rows with a matrix whose columns each thread packs for itself, or that is packed beforehand."""
    from minitorch_backends.kernels.block import tuning
    from minitorch_backends.kernels.gemm import product as products_of
    from minitorch_backends.kernels.gemm import unpacked

    a, b = round_held(isa, normal(40, 600, seed=1), normal(600, 415, seed=2))
    addend, places = normal(415, seed=3), layouts(b)[layout]
    monkeypatch.setattr(unpacked, "is_read_in_place", lambda *_: False)
    calls, divide = [], products_of.divide

    def note(*arguments):
        division = divide(*arguments)
        calls.append(division.name)
        return division

    monkeypatch.setattr(products_of, "divide", note)

    def products(right, most_by_columns):
        with tuning.thresholds(isa).override(column_caches=0, column_rows_most=most_by_columns):
            return product(a, right, isa=isa), product(a, right, isa=isa, alpha=0.5, addend=addend)

    expected = products(b, 0)
    assert "columns" not in calls
    found = products(places, 320)
    assert calls[-1] == "columns"
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@every_vector_isa
def test_a_batch_of_large_products(isa):
    a, b = normal(3, 300, 200), normal(3, 200, 400, seed=1)
    assert_close(product(a, b, isa=isa), a, b)


@every_isa
@pytest.mark.parametrize("shape", [(1,), (40,), (37, 1), (1, 40), (37, 40), ()])
def test_alpha_beta_and_addend(isa, shape):
    a, b, addend = *round_held(isa, normal(37, 50), normal(50, 40, seed=1)), normal(*shape, seed=2)
    result = product(a, b, isa=isa, alpha=-0.5, beta=2.0, addend=addend)
    exact = -0.5 * exact_matmul(a, b) + 2.0 * addend.astype(np.float64)
    assert np.max(np.abs(result - exact)) < 5e-6
    product_alone = product(a, b, isa=isa)
    np.testing.assert_array_equal(product(a, b, isa=isa, alpha=0.25), np.float32(0.25) * product_alone)
    ignored = np.full(shape, np.nan, np.float32)
    np.testing.assert_array_equal(product(a, b, isa=isa, beta=0.0, addend=ignored), product_alone)


@every_isa
def test_an_addend_for_each_product_of_a_batch(isa):
    a, b, addend = *round_held(isa, normal(5, 9, 50), normal(5, 50, 33, seed=1)), normal(5, 9, 33, seed=2)
    assert np.max(np.abs(product(a, b, isa=isa, addend=addend) - (exact_matmul(a, b) + addend))) < 5e-6
    nothing = product(a[..., :0], b[:, :0], isa=isa, beta=3.0, addend=addend)
    np.testing.assert_array_equal(nothing, np.float32(3) * addend)


@every_isa
@pytest.mark.parametrize("bits", [1, 6, 8, 12, 17, 23])
def test_integers_below_2_to_24_are_exact(isa, bits):
    """Tiles leave out the product of the last parts, which is none where a product is a float32 number."""
    values = np.random.default_rng(bits)
    a = values.integers(2 ** (bits - 1), 2**bits, (40, 1)).astype(np.float32)
    b = values.integers(2 ** (23 - bits), 2 ** (24 - bits), (1, 50)).astype(np.float32)
    a, b = round_held(isa, a, b)
    np.testing.assert_array_equal(product(-a, b, isa=isa), -a.astype(np.float64) @ b.astype(np.float64))


@every_isa
def test_packed_operands(isa):
    from minitorch_backends.kernels.gemm.product import Packed

    b = normal(300, 200)
    packed = Packed(b, isa, FINEST.get(isa, "ieee"), "rna")
    for m in (1, 70, 600):
        a = normal(m, 300, seed=m)
        np.testing.assert_array_equal(product(a, packed, isa=isa), product(a, b, isa=isa))
    batch = normal(3, 4, 300)
    np.testing.assert_array_equal(product(batch, packed, isa=isa), product(batch, b, isa=isa))
    b[:] = 0
    assert product(batch, packed, isa=isa).any()


@every_vector_isa
@pytest.mark.parametrize(("dtype", "precision"), [("float32", "ieee"), ("float64", "ieee"), ("float32", "bf16x3")])
def test_few_rows_have_the_bits_of_many(isa, dtype, precision):
    """Whatever the height of the blocks that they fill best."""
    if isa == "odd" and dtype == "float64":
        pytest.skip("the blocks that only tests use are of float32")
    a, b, bias = (normal(*shape, dtype=dtype) for shape in ((36, 300), (300, 70), (70,)))
    packed = Packed(b, isa, precision, "rna")
    options = {"isa": isa, "precision": precision, "addend": bias, "alpha": 0.5}
    expected = product(a, b, **options)
    for m in (5, 7, 8, 14, 16, 20, 32):
        for right in (b, packed):
            np.testing.assert_array_equal(product(a[:m], right, **options), expected[:m])
    assert_close(product(a[:8], b, isa=isa, precision=precision), a[:8], b, PRODUCT_BOUND[precision] + 2.0**-24)


def test_packed_operands_refuse_what_does_not_fit_them():
    packed, a = pack(normal(300, 200)), normal(4, 300)
    for wrong in (normal(4, 299), normal(4, 304), a[0], a.astype(np.float64), a.astype(np.int32)):
        with pytest.raises(ValueError, match=r"multiply_packed: a is .*; expected \(\.\.\., m, 300\) of float32"):
            multiply_packed(wrong, packed)
    for named in ({"precision": "fp8"}, {"rounding": "up"}):
        with pytest.raises(ValueError, match=r"pack: precision=.* expected one of .*tf32.*, and of rna"):
            pack(normal(300, 200), **named)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_pack_keeps_the_contract(precision):
    """Products with what `pack` returns agree with those of the array, whichever code does either."""
    b = normal(130, 70)
    packed = pack(b, precision)
    if packed is None:
        pytest.skip("no compiled loops here")
    assert packed.shape == b.shape
    assert precision in repr(packed)
    for m in (1, 9, 100):
        a = normal(2, m, 130, seed=m)
        bias, expected = normal(70, seed=3), matmul(a, b, precision=precision)
        sums_of_float32 = 2.0**-22 * (np.abs(a) @ np.abs(b) + np.abs(bias))  # in two orders; some 2e-5
        assert (np.abs(multiply_packed(a, packed) - expected) <= sums_of_float32).all()
        fused = multiply_packed(a, packed, addend=bias)
        assert (np.abs(fused - (expected + bias)) <= sums_of_float32).all()
    with pytest.raises(ValueError, match="pack: b has 1 dimensions; expected a matrix"):
        pack(b[0], precision)


@pytest.mark.parametrize("isa", [TILES])
def test_a_packed_operand_that_tiles_refuse(isa):
    a, b = normal(5, 130), normal(130, 70)
    a[2, 3] = np.inf
    assert multiply_packed(a, pack(b, "tf32")) is None


@pytest.mark.parametrize("implementation", addmm.implementations)
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (2.0, -0.5), (1.0, 0.0)])
def test_addmm(implementation, alpha, beta):
    a, b, addend = normal(300, 170), normal(170, 220), normal(220, seed=1)
    if not beta:
        addend[:] = np.nan
    try:
        result = addmm[implementation](a, b, addend, alpha=alpha, beta=beta, precision="tf32")
    except Refused as refused:
        pytest.skip(str(refused))
    assert result.dtype == np.float32
    error = result - exact_addmm(a, b, addend, alpha=alpha, beta=beta)
    assert np.sqrt(np.mean(error**2)) < 4e-4 * alpha * np.sqrt(170)
    assert np.sqrt(np.mean(error**2)) > 1e-4 * alpha * np.sqrt(170)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32, np.float64, np.complex64, np.int64])
def test_addmm_in_two_steps_takes_every_dtype(dtype):
    a, b, addend = (np.arange(6).reshape(shape).astype(dtype) for shape in ((2, 3), (3, 2), (3, 2)))
    result = addmm["matmul"](a, b, addend[:2], alpha=2, beta=3)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.astype(complex), 2 * (a.astype(complex) @ b) + 3 * addend[:2].astype(complex))


@every_isa
def test_nothing_is_read_or_written_outside(isa):
    """Operands in the middle of NaN, and a result whose neighbours are looked at."""
    for m, k, n in ((5, 3, 7), (33, 34, 35), (65, 100, 30)):
        frame_a, frame_b = np.full((m + 2, k + 2), np.nan, np.float32), np.full((k + 2, n + 2), np.nan, np.float32)
        frame_a[1:-1, 1:-1], frame_b[1:-1, 1:-1] = round_held(isa, normal(m, k), normal(k, n, seed=1))
        assert_close(
            product(frame_a[1:-1, 1:-1], frame_b[1:-1, 1:-1], isa=isa), frame_a[1:-1, 1:-1], frame_b[1:-1, 1:-1]
        )


def magnitudes(least, greatest):
    words = [int(np.float32(value).view(np.uint32)) for value in (least, greatest)]
    return words[1] << 32 | words[0]


@pytest.mark.parametrize(
    ("precision", "a", "b", "refused"),
    [
        ("bf16", (1e-6, 1.0), (1e-6, 1.0), None),
        ("bf16", (2.0**-126, 1.0), (1.0, 1.0), "least product"),
        ("bf16", (1e-40, 1.0), (1.0, 1.0), "flush"),
        ("bf16", (1.0, np.inf), (1.0, 1.0), None),
        ("bf16", (0.0, 0.0), (1e-30, 1.0), None),
        ("tf32", (1.0, np.inf), (1.0, 1.0), "below"),
        ("tf32", (2.0**-104, 1.0), (1.0, 1.0), "flush"),
        ("tf32", (2.0**-102, 1.0), (1.0, 1.0), None),
        ("bf16x3", (1.0, 2.0**63), (1.0, 2.0**63), "overflow"),
        ("fp16", (1e-40, 60000.0), (1e-40, 1.0), None),
        ("fp16", (1.0, 65520.0), (1.0, 1.0), "below"),
    ],
)
def test_what_tiles_may_be_given(precision, a, b, refused):
    for pair in ((a, b), (b, a)):
        sentence = ranges.refusal(precision, 100, *(magnitudes(*x) for x in pair))
        assert (sentence is None) if refused is None else (refused in sentence)


@pytest.mark.parametrize("precision", ["bf16", "tf32", "bf16x3", "bf16x6", "fp16"])
def test_what_is_admitted_is_never_refused(precision):
    for depth in (1, 64, 4096, 1 << 20):
        least, greatest = ranges.admitted_magnitudes(precision, depth)
        one = int(np.float32(1).view(np.uint32))
        assert least < one < greatest
        extremes = [0, greatest << 32 | least, least << 32 | least, greatest << 32 | greatest, one << 32 | one]
        for a, b in itertools.product(extremes, repeat=2):
            assert ranges.refusal(precision, depth, a, b) is None
        if precision != "bf16":
            beyond = (greatest + (1 << 24)) << 32 | one
            assert ranges.refusal(precision, depth, beyond, beyond) is not None


@every_isa_of_parts
@pytest.mark.parametrize("place", [0, 31, 32, 1000, 64 * 70 - 1])
def test_one_value_is_found_wherever_it_is(isa, place):
    """A subnormal value counts where results would be zero; beside other values it is flushed."""
    for big in (False, True):
        a, b = normal(64, 70), normal(70, 700 if big else 64, seed=1)
        a.reshape(-1)[place] = 0
        wanted = product(a, b, isa=isa, precision="bf16x3")
        a.reshape(-1)[place] = 1e-39
        np.testing.assert_array_equal(product(a, b, isa=isa, precision="bf16x3"), wanted)
        if isa == "amx":
            with pytest.raises(Refused, match="flush"):
                product(a, b, isa=isa, precision="tf32")
        a[...] = 0
        a.reshape(-1)[place] = 1e-39
        for operands in ((a, b), (b.T, a.T)):
            with pytest.raises(Refused, match="flush"):
                product(*operands, isa=isa, precision="bf16x3")


SECOND_PROCESS = """
import numpy as np
from minitorch_backends.kernels.runtime import cpu, store, threading
from minitorch_backends.kernels.gemm.product import product
threading.set_num_threads(2)
a = np.ones((300, 300), np.float32)
for isa, precision in (("amx", "bf16x3"), ("portable", "ieee")):
    if cpu.refusal("amx" if isa == "amx" else None) is None:
        product(a, a, isa=isa, precision=precision), product(a[:9], a, isa=isa, precision=precision)
        product(a[None, :9], a[None], isa=isa, precision=precision)
files = sorted(path.name for path in store.cache_folder().rglob("*") if path.is_file())
print(store.activity.compiled, len(files))
"""


AFTER_WARMUP = """
import itertools
import numpy as np
from functools import partial
from ml_dtypes import bfloat16
from minitorch_backends.kernels.runtime import store
from minitorch_backends.kernels.gemm import matmul
from minitorch_backends.kernels.gemm.warm import warmup
ones, seen = partial(np.ones, dtype=bfloat16), []
warmup(["bf16"], lambda done, total, name: seen.append((done, total, name)), dtypes=[bfloat16])
before = store.activity.compiled
sizes = (60, 50, 40), (300, 200, 100), (900, 800, 700), (20, 1000, 30), (1, 1000, 500), (3, 500, 500), (500, 400, 1)
for m, k, n in sizes:
    for a, b in itertools.product(*[(ones(shape), ones(shape[::-1]).T) for shape in ((m, k), (k, n))]):
        matmul(a, b)
matmul(ones((20, 30, 30)), ones((20, 30, 30)))
print(before > 0, store.activity.compiled - before, seen[0][0], seen[-1][0] == seen[-1][1], seen[-2][2])
"""


@pytest.mark.slow
def test_warmup_compiles_what_products_need(tmp_path):
    assert python(AFTER_WARMUP, MINITORCH_CACHE_DIR=str(tmp_path)) == ("True 0 0 True bfloat16\n", "")


def test_warmup_names_what_it_does_not_know():
    with pytest.raises(ValueError, match=r"'fp8' is not a precision; expected some of mxfp4, .*bf16, fp16"):
        warmup(["fp8"])
    with pytest.raises(ValueError, match="no products of 'int8' are compiled; expected some of float32, float64"):
        warmup(["bf16"], dtypes=["float32", np.int8])
    for wrong in ("int8", [np.dtype("int8")], [3]):
        with pytest.raises(ValueError, match=r"no products of '(int8|3)' are compiled"):
            warmup("bf16", dtypes=wrong)
    with pytest.raises(ValueError, match=r"'fp8' is not a precision"):
        warmup("fp8")


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    first, second = (python(SECOND_PROCESS, MINITORCH_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert (first.error, second.error) == ("", "")
    (misses, files), (misses_again, files_again) = (map(int, printed.out.split()) for printed in (first, second))
    assert misses > 0
    assert (misses_again, files_again) == (0, files)


@every_isa
def test_a_product_is_made_in_the_memory_that_is_offered_once(isa):
    a, b = np.ones((40, 300), np.float32), np.ones((300, 200), np.float32)
    target, too_wide = np.zeros((5, 1600), np.float32), np.zeros((40, 200), np.float64)
    with workspace.offer(target):
        first, second = (product(a, b, isa=isa) for _ in range(2))
    third = product(a, b, isa=isa)
    with workspace.offer(too_wide):
        fourth = product(a, b, isa=isa)

    assert [np.shares_memory(each, target) for each in (first, second, third)] == [True, False, False]
    assert all((each == 300).all() for each in (target, first, second, third, fourth))
    assert not too_wide.any()
