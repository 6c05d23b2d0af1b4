"""`python -m tests.wheel --out dist`: a wheel that carries the compiled kernels of what the suite and the pages call.

At each CPU capability of this machine, or each of --levels, the tests of `WORKLOAD` and the studies of `make run` fill
one folder, which becomes part of the wheel (build_backend.py). With --check the same runs once more where compiling is
forbidden (MINITORCH_COMPILE=never). `make release-check` installs and uses such a wheel.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from minitorch_backends.kernels.runtime import cpu

ROOT = Path(__file__).parents[1]

WORKLOAD = (
    "tests/ops/test_ops.py", "tests/ops/test_products.py", "tests/ops/test_conv.py", "tests/ops/test_fft.py",
    "tests/ops/test_linalg.py", "tests/ops/test_attention.py", "tests/nn", "tests/optim", "tests/project/test_docs.py",
    "tests/project/test_readme.py",
)  # fmt: skip
"""Every op over its samples, networks, optimizers, and the blocks of all pages."""


def _fill(level: str, jobs: str, **environment: str) -> None:
    """Run all that calls kernels, at a capability."""
    start, settings = time.monotonic(), {**os.environ, cpu.VARIABLE: level, **environment}
    tests = [sys.executable, "-m", "pytest", "-q", "-n", jobs, "--dist", "loadfile", *WORKLOAD]
    subprocess.run(tests, cwd=ROOT, env=settings, check=True)
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.executable, "-m", "bench", "--quick", "--out", out], cwd=ROOT, env=settings, check=True)
    sys.stdout.write(f"{level}: {time.monotonic() - start:.0f} s\n")


def main() -> int:
    own = cpu.LEVELS[: cpu.LEVELS.index(cpu.hardware()) + 1]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--levels", default=",".join(own), help="with commas (%(default)s)")
    parser.add_argument("--jobs", default="auto")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    levels = options.levels.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = {"MINITORCH_CACHE_DIR": str(folder / "code")}
        for level in levels:
            _fill(level, options.jobs, **code)
        pip = [sys.executable, "-m", "pip", "wheel", "-q", str(ROOT), "--no-deps", "-w", str(folder / "wheel")]
        subprocess.run(pip, env={**os.environ, "MINITORCH_PREBUILT": str(folder / "code")}, check=True)
        (built,) = (folder / "wheel").glob("*.whl")
        options.out.mkdir(parents=True, exist_ok=True)
        wheel = built.replace(options.out / built.name)
        sizes = [each.stat().st_size for each in (folder / "code").glob("*/*.o")]
        held = f"{len(sizes)} files of code, {sum(sizes) / 1e6:.1f} MB"
        sys.stdout.write(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, with {held}\n")
        for level in levels if options.check else ():
            _fill(level, options.jobs, **code, MINITORCH_COMPILE="never")
    return 0


if __name__ == "__main__":
    sys.exit(main())
