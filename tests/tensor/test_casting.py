"""Conversions between types of elements."""

import pytest

import minitorch_backends as mt


@pytest.mark.parametrize("dtype", [mt.complex64, mt.complex128])
def test_a_complex_number_is_true_unless_both_parts_are_zero(dtype: mt.dtype) -> None:
    assert mt.tensor([0, 1j, 2, 3 - 1j], dtype=dtype).bool().tolist() == [False, True, True, True]


@pytest.mark.parametrize(("dtype", "real"), [(mt.complex64, mt.float32), (mt.complex128, mt.float64)])
def test_parts_of_complex_numbers_have_the_type_of_half_the_size(dtype: mt.dtype, real: mt.dtype) -> None:
    x = mt.tensor([3 + 4j], dtype=dtype)
    assert (dtype.to_real(), real.to_complex()) == (real, dtype)
    assert (x.abs().dtype, x.abs().item()) == (real, 5.0)
    assert x.to(real).tolist() == [3.0], "the real part"
