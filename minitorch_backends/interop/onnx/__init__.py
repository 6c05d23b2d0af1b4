"""ONNX files as modules, so that flags, records, audits and policies apply to them.

    model = interop.onnx.load("model.onnx")
    scores = model(image)                        # inputs in the graph's order, or by their ONNX names
    lab.audit(model, image, ["tf32", "bf16"])    # layers have the names of the nodes

`files` reads a file and checks it before it allocates memory. `model` makes a module of the graph, with one submodule
per node. `table` holds the operators; the modules beside it declare them, one function each, by subject.
"""

from __future__ import annotations

import os
from typing import Any

from .model import Model, Value, model_of

__all__ = ["Model", "Value", "load"]


def load(f: str | os.PathLike[str] | Any) -> Model:
    """Make a module from an ONNX file, or from an `onnx.ModelProto`.

    Opsets 9 to 25 are supported. External data are read from the file's folder only. Weights become parameters, under
    the names of their initializers; statistics, scales and integers become buffers.

    Raises NotImplementedError with the list of unsupported operators. Raises ValueError for a damaged or inconsistent
    file, before allocating the memory that it declares.
    """
    from .files import read_model

    try:
        return model_of(*read_model(f))
    except (ValueError, NotImplementedError) as error:
        if isinstance(f, str | os.PathLike) and (path := os.fspath(f)) not in str(error):
            error.args = (f"{error} (in {path!r})",)
        raise
