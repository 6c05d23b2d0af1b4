"""Run small ONNX models with values that no author meant, in little memory; print what is neither an answer nor one
sentence. `tests/interop/test_onnx.py` runs this file in a process of its own."""

import itertools
import resource
import sys
import warnings

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import minitorch_backends as mt
from minitorch_backends.interop import onnx

MEMORY = 6 << 30
NUMBERS = (0, -1, 2, -3, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
PLACES = np.array([[0, 1], [1, 0]])

GRAPHS = {
    "ConstantOfShape": ["?"], "Expand": ["x", "?"], "Tile": ["x", "?"], "Reshape": ["x", "?"], "Pad": ["x", "?"],
    "Slice": ["x", "?", "?"], "TopK": ["x", "?"], "OneHot": ["places", "?", "pair"], "Range": ["?0", "?0", "?0"],
    "Resize": ["x", "", "", "?"], "Gather": ["x", "?"], "GatherND": ["x", "?"], "GatherElements": ["x", "?"],
    "ScatterElements": ["x", "places", "x"], "Unsqueeze": ["x", "?"], "Squeeze": ["x", "?"], "Split": ["x", "?"],
    "ReduceSum": ["x", "?"], "CumSum": ["x", "?0"], "Trilu": ["x", "?0"], "Compress": ["x", "?"],
}  # fmt: skip
"""Inputs by operator: "?" is a list of hostile integers, "?0" one of them, the rest has these names in `VALUES`."""

ATTRIBUTES = {
    "AveragePool": (["x"], {"kernel_shape": [2], "strides": [1], "pads": [0, 0], "ceil_mode": 0}),
    "Concat": (["x", "x"], {"axis": 0}),
    "Conv": (["x", "w"], {"dilations": [1], "group": 1, "kernel_shape": [2], "pads": [0, 0], "strides": [1]}),
    "ConvTranspose": (["x", "v"], {"dilations": [1], "group": 1, "output_padding": [0], "output_shape": [5]}),
    "DepthToSpace": (["image"], {"blocksize": 2}),
    "EyeLike": (["places"], {"k": 0, "dtype": 1}),
    "Flatten": (["x"], {"axis": 1}),
    "Gemm": (["pair2", "pair2"], {"transA": 0, "transB": 0}),
    "LRN": (["image"], {"size": 3}),
    "LayerNormalization": (["x", "pair"], {"axis": -1}),
    "LogSoftmax": (["x"], {"axis": -1}),
    "MaxPool": (["x"], {"kernel_shape": [2], "strides": [1], "dilations": [1], "pads": [0, 0], "storage_order": 0}),
    "LSTM": (["x", "w", "w"], {"hidden_size": 2, "layout": 0}),
    "SpaceToDepth": (["image"], {"blocksize": 2}),
    "Transpose": (["x"], {"perm": [0, 1, 2]}),
}
VALUES = {
    "x": X, "places": PLACES, "pair": np.ones(2, np.float32), "pair2": np.ones((2, 2), np.float32),
    "w": np.ones((5, 3, 2), np.float32), "v": np.ones((3, 5, 2), np.float32),
    "image": np.ones((1, 4, 4, 4), np.float32),
}  # fmt: skip


def fault(kind: str, inputs: list[str], values: dict[str, np.ndarray], **attributes: object) -> str | None:
    """What is wrong with the end of a model of one node, or None."""
    infos = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    weights = [numpy_helper.from_array(values[name], name) for name in dict.fromkeys(filter(None, inputs))]
    graph = helper.make_graph([helper.make_node(kind, inputs, ["y"], kind, **attributes)], "g", [], infos, weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    try:
        onnx.load(proto)()
    except (ValueError, RuntimeError, MemoryError, IndexError, TypeError) as error:
        text = str(error)
        python = any(part in text for part in ("zip()", "unpack", "list index", "tuple index"))
        clear = "(): " in text or not (python or isinstance(error, TypeError))
        if text and "\n" not in text and clear:
            return None
        own = {name: values[name].tolist() for name in inputs if name.startswith("n")}
        return f"{kind} {own} {attributes}: {type(error).__name__}: {error}"
    return None


def faults() -> list[str | None]:
    found = []
    for kind, inputs in GRAPHS.items():
        for number, count, dtype in itertools.product(NUMBERS, (1, 3), (np.int64, np.float32)):
            own, names = dict(VALUES), []
            for place, name in enumerate(inputs):
                names.append(f"n{place}" if name.startswith("?") else name)
                if name.startswith("?"):
                    own[names[-1]] = np.array(number if name == "?0" else [number] * count, dtype)
            found.append(fault(kind, names, own))
        if len(inputs) > 1:
            found.append(fault(kind, ["" if name.startswith("?") else name for name in inputs], VALUES))
    for kind, (inputs, attributes) in ATTRIBUTES.items():
        for name, number in itertools.product(attributes, NUMBERS):
            usual = attributes[name]
            changed = [*usual[:-1], number] if isinstance(usual, list) else number
            found.append(fault(kind, inputs, VALUES, **attributes | {name: changed}))
            if isinstance(usual, list):
                found.append(fault(kind, inputs, VALUES, **attributes | {name: [*usual, number]}))
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    mt.set_num_threads(1)
    ends = faults()
    sys.stdout.write("\n".join([*(each[:300].replace("\n", " ") for each in ends if each), f"{len(ends)} models\n"]))
