"""Policies: flags for parts of a model, for the forward pass and for each product of the gradients."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from glob import escape
from typing import Any, NamedTuple

from .. import backends
from ..autograd.extras.module_scope import ModuleScopes, is_inside_module, named_parts
from ..explain.product_counts import ProductCounts
from ..explain.sensitivity import PRECISION_FLAGS
from ..flags.rows import NO_OPINION
from ..flags.scopes import Scope
from ..flags.state import UNSET
from ..flags.writes import Flags
from ..kernels.precisions.products import find_precision
from ..kernels.registry import Call, start_observing, stop_observing
from ..kernels.runtime.context import warn_caller
from ..kernels.runtime.files import one_sentence
from ..nn.utils import matching_names
from ..nn.utils.scopes import check_visible

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
        from .recipes import torch_lines

        return "\n".join(torch_lines(self))

    def onnx(self, names: Iterable[str]) -> str:
        """How ONNX Runtime, TensorRT and a conversion to float16 run an ONNX file at these precisions, as far as they
        can: lines of Python and of a shell. `names` are those of its nodes, of `model.named_modules()`."""
        from .recipes import onnx_lines

        return "\n".join(onnx_lines(self, names))

    def filter(self, level: str) -> Callable[[Any, str], bool]:
        """The layers at a format, a recipe or a precision, as a function of a module and its name: torchao's
        `quantize_(model, config, policy.filter("mxfp4"))`, and the choice of modules that TransformerEngine replaces.
        """
        from .recipes import filter_of

        return filter_of(self, level)

    def nodes_to_exclude(self, names: Iterable[str]) -> list[str]:
        """The names whose products keep a float type: `nodes_to_exclude` of ONNX Runtime's and ModelOpt's
        quantization of an ONNX file. `names` are those of its nodes. Raises ValueError for a glob that matches none.
        """
        from .recipes import excluded_names

        return excluded_names(self, names)

    def llama_cpp(self, names: Iterable[str]) -> list[str]:
        """Options of `llama-quantize` that give tensors of these names (`blk.0.attn_q.weight`) the policy's types.

        Raises ValueError for a format that llama.cpp lacks, and for a glob that matches no name.
        """
        from .recipes import llama_cpp_options

        return llama_cpp_options(self, names)


class _Binding:
    """The globs of a policy that no module called in its block has matched so far, and whether a product obeyed it."""

    def __init__(self, policy: Policy) -> None:
        self.left, self.names = set(policy.rules), list[str]()
        self.is_uniform, self.is_bound = policy.is_uniform, is_inside_module()
        self._roots: list[Any] = []
        self._counts = ProductCounts()
        self.is_idle = any(
            value not in ("ieee", NO_OPINION, None)
            for rule in policy.rules.values()
            for path, value in rule.forward.items()
            if path in PRECISION_FLAGS
        )

    def __call__(self, call: Call) -> None:
        """Note a kernel call, until one obeys the flags: observers make kernels slower."""
        self._counts(call)
        if self._counts.obeyed:
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
        if not self.is_bound:
            message = "Policy: the block called no module; models of torch run inside interop.torch.emulate()"
            warn_caller(message)
        elif self.is_idle:
            warn_caller(f"Policy: its precisions changed nothing: {self._counts}")
        for glob in sorted(self.left) if self.names else ():
            matching_names("Policy", self.names, glob)


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
