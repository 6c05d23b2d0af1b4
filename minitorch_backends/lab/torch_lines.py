"""Policies as lines of Python for torch's models on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

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

for name, module in model.named_modules():
    for glob, precision in reversed(rules):
        if fnmatchcase(name, glob):
            run_at(module, precision)
            break"""


def lines_of(policy: Policy) -> Iterator[str]:
    """The lines of a policy, for a variable `model`; comments state what torch cannot do."""
    yield "import torch"
    forward = {glob: rule.forward.get("fp32_precision") for glob, rule in policy.rules.items()}
    for glob, rule in policy.rules.items():
        yield from (f"# {glob!r}: {remark}" for remark in _remarks(rule))
    possible = {glob: precision for glob, precision in forward.items() if precision in _SELECTED}
    if list(possible) == ["*"] and len(policy.rules) == 1:
        yield from (f'{flag}.fp32_precision = "{possible["*"]}"' for flag in _FLAGS)
    elif possible:
        yield from (
            "from fnmatch import fnmatchcase",
            "rules = [",
            *(f"    {each!r}," for each in possible.items()),
            "]",
        )
        yield _BY_MODULE.format(flags=", ".join(_FLAGS))
    yield from _gradients(policy, len(possible) == 1 and "*" in possible and len(policy.rules) == 1)


def _remarks(rule: Rule) -> Iterator[str]:
    """Parts of a rule that torch's flags cannot express."""
    precision = rule.forward.get("fp32_precision")
    if precision in ("bf16", "fp16"):
        dtype = {"bf16": "bfloat16", "fp16": "float16"}[precision]
        autocast = f'torch.autocast("cuda", torch.{dtype})'
        yield f"no GPU flag rounds float32 operands to {precision}; {autocast} does,"
        yield "and rounds results as well; disable it around modules of other rules"
    elif precision is not None and precision not in _SELECTED:
        yield f"torch has no {precision} for float32 products"
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
            yield "# before loss.backward():"
            yield from (f'{flag}.fp32_precision = "{precision}"' for flag in _FLAGS)
    else:
        yield (
            "# torch computes all gradients under the current flags of backward(), so these cannot differ by "
            "module or product"
        )
