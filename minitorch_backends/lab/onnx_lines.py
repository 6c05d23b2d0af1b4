"""Policies as settings of the programs that run ONNX files on GPUs: ONNX Runtime, TensorRT, a conversion to float16."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .policy import Policy

_TYPES = {"fp16": "fp16", "bf16": "bf16"}
"""Precisions that TensorRT gives to a layer; all others stay fp32."""


def lines_of(policy: Policy, names: Iterable[str]) -> Iterator[str]:
    """The lines for the nodes of a file by name; comments state what a program cannot do."""
    found = {name: _precision(policy, name) for name in names}
    used = set(found.values())
    if unknown := sorted(used - {"ieee", "tf32", *_TYPES}):
        yield f"# {', '.join(unknown)}: only in a quantised file, with QuantizeLinear and DequantizeLinear"
    tf32 = "tf32" in used
    if {"ieee", "tf32"} <= used:
        spared = [name for name, precision in found.items() if precision == "ieee"]
        yield "# TF32 is one switch for a session or an engine, so that these nodes cannot be spared from it alone:"
        yield f"#     {', '.join(spared)}"
        yield "# without TF32 the file obeys the policy, and is slower"
        tf32 = False
    yield ""
    yield "# ONNX Runtime"
    yield f'providers = [("CUDAExecutionProvider", {{"use_tf32": "{int(tf32)}"}})]'
    if "fp16" in used:
        yield "from onnxconverter_common.float16 import convert_float_to_float16"
        kept = [name for name, precision in found.items() if precision != "fp16"]
        yield f"model = convert_float_to_float16(model, node_block_list={kept!r})"
    if "bf16" in used:
        yield "# bfloat16 is a type of the file there: convert it with Cast nodes around the others"
    yield ""
    yield "# TensorRT"
    switches = ["" if tf32 else " --noTF32", *(f" --{_TYPES[each]}" for each in sorted(used & _TYPES.keys()))]
    layers = ",".join(f"'{name}':{_TYPES.get(each, 'fp32')}" for name, each in found.items())
    constraints = f' --precisionConstraints=obey --layerPrecisions="{layers}"' if used & _TYPES.keys() else ""
    yield f"trtexec --onnx=FILE{''.join(switches)}{constraints}"


def _precision(policy: Policy, name: str) -> str:
    rule = policy.rule_of(name)
    return str(rule.forward.get("fp32_precision", "ieee")) if rule is not None else "ieee"
