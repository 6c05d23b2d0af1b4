"""Window functions, and that signals come back from the spectra of their pieces."""

from typing import Any

import numpy as np
import pytest

import minitorch_backends as mt

WINDOWS = {
    "hann_window": np.hanning, "hamming_window": np.hamming, "blackman_window": np.blackman,
    "bartlett_window": np.bartlett, "kaiser_window": lambda length: np.kaiser(length, 12.0),
}  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("length", [0, 1, 2, 7, 16])
def test_windows(name: str, length: int) -> None:
    function, definition = getattr(mt, name), WINDOWS[name]
    assert np.allclose(function(length, periodic=False, dtype=mt.float64), definition(length), atol=1e-12)
    wanted = definition(length + 1)[:-1] if length > 1 else np.ones(length)
    assert np.allclose(function(length, dtype=mt.float64), wanted, atol=1e-12)
    assert function(length).dtype is mt.float32
    assert function(length, requires_grad=True).requires_grad


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_longer_than_memory_are_refused(name: str) -> None:
    for length in (2**62, 2**63 - 1):
        with pytest.raises(RuntimeError, match="more elements than memory has addresses"):
            getattr(mt, name)(length)


@pytest.mark.parametrize(
    "options",
    [{}, {"hop_length": 5}, {"win_length": 12}, {"normalized": True}, {"onesided": False}, {"hop_length": 3}],
    ids=str,
)
def test_a_signal_comes_back(options: dict[str, Any]) -> None:
    mt.manual_seed(0)
    signal = mt.randn(2, 90, dtype=mt.float64).requires_grad_()
    window = mt.hamming_window(options.get("win_length", 16), dtype=mt.float64)
    spectra = mt.stft(signal, 16, window=window, return_complex=True, **options)
    again = mt.istft(spectra, 16, window=window, length=90, **options)
    assert mt.allclose(again[:, :80], signal[:, :80])
    (gradient,) = mt.autograd.grad(again[:, :80].sum(), signal)
    assert mt.allclose(gradient[:, :80], mt.ones(2, 80, dtype=mt.float64))
    parts = mt.stft(signal, 16, window=window, return_complex=False, **options)
    assert mt.equal(mt.view_as_complex(parts), spectra)


def test_complex_signals() -> None:
    signal = mt.randn(64, dtype=mt.complex128)
    spectra = mt.stft(signal, 16, window=mt.hann_window(16, dtype=mt.float64))
    assert spectra.shape == (16, 17)
    window = mt.hann_window(16, dtype=mt.float64)
    assert mt.allclose(mt.istft(spectra, 16, window=window, onesided=False, return_complex=True), signal)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mt.stft(mt.ones(20), 8), "requires the return_complex parameter"),
        (lambda: mt.stft(mt.ones(20).int(), 8, return_complex=True), "floating point or complex values"),
        (lambda: mt.stft(mt.ones(20), 8, window=mt.ones(7), return_complex=True), r"of size 8, but got \[7\]"),
        (lambda: mt.stft(mt.ones(20), 8, win_length=9, return_complex=True), "win_length <= n_fft"),
        (lambda: mt.stft(mt.ones(5), 8, center=False, return_complex=True), "n_fft <= 5"),
        (lambda: mt.stft(mt.ones(20) * 1j, 8, onesided=True), "Cannot have onesided output"),
        (lambda: mt.istft(mt.ones(5, 9), 8), "not implemented for mt.float32"),
        (lambda: mt.istft(mt.ones(4, 9) * 1j, 8), "expected the frequency dimension to be 5"),
        (lambda: mt.istft(mt.ones(5, 9) * 1j, 8, window=mt.hann_window(8), center=False), "do not cover the signal"),
        (lambda: mt.istft(mt.ones(5, 9) * 1j, 8, return_complex=True), "onesided input for complex output"),
        (lambda: mt.hann_window(-1), "non-negative window_length"),
        (lambda: mt.hann_window(3, dtype=mt.int64), "floating point dtypes"),
    ],
)
def test_refusals(call: Any, says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        call()


def test_a_length_that_is_no_integer() -> None:
    with pytest.raises(TypeError, match=r"^hann_window\(\): argument 'window_length' must be int, not float"):
        mt.hann_window(2.5)
