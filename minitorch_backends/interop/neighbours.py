"""Registration with libraries that look up backends in a table of their own.

These libraries may be imported before or after this package, and neither imports the other. `register` is called once:
it registers with the imported ones, and installs a finder on `sys.meta_path` for the others.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any

LIBRARIES = ("autoray", "einops", "opt_einsum", "tensorly")
"""The libraries that a module of this folder under the same name registers with when it is imported."""


class _Finder:
    """Finds modules as the other finders do, and has those of `LIBRARIES` register after they have been run."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in LIBRARIES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            _register_with(fullname)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _register_with(library: str) -> None:
    try:
        import_module(f"{__package__}.{library}")
    except (ImportError, AttributeError, TypeError) as error:  # of a version that is made otherwise
        warnings.warn(f"{__package__}: this version of {library} cannot be registered with: {error}", stacklevel=2)


def register() -> None:
    """Register with the libraries, now or when they are imported."""
    sys.meta_path.insert(0, _Finder())
    for library in LIBRARIES:
        if library in sys.modules:
            _register_with(library)
