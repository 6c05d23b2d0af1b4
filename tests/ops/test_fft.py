"""Fourier transforms: what they refuse and how, their inverses, and frequencies. (Values and gradients of all samples
are tested with those of every op.)"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch_backends as mt

REFUSED = {
    "half": (lambda x: mt.fft.fft(x.half()), RuntimeError, "Unsupported dtype Half"),
    "bfloat16": (lambda x: mt.fft.rfft(x.bfloat16()), RuntimeError, "Unsupported dtype BFloat16"),
    "no dimensions": (lambda x: mt.fft.fft(x[0, 0]), IndexError, "tensor has no dimensions"),
    "length 0": (lambda x: mt.fft.fft(x, 0), RuntimeError, r"Invalid number of data points \(0\)"),
    "length -1": (lambda x: mt.fft.ifft(x, -1), RuntimeError, r"Invalid number of data points \(-1\)"),
    "no data": (lambda x: mt.fft.fft(x[:, :0]), RuntimeError, r"Invalid number of data points \(0\)"),
    "one frequency": (lambda x: mt.fft.irfft(x[:, :1]), RuntimeError, r"Invalid number of data points \(0\)"),
    "dim": (lambda x: mt.fft.fft(x, dim=2), IndexError, "Dimension out of range"),
    "dims": (lambda x: mt.fft.fftn(x, dim=(0, 2)), IndexError, "Dimension out of range"),
    "dim twice": (lambda x: mt.fft.fftn(x, dim=(1, -1)), RuntimeError, "FFT dims must be unique"),
    "norm": (lambda x: mt.fft.fft(x, norm="both"), RuntimeError, 'Invalid normalization mode: "both"'),
    "norm of a kind": (lambda x: mt.fft.fft(x, norm=1), TypeError, "norm is one of"),
    "complex": (lambda x: mt.fft.rfft(x * 1j), RuntimeError, "rfft expects a real input tensor, but got ComplexFloat"),
    "complex, n": (lambda x: mt.fft.rfftn(x * 1j), RuntimeError, "rfftn expects a real-valued input tensor"),
    "lengths": (lambda x: mt.fft.fftn(x, (2,), (0, 1)), RuntimeError, "must have the same length"),
    "too many lengths": (lambda x: mt.fft.fftn(x, (2, 2, 2)), RuntimeError, "Got shape with 3 values"),
    "no dims": (lambda x: mt.fft.rfftn(x, dim=()), RuntimeError, "must transform at least one axis"),
    "no dims, halved": (lambda x: mt.fft.hfftn(x, dim=()), RuntimeError, "must transform at least one axis"),
    "two dims of one": (lambda x: mt.fft.fft2(x[0]), IndexError, "Dimension out of range"),
    "no tensor": (lambda x: mt.fft.fft("x"), TypeError, "argument 'input' must be Tensor, not str 'x'"),
    "fraction": (lambda x: mt.fft.fft(x, 2.5), TypeError, "argument 'n' must be int, not float"),
    "boolean": (lambda x: mt.fft.fft(x, True), TypeError, "argument 'n' must be int, not bool"),
    "frequencies": (lambda x: mt.fft.fftfreq(-1), RuntimeError, "negative dimension -1"),
    "integers": (lambda x: mt.fft.rfftfreq(4, dtype=mt.int32), RuntimeError, "requires a floating point"),
    "complex frequencies": (lambda x: mt.fft.fftfreq(4, dtype=mt.complex64), NotImplementedError, "floating dtype"),
    "shift of a number": (lambda x: mt.fft.fftshift(x[0, 0]), RuntimeError, "`shifts` required"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what: str) -> None:
    call, kind, message = REFUSED[what]
    with pytest.raises(kind, match=message):
        call(mt.ones(3, 4))


@pytest.mark.parametrize("n", [*range(6), 9])
def test_frequencies(n: int) -> None:
    for d in (1.0, 0.25):
        if n:
            np.testing.assert_allclose(mt.fft.fftfreq(n, d).numpy(), np.fft.fftfreq(n, d), rtol=1e-6)
            np.testing.assert_allclose(mt.fft.rfftfreq(n, d).numpy(), np.fft.rfftfreq(n, d), rtol=1e-6)
    assert (mt.fft.fftfreq(n).shape, mt.fft.rfftfreq(n).shape) == ((n,), (n // 2 + 1,))
    assert mt.fft.fftfreq(n, dtype=mt.float64, requires_grad=True).requires_grad


def test_frequencies_into_out() -> None:
    out = mt.empty(5)
    assert mt.fft.fftfreq(5, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.fft.fftfreq(5), rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    norm=st.sampled_from(["backward", "ortho", "forward"]),
    data=st.data(),
)
def test_inverses(shape: list[int], norm: str, data: st.DataObject) -> None:
    """Each inverse undoes its transform, over any dims and under any norm."""
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True))
    sizes = tuple(shape[dim] for dim in dims)
    x = mt.randn(*shape, dtype=mt.float64)
    z = mt.complex(x, mt.randn(*shape, dtype=mt.float64))
    for there, back, value in ((mt.fft.fftn, mt.fft.ifftn, z), (mt.fft.rfftn, mt.fft.irfftn, x)):
        np.testing.assert_allclose(back(there(value, None, dims, norm), sizes, dims, norm).numpy(), value, atol=1e-12)
    half = mt.fft.ihfftn(x, None, dims, norm)
    np.testing.assert_allclose(mt.fft.hfftn(half, sizes, dims, norm).numpy(), x.numpy(), atol=1e-12)


def test_a_convolution_is_a_product_of_spectra() -> None:
    x, kernel = mt.randn(40, dtype=mt.float64), mt.randn(9, dtype=mt.float64, requires_grad=True)
    out = mt.fft.irfft(mt.fft.rfft(x, 48) * mt.fft.rfft(kernel, 48), 48)
    np.testing.assert_allclose(out.detach().numpy(), np.convolve(x.numpy(), kernel.detach().numpy()), atol=1e-12)
    out[3].backward()
    np.testing.assert_allclose(kernel.grad.numpy(), [x[3 - j] if j <= 3 else 0 for j in range(9)], atol=1e-12)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_calls_that_are_remembered(name: str) -> None:
    """A second call of one shape goes a shorter way: with the same bits, observed, counted, under new flags, with
    gradients, and with the errors of the first."""
    transform, cache = getattr(mt.fft, name), mt.backends.cuda.cufft_plan_cache
    x = mt.randn(3, 64, dtype=mt.float32 if name == "rfft" else mt.complex64)
    first = transform(x)
    assert transform(x).equal(first)
    assert transform(x, norm="backward", dim=1).equal(first)
    with mt.explain.record() as calls:
        transform(x)
    assert [call.kernel for call in calls] == ["fft"]
    cache.clear()
    transform(x), transform(x)
    assert (cache.misses, cache.hits, cache.size) == (1, 1, 1)
    with cache.flags(max_size=0):
        assert transform(x).equal(first)
        assert (cache.misses, cache.hits, cache.size) == (2, 1, 0)
    with_gradient = x.clone().requires_grad_()
    assert transform(with_gradient).requires_grad
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        transform(x[:, : 1 if name == "irfft" else 0])
    for dim in (1, -1):
        assert transform(x, None, dim).equal(first)
        for equal in (float(dim), *([True] if dim == 1 else [])):
            with pytest.raises(TypeError, match="must be int"):
                transform(x, dim=equal)
    n = 126 if name == "irfft" else 64
    assert transform(x, n).equal(first)
    with pytest.raises(TypeError, match="must be int"):
        transform(x, float(n))


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2"])
def test_calls_of_matrices_that_are_remembered(name: str) -> None:
    """The same over the last two dims, by default and named; other values than ints raise."""
    transform, cache = getattr(mt.fft, name), mt.backends.cuda.cufft_plan_cache
    x = mt.randn(3, 32, 64, dtype=mt.float32 if name == "rfft2" else mt.complex64)
    first = transform(x)
    for dim in ((-2, -1), [1, 2], (np.int64(1), -1)):
        assert transform(x).equal(first)
        assert transform(x, dim=dim).equal(first)
    cache.clear()
    transform(x), transform(x)
    assert (cache.misses, cache.hits, cache.size) == (2, 2, 2)
    with cache.flags(max_size=1):
        assert transform(x).equal(first)
        assert cache.size == 1
    for dim in ((-2.0, -1.0), np.array([-2, -1])):
        with pytest.raises(TypeError, match="must be int"):
            transform(x, dim=dim)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_lengths_that_are_the_usual_ones_or_others(name: str) -> None:
    """A length that needs no cutting off takes the short way, with the results of the long one."""
    for size in (1, 2, 5):
        x = np.random.default_rng(size).standard_normal((3, size)) + (0 if name in ("rfft", "ihfft") else 0.5j)
        for n in (1, 2, 3, 5, 8, 9):
            out = getattr(mt.fft, name)(mt.from_numpy(x), n)
            np.testing.assert_allclose(out.numpy(), getattr(np.fft, name)(x, n), atol=1e-12)


def test_a_dimension_may_be_shifted_twice() -> None:
    assert mt.fft.fftshift(mt.arange(5), (0, 0)).tolist() == [1, 2, 3, 4, 0]
