"""setuptools' build backend; with MINITORCH_PREBUILT=1, wheels carry compiled kernels for the levels of this machine.

Instead of 1 the variable may hold arguments of `minitorch-backends compile`, as "--levels avx2,avx512 --jobs 4". Such a
wheel is for this version of Python and this platform. What it holds is loaded wherever the same LLVM is installed.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

_ROOT = Path(__file__).resolve().parent
_PREBUILT = _ROOT / "kernels" / "prebuilt"


def _requested_levels() -> list[str] | None:
    """Arguments of `minitorch-backends compile`; None where a plain wheel is wanted."""
    value = os.environ.get("MINITORCH_PREBUILT", "0").strip()
    return None if value in ("", "0") else [] if value == "1" else shlex.split(value)


def get_requires_for_build_wheel(config_settings=None):
    needed = build_meta.get_requires_for_build_wheel(config_settings)
    if _requested_levels() is None:
        return needed
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*needed, *project["dependencies"]]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    arguments = _requested_levels()
    if arguments is None:
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
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
        return build_meta.build_wheel(wheel_directory, settings, metadata_directory)
    finally:
        shutil.rmtree(_PREBUILT, ignore_errors=True)
