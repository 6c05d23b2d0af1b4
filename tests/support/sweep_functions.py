"""Functions that sweeps of the tests run; some are run as programs that are killed.

`python -m tests.support.sweep_functions FOLDER PROCESSES` sweeps `slow` into a store.
"""

import os
import signal
import time
from pathlib import Path

import minitorch_backends as mt
from minitorch_backends import lab

OVER = {"n": [2, 3, 5], "scale": [1.0, 1e3]}
FLAGS = [{"fp32_precision": "ieee"}, {"fp32_precision": "bf16"}]


def sums(n, scale, seed):
    """Depends on everything that travels: parameters, seed, generator, flags, grad mode."""
    x = mt.randn(n, n) * scale
    rounded = x @ mt.eye(n)
    return {"sums": rounded.sum(0), "seed": seed, "grad": float(mt.is_grad_enabled()), "scale": rounded.double().sum()}


def slow(n, scale, seed):
    time.sleep(0.03)
    return sums(n, scale, seed)


def effective():
    """The value of every flag in the process that runs this, as a number."""
    state = mt.flags.current()
    return {path: hash_of(state.resolve(path)[0]) for path in mt.flags.rows}


def hash_of(value):
    import zlib

    return zlib.crc32(repr(value).encode())


def fails(n):
    if n == 2:
        raise ValueError("no such matrix")
    return float(n)


def dies(n, folder):
    """Kills its process, as a fault in compiled code would: for n == 3 always, for n == 1 at the first try."""
    mark = Path(folder) / "tried"
    if n == 3 or (n == 1 and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return float(n)


def main(folder, processes):
    executor = None if processes == "0" else int(processes)
    lab.sweep(slow, over=OVER, flags=FLAGS, seeds=10, store=folder, repeats=0, executor=executor)
