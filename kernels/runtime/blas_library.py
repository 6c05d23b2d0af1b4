"""Which BLAS NumPy uses: the library that is loaded, or the one NumPy was built with; and the CPU of its kernels."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
from typing import NamedTuple

import numpy as np

_LOADED = {
    "mkl": r"/libmkl_rt\.so[^/]*$",
    "blis": r"/libblis[^/]*\.so[^/]*$",
    "openblas": r"/lib[^/]*openblas[^/]*\.so[^/]*$",
}
_GENERIC = {"blas", "cblas", "lapack", "netlib", "unknown"}


class BlasLibrary(NamedTuple):
    """A BLAS: its name ("openblas", "mkl", "blis", "accelerate" ...), version, and file where one is known."""

    name: str
    version: str
    path: str | None


@functools.cache
def blas_library() -> BlasLibrary:
    """The BLAS in use. One that was built against a generic name is what that name was resolved to when loaded."""
    built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    name, version = str(built.get("name", "unknown")).lower(), str(built.get("version", "unknown"))
    loaded = _loaded_libraries()
    if name in _GENERIC and loaded:
        found = next(iter(loaded))
        return BlasLibrary(found, "unknown", loaded[found])
    known = next((each for each in (*_LOADED, "accelerate") if each in name), name)
    return BlasLibrary(known, version, loaded.get(known))


_CORE_NAMES = [f"{prefix}openblas_get_corename{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "_64", "")]


@functools.cache
def blas_kernels() -> str | None:
    """The CPU, as OpenBLAS names it ("SkylakeX"), for which the BLAS in use runs kernels; None if it does not say.
    `OPENBLAS_CORETYPE` may have named another than this one."""
    library = blas_library()
    if library.name != "openblas" or library.path is None:
        return None
    with contextlib.suppress(OSError):
        loaded = ctypes.CDLL(library.path)
        for name in _CORE_NAMES:
            if hasattr(loaded, name):
                function = getattr(loaded, name)
                function.restype = ctypes.c_char_p
                return function().decode()
    return None


def _loaded_libraries() -> dict[str, str]:
    """The BLAS libraries that are mapped into this process, with their files, NumPy's own before others."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
            files = sorted(
                {line.split(None, 5)[5].strip() for line in lines if "/" in line}, key=lambda f: "numpy" not in f
            )
    except OSError:
        return {}
    matches = ((name, file) for name, pattern in _LOADED.items() for file in files if re.search(pattern, file))
    found: dict[str, str] = {}
    for name, file in matches:
        found.setdefault(name, file)
    return found
