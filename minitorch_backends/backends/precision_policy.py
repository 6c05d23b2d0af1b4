"""Resolution of precision: `resolve` finds the precision of a product, the flag that determines it, and the kernel's
keywords.

Every family of flags has its own tree. A flag is a permission: a product runs at the fastest precision that any family
has been explicitly set to allow, and at ieee if none has. An unset default permits nothing, unless `backends.emulate`
names its family. The result is a pure function of the flags' values, independent of the order of assignments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..flags import NO_OPINION, State, current, per_state, rows
from ..kernels.gemm.device import Unit
from ..kernels.partial_sums import PartialSums
from ..kernels.precisions import Format
from ..kernels.precisions.float8 import FORMATS, PACKED, is_float8
from ..kernels.precisions.products import EMULATIONS, OF_HALF, PRECISIONS, acting_rounding, find_precision, is_scaled
from .invariance import partial_of
from .operands import DTYPES, LAYER_ROLES, Roles, by_formats, formats_of
from .profiles import PROFILES, STACKS, Stack
from .table import OPERAND_PATHS, XLA_PRECISIONS

FAMILIES: dict[str, dict[str, str]] = {
    "cuda": {
        "matmul": "cuda.matmul.fp32_precision",
        "conv": "cudnn.conv.fp32_precision",
        "rnn": "cudnn.rnn.fp32_precision",
    },
    "mkldnn": {kind: f"mkldnn.{kind}.fp32_precision" for kind in ("matmul", "conv", "rnn")},
    "xla": dict.fromkeys(("matmul", "conv", "rnn"), "xla.mat_mul_precision"),
}
"""For each family and kind of product, the flag that governs it."""

KINDS = tuple(dict.fromkeys(kind for family in FAMILIES.values() for kind in family))
"""The kinds of products whose precision flags govern."""


class _Product(NamedTuple):
    """How flags apply to a kind of product.

    Attributes:
        governed_by: the kind whose precision flags apply.
        dtypes: dtypes whose values are rounded.
        asks_blas: whether `cuda.blas_library` may send the product to BLAS first.
        rounds_sums: whether flags may round sums of half types along the way.
        in_parts: whether flags may split K into parts.
        emulated: whether flags may have float64 made of integers.
    """

    governed_by: str
    dtypes: tuple[np.dtype, ...] = (np.dtype(np.float32), np.dtype(np.complex64))
    asks_blas: bool = False
    rounds_sums: bool = False
    in_parts: bool = False
    emulated: bool = False


_REAL = (np.dtype(np.float32),)

_PRODUCTS = {
    "matmul": _Product("matmul", asks_blas=True, rounds_sums=True, in_parts=True, emulated=True),
    "vector": _Product("matmul", asks_blas=True, rounds_sums=True, in_parts=True, emulated=True),
    "conv": _Product("conv"),
    "rnn": _Product("rnn", asks_blas=True, rounds_sums=True, in_parts=True),
    "recurrence": _Product("rnn", asks_blas=True),
    "attention": _Product("matmul", _REAL),
    "linalg": _Product("matmul", _REAL, emulated=True),
}
"""The kinds of products: matrix products, those with a vector, convolutions, products in recurrences and whole
recurrences, attention, and products inside linear algebra."""

in_backward: Callable[[], bool] = lambda: False  # noqa: E731  (autograd puts its own function here)
"""Whether this thread or task is inside a backward pass."""


class Choice(NamedTuple):
    """A precision, and the flag, argument or rule that determined it."""

    precision: str
    decided_by: str


class Call(NamedTuple):
    """How a kernel is called under the flags.

    Attributes:
        choice: the precision and its origin.
        keywords: the kernel's keywords; empty at ieee. `sums` replaces the precision for half products with rounded
            sums. `unit` accompanies it for the matrix unit of a device. `operands` are the formats of a product by
            roles, which ops apply to the operands (`ops.matmul.by_role`).
        decided_by: the origins of all keywords.
    """

    choice: Choice
    keywords: Mapping[str, Any]
    decided_by: str


EXACT = Choice("ieee", "fp32_precision flags affect float32 and complex64 products only")


NO_EFFECT, IDLE = "changes no product of", "nothing in a product"
"""The words for a flag, and for formats, that are set in vain."""


def _without_effect(choice: Choice, dtype: np.dtype) -> Choice:
    """The choice for a dtype that precision flags do not affect, with a sentence where one is set in vain."""
    if choice.precision == "ieee" or dtype.name not in DTYPES:
        return EXACT
    sentence = f"{choice.decided_by} {NO_EFFECT} {dtype.name}, only of float32; see backends.operands"
    return Choice("ieee", sentence)


def resolve(
    kind: str, dtype: np.dtype, precision: str | tuple[str, str] | GradientPrecisions | Roles | None = None
) -> Call:
    """Resolve how a product of a kind (a key of `_PRODUCTS`) on arrays of a dtype runs under the current flags.

    `precision` is that of the call (a pair for formats of its operands), the one that a node recorded for its
    gradients, the roles of its operands, or None for that of the flags. A precision recorded by `backward_precision`
    applies only while that flag is still "recorded". If the precisions for gradients of inputs and parameters differ
    but one call computes both, that of the inputs applies.

    All kernel calls and `explain` use this function. Raises ValueError for an unknown kind or precision.
    """
    if by_formats(precision):
        operands = formats_of(precision, dtype.name)  # type: ignore[arg-type]
        call = without_roles(kind, dtype, precision.otherwise if type(precision) is Roles else None)
        if operands is None:
            return _note_idle(call, dtype.name, precision) if by_role and type(precision) is Roles else call
        names = Choice(" x ".join(name or call.choice.precision for name in operands[:2]), operands.decided_by)
        if not operands.is_pair and dtype in _REAL:  # the other operand obeys flags of the product
            names = names._replace(decided_by=f"{operands.decided_by}; {call.decided_by}")
        return Call(names, {"operands": operands}, operands.decided_by)
    call = without_roles(kind, dtype, precision)
    return _note_idle(call, dtype.name, None) if by_role and precision is None and kind == "matmul" else call


def without_roles(kind: str, dtype: np.dtype, precision: Any) -> Call:
    """`resolve` without formats of operands, and without a remark on those that change nothing."""
    if type(precision) is GradientPrecisions:
        precision = precision.input
    if type(precision) is not Recorded:
        return _resolve(kind, dtype, precision, in_backward())
    if not precision.holds_always and current().read("backward_precision") != "recorded":
        return _resolve(kind, dtype, None, in_backward())
    call = _resolve(kind, dtype, None if dtype in _DOUBLE else str(precision), False)
    return call if dtype not in _product(kind).dtypes and not precision.by_role else _of_forward(call, precision)


def _note_idle(call: Call, dtype: str, roles: Roles | None) -> Call:
    """The call, with a remark where formats of layers' operands are set and change nothing in this product."""
    note = _idle_formats(dtype, roles and roles[:2])
    if not note:
        return call
    return call._replace(
        choice=call.choice._replace(decided_by=call.choice.decided_by + note), decided_by=call.decided_by + note
    )


@per_state()
def _idle_formats(state: State, dtype: str, roles: tuple[str, str] | None) -> str:
    named = {path: state.resolve(path) for path in OPERAND_PATHS if path.rpartition(".")[2] in LAYER_ROLES}
    own = {path: value for path, (value, decided_by) in named.items() if decided_by == path}
    found = [f"{path} = {value!r}" for path, value in own.items() if value not in (NO_OPINION, "ieee")]
    if not found:
        return ""
    product = f"of {roles[0]} and {roles[1]}" if roles else "without a parameter"
    if dtype not in DTYPES:
        product = f"of {dtype}"
    return f"; {', '.join(found)} change{'s' * (len(found) == 1)} {IDLE} {product}"


def _of_forward(call: Call, recorded: Recorded) -> Call:
    """The call at a recorded precision, with its origin in the forward pass."""
    decided_by = recorded.decided_by
    if not recorded.holds_always:
        decided_by = f"backward_precision = 'recorded': in the forward pass, {decided_by}"
    further = call.decided_by.removeprefix(call.choice.decided_by)
    return Call(Choice(call.choice.precision, decided_by), call.keywords, decided_by + further)


@per_state()
def _resolve(state: State, kind: str, dtype: np.dtype, precision: str | None, backward: bool) -> Call:
    product = _product(kind)
    if product.emulated and dtype in _DOUBLE and (emulated := _emulation(state, precision)) is not None:
        return emulated if (partial := partial_of()) is None or not product.in_parts else _in_parts(emulated, partial)
    emulation = precision in EMULATIONS
    choice = _choose(product.governed_by, None if emulation else precision, backward)
    stack = STACKS.get(state.read("emulate"))
    if kind == "vector" and precision is None and stack is not None and stack.exact_vectors:
        choice = Choice("ieee", f"emulate = {stack.name!r}: {stack.exact_vectors}")
    sums, (profile, set_by) = _half_sums(state, dtype.name) if product.rounds_sums else None, _profile(state)
    partial = partial_of() if product.in_parts and (dtype.kind in "fc" or dtype.name in OF_HALF) else None
    if sums is not None and profile is None and partial is None:
        return Call(sums, {"sums": sums.precision}, sums.decided_by + _of_invariance(state))
    choice = choice if dtype in product.dtypes else _without_effect(choice, dtype)
    if choice.precision == "ieee" and (idle := _idle_settings(state, kind, precision if emulation else None)):
        choice = Choice("ieee", f"{idle} {NO_EFFECT} {dtype.name} in {kind}")
    keywords: dict[str, Any] = {}
    decided_by = choice.decided_by
    if choice.precision != "ieee":
        keywords["precision"] = choice.precision
    rounding = acting_rounding(choice.precision, _rounding(state, choice.precision, profile))
    if rounding is not None:
        keywords["rounding"] = rounding
    if product.asks_blas and state.read("cuda.blas_library") == "cublaslt":
        keywords["prefer"], decided_by = "blas", decided_by + "; cuda.blas_library = 'cublaslt'"
    decided_by += _of_invariance(state)
    unit = _unit(profile, dtype, choice.precision, set_by.startswith("profile"), kind)
    if unit is not None:
        over = "" if sums is None else f", which overrides {sums.decided_by}"
        keywords["unit"], decided_by = unit, f"{decided_by}; {set_by}{over}"
    if partial is not None:
        over = "" if sums is None else f", which overrides {sums.decided_by}"
        return _in_parts(Call(choice, keywords, decided_by), partial, over)
    return Call(choice, keywords, decided_by)


def _idle_settings(state: State, kind: str, precision: str | None) -> str:
    """Settings of a call or of flags that act on other kinds or dtypes of products alone, where `_resolve` asks."""
    found = [f"precision={precision!r} of the call"] if precision is not None else []
    if not found and (name := state.read("fp64_precision")) != "ieee":
        found.append(f"fp64_precision = {name!r}")
    if not _product(kind).in_parts and (parts := state.read("partial_sums.parts")) > 1:
        found.append(f"partial_sums.parts = {parts}")
    return " and ".join(found)


def _in_parts(call: Call, partial: PartialSums, over: str = "") -> Call:
    keywords = {name: value for name, value in call.keywords.items() if name != "prefer"}
    return Call(call.choice, {**keywords, "partial": partial}, f"{call.decided_by}; partial_sums: {partial!r}{over}")


_DOUBLE = (np.dtype(np.float64), np.dtype(np.complex128))


def _emulation(state: State, precision: str | None) -> Call | None:
    """How float64 products are emulated, by the call or by the flag; None where they are not."""
    if precision in EMULATIONS:
        name, decided_by = precision, f"precision={precision!r} of the call"
    else:
        name, path = state.resolve("fp64_precision")
        decided_by = f"{path} = {name!r}"
        if name == "ieee" or precision == "ieee":
            return None
    keywords = {"precision": name} | ({} if EMULATIONS[name].count else {"bits": state.read("fp64_bits")})
    return Call(Choice(name, decided_by), keywords, decided_by + _of_invariance(state))


def _of_invariance(state: State) -> str:
    invariant = state.read("invariant")
    return "" if invariant == "none" else f"; invariant = {invariant!r}"


def _profile(state: State) -> tuple[str | None, str]:
    """The current profile and the flag that set it: `profile`, or `emulate` with its stack's profile."""
    value, decided_by = state.resolve("profile")
    stack = STACKS.get(state.read("emulate"))
    if decided_by is not None or stack is None:
        return value, f"profile = {value!r}"
    return stack.profile, f"emulate = {stack.name!r}, whose profile is {stack.profile!r}"


def _rounding(state: State, precision: str, profile: str | None) -> str:
    """How operands of a precision are rounded, where several ways exist; TF32 also follows the device's libraries."""
    if is_scaled(precision):
        return state.read("scaled_rounding")
    value, decided_by = state.resolve("tf32_rounding")
    of_device = None if profile is None else PROFILES[profile].tf32_rounding
    return value if decided_by is not None or of_device is None else of_device


def _unit(profile: str | None, dtype: np.dtype, precision: str, required: bool, kind: str) -> Unit | None:
    """The matrix unit of a profile for the operands of a product; None for other dtypes, and for float32 products at
    ieee where it has no fp32, which measured profiles alone have.

    Units apply block scales to matrices only, since the windows of a convolution split blocks. Raises RuntimeError if
    the device has no unit for the operands and one is `required`.
    """
    if profile is None:
        return None
    parts, block = 1, 0
    if is_float8(dtype) or dtype == PACKED:
        name = operand = "e2m1" if dtype == PACKED else FORMATS.get(dtype.name, dtype.name)
    else:
        row = PRECISIONS[OF_HALF.get(dtype.name, precision)]
        if row.is_exact and (row.parts > 1 or dtype != np.float32 or "fp32" not in PROFILES[profile].formats):
            return None
        name, parts, operand = row.name, row.parts, row.operand
        block = 0 if row.scale is None else row.scale.block
    device = PROFILES[profile]
    formats = device.formats
    way = formats[operand][0] if operand in formats else None
    applies = way is not None and (not block or (block in way.scaled_blocks and kind != "conv"))
    if way is None or not applies or (parts > 1 and way.rule is not None):
        if not required:
            return None
        what = "convolutions" if kind == "conv" and block else "products"
        raise RuntimeError(
            f"profile = {profile!r} has no matrix unit for {what} at {name}, whose formats are "
            f"{', '.join(formats) or 'unknown'}; allow another precision, or set backends.profile to None"
        )
    promote, scaled = way.promote_every, way.scaled_blocks
    exact, flushes = device.exact_gemv, device.flushes
    return Unit(profile, operand, way.rule, way.evidence, promote, scaled, exact, flushes, way.depths, way.halve_to)


@per_state()
def unit_of_format(state: State, left: Format, right: Format) -> Unit:
    """The matrix unit that sums products of two formats: that of the current profile, or of their own."""
    profile = _profile(state)[0] or left.sums or right.sums
    found = _unit(profile, np.dtype(np.float32), left.element, True, "matmul")
    assert found is not None, "an internal error: a format of exact products has a unit"
    return found


def _product(kind: str) -> _Product:
    if kind not in _PRODUCTS:
        raise ValueError(f"no precision flag governs {kind!r}; expected one of {', '.join(KINDS)}")
    return _PRODUCTS[kind]


@per_state()
def _choose(state: State, kind: str, precision: str | None, backward: bool) -> Choice:
    """The precision named by a call, otherwise that of the flags."""
    if precision is not None:
        try:
            name = find_precision(precision).name
        except ValueError:
            known = ", ".join(map(repr, PRECISIONS))
            raise ValueError(
                f"precision={precision!r} is unknown; expected None (use the flags) or one of {known}"
            ) from None
        return Choice(name, f"precision={name!r} of the call")
    in_gradients = state.read("backward_precision")
    if backward and in_gradients in PRECISIONS:
        return Choice(in_gradients, f"backward_precision = {in_gradients!r}")
    return _permission(state, kind)


def precision_of(kind: str, roles: Roles | None = None) -> Choice:
    """The precision of a float32 product of a kind under the current flags, and the flag that determined it; the
    formats of its operands where their roles have some. Raises ValueError for an unknown kind."""
    if roles is not None and formats_of(roles, "float32") is not None:
        return resolve(_product(kind).governed_by, np.dtype(np.float32), roles).choice
    return _choose(_product(kind).governed_by, None, in_backward())


_REDUCTIONS = {"float16": "cuda.matmul.fp16_reduction", "bfloat16": "cuda.matmul.bf16_reduction"}


def _half_sums(state: State, dtype: str) -> Choice | None:
    """Where the flags allow sums of half products to be rounded along the way, and which flag; None if nowhere."""
    stack = STACKS.get(state.read("emulate"))
    if dtype not in _REDUCTIONS or (stack is not None and stack.family != "cuda"):
        return None
    if dtype == "float16" and state.read("cuda.matmul.allow_fp16_accumulation"):
        return Choice("half", "cuda.matmul.allow_fp16_accumulation = True")
    value, decided_by = state.resolve(_REDUCTIONS[dtype])
    if value != "reduced" or (decided_by is None and (stack is None or stack.name != "cuda")):
        return None
    return Choice("parts", f"{decided_by} = 'reduced'" if decided_by else "emulate = 'cuda', whose default it is")


# Permissions


def _permission(state: State, kind: str) -> Choice:
    stack = STACKS.get(state.read("emulate"))
    families = [stack.family] if stack else list(FAMILIES)
    opinions, vetoes = [], []
    for family in families:
        flags = FAMILIES[family]
        opinion = _opinion(state, flags[kind], stack)
        if opinion is None:
            continue
        veto = _veto(state, family, opinion.precision)
        if veto is None:
            opinions.append(opinion)
        else:
            vetoes.append(f"{veto} vetoes {opinion.decided_by}; ")
    if not opinions:
        named = f"emulate = {stack.name!r}: " if stack and stack.name != stack.family else ""
        allows = (
            f"{named}no {stack.family + ' ' if stack else ''}{'other ' if vetoes else ''}flag allows less than ieee"
        )
        return Choice("ieee", "".join(vetoes) + allows + _of_worker())
    fastest_first = list(PRECISIONS)
    return min(opinions, key=lambda opinion: fastest_first.index(opinion.precision))


def _of_worker() -> str:
    """A remark that a worker process has flags of its own; empty in other processes."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is None or processes.parent_process() is None:
        return ""
    return (
        " in this worker process; assignments and scopes of its parent do not reach it, but a snapshot() can "
        "be passed on"
    )


def _opinion(state: State, path: str, stack: Stack | None) -> Choice | None:
    """The precision that one family allows, or None if its flags are not set."""
    value, decided_by = state.resolve(path)
    if decided_by is None and stack is not None and state.stored.get(path) != NO_OPINION:
        value = stack.defaults.get(path, value)
    precision = XLA_PRECISIONS.get(value, value)
    if precision == NO_OPINION or (decided_by is None and stack is None):
        return None
    if decided_by is None and stack is not None:
        return Choice(precision, f"emulate = {stack.name!r}, whose default of {path} is {value!r}")
    inherited = "" if decided_by == path else f", inherited by {path}"
    return Choice(precision, f"{decided_by} = {value!r}{inherited}")


def _veto(state: State, family: str, precision: str) -> str | None:
    """The reason why a family's permission is revoked, or None."""
    if precision == "ieee":
        return None
    if family == "cuda" and PRECISIONS[precision].operand == "tf32" and state.read("cuda.tf32_veto"):
        return "cuda.tf32_veto = True"
    if family == "mkldnn" and not state.read("mkldnn.enabled"):
        return "mkldnn.enabled = False"
    return None


# Precisions recorded for gradients

may_record = False
"""Whether a flag was ever set by which nodes record precisions; until then `precision_to_record` is None."""


def _start_recording() -> None:
    global may_record
    may_record = True


by_role = False
"""Whether a format of operands was ever set; until then products do not look for roles."""


def _start_roles() -> None:
    global by_role
    by_role = True


for _path in (*OPERAND_PATHS, "operands.recipe"):
    rows[_path].wakes = _start_roles

for _path in ("backward_precision", "input_gradient_precision", "weight_gradient_precision"):
    rows[_path].wakes = _start_recording


class Recorded(str):
    """A precision that a node recorded for its gradients, with its origin in the forward pass.

    Attributes:
        holds_always: whether it applies independently of `backward_precision` at the time of the backward pass.
        by_role: whether formats of operands are what decided, which hold for half types too.
    """

    __slots__ = ("by_role", "decided_by", "holds_always")

    decided_by: str
    holds_always: bool
    by_role: bool


class GradientPrecisions(NamedTuple):
    """Recorded precisions that differ between the gradients of inputs and of parameters; None means the flags."""

    input: Recorded | None
    weight: Recorded | None


def node_metadata(metadata: dict[str, Any], product: str) -> dict[str, Any]:
    """The metadata of a node whose op has a `precision` that the call did not name.

    The precision is the current one under `backward_precision = "recorded"`, or those of the flags
    `input_gradient_precision` and `weight_gradient_precision`.
    """
    if metadata["precision"] is not None:
        return metadata
    kept = precision_to_record(product, in_backward())
    return metadata if kept is None else {**metadata, "precision": kept}


@per_state()
def precision_to_record(state: State, product: str, _: bool) -> Recorded | GradientPrecisions | None:
    """What a node of a product records where its call names no precision; `_` is that of `in_backward`."""
    of_forward = None
    if state.read("backward_precision") == "recorded":
        of_forward = decision(*precision_of(product), holds_always=False)
    named = [state.read(f"{name}_gradient_precision") for name in GradientPrecisions._fields]
    if named == [NO_OPINION, NO_OPINION]:
        return of_forward
    kept = [
        of_forward if value == NO_OPINION
        else decision(value, f"{name}_gradient_precision = {value!r} in the forward pass", holds_always=True)
        for name, value in zip(GradientPrecisions._fields, named, strict=True)
    ]  # fmt: skip
    return GradientPrecisions(*kept)


def decision(precision: str, decided_by: str, holds_always: bool, by_role: bool = False) -> Recorded:
    kept = Recorded(precision)
    kept.decided_by, kept.holds_always, kept.by_role = decided_by, holds_always, by_role
    return kept
