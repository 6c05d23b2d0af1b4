"""setuptools' build backend; with MINITORCH_PREBUILT=1, wheels carry compiled kernels for the levels of this machine.

Instead of 1 the variable may hold arguments of `minitorch-backends compile`, as "--levels avx2,avx512 --jobs 4". Such a
wheel is for this version of Python and this platform. What it holds is loaded wherever the same LLVM is installed.

Each wheel also has a `.pth` file, with which MINITORCH_TORCH=1 acts in Python processes that others start.
"""

import base64
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

Settings = dict[str, Any] | None
"""What a frontend passes on from its command line."""

_ROOT = Path(__file__).resolve().parent
_PTH, _STARTUP = "minitorch_backends_torch.pth", "minitorch_backends/interop/program/startup/sitecustomize.py"
_PREBUILT = _ROOT / "kernels" / "prebuilt"


def _requested_levels() -> list[str] | None:
    """Arguments of `minitorch-backends compile`; None where a plain wheel is wanted."""
    value = os.environ.get("MINITORCH_PREBUILT", "0").strip()
    return None if value in ("", "0") else [] if value == "1" else shlex.split(value)


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    needed = build_meta.get_requires_for_build_wheel(config_settings)
    if _requested_levels() is None:
        return needed
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*needed, *project["dependencies"]]


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    arguments = _requested_levels()
    if arguments is None:
        name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
        return _with_startup(wheel_directory, name, f"__import__('os').path.join(sitedir, {_STARTUP!r})")
    if "--levels" not in arguments:
        arguments = [*arguments, "--levels", "all"]
    try:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "minitorch_backends", "compile", *arguments]
            subprocess.run(command, cwd=_ROOT, env={**os.environ, "MINITORCH_CACHE_DIR": folder}, check=True)
            shutil.rmtree(_PREBUILT, ignore_errors=True)
            shutil.copytree(folder, _PREBUILT, ignore=shutil.ignore_patterns("lock"))
        tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        options = ["--python-tag", tag, "--plat-name", sysconfig.get_platform().replace("-", "_").replace(".", "_")]
        settings = {**(config_settings or {}), "--build-option": options}
        name = build_meta.build_wheel(wheel_directory, settings, metadata_directory)
        return _with_startup(wheel_directory, name, f"__import__('os').path.join(sitedir, {_STARTUP!r})")
    finally:
        shutil.rmtree(_PREBUILT, ignore_errors=True)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    return _with_startup(wheel_directory, name, repr(str(_ROOT / _STARTUP)))


def _with_startup(folder: str, name: str, path: str) -> str:
    """Add the `.pth` file to a wheel. Python executes its line at each start, where `sitedir` is the file's folder."""
    run = f"exec(open({path}).read(), dict(__name__='minitorch_startup', __file__={path}))"
    startup = f"import os; os.environ.get('MINITORCH_TORCH') == '1' and {run}\n".encode()
    wheel, rebuilt = Path(folder, name), Path(folder, f"{name}.rebuilt")
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(rebuilt, "w", zipfile.ZIP_DEFLATED) as after:
        after.writestr(_PTH, startup)
        for entry in before.infolist():
            content = before.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                digest = base64.urlsafe_b64encode(hashlib.sha256(startup).digest()).rstrip(b"=").decode()
                content = f"{_PTH},sha256={digest},{len(startup)}\n".encode() + content
            after.writestr(entry, content)
    rebuilt.replace(wheel)
    return name
