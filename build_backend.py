"""setuptools' build backend; with MINITORCH_PREBUILT=FOLDER, wheels carry the compiled kernels of that folder.

`MINITORCH_CACHE_DIR=FOLDER minitorch-backends compile` fills one; `make wheel` does both for what tests and pages call.
Such a wheel is for this platform, and for every version of Python: what it holds is loaded wherever it was installed.

Each wheel also has a `.pth` file, with which MINITORCH_TORCH=1 acts in Python processes that others start.
"""

import base64
import hashlib
import os
import platform
import runpy
import shutil
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

Settings = dict[str, Any] | None
"""Settings that a frontend passes on from its command line."""

_ROOT = Path(__file__).resolve().parent
_PTH, _STARTUP = "minitorch_backends_torch.pth", "minitorch_backends/interop/program/startup/sitecustomize.py"
_PREBUILT = _ROOT / "kernels" / "prebuilt"


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    code, settings = os.environ.get("MINITORCH_PREBUILT"), dict(config_settings or {})
    shutil.rmtree(_ROOT / "build" / "lib", ignore_errors=True)  # files of builds before, which setuptools would take
    try:
        if code:
            pack = runpy.run_path(str(_ROOT / "kernels" / "runtime" / "archive.py"))["pack"]
            if not any(Path(code).glob("*/*.o")):
                raise SystemExit(f"MINITORCH_PREBUILT must be a folder of compiled kernels, got {code!r}")
            shutil.rmtree(_PREBUILT, ignore_errors=True)
            _PREBUILT.mkdir()
            for folder in sorted(each for each in Path(code).iterdir() if any(each.glob("*.o"))):
                _PREBUILT.joinpath(f"{folder.name}.code").write_bytes(pack(folder, "*.o"))
            settings["--build-option"] = ["--python-tag", "py3", "--plat-name", _platform()]
        name = build_meta.build_wheel(wheel_directory, settings, metadata_directory)
        return _with_startup(wheel_directory, name, f"__import__('os').path.join(sitedir, {_STARTUP!r})")
    finally:
        if code:
            shutil.rmtree(_PREBUILT, ignore_errors=True)


def _platform() -> str:
    """The tag of this platform. Compiled kernels link with nothing, so that on Linux NumPy's wheels set the limit."""
    own = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return own.replace("linux_", "manylinux_2_27_") if platform.libc_ver()[0] == "glibc" else own


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
