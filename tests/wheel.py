"""`python -m tests.wheel --out dist`: a wheel that carries the compiled kernels for CPUs of each kind.

`minitorch_backends.kernels.ahead` compiles all that the tables of kernels declare, for this CPU and for others, into a
folder, which becomes part of the wheel (build_backend.py). With --check the wheel is installed beside its dependencies.
The pages, networks and studies run from it at each capability of this machine, with an empty home folder, where
compiling is forbidden (MINITORCH_COMPILE=never). `make release-check` installs and uses such a wheel too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from minitorch_backends.kernels.ahead.__main__ import TARGETS
from minitorch_backends.kernels.runtime import cpu

ROOT = Path(__file__).parents[1]

WORKLOAD = (
    "tests/ops/test_ops.py", "tests/ops/test_products.py", "tests/ops/test_conv.py", "tests/ops/test_fft.py",
    "tests/ops/test_linalg.py", "tests/ops/test_attention.py", "tests/nn", "tests/optim", "tests/project/test_docs.py",
    "tests/project/test_readme.py",
)  # fmt: skip
"""Every op over its samples, networks, optimizers, and the blocks of all pages."""


def _compile(target: str, jobs: list[str], code: Path) -> str:
    """Compile for CPUs of a kind; a line about it."""
    start, before = time.monotonic(), _size(code)
    command = [sys.executable, "-m", "minitorch_backends.kernels.ahead", target, *jobs]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "MINITORCH_CACHE_DIR": str(code)}, check=True)
    files, size = (after - each for after, each in zip(_size(code), before, strict=True))
    return f"{target}: {files} functions, {size / 1e6:.1f} MB, {time.monotonic() - start:.0f} s\n"


def _size(code: Path) -> tuple[int, int]:
    sizes = [each.stat().st_size for each in code.glob("*/*.o")]
    return len(sizes), sum(sizes)


def _check(wheel: Path, level: str, folder: Path) -> None:
    """Run from an installed wheel, at a capability, all that calls kernels."""
    start, site = time.monotonic(), folder / "site"
    if not site.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
        subprocess.run(pip, check=True)
        for name in ("tests", "bench", "docs"):
            shutil.copytree(ROOT / name, folder / name)
        for name in ("README.md", "CHANGELOG.md", "pyproject.toml"):
            shutil.copy(ROOT / name, folder / name)
    home = {"HOME": str(folder / "home"), "MINITORCH_CACHE_DIR": str(folder / "home" / "code")}
    settings = {**os.environ, **home, cpu.VARIABLE: level, "MINITORCH_COMPILE": "never", "PYTHONPATH": str(site)}
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", *WORKLOAD]
    tests += ["-k", "not test_links_between_pages"]  # which asks git for the pages, and this is a copy
    subprocess.run(tests, cwd=folder, env=settings, check=True)
    study = [sys.executable, "-m", "bench", "--quick", "--out", str(folder / level)]
    subprocess.run(study, cwd=folder, env=settings, check=True)
    if any((folder / "home").rglob("*.o")):
        raise SystemExit(f"{level}: something was compiled")
    sys.stdout.write(f"{level}: 0 compilations, {time.monotonic() - start:.0f} s\n")


def main() -> int:
    own = cpu.LEVELS[: cpu.LEVELS.index(cpu.hardware()) + 1]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--targets", default=",".join(TARGETS), help="kinds of CPUs, with commas (%(default)s)")
    parser.add_argument("--jobs", help="processes that compile (one for each CPU)")
    parser.add_argument("--code", type=Path, help="folder that keeps what is compiled, for another run")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    targets = options.targets.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code = (options.code or folder / "code").resolve()
        for target in targets:
            sys.stdout.write(_compile(target, ["--jobs", options.jobs] if options.jobs else [], code))
            sys.stdout.flush()
        pip = [sys.executable, "-m", "pip", "wheel", "-q", str(ROOT), "--no-deps", "-w", str(folder / "wheel")]
        subprocess.run(pip, env={**os.environ, "MINITORCH_PREBUILT": str(code)}, check=True)
        (built,) = (folder / "wheel").glob("*.whl")
        options.out.mkdir(parents=True, exist_ok=True)
        wheel = built.replace(options.out / built.name)
        sys.stdout.write(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB\n")
        for level in (level for level in own if options.check and level in targets):
            _check(wheel.resolve(), level, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
