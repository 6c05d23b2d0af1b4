"""A wheel that carries compiled kernels: installed from it, first calls compile nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minitorch_backends.kernels.runtime import cpu

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    os.environ.get("MINITORCH_TEST_PREBUILT") != "1",
    reason="builds a wheel and compiles all families, which takes minutes: MINITORCH_TEST_PREBUILT=1",
)

FIRST_CALLS = """
import sys
import numpy as np
import minitorch_backends as mt
from minitorch_backends.kernels.runtime import store
from minitorch_backends.nn import functional as F
def new(*shape):
    return mt.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))
square = new(300, 300)
square @ square
mt.linalg.solve(square, new(300, 2))
F.conv2d(new(2, 32, 28, 28), new(32, 32, 3, 3), padding=1)
F.scaled_dot_product_attention(*(new(2, 4, 128, 64) for _ in range(3)))
mt.fft.rfft(new(8, 1000))
print(store.activity.compiled, store.activity.loaded > 8, "numba" in sys.modules, mt.__file__)
"""


def test_first_calls_compile_nothing(tmp_path):
    arguments = f"--levels {cpu.capability()} --precisions ieee --families matmul,conv,attention,fft,linalg"
    pip = [sys.executable, "-m", "pip", "--quiet"]
    built = {**os.environ, "MINITORCH_PREBUILT": arguments}
    subprocess.run([*pip, "wheel", str(ROOT), "--no-deps", "-w", str(tmp_path)], env=built, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert "-py3-none-any" not in wheel.name
    site, empty = tmp_path / "site", tmp_path / "empty"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(site), "MINITORCH_CACHE_DIR": str(empty)}
    command = [sys.executable, "-c", FIRST_CALLS]
    found = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert found.split()[:3] == ["0", "True", "False"]
    assert str(site) in found
    assert not list(empty.rglob("*.o"))
