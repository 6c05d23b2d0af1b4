"""The extension `fft` of the array API standard."""

from ... import fft
from .renaming import rename

_ONE = "x, /, *, n=None, axis=-1, norm='backward'"
_MANY = "x, /, *, s=None, axes=None, norm='backward'"
_PARAMETERS = {
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), _ONE),
    **dict.fromkeys(("fftn", "ifftn", "rfftn", "irfftn"), _MANY),
    **dict.fromkeys(("fftshift", "ifftshift"), "x, /, *, axes=None"),
    **dict.fromkeys(("fftfreq", "rfftfreq"), "n, /, *, d=1.0, dtype=None, device=None"),
}
"""The standard's parameters of each function."""

__all__ = list(_PARAMETERS)

globals().update({name: rename(getattr(fft, name), parameters, name) for name, parameters in _PARAMETERS.items()})
