"""Why a name of torch is not here, and the nearest way: one table, read from the top."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from fnmatch import fnmatchcase

__all__ = ["REASONS", "sentence"]

REASONS: dict[str, str] = {
    "*sparse* *spmm *.smm *.coalesce": "sparse tensors are not supported; use dense tensors and matmul",
    "*quantiz* ao* fake_* q_* q*int8 q*int32 q*int4x2": (
        "quantized tensors are not supported; use a policy of lab.audit to see what lower precision does"
    ),
    "*nested* *jagged*": "nested tensors are not supported; pad with nn.utils.rnn.pad_sequence",
    "distributed.* nn.parallel.*": "there is one process; use the parts of torch.distributed for a world of size 1",
    "fx.*": "programs are not traced; explain.explain(function, *args) says what runs",
    "jit.*": "programs are not compiled; call the function itself",
    "onnx.*": "modules are not exported from here; save the state_dict and export it in torch",
    "cuda.* xpu.* mps.* mtia.* hpu.*": "the CPU is the only device; its flags are in backends",
    "_C* _dynamo* _inductor* _functorch* _subclasses* _prims* _decomp* _ops*": (
        "it is a part of torch's own machinery; use the public functions"
    ),
    "ops* classes* library*": "operators of C++ libraries cannot be loaded; use autograd.Function",
    "export* package* utils.cpp_extension* utils.mobile*": (
        "programs are not compiled or exported; call the module itself"
    ),
    "Storage *Storage": "memory is held by NumPy arrays; use tensor.numpy()",
}
"""Patterns of names, and the reason with the nearest way."""


def sentence(root: str, path: str, known: Iterable[str] = ()) -> str:
    """The error message for `root.path`; `known` are the existing names beside it."""
    for patterns, reason in REASONS.items():
        if any(fnmatchcase(path, pattern) for pattern in patterns.split()):
            return f"{root} has no {path}: {reason}"
    above, _, name = path.rpartition(".")
    near = difflib.get_close_matches(name, [each for each in known if not each.startswith("_")], 3, 0.75)
    names = ", ".join(".".join(filter(None, (above, each))) for each in near)
    remedy = f"the nearest name is {names}" if len(near) == 1 else f"the nearest names are {names}"
    return f"{root} has no {path}; {remedy if near else f'dir({root}) lists what there is'}"
