"""Run torch scripts on this library: as `import minitorch_backends as torch`, or unchanged after `install()`.

    from minitorch_backends.compat import torch
    torch.install()                                           # `import torch` is this library from here on

    python -m minitorch_backends.compat.torch script.py args  # the same, for an unchanged script

The modules here are torch namespaces outside this engine's scope: absent devices, compilers, several processes. Calls
are accepted without effect where possible; otherwise they raise one sentence with the reason and the nearest
alternative. `paths` locates each module of torch, `missing` explains absent names.
"""

from __future__ import annotations

import sys
from types import ModuleType

from ...tensor import dtypes
from .paths import ALIAS, PACKAGE, Facade, Finder

__all__ = ["VERSION", "install"]

VERSION = "2.13.0+minitorch"
"""The version of torch whose names are followed."""


def install() -> ModuleType:
    """Register this library as torch in `sys.modules`, with `__version__` "2.13.0+minitorch", and return it.

    Raises RuntimeError if torch itself is already imported, since objects that hold its tensors would break. A second
    call has no effect. Afterwards `import torch`, and of any module below torch, gives this library or an error with
    the reason.
    """
    found = sys.modules.get(ALIAS)
    if isinstance(found, Facade):
        return found
    if found is not None:
        raise RuntimeError("install(): torch must not be imported before; call install() first, or start a new process")
    dtypes.namespace = ALIAS
    sys.meta_path.insert(0, Finder(ALIAS))  # before Python finds files of the package, and imports them twice
    facade = sys.modules[ALIAS] = Facade(sys.modules[PACKAGE], VERSION)
    return facade
