"""Which BLAS NumPy uses: the library that is loaded, or the one that NumPy was built with."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import numpy as np

__all__ = ["BlasLibrary", "blas_library"]

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
