"""ONNX files as modules, so that flags, records, audits and policies act on them.

    model = interop.onnx.load("model.onnx")
    scores = model(image)                        # inputs in the graph's order, or by their ONNX names
    lab.audit(model, image, ["tf32", "bf16"])    # layers go by the names of the nodes

`files` reads a file and checks it before it takes memory. `model` makes a module of the graph, with one module below it
for each node. `table` holds the operators; the modules beside it declare them, one function each, by subject.
"""

from __future__ import annotations

import os
from typing import Any

from .model import Model, Value, model_of

__all__ = ["Model", "Value", "load"]


def load(f: str | os.PathLike[str] | Any) -> Model:
    """Make a module of an ONNX file, or of an `onnx.ModelProto`.

    Opsets 9 to 25 are read. Tensors beside the file (external data) are read from its folder only. Weights become
    parameters, under the names of their initializers; statistics, scales and integers become buffers.

    Raises NotImplementedError with the list of the operators that have no implementation here, and ValueError for a
    file that is damaged or inconsistent, before memory is taken for what it declares.
    """
    from .files import read_model

    return model_of(*read_model(f))
