"""The BLAS in use: a library loaded under a generic name, or the one that NumPy was built with."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest

from minitorch_backends.kernels.runtime import blas_library as module

MAPS = """\
7f0000-7f0001 r-xp 00000000 00:00 1 /usr/lib/libc.so.6
7f0001-7f0002 r-xp 00000000 00:00 2 /opt/other/lib/libscipy_openblas64_-1.so
7f0002-7f0003 r-xp 00000000 00:00 3 /opt/numpy.libs/libscipy_openblas64_-2.so
7f0003-7f0004 r-xp 00000000 00:00 4 /opt/conda/lib/libmkl_rt.so.2
7f0004-7f0005 rw-p 00000000 00:00 0
"""


@pytest.fixture
def found(monkeypatch):
    """The BLAS found for a name in NumPy's configuration, with these libraries loaded."""

    def look(name, version="1.0", maps=MAPS):
        config = {"Build Dependencies": {"blas": {"name": name, "version": version}}}
        monkeypatch.setattr(np, "show_config", lambda mode: config)
        monkeypatch.setattr(module, "open", lambda *_, **__: io.StringIO(maps), raising=False)
        module.blas_library.cache_clear()
        try:
            return module.blas_library()
        finally:
            module.blas_library.cache_clear()

    return look


def test_a_generic_name_is_what_is_loaded(found):
    assert found("cblas") == ("mkl", "unknown", "/opt/conda/lib/libmkl_rt.so.2")
    assert found("blas", maps=MAPS.replace("libmkl_rt", "libother")).name == "openblas"
    assert found("netlib", maps="") == ("netlib", "1.0", None)


def test_a_name_stands_and_numpys_own_file_comes_first(found):
    assert found("scipy-openblas") == ("openblas", "1.0", "/opt/numpy.libs/libscipy_openblas64_-2.so")
    assert found("mkl-sdl", "2024").name == "mkl"
    assert found("accelerate", maps="") == ("accelerate", "1.0", None)


def test_this_machine():
    library = module.blas_library()
    assert library.name in ("openblas", "mkl", "blis", "accelerate")
    assert library.path is None or library.path.startswith("/")


def test_the_kernels_of_openblas_are_named():
    """OpenBLAS says for which CPU its kernels are, in a process whose environment names one, that one."""
    if module.blas_library().name != "openblas":
        pytest.skip("NumPy's BLAS is not OpenBLAS")
    script = "from minitorch_backends.kernels.runtime.blas_library import blas_kernels; print(blas_kernels())"
    environment = os.environ | {"OPENBLAS_CORETYPE": "Nehalem"}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.strip() == "Nehalem"
