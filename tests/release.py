"""The distributions as a user gets them: `python -m tests.release` builds both, installs them, and uses them.

The wheel is built from the source distribution and installed with the extra `lab` into two new environments: one with
the oldest dependencies that the ranges of pyproject.toml allow, one with the newest that the index has. In each the
smoke test below runs, from an empty folder, with an empty store of compiled code; and with the newest the tutorials. A
wheel that carries what these compiled runs them again, where compiling is forbidden and the store is empty. With
--oldest it prints the oldest dependencies.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]

SMOKE = """
import importlib.metadata
import minitorch_backends as mt
from minitorch_backends import lab

def product(n, seed):
    return mt.randn(n, n) @ mt.randn(n, n)

if __name__ == "__main__":
    assert mt.__version__ == importlib.metadata.version("minitorch-backends")
    mt.manual_seed(0)
    x, w = mt.randn(64, 256), mt.randn(256, 32, requires_grad=True)
    exact = x.double() @ w.double()
    for precision, bound in (("ieee", 1e-6), ("tf32", 1e-3), ("bf16", 1e-2), ("bf16x3", 1e-5), ("mxfp8", 0.1)):
        with mt.backends.flags(fp32_precision=precision):
            assert ((x @ w).double() - exact).norm() < bound * exact.norm(), precision
    mt.nn.functional.conv2d(mt.randn(2, 3, 16, 16), mt.randn(8, 3, 3, 3), padding=1)
    mt.nn.functional.cross_entropy(x @ w, mt.randint(0, 32, (64,))).backward()
    assert w.grad.isfinite().all()
    spectrum = mt.fft.fft(mt.randn(8, 128))
    assert mt.allclose(mt.fft.fft(mt.fft.ifft(spectrum)), spectrum, atol=1e-4)
    a = mt.randn(64, 64).double() + 64 * mt.eye(64).double()
    assert mt.allclose(a @ mt.linalg.inv(a), mt.eye(64).double())
    assert mt.einsum_plan("ij,jk,kl->il", (8, 9), (9, 7), (7, 6)).flops > 0
    mt.save({"w": w.detach()}, "w.pt")
    assert mt.equal(mt.load("w.pt")["w"], w.detach())
    found = lab.sweep(product, over={"n": [8]}, flags={"fp32_precision": ["ieee", "bf16"]}, executor=2, progress=False)
    assert len(found) == 2 and all(row["exception"] is None for row in found.rows)
    found.report("page.html")
"""


TUTORIALS = [ROOT / "docs" / "tutorials" / f"{name}.md" for name in ("contractions", "disagree", "gpu_ci", "study")]
"""Those that need neither torch nor the weights of a model."""


def oldest() -> list[str]:
    """The dependencies of the package and of the extra `lab`, each at the least version of its range."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["lab"]]
    return [f"{name}=={least}.*" for name, least in re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(listed), re.MULTILINE)]


def _run(*command: object, cwd: Path = ROOT, **environment: str) -> None:
    subprocess.run([*map(str, command)], check=True, cwd=cwd, env=os.environ | environment)


def _pip(python: object, *arguments: object) -> None:
    _run(python, "-m", "pip", "install", "--disable-pip-version-check", "-q", *arguments)


def _use(place: Path, pages: list[Path], **environment: str) -> None:
    """Run the smoke test, pages, and `minitorch-backends env` of an environment."""
    python, strict = place / "bin" / "python", ("-W", "error", "-W", "ignore::DeprecationWarning")
    with tempfile.TemporaryDirectory() as empty:
        Path(empty, "smoke.py").write_text(SMOKE, encoding="utf-8")
        for command in (
            (python, *strict, "smoke.py"),
            (python, "-P", ROOT / "bench" / "page.py", *pages),
            (place / "bin" / "minitorch-backends", "env", "--json"),
        ):
            _run(*command, cwd=Path(empty), PYTHONPATH="", **environment)


def main() -> None:
    """Build, install and use the distributions, with a line for each environment; or print the oldest dependencies."""
    if sys.argv[1:] == ["--oldest"]:
        sys.stdout.write("\n".join(oldest()) + "\n")
        return
    with tempfile.TemporaryDirectory(prefix="minitorch-release-") as name:
        folder = Path(name)
        builder = folder / "builder" / "bin" / "python"
        _run(sys.executable, "-m", "venv", folder / "builder")
        _pip(builder, "build")
        _run(builder, "-m", "build", "--outdir", folder, ROOT)
        (wheel,) = folder.glob("*.whl")
        for age, versions, pages in (("oldest", oldest(), []), ("newest", ["pytest", "distributed"], TUTORIALS)):
            start, place = time.monotonic(), folder / age
            _run(sys.executable, "-m", "venv", place)
            _pip(place / "bin" / "python", f"{wheel}[lab]", *versions)
            _use(place, pages, MINITORCH_CACHE_DIR=str(place / "store"))
            sys.stdout.write(f"{wheel.name} with the {age} dependencies: {time.monotonic() - start:.0f} s\n")
        start = time.monotonic()
        code = {"MINITORCH_PREBUILT": str(place / "store")}
        removed = ROOT / "build" / "lib" / "minitorch_backends" / "removed.py"  # as of a build before
        removed.parent.mkdir(parents=True, exist_ok=True)
        removed.touch()
        _run(builder, "-m", "pip", "wheel", "-q", ROOT, "--no-deps", "-w", folder / "with_code", **code)
        (carrying,) = (folder / "with_code").glob("*-py3-none-*.whl")
        _pip(place / "bin" / "python", "--no-deps", "--force-reinstall", carrying)
        _use(place, TUTORIALS, MINITORCH_CACHE_DIR=str(folder / "empty"), MINITORCH_COMPILE="never")
        if any((folder / "empty").glob("*/*.o")) or any(place.rglob("minitorch_backends/removed.py")):
            sys.exit(f"{carrying.name} compiled what it carries, or carries files of a build before")
        sys.stdout.write(f"{carrying.name} compiles nothing: {time.monotonic() - start:.0f} s\n")


if __name__ == "__main__":
    main()
