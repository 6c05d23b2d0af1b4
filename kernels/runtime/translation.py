"""Numba's translation of functions to LLVM's language, with what kernels need of it alone.

Kernels allocate no counted arrays, catch no exceptions, and have no `with` blocks or array expressions. So a function
takes fewer passes, and becomes fewer instructions. Only `compiler` imports this module.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from numba import types
from numba.core import cgutils, codegen, compiler, imputils, targetconfig, untyped_passes
from numba.core.callconv import RETCODE_OK, CPUCallConv, Status
from numba.core.compiler_machinery import PassManager, _pass_registry, register_pass
from numba.core.cpu import CPUContext
from numba.core.lowering import Lower
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.runtime import rtsys
from numba.core.runtime.context import NRTContext
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import IRLegalization, NativeLowering, NopythonRewrites
from numba.core.typing.templates import _OverloadFunctionTemplate, _TemplateTargetHelperMixin

from . import native
from .locks import cached_property

__all__ = ["Compiler", "Context", "Library", "quickly"]


class Library(codegen.CodeLibrary):
    """LLVM's language of a function as Numba translates it, and the libraries of what it calls: neither optimised nor
    made machine code."""

    codegen = property(lambda self: self)  # what links it is asked for machine code, and given the environment

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.texts: list[str] = []
        self.linked: list[Any] = []

    def set_env(self, name: str, environment: Any) -> None:
        pass

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def get_function(self, name: str) -> Any:
        raise NotImplementedError(name)

    get_llvm_str = get_asm_str = get_function

    def add_ir_module(self, ir_module: Any) -> None:
        for function in ir_module.functions:
            if function.blocks and not function.linkage and function.name != native.ENTRY:
                function.linkage = "linkonce_odr"  # each caller's module has a copy
        self.texts.append(cgutils.normalize_ir_text(str(ir_module)))

    def add_linking_library(self, library: Any) -> None:
        if library is not rtsys.library:
            self.linked.append(library)

    def finalize(self) -> None:
        self._finalized = True


class _Uncounted(NRTContext):
    """Arrays are not counted: they are those of Python's caller, or of `raw_memory.allocate`."""

    def incref(self, builder: Any, typ: Any, value: Any) -> None:
        pass

    decref = incref


class _CallConv(CPUCallConv):
    """Numba's calling convention, with fewer instructions for each call: a failing function's status is passed on."""

    def call_function(self, builder: Any, callee: Any, resty: Any, argtys: Any, args: Any, attrs: Any = None) -> Any:
        if isinstance(resty, types.Optional):
            return super().call_function(builder, callee, resty, argtys, args, attrs)
        result = cgutils.alloca_once(builder, self.get_return_type(resty).pointee)
        error = next((each for each in builder.function.args if each.name == "excinfo"), None)
        if error is None:
            error = cgutils.alloca_once(builder, callee.args[1].type.pointee)
        values = self._get_arg_packer(argtys).as_arguments(builder, args)
        code = builder.call(callee, [result, error, *values], attrs=attrs or ())
        failed, no = builder.icmp_unsigned("!=", code, RETCODE_OK), cgutils.false_bit
        status = Status(code, None, no, failed, no, no, no, error)
        return status, self.context.get_returned_value(builder, resty, builder.load(result))

    def return_status_propagate(self, builder: Any, status: Any) -> None:
        builder.ret(status.code)


class Context(CPUContext):
    call_conv = cached_property(_CallConv)
    nrt = cached_property(lambda self: _Uncounted(self, True))


@register_pass(mutates_CFG=True, analysis_only=False)
class _ArrayRewrites(NopythonRewrites):
    """Numba's rewrites of typed functions, which are about expressions of arrays."""

    _name = "minitorch_backends_array_rewrites"

    def run_pass(self, state: Any) -> bool:
        arrays = any(isinstance(each, types.Array) for each in state.typemap.values())
        return bool(arrays and super().run_pass(state))


@register_pass(mutates_CFG=False, analysis_only=True)
class _Legalization(IRLegalization):
    """What Numba does before lowering, without marking where variables end: none of them is counted."""

    _name = "minitorch_backends_legalization"

    def run_pass(self, state: Any) -> bool:
        PostProcessor(state.func_ir).run()
        return True


class _Lower(Lower):
    """Numba's translation to LLVM's language."""

    def lower_block(self, block: Any) -> None:
        self.pre_block(block)
        for instruction in block.body:
            self.loc = instruction.loc
            self.lower_inst(instruction)
        self.post_block(block)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        return cgutils.alloca_once(self.builder, lltype, name=name)

    def incref(self, typ: Any, value: Any) -> None:
        pass

    decref = incref


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "minitorch_backends_lowering"
    lowering_class = _Lower


class _Passes(PassManager):
    """Numba's list of passes, run without checks and analyses after each: they took a tenth of the time."""

    def run(self, state: Any) -> None:
        for kind, _ in self.passes:
            each = _pass_registry.get(kind).pass_inst
            each.analysis = self._analysis
            each.run_initialization(state)
            each.run_pass(state)
            each.run_finalizer(state)


_REPLACED = {NopythonRewrites: _ArrayRewrites, IRLegalization: _Legalization, NativeLowering: _Lowering}


class Compiler(compiler.Compiler):
    """Numba's compiler, into a `Library`, without the passes that do not affect kernels: contexts, nested functions
    and array expressions would each take another analysis of every function."""

    def define_pipelines(self) -> list[Any]:
        (pipeline,) = super().define_pipelines()
        unused: set[Any] = {untyped_passes.WithLifting}
        if not any(map(inspect.iscode, self.state.func_id.func.__code__.co_consts)):
            unused |= {untyped_passes.InlineClosureLikes, untyped_passes.MakeFunctionToJitFunction}
        passes = _Passes("nopython")
        passes.passes = [(_REPLACED.get(each, each), text) for each, text in pipeline.passes if each not in unused]
        passes.finalize()
        return [passes]

    def _compile_core(self) -> Any:
        self.state.library = Library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super()._compile_core()


_resolved: dict[tuple, Any] = {}
_resolve, _analyse = types.Function.get_call_type, PostProcessor.run


def _resolve_once(self: Any, context: Any, arguments: tuple, keywords: dict[str, Any]) -> Any:
    """`types.Function.get_call_type`, looked up: Numba tries the forms for arrays, with literals and without, at each
    use in each function."""
    if keywords or not all(isinstance(each, types.Type) for each in arguments):
        return _resolve(self, context, arguments, keywords)
    flags = targetconfig.ConfigStack.top_or_none()
    key = self, frozenset(flags.fastmath.flags if flags else ()), *arguments
    if key not in _resolved:
        found = _resolve(self, context, arguments, keywords)
        if found is None:
            return None
        _resolved[key] = found, self._impl_keys[found.args]
    found, implementation = _resolved[key]
    self._impl_keys[found.args] = implementation  # which a user's function, of other settings, may have replaced
    return found


def _analyse_later(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """`PostProcessor.run`, which Numba calls after most passes, without finding where variables live."""
    if emit_dels or self.func_ir.is_generator:
        return _analyse(self, emit_dels, extend_lifetimes)
    self.func_ir.blocks = canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime, self.func_ir.generator_info = VariableLifetime(self.func_ir.blocks), None
    return None


def _age_objects() -> None:
    """Move objects to the oldest generation of the cycle collector, which would otherwise visit all that the compiler
    made as soon as it is on again, 20 ms for each function."""
    if not gc.get_freeze_count():  # those of a user stay frozen
        gc.freeze()
        gc.unfreeze()


@contextlib.contextmanager
def quickly(dispatcher: Callable) -> Iterator[None]:
    """Compile in the block without what took half of the time of typing and lowering: repeated searches and analyses,
    and the cycle collector, since Numba makes few cycles among many objects. `dispatcher(function, options)` compiles
    functions of Numba, such as `min`, as kernels."""
    find_registry, jit = _TemplateTargetHelperMixin._get_target_registry, _OverloadFunctionTemplate._get_jit_decorator
    types.Function.get_call_type, PostProcessor.run = _resolve_once, _analyse_later
    _TemplateTargetHelperMixin._get_target_registry = lambda self, reason: imputils.builtin_registry
    _OverloadFunctionTemplate._get_jit_decorator = lambda self: lambda **options: partial(dispatcher, options=options)
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        types.Function.get_call_type, PostProcessor.run = _resolve, _analyse
        _TemplateTargetHelperMixin._get_target_registry = find_registry
        _OverloadFunctionTemplate._get_jit_decorator = jit
        if enabled:
            _age_objects()
            gc.enable()
