"""A fuzzer of the public surface: `python -m tests.fuzz --seconds 3600 --seed N`.

Every public function, method and registered op is called with hostile values; so are the constructors of modules,
optimizers and schedulers, and what they make is used once. A case is source code, made from the seed, the target's
name and a number alone, so that a find can be pasted into an interpreter and new targets change no other case. Worker
processes run the cases (`worker`); a supervisor (`supervisor`) takes a worker that dies or hangs for a find, and starts
the next one behind the case. A call may return or raise. What counts as a fault:

* the process dies, or the call does not end;
* the error is not a sentence about an argument: one that Python, C, NumPy or Numba raised in the middle of the call
  (of an op that users do not call, any error will do);
* a call that raised has changed flags, modes, the default dtype, threads, the generator, or its inputs.
"""
