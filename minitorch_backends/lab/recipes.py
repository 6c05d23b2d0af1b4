"""Policies as lines for other runtimes: Python for torch on a GPU, and what ONNX Runtime and TensorRT take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..kernels.precisions import BLOCKS

if TYPE_CHECKING:
    from .policy import Policy, Rule

_FLAGS = ("torch.backends.cuda.matmul", "torch.backends.cudnn.conv", "torch.backends.cudnn.rnn")
_SELECTED = ("ieee", "tf32")
"""Precisions of float32 products that torch's flags select on a GPU."""

_BY_MODULE = """\
def run_at(module, precision):
    flags, before = [{flags}], []
    def enter(*_):
        before.append([flag.fp32_precision for flag in flags])
        for flag in flags:
            flag.fp32_precision = precision
    def leave(*_):
        for flag, value in zip(flags, before.pop()):
            flag.fp32_precision = value
    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave, always_call=True)

names = [name for name, _ in model.named_modules()]
for glob, _ in rules:
    assert any(fnmatchcase(name, glob) for name in names), f"no module has a name like {{glob!r}}"
for name, module in model.named_modules():
    for glob, precision in reversed(rules):
        if fnmatchcase(name, glob):
            if precision is not None:
                run_at(module, precision)
            break"""


def torch_lines(policy: Policy) -> Iterator[str]:
    """The lines of a policy, for a variable `model`; comments state what torch cannot do."""
    yield "import torch"
    for glob, rule in policy.rules.items():
        yield from (f"# {glob!r}: {remark}" for remark in _remarks(rule))
    rules = {glob: _torch_precision(rule) for glob, rule in policy.rules.items()}
    if policy.is_uniform:
        yield from (f'{flag}.fp32_precision = "{each}"' for each in rules.values() if each for flag in _FLAGS)
    elif any(rules.values()):
        yield from ("from fnmatch import fnmatchcase", "rules = [", *(f"    {each!r}," for each in rules.items()), "]")
        yield _BY_MODULE.format(flags=", ".join(_FLAGS))
    yield from _gradients(policy, policy.is_uniform)


def _torch_precision(rule: Rule) -> str | None:
    """The precision that torch's flags can select for a rule: its own, or ieee in place of a lower one, so that no
    module runs at that of its caller by mistake; None if the rule names none."""
    precision = rule.forward.get("fp32_precision")
    return precision if precision in (None, *_SELECTED) else "ieee"


def _remarks(rule: Rule) -> Iterator[str]:
    """Parts of a rule that torch's flags cannot express."""
    precision = rule.forward.get("fp32_precision")
    if precision in ("bf16", "fp16"):
        dtype = {"bf16": "bfloat16", "fp16": "float16"}[precision]
        autocast = f'torch.autocast("cuda", torch.{dtype})'
        yield f"no GPU flag rounds float32 operands to {precision}; {autocast} does,"
        yield "and rounds results as well; disable it around modules of other rules; without it they run at ieee"
    elif precision is not None and precision not in _SELECTED:
        yield f"torch has no {precision} for float32 products; they run at ieee"
    others = [f"{name}={value!r}" for name, value in rule.forward.items() if name != "fp32_precision"]
    if others:
        yield f"set by hand if torch has the same flag: {', '.join(others)}"


def _gradients(policy: Policy, is_global: bool) -> Iterator[str]:
    """torch computes all gradients under the current flags of `backward()`: one precision for all."""
    pairs = {(rule.input_gradient, rule.weight_gradient) for rule in policy.rules.values()}
    wanted = {precision for pair in pairs for precision in pair}
    if wanted == {None}:
        return
    if len(wanted) == 1 and wanted <= set(_SELECTED):
        (precision,) = wanted
        forward = {rule.forward.get("fp32_precision") for rule in policy.rules.values()}
        if not (is_global and forward == wanted):
            yield "# before loss.backward(), and until it returns:"
            yield from (f'# {flag}.fp32_precision = "{precision}"' for flag in _FLAGS)
    else:
        yield (
            "# torch computes all gradients under the current flags of backward(), so these cannot differ by "
            "module or product"
        )


_TYPES = {"fp16": ("fp16", "--fp16"), "bf16": ("bf16", "--bf16"), "e4m3": ("fp8", "--fp8"), "e5m2": ("fp8", "--fp8")}
"""TensorRT's types of layers by precision, and the options of trtexec that allow them."""


def onnx_lines(policy: Policy, names: Iterable[str]) -> Iterator[str]:
    """The lines of a policy for an ONNX file with nodes of these names. Raises ValueError for a glob that matches no
    node."""
    nodes = [name for name in names if name]
    policy.by_module(nodes if policy.is_uniform else ["", *nodes])
    rules = ((name, policy.rule_of(name)) for name in nodes)
    levels = {name: str(rule.forward.get("fp32_precision", "ieee")) if rule else "ieee" for name, rule in rules}
    found = set(levels.values())
    for each in sorted(found - {"ieee", "tf32", *_TYPES}):
        yield f"# neither ONNX Runtime nor TensorRT has {each}; these nodes run at float32"
    spared = [name for name, level in levels.items() if level == "ieee"]
    if "tf32" in found and spared:
        yield "# TF32 is one option for all nodes, so that it stays off for the sake of these, and the file is slower:"
        yield f"#     {', '.join(spared)}"
    tf32 = "tf32" in found and not spared
    yield "# ONNX Runtime on a GPU"
    yield f'providers = [("CUDAExecutionProvider", {{"use_tf32": {int(tf32)}}})]'
    if "fp16" in found:
        kept = [name for name, level in levels.items() if level != "fp16"]
        yield "# conversion to float16, by onnxconverter-common"
        yield "from onnxconverter_common import float16"
        yield f"model = float16.convert_float_to_float16(model, keep_io_types=True, node_block_list={kept!r})"
    yield "# TensorRT"
    types = {name: _TYPES.get(level, ("fp32", ""))[0] for name, level in levels.items()}
    options = sorted({option for level in found for _, option in [_TYPES.get(level, ("", ""))] if option})
    options += [] if tf32 else ["--noTF32"]
    layers = ",".join(f"{name}:{each}" for name, each in types.items())
    yield f"# trtexec --onnx=model.onnx {' '.join(options)} --precisionConstraints=obey --layerPrecisions={layers}"


# Formats by layer, as tools of quantization take them


_LEVELS = ("operands.weight", "operands.recipe", "fp32_precision")
"""The flags that name how a layer multiplies; the first that is set counts."""

_EXACT = ("none", "ieee", "bf16", "fp16", "tf32")
"""Values of these flags at which a tool of quantization leaves a layer as it is."""


def level_of(policy: Policy, name: str) -> str:
    """How a layer multiplies: a format, a recipe or a precision; "none" where no rule says so."""
    rule = policy.rule_of(name)
    values = (str(rule.forward[path]) for path in _LEVELS if path in rule.forward) if rule is not None else ()
    return next(iter(values), "none")


def filter_of(policy: Policy, level: str) -> Callable[[Any, str], bool]:
    """Result of `Policy.filter`."""
    return lambda module, name: level_of(policy, name) == level and getattr(module, "weight", None) is not None


def excluded_names(policy: Policy, names: Iterable[str]) -> list[str]:
    """Result of `Policy.nodes_to_exclude`."""
    nodes = [name for name in names if name]
    policy.by_module(nodes if policy.is_uniform else ["", *nodes])
    return [name for name in nodes if level_of(policy, name) in _EXACT]


_GGML = {"e4m3": "q8_0", "int8-row": "q8_0", "mxfp4": "mxfp4", "int4-32": "q4_1", "int4-symmetric-32": "q4_0"}
"""The types of ggml for formats under other names."""


def llama_cpp_options(policy: Policy, names: Iterable[str]) -> list[str]:
    """Result of `Policy.llama_cpp`."""
    nodes = [name for name in names if name]
    policy.by_module(nodes if policy.is_uniform else ["", *nodes])
    found = []
    for name in nodes:
        level = level_of(policy, name)
        kind = "f32" if level in ("ieee", "none") else level if level in ("bf16", "fp16") else _GGML.get(level, level)
        if kind not in (*BLOCKS, "f32", "bf16", "fp16", "mxfp4"):
            raise ValueError(f"Policy.llama_cpp(): llama.cpp has no {level!r}, of {name!r}; audit {', '.join(BLOCKS)}")
        found.append(f"--tensor-type {re.escape(name)}={'f16' if kind == 'fp16' else kind}")
    return found
