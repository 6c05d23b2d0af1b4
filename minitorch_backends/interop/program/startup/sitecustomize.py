"""Executed by Python at its start, from `PYTHONPATH` or a `.pth` file: prepares a process that may import torch.

With MINITORCH_TORCH=1 the first `import torch` also enters `interop.torch.emulate` for the process. Until then nothing
is imported, so that processes without torch start as quickly as they did. Another `sitecustomize` runs afterwards.
"""

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = "minitorch_backends"


class TorchFinder:
    """Finds torch as Python does, and has its loader enter the mode when torch is complete."""

    searching = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "torch" or self.searching:
            return None
        self.searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.searching = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: _execute(execute, module)  # type: ignore[method-assign]
        return spec


def _execute(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Execute torch between the import of this package, which sets BLAS up before NumPy is loaded, and the mode."""
    if importlib.util.find_spec(_PACKAGE) is None:  # a checkout that is not installed
        root = _HERE.partition(os.sep + _PACKAGE + os.sep)[0]
        sys.path.append(root)
    process = importlib.import_module(f"{_PACKAGE}.interop.program.process")
    execute(module)
    process.enter()


def _run_the_next() -> None:
    """Import the `sitecustomize` that this one hides, if there is one."""
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or os.curdir) != _HERE]
    own = sys.modules.pop("sitecustomize")
    if importlib.machinery.PathFinder.find_spec("sitecustomize") is None:
        sys.modules["sitecustomize"] = own
    else:
        importlib.import_module("sitecustomize")


if os.environ.get("MINITORCH_TORCH") == "1" and not any(
    type(each).__name__ == TorchFinder.__name__ for each in sys.meta_path
):
    sys.meta_path.insert(0, TorchFinder())
if __name__ == "sitecustomize":
    _run_the_next()
