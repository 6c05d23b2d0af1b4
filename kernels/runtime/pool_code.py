"""The code of the pool's threads, in LLVM's own language: how they wait, are woken, and share the tasks of a job.

Every first call on several threads needs it, and Numba would take a third of a second to compile it. It has no data but
the state of the pool, a row of int64 at an address: one field per cache line, so that waiting for one does not slow
down writing another.

* A thread enters a job by counting itself active *before* it looks whether the job is open, and the caller closes the
  job before it looks for active threads: one of the two sees the other. Jobs without a task for a thread do not keep it
  awake.
* A thread sets its sleep flag *before* it looks at the generation again, and the caller looks for sleepers after the
  generation has changed: one of the two sees the other.
* Linux may wake a thread on the caller's own CPU, beside an idle one, and not move it for tens of milliseconds: the
  caller then works alone (bench/NOTES.md). So a thread is given the set of the caller's other CPUs as it is woken.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from . import native, store
from .first_use import first_use

_LINE = 64
_GENERATION, _OPEN, _FUNCTION, _ARGUMENT, _TASKS, _NEXT, _ACTIVE, _LOCK, _LIMIT, PATIENCE = range(0, 10 * _LINE, _LINE)
START = PATIENCE + 8
"""Where the state has the address of `Code.start`."""

_CPU, _MASK, _IDS = (line * _LINE for line in (10, 11, 13))
_MASK_BYTES, _STEERED = 2 * _LINE, 64
_ASLEEP = _IDS + 8 * _STEERED  # followed by a word per worker: 1 while it sleeps on it

_SPINS, _GENERATIONS, _NAP_MICROSECONDS = 2000, 0x3FFFFFFF, 50
_PRIVATE_WAIT, _PRIVATE_WAKE = 128, 129
_MACHINE = platform.machine()
_CALLS = {"x86_64": (202, 203, 204, 309, 186), "aarch64": (98, 122, 123, 168, 178)}  # Linux's numbers
_FUTEX, _SET_AFFINITY, _GET_AFFINITY, _GET_CPU, _GET_ID = (
    _CALLS.get(_MACHINE, (0,) * 5) if sys.platform == "linux" else (0,) * 5
)


_PLACES = {
    "generation": _GENERATION, "open": _OPEN, "function_at": _FUNCTION, "argument_at": _ARGUMENT, "tasks_at": _TASKS,
    "next": _NEXT, "active": _ACTIVE, "lock": _LOCK, "limit": _LIMIT, "patience": PATIENCE, "cpu_at": _CPU,
    "mask": _MASK, "ids": _IDS, "flags": _ASLEEP,
}  # fmt: skip
"""Names of addresses of the state in the code."""


def _places(*names: str) -> str:
    return "\n".join(f"  %{name} = add i64 %pool, {_PLACES[name]}" for name in names)


def state_bytes(workers: int) -> int:
    """Size of the state of a pool for so many workers. It is zero at first and aligned to 64 bytes."""
    return _ASLEEP + 8 * workers


_COMMON = f"""
declare i32 @sched_yield()
declare void @llvm.x86.sse2.pause()

define internal i64 @load(i64 %at) {{
  %place = inttoptr i64 %at to i64*
  %value = load atomic i64, i64* %place seq_cst, align 8
  ret i64 %value
}}
define internal void @store(i64 %at, i64 %value) {{
  %place = inttoptr i64 %at to i64*
  store atomic i64 %value, i64* %place seq_cst, align 8
  ret void
}}
define internal i64 @add(i64 %at, i64 %value) {{
  %place = inttoptr i64 %at to i64*
  %before = atomicrmw add i64* %place, i64 %value seq_cst
  ret i64 %before
}}
define internal i64 @exchange(i64 %at, i64 %value) {{
  %place = inttoptr i64 %at to i64*
  %before = atomicrmw xchg i64* %place, i64 %value seq_cst
  ret i64 %before
}}
define internal void @pause() {{
  {"call void @llvm.x86.sse2.pause()" if _MACHINE in ("x86_64", "AMD64") else ""}
  ret void
}}

; Spin so many times as threads do that wait.
define void @spin(i64 %pool, i64 %count) {{
entry:
{_places("generation")}
  br label %look
look:
  %done = phi i64 [0, %entry], [%more, %again]
  %now = call i64 @load(i64 %generation)
  %left = icmp slt i64 %done, %count
  br i1 %left, label %again, label %end
again:
  call void @pause()
  %more = add i64 %done, 1
  br label %look
end:
  ret void
}}

; Take tasks of a job, one at a time, until none is left.
define internal void @share(i64 %pool, void (i64, i64, i64)* %function, i64 %argument, i64 %tasks, i64 %worker) {{
entry:
{_places("next")}
  br label %take
take:
  %task = call i64 @add(i64 %next, i64 1)
  %is_left = icmp slt i64 %task, %tasks
  br i1 %is_left, label %run, label %end
run:
  call void %function(i64 %argument, i64 %task, i64 %worker)
  br label %take
end:
  ret void
}}

; Return when the generation is no longer the seen one: spin for the patience left, then sleep.
define internal i64 @wait(i64 %pool, i64 %worker, i64 %seen, i64 %spins) {{
entry:
{_places("generation", "patience", "flags")}
  %by = mul i64 %worker, 8
  %asleep = add i64 %flags, %by
  br label %look
look:
  %spun = phi i64 [%spins, %entry], [%more, %spin], [%spun, %tire]
  %now = call i64 @load(i64 %generation)
  %is_same = icmp eq i64 %now, %seen
  br i1 %is_same, label %idle, label %end
idle:
  %most = call i64 @load(i64 %patience)
  %is_patient = icmp slt i64 %spun, %most
  br i1 %is_patient, label %spin, label %tire
spin:
  %more = add i64 %spun, 1
  call void @pause()
  br label %look
tire:
  call void @sleep(i64 %pool, i64 %asleep, i64 %seen)
  br label %look
end:
  ret i64 %spun
}}

; The endless loop of a thread of the pool.
define void @work(i64 %pool, i64 %worker) {{
entry:
{_places("generation", "active", "limit", "open", "function_at", "argument_at", "tasks_at")}
  call void @enter(i64 %pool, i64 %worker)
  br label %wait
wait:
  %seen = phi i64 [0, %entry], [%now, %leave]
  %spins = phi i64 [0, %entry], [%kept, %leave]
  %spun = call i64 @wait(i64 %pool, i64 %worker, i64 %seen, i64 %spins)
  %now = call i64 @load(i64 %generation)
  %others = call i64 @add(i64 %active, i64 1)
  %workers = call i64 @load(i64 %limit)
  %wanted = icmp slt i64 %worker, %workers
  br i1 %wanted, label %enter, label %leave
enter:
  %opened = call i64 @load(i64 %open)
  %is_open = icmp eq i64 %opened, %now
  br i1 %is_open, label %help, label %leave
help:
  %function = call i64 @load(i64 %function_at)
  %argument = call i64 @load(i64 %argument_at)
  %tasks = call i64 @load(i64 %tasks_at)
  %run = inttoptr i64 %function to void (i64, i64, i64)*
  call void @share(i64 %pool, void (i64, i64, i64)* %run, i64 %argument, i64 %tasks, i64 %worker)
  br label %leave
leave:
  %kept = phi i64 [%spun, %wait], [0, %enter], [0, %help]
  %left = call i64 @add(i64 %active, i64 -1)
  br label %wait
}}

; Run the tasks of a job, and return when all are done; alone where the pool is taken.
define void @start(i64 %pool, i64 %threads, i64 %tasks, i64 %function, i64 %argument) {{
entry:
  %run = inttoptr i64 %function to void (i64, i64, i64)*
{_places("generation", "open", "active", "lock", "function_at", "argument_at", "tasks_at", "limit", "next")}
  %one_thread = icmp slt i64 %threads, 2
  %one_task = icmp slt i64 %tasks, 2
  %brief = or i1 %one_thread, %one_task
  br i1 %brief, label %alone, label %try
try:
  %taken = call i64 @exchange(i64 %lock, i64 1)
  %is_taken = icmp ne i64 %taken, 0
  br i1 %is_taken, label %alone, label %shared
alone:
  %task = phi i64 [0, %entry], [0, %try], [%following, %one]
  %is_left = icmp slt i64 %task, %tasks
  br i1 %is_left, label %one, label %end
one:
  call void %run(i64 %argument, i64 %task, i64 0)
  %following = add i64 %task, 1
  br label %alone
shared:
  %fewer = icmp slt i64 %threads, %tasks
  %workers = select i1 %fewer, i64 %threads, i64 %tasks
  call void @store(i64 %function_at, i64 %function)
  call void @store(i64 %argument_at, i64 %argument)
  call void @store(i64 %tasks_at, i64 %tasks)
  call void @store(i64 %limit, i64 %workers)
  call void @store(i64 %next, i64 0)
  %last = call i64 @load(i64 %generation)
  %up = add i64 %last, 1
  %new = and i64 %up, {_GENERATIONS}
  call void @store(i64 %open, i64 %new)
  call void @store(i64 %generation, i64 %new)
  call void @wake(i64 %pool, i64 %workers)
  call void @share(i64 %pool, void (i64, i64, i64)* %run, i64 %argument, i64 %tasks, i64 0)
  call void @store(i64 %open, i64 -1)
  br label %look
look:
  %spins = phi i64 [0, %shared], [%spun, %breathe], [%spun, %yield]
  %others = call i64 @load(i64 %active)
  %finished = icmp eq i64 %others, 0
  br i1 %finished, label %give, label %breathe
breathe:
  call void @pause()
  %spun = add i64 %spins, 1
  %is_long = icmp sgt i64 %spun, {_SPINS}
  br i1 %is_long, label %yield, label %look
yield:
  %ignored = call i32 @sched_yield()
  br label %look
give:
  call void @store(i64 %lock, i64 0)
  br label %end
end:
  ret void
}}
"""

_WITH_FUTEX = f"""
declare i64 @syscall(i64, i64, i64, i64, i64)

; Keep the number of the thread, by which others set its CPUs.
define internal void @enter(i64 %pool, i64 %worker) {{
  %is_steered = icmp slt i64 %worker, {_STEERED}
  br i1 %is_steered, label %keep, label %end
keep:
  %id = call i64 @syscall(i64 {_GET_ID}, i64 0, i64 0, i64 0, i64 0)
  %by = mul i64 %worker, 8
{_places("ids")}
  %at = add i64 %ids, %by
  call void @store(i64 %at, i64 %id)
  br label %end
end:
  ret void
}}

; Sleep until woken, unless the generation has changed.
define internal void @sleep(i64 %pool, i64 %asleep, i64 %seen) {{
{_places("generation")}
  call void @store(i64 %asleep, i64 1)
  %now = call i64 @load(i64 %generation)
  %is_same = icmp eq i64 %now, %seen
  br i1 %is_same, label %sleep, label %woken
sleep:
  %ignored = call i64 @syscall(i64 {_FUTEX}, i64 %asleep, i64 {_PRIVATE_WAIT}, i64 1, i64 0)
  br label %woken
woken:
  call void @store(i64 %asleep, i64 0)
  ret void
}}

; Store the set of CPUs available to the caller except its current one: the size of that mask, 0 if it is empty.
define internal i64 @other_cpus(i64 %pool) {{
entry:
{_places("mask", "cpu_at")}
  %count = call i64 @syscall(i64 {_GET_AFFINITY}, i64 0, i64 {_MASK_BYTES}, i64 %mask, i64 0)
  %has_mask = icmp sgt i64 %count, 0
  br i1 %has_mask, label %ask, label %none
ask:
  %failed = call i64 @syscall(i64 {_GET_CPU}, i64 %cpu_at, i64 0, i64 0, i64 0)
  %has_cpu = icmp eq i64 %failed, 0
  br i1 %has_cpu, label %clear, label %none
clear:
  %written = call i64 @load(i64 %cpu_at)
  %cpu = and i64 %written, 4294967295
  %word = lshr i64 %cpu, 6
  %word_bytes = shl i64 %word, 3
  %at = add i64 %mask, %word_bytes
  %place = and i64 %cpu, 63
  %bit = shl i64 1, %place
  %rest = xor i64 %bit, -1
  %before = call i64 @load(i64 %at)
  %without = and i64 %before, %rest
  call void @store(i64 %at, i64 %without)
  br label %look
look:
  %done = phi i64 [0, %clear], [%following, %next]
  %others = phi i64 [0, %clear], [%found, %next]
  %is_left = icmp slt i64 %done, %count
  br i1 %is_left, label %next, label %end
next:
  %here = add i64 %mask, %done
  %cpus = call i64 @load(i64 %here)
  %found = or i64 %others, %cpus
  %following = add i64 %done, 8
  br label %look
end:
  %is_empty = icmp eq i64 %others, 0
  %size = select i1 %is_empty, i64 0, i64 %count
  ret i64 %size
none:
  ret i64 0
}}

; Wake those of the first workers that sleep.
define internal void @wake(i64 %pool, i64 %threads) {{
entry:
{_places("flags", "ids", "mask")}
  br label %look
look:
  %seen = phi i64 [1, %entry], [%seen_next, %count]
  %sleepers = phi i64 [0, %entry], [%sum, %count]
  %is_left = icmp slt i64 %seen, %threads
  br i1 %is_left, label %count, label %counted
count:
  %seen_by = mul i64 %seen, 8
  %flag = add i64 %flags, %seen_by
  %sleeps = call i64 @load(i64 %flag)
  %sum = add i64 %sleepers, %sleeps
  %seen_next = add i64 %seen, 1
  br label %look
counted:
  %all_awake = icmp eq i64 %sleepers, 0
  br i1 %all_awake, label %end, label %prepare
prepare:
  %mask_bytes = call i64 @other_cpus(i64 %pool)
  %has_mask = icmp ne i64 %mask_bytes, 0
  br label %each
each:
  %worker = phi i64 [1, %prepare], [%following, %next]
  %is_worker = icmp slt i64 %worker, %threads
  br i1 %is_worker, label %one, label %end
one:
  %by = mul i64 %worker, 8
  %asleep = add i64 %flags, %by
  %before = call i64 @exchange(i64 %asleep, i64 0)
  %slept = icmp ne i64 %before, 0
  br i1 %slept, label %steer, label %next
steer:
  %is_steered = icmp slt i64 %worker, {_STEERED}
  %may = and i1 %has_mask, %is_steered
  br i1 %may, label %find, label %rouse
find:
  %id_at = add i64 %ids, %by
  %id = call i64 @load(i64 %id_at)
  %has_id = icmp ne i64 %id, 0
  br i1 %has_id, label %set, label %rouse
set:
  %ignored = call i64 @syscall(i64 {_SET_AFFINITY}, i64 %id, i64 %mask_bytes, i64 %mask, i64 0)
  br label %rouse
rouse:
  %woken = call i64 @syscall(i64 {_FUTEX}, i64 %asleep, i64 {_PRIVATE_WAKE}, i64 1, i64 0)
  br label %next
next:
  %following = add i64 %worker, 1
  br label %each
end:
  ret void
}}
"""

_WITHOUT_FUTEX = f"""
declare i32 @usleep(i32)

define internal void @enter(i64 %pool, i64 %worker) {{
  ret void
}}
define internal void @wake(i64 %pool, i64 %threads) {{
  ret void
}}

define internal void @sleep(i64 %pool, i64 %asleep, i64 %seen) {{
  %ignored = call i32 @usleep(i32 {_NAP_MICROSECONDS})
  ret void
}}
"""


class Code(NamedTuple):
    """Functions that release the interpreter's lock, and the address of the one that compiled code calls: `start(pool,
    threads, tasks, function, argument)`."""

    work: Callable[[int, int], None]
    spin: Callable[[int, int], None]
    start: int


def content() -> bytes:
    """The machine code, of the store where it is there."""
    file, name = Path(__file__).resolve(), "code.o"
    found = store.read_installed(file, name) or store.read(path := store.module_folder(file) / name)
    if found is None:
        store.refuse_to_compile("the pool of threads")
        found = native.machine_code(_COMMON + (_WITH_FUTEX if _FUTEX else _WITHOUT_FUTEX))
        store.write(path, found)
    return found


@functools.cache
def code() -> Code:
    """The functions, loaded."""
    with first_use():
        work, spin, start = native.addresses(content(), ("work", "spin", "start"))
        call = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
        return Code(call(work), call(spin), start)
