"""Rounding and splitting, bit for bit: every upper half of a float32, with the lower halves where rounding turns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from minitorch_backends.kernels.precisions.parts import round_to, split
from minitorch_backends.kernels.precisions.products import PRECISIONS

from ..support import reference

ROUNDED = [("bf16", None), ("fp16", None), ("tf32", None), ("tf32", "rna"), ("tf32", "rne"), ("tf32", "rz")]
SPLITS = [name for name, row in PRECISIONS.items() if row.parts > 1]

# Ties of 8 and 11 bits, of what an 8-bit part leaves, their neighbours, and fp16's ties among its subnormals.
TURNS = (0, 0x80, 0x180, 0x800, 0xFFF, 0x1000, 0x1800, 0x2000, 0x3000, 0x4000, 0x7F80, 0x8000, 0xC000, 0xFF80)
LOWER_HALVES = sorted({(turn + step) & 0xFFFF for turn in TURNS for step in (-1, 0, 1)})


@pytest.fixture(scope="module")
def everything():
    """All 65,536 upper halves, each with every one of the lower halves."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    return (upper[:, None] | np.array(LOWER_HALVES, np.uint32)).ravel().view(np.float32)


def assert_same_bits(result, expected, of):
    """Equal bits, and NaN with the sign and the upper payload of the NaN that it comes from."""
    assert result.dtype == np.float32
    nan = np.isnan(of)
    quiet = (of.view(np.uint32) | np.uint32(1 << 22)) >> np.uint32(16)
    np.testing.assert_array_equal(result[nan].view(np.uint32) >> np.uint32(16), quiet[nan])
    with np.errstate(invalid="ignore"):
        expected = expected.astype(np.float32)
    np.testing.assert_array_equal(result[~nan].view(np.uint32), expected[~nan].view(np.uint32))


@pytest.mark.parametrize(("precision", "rounding"), ROUNDED)
def test_rounding_everywhere(everything, precision, rounding):
    assert_same_bits(
        round_to(everything, precision, rounding), reference.round_to(everything, precision, rounding), everything
    )


def test_fp16_is_numpys_float16(everything):
    with np.errstate(over="ignore"):
        expected = everything.astype(np.float16).astype(np.float32)
    result, finite = round_to(everything, "fp16"), ~np.isnan(everything)
    np.testing.assert_array_equal(result[finite].view(np.uint32), expected[finite].view(np.uint32))


def test_bf16_is_ml_dtypes(everything):
    import ml_dtypes

    with np.errstate(all="ignore"):
        expected = everything.astype(ml_dtypes.bfloat16).astype(np.float32)
    result, finite = round_to(everything, "bf16"), ~np.isnan(everything)
    np.testing.assert_array_equal(result[finite].view(np.uint32), expected[finite].view(np.uint32))


@pytest.mark.parametrize("precision", SPLITS)
def test_splits_everywhere(everything, precision):
    parts, expected = split(everything, precision), reference.split(everything, precision)
    assert len(parts) == len(expected) == PRECISIONS[precision].parts
    assert_same_bits(parts[0], expected[0], everything)
    for part, right in zip(parts[1:], expected[1:], strict=True):
        assert part.dtype == np.float32
        np.testing.assert_array_equal(part, right)


@pytest.mark.parametrize("precision", SPLITS)
def test_what_a_split_promises(everything, precision):
    """The sum, the number of bits of each part, no Inf that was not there, and zeros below an Inf or NaN."""
    row, parts = PRECISIONS[precision], [reference.wide(part) for part in split(everything, precision)]
    finite = np.isfinite(everything)
    exact, total = everything[finite].astype(np.float64), sum(part[finite] for part in parts)
    assert np.all(np.abs(total) <= np.finfo(np.float32).max)
    assert np.all(np.abs(total - exact) <= (0 if row.exact_split else 2.0 ** (-2 * row.significand)) * np.abs(exact))
    assert np.all([part[~finite] == 0 for part in parts[1:]])
    for part in parts:
        np.testing.assert_array_equal(reference.round_significand(part[finite], row.significand, "rz"), part[finite])


def test_values_known_from_the_instructions():
    """VCVTNEPS2BF16's results (subnormals apart), and cvt.rna's on a tie, on the largest float and on a small NaN."""

    def bits(array):
        return [f"{word:08x}" for word in array.view(np.uint32)]

    x = np.array([0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800000, 0x00800000, 0x7F800001, 0xFF800001], np.uint32)
    x = x.view(np.float32)
    assert bits(round_to(x, "bf16")) == [
        "3f800000", "3f820000", "7f800000", "7f800000", "00800000", "7fc00000", "ffc00000",
    ]  # fmt: skip
    x = np.array([0x3F801000, 0x3F803000, 0x7F7FFFFF, 0x7F800001, 0xBF801000, 0x00001000], np.uint32).view(np.float32)
    assert bits(round_to(x, "tf32")) == ["3f802000", "3f804000", "7f800000", "7fc00000", "bf802000", "00002000"]
    assert bits(round_to(x, "tf32", "rne"))[:2] == ["3f800000", "3f804000"]
    assert bits(round_to(x, "tf32", "rz"))[:3] == ["3f800000", "3f802000", "7f7fe000"]


floats = hnp.arrays(np.uint32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0), elements=st.integers(0, 2**32 - 1))


@given(floats.map(lambda words: words.view(np.float32)), st.sampled_from(ROUNDED))
def test_any_bits_round_like_the_reference_and_only_once(x, how):
    once = round_to(x, *how)
    assert once.shape == x.shape
    np.testing.assert_array_equal(once, reference.round_to(x, *how).astype(np.float32))
    np.testing.assert_array_equal(round_to(once, *how).view(np.uint32), once.view(np.uint32))


@given(floats.map(lambda words: words.view(np.float32)), st.sampled_from(SPLITS))
def test_any_bits_split_like_the_reference(x, precision):
    for part, expected in zip(split(x, precision), reference.split(x, precision), strict=True):
        np.testing.assert_array_equal(part, expected.astype(np.float32))


def layouts():
    x = np.random.default_rng(3).standard_normal((6, 4, 10)).astype(np.float32)
    read_only = x.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    return {
        "contiguous": x, "transposed": x.T, "permuted": x.transpose(1, 0, 2), "strided": x[::2, :, 1::3],
        "negative": x[::-1, :, ::-1], "broadcast": np.broadcast_to(x[:, :1], x.shape), "read-only": read_only,
        "unaligned": unaligned, "zero-dimensional": x[0, 0, 0, ...], "empty": x[:, :0], "one column": x[:, :, 3:4],
    }  # fmt: skip


@pytest.mark.parametrize("layout", layouts())
@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16", "bf16x3", "bf16x6"])
def test_every_layout(layout, precision):
    x = layouts()[layout]
    before = x.copy()
    for part, expected in zip(split(x, precision), reference.split(x, precision), strict=True):
        assert part.shape == x.shape
        np.testing.assert_array_equal(part, expected.astype(np.float32))
        assert not np.shares_memory(part, x)
    np.testing.assert_array_equal(x, before)


def test_ieee_is_the_array_itself():
    x = np.ones(3, np.float32)
    assert round_to(x, "ieee") is x
    assert split(x, "ieee")[0] is x


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.complex64, ">f4"])
@pytest.mark.parametrize("kernel", [lambda x: round_to(x, "tf32"), lambda x: split(x, "bf16x3")])
def test_only_float32_is_rounded(dtype, kernel):
    with pytest.raises(TypeError, match=r"precisions round float32 arrays, and this one is .*; convert it"):
        kernel(np.ones(3, dtype))


def test_names_are_checked():
    x = np.ones(3, np.float32)
    with pytest.raises(ValueError, match="'nearest' is not a rounding; expected one of rna, rne, rz"):
        round_to(x, "tf32", "nearest")
    with pytest.raises(ValueError, match=r"'bf16x3' has operands of 2 parts; use split\(array, 'bf16x3'\)"):
        round_to(x, "bf16x3")
    with pytest.raises(ValueError, match="'bf17' is not a precision"):
        split(x, "bf17")
