"""Tasks over threads, for compiled kernels: `launch(pool, threads, tasks, job)` runs `job.run(task, worker, job)` for
every task in range(tasks), on the caller's thread and on the waiting threads of the pool.

A job is a NamedTuple of the arguments of its tasks whose class has the compiled function as `run`. (The function is
selected by the type of the job, which is what Numba keeps between processes.) Tasks are handed out by an atomic
counter, must not raise, and may not depend on which worker runs them.

Starting costs about a microsecond while the threads of the pool still spin, which they do for `PATIENCE` seconds after
a job, and about 40 once they sleep (the caller works alone meanwhile, and spends 10 of them on waking the others). A
job wakes as many threads as it has tasks for, each by a word of its own. One job uses the pool at a time: a second
caller, or a task that launches tasks itself, finds it taken and runs its own tasks alone. Nothing here can end the
process: Numba's own layers can (workqueue with concurrent callers; GNU OpenMP after a fork).
"""

from __future__ import annotations

import platform
import sys
import time

from .jit import cgutils, external, intrinsic, ir, njit, subroutine, types

__all__ = [
    "PATIENCE",
    "acquire",
    "address_of_run",
    "announce",
    "await_change",
    "call_at",
    "launch",
    "release",
    "set_patience",
    "state_bytes",
    "work",
]

_LINE = 64  # one field per cache line, so that waiting for one does not slow down writing another
_GENERATION, _OPEN, _FUNCTION, _ARGUMENT, _TASKS, _NEXT, _ACTIVE, _LOCK, _LIMIT, _PATIENCE = range(0, 10 * _LINE, _LINE)
_START = _PATIENCE + 8
_CPU, _MASK, _IDS = (line * _LINE for line in (10, 11, 13))
_MASK_BYTES, _STEERED = 2 * _LINE, 64
_ASLEEP = _IDS + 8 * _STEERED  # followed by a word per worker: 1 while it sleeps on it


def state_bytes(workers: int) -> int:
    """Size of the state of a pool for so many workers. It is zero at first and aligned to 64 bytes."""
    return _ASLEEP + 8 * workers


PATIENCE = 3e-4
"""Seconds for which a thread without work spins: what Python takes between two kernels, and more."""

_SPINS = 2000
_GENERATIONS = 0x3FFFFFFF
_I64 = ir.IntType(64)
_TASK = ir.FunctionType(ir.VoidType(), [_I64] * 3)
_SHARE = ir.FunctionType(ir.VoidType(), [_I64] * 5)
_MACHINE = platform.machine()
_CALLS = {"x86_64": (202, 203, 204, 309, 186), "aarch64": (98, 122, 123, 168, 178)}  # Linux's numbers
_FUTEX, _SET_AFFINITY, _GET_AFFINITY, _GET_CPU, _GET_ID = (
    _CALLS.get(_MACHINE, (0,) * 5) if sys.platform == "linux" else (0,) * 5
)
_PRIVATE_WAIT, _PRIVATE_WAKE = 128, 129
_NAP_MICROSECONDS = 50

_syscall = external("syscall", "int64", *["int64"] * 5)
_yield = external("sched_yield", "int32")
_usleep = external("usleep", "int32", "uint32")


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


@intrinsic
def _run(typingctx, function, argument, task, worker):
    def codegen(context, builder, signature, arguments):
        builder.call(builder.inttoptr(arguments[0], _TASK.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), codegen


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
def _wait(pool, worker, seen, spins):
    """Return when the generation is no longer `seen`: spin for the patience left in `spins`, then sleep.

    A worker sets its sleep flag *before* it looks at the generation again, and `_wake` looks for sleepers after the
    generation has changed: one of the two sees the other.
    """
    asleep = pool + _ASLEEP + 8 * worker
    while _load(pool + _GENERATION) == seen:
        if spins < _load(pool + _PATIENCE):
            spins += 1
            _pause()
        elif _FUTEX:
            _store(asleep, 1)
            if _load(pool + _GENERATION) == seen:
                _syscall(_FUTEX, asleep, _PRIVATE_WAIT, 1, 0)
            _store(asleep, 0)
        else:
            _usleep(_NAP_MICROSECONDS)
    return spins


@njit
def _prepare(pool, spins):
    """Have threads spin so many times, store where `_start` is, and spin once as long."""
    _store(pool + _PATIENCE, spins)
    _store(pool + _START, _address_of_start())
    for _ in range(spins):
        if _load(pool + _GENERATION) == -1:
            return
        _pause()


def set_patience(pool: int, seconds: float) -> None:
    """Make a new pool ready for `launch`, whose threads are to spin for about so long. How long a pause takes is
    measured, for CPUs differ by a factor of ten (8 ns here)."""
    _prepare(pool, 1)
    shortest = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        _prepare(pool, _SPINS)
        shortest = min(shortest, time.perf_counter() - start)
    _prepare(pool, max(1, int(_SPINS * seconds / shortest)))


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


@subroutine
def _share(pool, function, argument, tasks, worker):
    while True:
        task = _add(pool + _NEXT, 1)
        if task >= tasks:
            return
        _run(function, argument, task, worker)


@njit
def work(pool, worker):
    """The endless loop of a pool thread; as worker 0, the caller, it does nothing.

    A thread enters a job by counting itself active *before* it looks whether the job is open, and the caller closes the
    job before it looks for active threads: one of the two sees the other. Jobs without a task for a thread do not keep
    it awake.
    """
    seen = spins = 0
    if _FUTEX and 0 < worker < _STEERED:
        _store(pool + _IDS + 8 * worker, _syscall(_GET_ID, 0, 0, 0, 0))
    while worker > 0:
        spins = _wait(pool, worker, seen, spins)
        seen = _load(pool + _GENERATION)
        _add(pool + _ACTIVE, 1)
        if worker < _load(pool + _LIMIT):
            spins = 0
            if _load(pool + _OPEN) == seen:
                _share(pool, _load(pool + _FUNCTION), _load(pool + _ARGUMENT), _load(pool + _TASKS), worker)
        _add(pool + _ACTIVE, -1)


@subroutine
def _wake(pool, threads):
    """Wake those of the first `threads` workers that sleep."""
    sleepers = 0
    for worker in range(1, threads):
        sleepers += _load(pool + _ASLEEP + 8 * worker)
    if sleepers == 0:
        return
    mask_bytes = _other_cpus(pool)
    for worker in range(1, threads):
        asleep = pool + _ASLEEP + 8 * worker
        if _exchange(asleep, 0) != 0:
            if mask_bytes and worker < _STEERED and _load(pool + _IDS + 8 * worker):
                _syscall(_SET_AFFINITY, _load(pool + _IDS + 8 * worker), mask_bytes, pool + _MASK, 0)
            _syscall(_FUTEX, asleep, _PRIVATE_WAKE, 1, 0)


@subroutine
def _other_cpus(pool):
    """Store the set of CPUs available to the caller except its current one; returns the size of that mask, 0 if empty.

    Linux may wake a thread on the caller's own CPU, beside an idle one, and not move it for tens of milliseconds: the
    caller then works alone (bench/NOTES.md).
    """
    count = _syscall(_GET_AFFINITY, 0, _MASK_BYTES, pool + _MASK, 0)
    if count <= 0 or _syscall(_GET_CPU, pool + _CPU, 0, 0, 0) != 0:
        return 0
    cpu = _load(pool + _CPU) & 0xFFFFFFFF
    word = pool + _MASK + cpu // 64 * 8
    _store(word, _load(word) & ~(1 << cpu % 64))
    others = 0
    for index in range(count // 8):
        others |= _load(pool + _MASK + 8 * index)
    return count if others else 0


@subroutine
def _start(pool, threads, tasks, function, argument):
    if threads < 2 or tasks < 2 or _exchange(pool + _LOCK, 1) != 0:
        for task in range(tasks):
            _run(function, argument, task, 0)
        return
    _store(pool + _FUNCTION, function)
    _store(pool + _ARGUMENT, argument)
    _store(pool + _TASKS, tasks)
    _store(pool + _LIMIT, min(threads, tasks))
    _store(pool + _NEXT, 0)
    generation = (_load(pool + _GENERATION) + 1) & _GENERATIONS
    _store(pool + _OPEN, generation)
    _store(pool + _GENERATION, generation)
    if _FUTEX:
        _wake(pool, min(threads, tasks))
    _share(pool, function, argument, tasks, 0)
    _store(pool + _OPEN, -1)
    spins = 0
    while _load(pool + _ACTIVE) != 0:
        spins = _breathe(spins)
    _store(pool + _LOCK, 0)


@intrinsic
def _address_of_start(typingctx):
    """The address of `_start` as a C function."""
    start = _start._numba_type_.get_call_type(typingctx, (types.int64,) * 5, {})

    def codegen(context, builder, _, arguments):
        compiled = _start.value.get_compile_result(start)
        context.active_code_library.add_linking_library(compiled.library)
        function = ir.Function(builder.module, _SHARE, builder.module.get_unique_name("start"))
        function.linkage = "internal"
        body = ir.IRBuilder(function.append_basic_block())
        context.call_internal_no_propagate(body, compiled.fndesc, start, function.args)
        body.ret_void()
        return builder.ptrtoint(function, _I64)

    return types.int64(), codegen


@intrinsic
def launch(typingctx, pool, threads, tasks, job):
    """Run tasks 0 to `tasks` - 1 of the job on at most `threads` threads (the caller is worker 0), and return when all
    are done. `pool` is the address of the state, or 0 for no pool.

    No compiled function, in which a task that itself launches would be compiled as if it were recursive. What divides
    tasks among threads is called by the address in the pool, so that it is compiled once, and not in each caller.
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
                start = builder.load(_at(builder, builder.add(arguments[0], _I64(_START))))
                builder.call(builder.inttoptr(start, _SHARE.as_pointer()), [*arguments[:3], *places])
            with alone, cgutils.for_range(builder, arguments[2]) as loop:
                builder.call(function, [places[1], loop.index, _I64(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, job), codegen
