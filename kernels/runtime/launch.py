"""Tasks over threads, for compiled kernels: `launch(pool, threads, tasks, job)` runs `job.run(task, worker, job)` for
every task in range(tasks), on the caller's thread and on the waiting threads of the pool.

A job is a NamedTuple of the arguments of its tasks whose class has the compiled function as `run`; `task` makes that
class of the function. (The function is selected by the type of the job, which is what Numba keeps between processes.)
Tasks are handed out by an atomic counter, must not raise, and may not depend on which worker runs them.

Starting costs about a microsecond while the threads of the pool still spin, which they do for 0.3 milliseconds after
a job, and about 40 once they sleep (the caller works alone meanwhile, and spends 10 of them on waking the others). A
job wakes as many threads as it has tasks for, each by a word of its own. One job uses the pool at a time: a second
caller, or a task that launches tasks itself, finds it taken and runs its own tasks alone. Nothing here can end the
process: Numba's own layers can (workqueue with concurrent callers; GNU OpenMP after a fork).
"""

from __future__ import annotations

import platform
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from .jit import cgutils, external, intrinsic, ir, subroutine, types
from .pool_code import START

_SPINS = 2000
_I64 = ir.IntType(64)
_TASK = ir.FunctionType(ir.VoidType(), [_I64] * 3)
_SHARE = ir.FunctionType(ir.VoidType(), [_I64] * 5)
_MACHINE = platform.machine()
_yield = external("sched_yield", "int32")


def _at(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.inttoptr(address, _I64.as_pointer())


@intrinsic
def _load(typingctx, address):
    def codegen(context, builder, signature, arguments):
        return builder.load_atomic(_at(builder, arguments[0]), "seq_cst", 8)

    return types.int64(types.int64), codegen


@intrinsic
def _store(typingctx, address, value):
    def codegen(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], _at(builder, arguments[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def _add(typingctx, address, value):
    """Add, and return the value before."""

    def codegen(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _at(builder, arguments[0]), arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def _exchange(typingctx, address, value):
    """Store, and return the value before."""

    def codegen(context, builder, signature, arguments):
        return builder.atomic_rmw("xchg", _at(builder, arguments[0]), arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def _pause(typingctx):
    """Tell the CPU that the loop around this waits."""

    def codegen(context, builder, signature, arguments):
        if _MACHINE in ("x86_64", "AMD64"):
            signature = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, signature, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), codegen


def _arguments_type(leaf):
    arguments = leaf.instance_class.arguments
    return types.NamedUniTuple(types.int64, len(arguments._fields), arguments)


@intrinsic
def address_of_run(typingctx, leaf):
    """The address of a C function of int64 arguments that runs `leaf.run(leaf, arguments)`.

    `leaf` is a tag whose class has the compiled function `run` and, as `arguments`, a NamedTuple class of integers.
    Code that is driven by addresses is compiled once, whatever the tags of the leaves that it calls.
    """
    inner = (leaf, _arguments_type(leaf))
    signature = leaf.instance_class.run._numba_type_.get_call_type(typingctx, inner, {})

    def codegen(context, builder, _, arguments):
        compiled = leaf.instance_class.run.value.get_compile_result(signature)
        context.active_code_library.add_linking_library(compiled.library)
        function_type = ir.FunctionType(ir.VoidType(), [_I64] * len(inner[1]))
        function = ir.Function(builder.module, function_type, builder.module.get_unique_name("leaf"))
        function.linkage = "internal"
        body = ir.IRBuilder(function.append_basic_block())
        values = [context.get_constant_undef(leaf), cgutils.pack_array(body, function.args)]
        context.call_internal_no_propagate(body, compiled.fndesc, signature, values)
        body.ret_void()
        return builder.ptrtoint(function, _I64)

    return types.int64(leaf), codegen


@intrinsic
def call_at(typingctx, address, arguments):
    """Call the C function at an address (of `address_of_run`) with a NamedTuple of int64."""

    def codegen(context, builder, signature, values):
        function_type = ir.FunctionType(ir.VoidType(), [_I64] * len(arguments))
        function = builder.inttoptr(values[0], function_type.as_pointer())
        builder.call(function, cgutils.unpack_tuple(builder, values[1], len(arguments)))
        return context.get_dummy_value()

    return types.void(types.int64, arguments), codegen


@subroutine
def acquire(lock):
    """Take the lock at an address, which is 0 while it is free."""
    spins = 0
    while _exchange(lock, 1) != 0:
        spins = _breathe(spins)


@subroutine
def release(lock):
    """Give it back."""
    _store(lock, 0)


@subroutine
def announce(counter):
    """Change the number at an address, and wake the waiters."""
    _add(counter, 1)


@subroutine
def await_change(counter, seen):
    """Return when the number at an address differs from `seen`."""
    spins = 0
    while _load(counter) == seen:
        spins = _breathe(spins)


@subroutine
def _breathe(spins):
    """A pause, or the rest of the time slice after a long wait."""
    if spins > _SPINS:
        _yield()
    _pause()
    return spins + 1


@intrinsic
def launch(typingctx, pool, threads, tasks, job):
    """Run tasks 0 to `tasks` - 1 of the job on at most `threads` threads (the caller is worker 0), and return when all
    are done. `pool` is the address of the state, or 0 for no pool.

    No compiled function, in which a task that itself launches would be compiled as if it were recursive. What divides
    tasks among threads is called by the address in the pool (`pool_code`), and is not in each caller.
    """
    task = job.instance_class.run._numba_type_.get_call_type(typingctx, (types.int64, types.int64, job), {})

    def codegen(context, builder, _, arguments):
        run = job.instance_class.run.value.get_compile_result(task)
        context.active_code_library.add_linking_library(run.library)
        record_type = context.get_value_type(job)
        record = cgutils.alloca_once_value(builder, arguments[3])
        function = ir.Function(builder.module, _TASK, builder.module.get_unique_name("task"))
        function.linkage = "internal"
        body = ir.IRBuilder(function.append_basic_block())
        values = [*function.args[1:], body.load(body.inttoptr(function.args[0], record_type.as_pointer()))]
        context.call_internal_no_propagate(body, run.fndesc, task, values)
        body.ret_void()
        places = [builder.ptrtoint(value, _I64) for value in (function, record)]
        with builder.if_else(builder.icmp_signed("!=", arguments[0], _I64(0))) as (shared, alone):
            with shared:
                start = builder.load(_at(builder, builder.add(arguments[0], _I64(START))))
                builder.call(builder.inttoptr(start, _SHARE.as_pointer()), [*arguments[:3], *places])
            with alone, cgutils.for_range(builder, arguments[2]) as loop:
                builder.call(function, [places[1], loop.index, _I64(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, job), codegen


def task(fields: str, **options: Any) -> Callable[[Callable[..., None]], Any]:
    """Make the class of the jobs with these fields of the function that does one of their tasks:

    @task("x out count")
    def _copy_some(task, worker, job): ...

    launch(pool, threads, tasks, _copy_some(x, out, count))
    """
    return lambda function: job_class(function.__name__, fields, subroutine(function, **options))


def job_class(name: str, fields: str | tuple[str, ...], run: Any, **constants: Any) -> Any:
    """The class of the jobs with these fields, whose tasks `run(task, worker, job)` does."""
    made: Any = namedtuple(name, fields, module=run.py_func.__module__)
    made.__doc__, made.run = run.__doc__, run
    for each, value in constants.items():
        setattr(made, each, value)
    return made


def leaf_class(name: str, fields: str, run: Any, arguments: Any, **constants: Any) -> Any:
    """The class of leaves (`address_of_run`) that select code by the tags in these fields: `run(leaf, arguments)`."""
    return job_class(name, fields, run, arguments=arguments, **constants)
