"""What the results of a function depend on: the source of what it reaches in the user's own files, and the constants
that it reads.

From a function, the walk follows the names that its code uses: in its module, in its closure, in the modules that it
imports, and in the classes and objects found there. Code of installed packages counts by their versions.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import importlib.util
import inspect
import os
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..explain.records import as_array

_INSTALLED = tuple(
    os.path.realpath(each) + os.sep
    for each in {*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), os.path.dirname(__file__)}
)
_OWN = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, np.generic)
_DEEPEST = 6
"""Levels of objects in objects whose values count."""


def dependencies(*roots: Any) -> dict[str, str]:
    """A hash of each function, class, module and constant of the user that these functions reach, by dotted name."""
    walk = _Walk()
    for root in roots:
        walk.follow(root, getattr(root, "__qualname__", type(root).__name__))
    return dict(sorted(walk.found.items()))


def fingerprint(value: Any) -> str:
    """A hash of a value: of its numbers, and of what it holds."""
    return _hash(_Walk().follow(value, "value"))


def _is_own(file: str | None) -> bool:
    """Whether a file is the user's: neither of this package nor installed."""
    path = os.path.realpath(file) + os.sep if file else ""
    return bool(path) and not path.startswith((*_INSTALLED, _OWN)) and "site-packages" not in path


def _hash(*parts: bytes | str) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()[:24]


class _Walk:
    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._seen: dict[int, Any] = {}  # values are held, so that their numbers stay theirs

    def follow(self, value: Any, name: str, depth: int = 0) -> str:
        """Note what a value depends on, and return a text that stands for the value itself."""
        if isinstance(value, _CONSTANTS):
            return repr(value)
        if id(value) in self._seen:
            return "seen"
        self._seen[id(value)] = value
        if isinstance(value, (types.FunctionType, types.MethodType, functools.partial, type)):
            return self._code(value, name)
        if isinstance(value, types.ModuleType) or depth > _DEEPEST:
            return ""
        if isinstance(value, Mapping):
            return self._several(value.items(), name, depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            several = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
            return self._several(enumerate(several), name, depth)
        if isinstance(array := as_array(value) if _has_values(value) else value, np.ndarray):
            return f"{array.dtype}{array.shape}{_hash(np.ascontiguousarray(array).tobytes())}"
        self.follow(type(value), type(value).__qualname__)
        if hasattr(value, "__wrapped__"):
            return self.follow(value.__wrapped__, name)
        if callable(state := getattr(value, "state_dict", None)):
            return repr(value) + self._several(state().items(), name, depth)
        return self._several(_state_of(value), name, depth)

    def _several(self, pairs: Any, name: str, depth: int) -> str:
        parts = (f"{key!r}: {self.follow(each, f'{name}.{key}', depth + 1)}" for key, each in list(pairs))
        return f"{{{', '.join(parts)}}}"

    def _code(self, value: Any, name: str) -> str:
        if isinstance(value, functools.partial):
            return self._several([("function", value.func), ("args", value.args), *value.keywords.items()], name, 0)
        if isinstance(value, types.MethodType):
            self._constant(f"{name}.__self__", value.__self__)
            return self.follow(value.__func__, name)
        full = f"{value.__module__}.{value.__qualname__}"
        if isinstance(value, type):
            file = getattr(sys.modules.get(value.__module__), "__file__", None)
            if _is_own(file) or value.__module__ == "__main__":
                self.found[full] = _hash(_source(value))
                for each in (*value.__bases__, *vars(value).values()):
                    self.follow(getattr(each, "__func__", getattr(each, "fget", each)), full)
            return full
        if _is_own(value.__code__.co_filename):
            self.found[full] = _hash(_source(value))
            self._names(value)
        if hasattr(value, "__wrapped__"):
            self.follow(value.__wrapped__, name)
        return full

    def _names(self, function: types.FunctionType) -> None:
        """Follow what the code of a function reads: globals, attributes of modules, imports, closure and defaults."""
        names = {name for code in _codes(function.__code__) for name in code.co_names}
        for name in sorted(names & function.__globals__.keys()):
            self._constant(f"{function.__module__}.{name}", function.__globals__[name], names)
        for name in _imports(function.__code__, function.__globals__.get("__package__") or ""):
            self._constant(name, _load_own(name), names)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._constant(f"{function.__module__}.{function.__qualname__}.{name}", cell.cell_contents, names)
        given: dict[Any, Any] = dict(enumerate(function.__defaults__ or ()))
        for place, value in (given | (function.__kwdefaults__ or {})).items():
            self._constant(f"{function.__module__}.{function.__qualname__}.{place}", value, names)

    def _constant(self, name: str, value: Any, names: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        if value is None or isinstance(value, types.ModuleType):
            if value is not None and _is_own(getattr(value, "__file__", None)) and id(value) not in self._seen:
                for each in sorted(names & vars(value).keys()):
                    self._constant(f"{value.__name__}.{each}", getattr(value, each), names - {each})
            return
        text = self.follow(value, name)
        if not isinstance(value, (types.FunctionType, type)) and text != "seen":
            self.found[name] = _hash(text)


def _state_of(value: Any) -> Iterable[tuple[Any, Any]]:
    """The attributes of an object; of one without any (slots, paths, ranges, patterns) what a copy is made from.

    Iterators and generators of random numbers change with each use, so that their state does not count.
    """
    attributes = getattr(value, "__dict__", None)
    if attributes or isinstance(value, Iterator) or "Generator" in type(value).__name__:
        return list((attributes or {}).items())
    try:
        return list(enumerate(value.__reduce_ex__(4)[1:3]))
    except Exception:  # locks, files, and whatever a class raises
        return ()


def _imports(code: types.CodeType, package: str) -> Iterator[str]:
    """The full names of modules, and of what may be modules, that the code of a function imports."""
    for each in _codes(code):
        module, constants = "", [0, None]  # the last two: the level of a relative import, and the names
        for step in dis.get_instructions(each):
            if step.opname == "LOAD_CONST":
                constants = [constants[-1], step.argval]
            elif step.opname == "IMPORT_NAME":
                level = constants[0] or 0
                module = importlib.util.resolve_name("." * level + step.argval, package) if level else step.argval
                yield module
            elif step.opname == "IMPORT_FROM":
                yield f"{module}.{step.argval}"


def _load_own(name: str) -> types.ModuleType | None:
    """A module of the user, imported as the function would; None for others."""
    try:
        spec = importlib.util.find_spec(name)
        return importlib.import_module(name) if spec is not None and _is_own(spec.origin) else None
    except (ImportError, ValueError, AttributeError):
        return None


def _has_values(value: Any) -> bool:
    return isinstance(value, np.ndarray) or (hasattr(value, "detach") and hasattr(value, "dtype"))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those of the functions, lambdas and comprehensions in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def _source(value: Any) -> str:
    """The source of a function or class, or the bytecode of a function without one."""
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        code = getattr(value, "__code__", None)
        return repr((code.co_code, code.co_names, list(map(repr, code.co_consts)))) if code else repr(value)
