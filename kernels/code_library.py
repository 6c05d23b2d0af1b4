"""Object files of entry points: what `code_functions` emits, optimised by LLVM, or Numba's."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator
from typing import Any

from . import code_types, jit, native, notice, store, targets
from .code_functions import Module
from .code_types import UnsupportedError, Value
from .entry_point import EntryPoint
from .first_use import first_use, importing
from .jit import ir
from .locks import reentrant_lock

with importing("llvmlite"):
    from llvmlite import binding

_compiling = reentrant_lock()


@contextlib.contextmanager
def count_time(phase: str) -> Iterator[None]:
    """Add the CPU time of the block, less what is counted in it, to a field of `store.activity`."""
    counts, start = store.activity, time.thread_time()
    inner = counts.lowering_seconds + counts.llvm_seconds
    try:
        yield
    finally:
        inner = counts.lowering_seconds + counts.llvm_seconds - inner
        setattr(counts, phase, getattr(counts, phase) + time.thread_time() - start - inner)


def translate(entry: jit.Entry, kinds: tuple) -> str:
    """LLVM's language of an entry point, not optimised. Raises `UnsupportedError`."""
    with _compiling:
        jit.translating.append(code_types.names)
        try:
            module = Module()

            def run(builder: ir.IRBuilder, values: list[Value]) -> tuple[None, Value]:
                return None, module.run(entry, builder, values)

            EntryPoint(module.ir, entry.options["nogil"]).emit(kinds, run)
            return str(module.ir)
        finally:
            jit.translating.pop()


@functools.cache
def _machine() -> Any:
    return native.target_machine(*targets.target())


def optimise(text: str) -> Any:
    """A module of LLVM, optimised for the current capability.

    Level 3 inlines more: LU takes half as long again to compile, and no less to run. Instructions are combined before
    functions are inlined, or `solve` of 400 x 400 takes 9 % longer.
    """
    module, machine = binding.parse_assembly(text), _machine()
    module.verify()
    module.triple, module.data_layout = binding.get_process_triple(), str(machine.target_data)
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization, options.slp_vectorization = True, False
    builder = binding.create_pass_builder(machine, options)
    before = binding.create_new_module_pass_manager()
    before.add_instruction_combine_pass()
    for passes in (before, builder.getModulePassManager()):
        passes.run(module, builder)
    return module


def compile_entry(entry: jit.Entry, kinds: tuple) -> bytes:
    """The object file of a function for arguments of these kinds (`native`)."""
    with first_use(), _compiling, notice.compiling(entry.py_func.__module__):
        try:
            with count_time("lowering_seconds"):
                text = translate(entry, kinds)
        except UnsupportedError:
            return jit.compiler().compile_entry(entry, kinds).content
        with count_time("llvm_seconds"):
            content = _machine().emit_object(optimise(text))
        store.activity.compiled += 1
        return content
