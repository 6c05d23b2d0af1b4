"""Policies: flags for parts of a model, for the forward pass and for each product of the gradients."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from glob import escape
from typing import Any, NamedTuple

from .. import backends
from ..autograd.extras.module_scope import ModuleScopes, is_inside_module, named_parts
from ..explain.product_counts import ProductCounts, sums_by_flag
from ..explain.sensitivity import PRECISION_FLAGS
from ..flags.rows import NO_OPINION
from ..flags.scopes import Scope
from ..flags.state import UNSET
from ..flags.writes import Flags
from ..kernels.precisions import BLOCKS
from ..kernels.precisions.products import find_precision
from ..kernels.registry import Call, start_observing, stop_observing
from ..kernels.runtime.context import warn_caller
from ..kernels.runtime.files import one_sentence
from ..nn.utils import matching_names
from ..nn.utils.scopes import check_visible

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


PRODUCTS = ("forward", "input gradient", "weight gradient")
"""The three products of a layer: its result, the gradients of its inputs, and those of its parameters."""


class Rule(NamedTuple):
    """The flags of the modules that match one glob.

    Attributes:
        forward: flags of the forward pass; {} for the current flags.
        input_gradient: precision of the gradients of inputs; None for the current flags of `backward()`.
        weight_gradient: precision of the gradients of parameters; None likewise.
    """

    forward: dict[str, Any] = {}  # noqa: RUF012  (a NamedTuple's default, which nothing writes to)
    input_gradient: str | None = None
    weight_gradient: str | None = None

    def scope(self) -> Scope:
        """The scope of the module's forward. A rule that names a precision unsets the other precision flags."""
        gradients = {
            f"{name}_precision": value
            for name, value in (("input_gradient", self.input_gradient), ("weight_gradient", self.weight_gradient))
            if value is not None
        }
        stored = backends.flags(**self.forward, **gradients).stored
        unset = dict.fromkeys(PRECISION_FLAGS, UNSET) if PRECISION_FLAGS & stored.keys() else {}
        return Flags({**unset, **stored})

    def cells(self) -> tuple[str, str, str]:
        """The flags of the forward pass, and the precisions of the two gradients; "" for those in force."""
        forward = ", ".join(f"{name}={value!r}" for name, value in self.forward.items()) or "flags in force"
        return forward, self.input_gradient or "", self.weight_gradient or ""

    def __str__(self) -> str:
        forward, *gradients = self.cells()
        named = zip(PRODUCTS[1:], gradients, strict=True)
        return "; ".join([forward, *(f"{product} {value}" for product, value in named if value)])


class Policy(Scope):
    """Rules by globs of module names. If several match a module, the last one applies.

    `Policy({"*": "bf16", "head": "ieee"})`. A rule is the name of a precision, which applies to all three products; a
    dict of flags for the forward pass; or a `Rule`. Names match as in `nn.utils.run_under`: "*" matches dots too, and
    "" is the model itself. A module without a rule uses the flags of the module that calls it.

    `nn.utils.run_under(model, policy)` applies the policy permanently. `with policy:` applies it to the models called
    in the block, with names relative to the outermost module. Torch's wrappers (`torch.compile`, data parallelism) add
    nothing to names. Gradients use the precision of the rule that applied during the forward pass, wherever
    `backward()` is called.

    Scripted, traced and exported models have the names of the modules from which they were made. Both raise ValueError
    for globs that match no module (the block, at its end), and for programs of torch that do not say what they were
    made of. The block warns if it called no module, and if no product obeyed its precisions (models in half types).
    """

    __slots__ = ("rules",)

    def __init__(self, rules: Mapping[str, str | Mapping[str, Any] | Rule] | Iterable[tuple[str, Any]] = ()) -> None:
        self.rules: dict[str, Rule] = {glob: _rule(given) for glob, given in dict(rules).items()}
        for rule in self.rules.values():
            rule.scope()  # raises for unknown flags and values

    def rule_of(self, name: str) -> Rule | None:
        """The rule of a module by its dotted name, or None."""
        return next((rule for glob, rule in reversed(self.rules.items()) if fnmatchcase(name, glob)), None)

    @property
    def is_uniform(self) -> bool:
        """Whether one rule applies to all modules."""
        return self.rules.keys() <= {"*"}

    def by_module(self, names: Iterable[str]) -> dict[str, Scope]:
        """The scope of each module that has a rule. Raises ValueError for a glob that matches no name."""
        known = list(names)
        for glob in self.rules:
            matching_names("Policy", known, glob)
        rules = {name: self.rule_of(name) for name in known}
        return {name: rule.scope() for name, rule in rules.items() if rule is not None}

    def __enter__(self) -> Policy:
        binding = _Binding(self)
        scopes: dict[str, Scope | None] = {}

        def scope_of(name: str) -> Scope | None:
            if name not in scopes:
                rule = self.rule_of(name)
                scopes[name] = None if rule is None else rule.scope()
            return scopes[name]

        ModuleScopes.enter(self, scope_of, binding.note)
        if binding.is_idle:
            start_observing(binding)
        return self

    def __exit__(self, kind: Any = None, *exception: object) -> None:
        level = ModuleScopes.leave(self)
        if level is not None:
            binding: _Binding = level.note.__self__  # type: ignore[attr-defined]
            stop_observing(binding)
            if kind is None:
                binding.check()

    def to_json(self) -> str:
        """The rules as a JSON object, in their order."""
        return json.dumps({glob: rule._asdict() for glob, rule in self.rules.items()}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Policy:
        """Read the output of `to_json`. Raises ValueError for other text."""
        with one_sentence("Policy.from_json(): text", "JSON from to_json()"):
            return cls({glob: Rule(**rule) for glob, rule in json.loads(text).items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and list(self.rules.items()) == list(other.rules.items())

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"<Policy of {len(self.rules)} rules>"

    def __str__(self) -> str:
        width = max(map(len, self.rules), default=0)
        return "\n".join(f"{glob:{width}}  {rule}" for glob, rule in self.rules.items())

    def _repr_html_(self) -> str:
        from ..display.html import Rows, as_html

        cells = ((glob, *rule.cells()) for glob, rule in self.rules.items())
        return as_html(Rows([("modules", *PRODUCTS), *cells], names=4))

    def torch(self) -> str:
        """Python code that sets the same for a torch model on a GPU. Modules of rules that torch's flags cannot express
        run at ieee, and comments say so."""
        return "\n".join(torch_lines(self))

    def onnx(self, names: Iterable[str]) -> str:
        """How ONNX Runtime, TensorRT and a conversion to float16 run an ONNX file at these precisions, as far as they
        can: lines of Python and of a shell. `names` are those of its nodes, of `model.named_modules()`."""
        return "\n".join(onnx_lines(self, names))

    def filter(self, level: str) -> Callable[[Any, str], bool]:
        """The layers at a format, a recipe or a precision, as a function of a module and its name: torchao's
        `quantize_(model, config, policy.filter("mxfp4"))`, and the choice of modules that TransformerEngine replaces.
        """
        return filter_of(self, level)

    def nodes_to_exclude(self, names: Iterable[str]) -> list[str]:
        """The names whose products keep a float type: `nodes_to_exclude` of ONNX Runtime's and ModelOpt's
        quantization of an ONNX file. `names` are those of its nodes. Raises ValueError for a glob that matches none.
        """
        return excluded_names(self, names)

    def llama_cpp(self, names: Iterable[str]) -> list[str]:
        """Options of `llama-quantize` that give tensors of these names (`blk.0.attn_q.weight`) the policy's types.

        Raises ValueError for a format that llama.cpp lacks, and for a glob that matches no name.
        """
        return llama_cpp_options(self, names)


class _Binding:
    """The globs of a policy that no module called in its block has matched so far, and whether it changed a product."""

    def __init__(self, policy: Policy) -> None:
        self.left, self.names = set(policy.rules), list[str]()
        self.is_uniform, self.is_bound = policy.is_uniform, is_inside_module()
        self._roots, self._counts = list[Any](), ProductCounts()
        rules = [item for rule in policy.rules.values() for item in rule.forward.items() if item[0] in PRECISION_FLAGS]
        chosen = [path for path, value in rules if value not in ("ieee", NO_OPINION, None)]
        self.is_idle = bool(chosen)
        self._lowers = all(path.endswith("fp32_precision") for path in chosen)  # others may choose ieee

    def __call__(self, call: Call) -> None:
        """Note a kernel call, until one is changed by the flags: observers make kernels slower."""
        self._counts(call)
        lowered = self._counts.lowered or self._counts.by_role or sums_by_flag(call)
        if lowered if self._lowers else self._counts.obeyed:
            self.is_idle = False
            stop_observing(self)

    def note(self, module: Any) -> None:
        """Check off the globs that match parts of a module that no other module calls."""
        self.is_bound = True
        if self.is_uniform or any(each is module for each in self._roots):
            return
        self._roots.append(module)
        check_visible("Policy", module)
        self.names = [*dict(named_parts(module))]
        self.left = {each for each in self.left if not any(fnmatchcase(name, each) for name in self.names)}

    def check(self) -> None:
        for glob in sorted(self.left) if self.names else ():
            matching_names("Policy", self.names, glob)
        if not self.is_bound:
            warn_caller("Policy: the block called no module; models of torch run inside interop.torch.emulate()")
        elif self.is_idle:
            none = f"its globs match no module whose products they lower ({self._counts})"
            warn_caller(f"Policy: its precisions changed nothing: {none if self._counts.obeyed else self._counts}")


def with_few_globs(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """The rules of layers by name as few rules by glob, which say the same of these layers.

    The commonest rule has the glob "*". Each other one is covered greedily: by the glob that matches most of its layers
    and none of another rule.
    """
    if not rules:
        return {}
    groups: dict[str, list[str]] = {}
    for name, rule in rules.items():
        groups.setdefault(str(rule), []).append(name)
    common = max(groups, key=lambda text: len(groups[text]))
    found = {"*": rules[groups.pop(common)[0]]}
    for group in groups.values():
        own = set(group)
        matches = {
            each: own.intersection(hit)
            for each in dict.fromkeys(each for name in group for each in _globs(name))
            if own.issuperset(hit := [name for name in rules if fnmatchcase(name, each)])
        }
        left = set(own)
        while left:
            best = max(matches, key=lambda each: (len(matches[each] & left), -len(each), each))
            found[best] = rules[group[0]]
            left -= matches[best]
    return found


def _globs(name: str) -> list[str]:
    """Globs that match a name, itself first: with "*" for its numbers, its beginning, its end or both."""
    parts = name.split(".")
    exact = [escape(part) for part in parts]
    numbers = [place for place, part in enumerate(parts) if part.isdigit()]
    several = (each for count in range(min(len(numbers), 3) + 1) for each in itertools.combinations(numbers, count))
    spread = [["*" if at in stars else part for at, part in enumerate(exact)] for stars in several]
    starts = [[*each[:length], "*"] for each in spread for length in range(1, len(parts))]
    ends = [["*", *exact[length:]] for length in range(1, len(parts))]
    return [".".join(each) for each in (*spread, *starts, *ends)]


def _rule(given: Any) -> Rule:
    if isinstance(given, Rule):
        return given
    if isinstance(given, str):
        precision = find_precision(given).name
        return Rule({"fp32_precision": precision}, precision, precision)
    if isinstance(given, Mapping):
        return Rule(dict(given))
    raise TypeError(f"Policy: a rule must be a precision, a dict of flags or a Rule, got {type(given).__name__}")
