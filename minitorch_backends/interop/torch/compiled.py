"""Runs compiled functions uncompiled, and rejects code that inductor compiled: its products would neither run here nor
be recorded.

Functions from `torch.compile` have a stance of the process, which is eager while a block runs. AOTInductor packages and
separately compiled graphs have no Python to go back to. Graphs from `torch.jit.optimize_for_inference` call oneDNN
without torch's dispatcher. They run with its operators of the same meaning instead.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ...kernels.runtime.locks import lock
from .patches import inherits

_CLASSES = (
    ("torch.export.pt2_archive._package", "AOTICompiledModel"),
    ("torch._inductor.output_code", "CompiledAOTI"),
    ("torch._inductor.output_code", "CompiledFxGraph"),
)
"""What runs compiled code when it is called, by the module that defines it."""

_threads = Counter[int]()
"""The number of blocks that reject compiled code, by thread; a thread that inherits a block has none of its own."""

_patched: dict[Any, Callable[..., Any]] = {}
"""The calls of classes that are replaced meanwhile."""

_lock = lock()

_stance: list[Any] = []
"""The scope in which torch calls functions uncompiled, while some block runs."""

_compile: list[Callable[..., Any]] = []
"""`torch.compile`, while it is replaced because its compiler is not loaded yet."""


def _force_eager() -> None:
    """Let functions from `torch.compile` run uncompiled. The compiler takes seconds to load; where it is not, the first
    call of `torch.compile` loads it."""
    if "torch._dynamo" in sys.modules:
        if not _stance:
            _stance.append(torch.compiler.set_stance("force_eager"))
    elif not _compile:

        @functools.wraps(torch.compile)
        def compile(*args: Any, **kwargs: Any) -> Any:
            importlib.import_module("torch._dynamo")
            with _lock:
                if _threads.total():
                    _force_eager()
            return original(*args, **kwargs)

        original = torch.compile
        _compile.append(original)
        torch.compile = compile


@contextmanager
def run_uncompiled() -> Iterator[None]:
    """Call compiled functions uncompiled while the block runs, and raise RuntimeError where this thread calls compiled
    code.

    Classes of torch that are not loaded when the block begins are left as they are.
    """
    thread = threading.get_ident()
    with _lock:
        _threads[thread] += 1
        _force_eager()
        for module, name in _CLASSES:
            kind = getattr(sys.modules.get(module), name, None)
            if kind is not None and kind not in _patched:
                _patched[kind] = kind.__call__
                kind.__call__ = _refusing(kind.__call__)
        if torch._C.ScriptMethod not in _patched:
            _patched[torch._C.ScriptMethod] = torch._C.ScriptMethod.__call__
            torch._C.ScriptMethod.__call__ = _through_dispatcher(torch._C.ScriptMethod.__call__)
    try:
        yield
    finally:
        with _lock:
            _threads[thread] -= 1
            if not _threads.total():
                _restore()


def _restore() -> None:
    _threads.clear()
    while _stance:
        _stance.pop().__exit__(None, None, None)
    while _compile:
        torch.compile = _compile.pop()
    while _patched:
        kind, call = _patched.popitem()
        kind.__call__ = call
    _function_of.cache_clear()


def _refusing(call: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _threads[threading.get_ident()] or inherits():
            raise RuntimeError(
                f"emulate(): models must not be compiled by inductor, got a call of {type(self).__name__}; call the "
                "module that it was compiled from"
            )
        return call(self, *args, **kwargs)

    return refuse


def _through_dispatcher(call: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = _function_of(self) if _threads[threading.get_ident()] or inherits() else None
        return call(self, *args, **kwargs) if function is None else function(self.owner, *args, **kwargs)

    return run


@functools.lru_cache(maxsize=256)
def _function_of(method: Any) -> Any:
    """A method of TorchScript as a function whose convolutions pass torch's dispatcher; None if all do already."""
    inlined = method.inlined_graph
    nodes = inlined.findAllNodes("prim::mkldnn_convolution", True)
    for node in nodes:
        inlined.setInsertPoint(node)
        *given, groups = node.inputs()
        transposed, output_padding = inlined.insertConstant(False), inlined.insertConstant([0])
        other = inlined.insertNode(inlined.create("aten::convolution", [*given, transposed, output_padding, groups], 1))
        node.output().replaceAllUsesWith(other.output())
        node.destroy()
    return torch._C._create_function_from_graph(method.name, inlined) if nodes else None
