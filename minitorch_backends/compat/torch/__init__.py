"""Run torch's scripts on this library: as `import minitorch_backends as torch`, or unchanged after `install()`.

    from minitorch_backends.compat import torch
    torch.install()                                           # `import torch` is this library from here on

    python -m minitorch_backends.compat.torch script.py args  # the same, for a script that is not changed

The modules here are namespaces of torch that this engine has no part in: devices that are not there, compilers, several
processes. What can be without effect is so; everything else raises one sentence with the reason and the nearest way.
`paths` says where each module of torch is found, `missing` why a name is not there.
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
    """Put this library under torch's name in `sys.modules`, with `__version__` "2.13.0+minitorch", and return it.

    Raises RuntimeError when torch itself is imported already: what holds its tensors would break. Calling again changes
    nothing. `import torch` after it, and of any module below torch, gives this library or an error that says why not.
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
