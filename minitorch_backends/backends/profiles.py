"""Profiles of devices whose matrix units can be modelled bit for bit: one row each, with the evidence.

    from minitorch_backends.profiles import Aligned, Format, Profile, add
    add(Profile("mine", {"fp16": (Format(Aligned(fraction=23, length=4, least=(-133, -21)), "inferred"),)}))

Sources: F. A. Khattak, M. Mikaitis, arXiv 2512.07004, with outputs of the devices; P. Xie et al., arXiv 2511.10909.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..flags.rows import Names
from ..flags.state import renew
from ..kernels.matrix_units import OPERANDS, Aligned, Exact, Halves, Rule, Tree, TwoStage


class Format(NamedTuple):
    """How a device sums products of one format.

    Attributes:
        rule: the arithmetic of the unit; None if its summation order is unknown (sums are then float32).
        evidence: "hardware" if published outputs of the device agree in every bit, "model" if only simulators or papers
            describe it, "inferred" if it was derived from these, "measured" if `mt.profiles.measure` found it.
        instruction: the instruction, where a device has several for the format.
        promote_every: the number of places of K after which libraries add partial sums in fp32 outside the unit, unless
            fast accumulation is requested; 0 for never.
        scaled_blocks: block sizes along K whose power-of-two scales the unit applies itself.
        findings: of a measured rule, what its probes showed and what they left open.
        depths: of a measured rule, start, stop and step of the range of K for which it is shown; products of another K
            give a warning. () for all.
        halve_to: where more than `promote_every` places remain, and less than two times as many, two parts are made of
            them, the first of half, rounded up to a multiple of this (OpenBLAS, MKL); -1: of a whole K alone, whose odd
            place is left (MKL by AVX2); 0 for never.
    """

    rule: Rule | None
    evidence: str = "hardware"
    instruction: str = ""
    promote_every: int = 0
    scaled_blocks: tuple[int, ...] = ()
    findings: tuple[str, ...] = ()
    depths: tuple[int, ...] = ()
    halve_to: int = 0


class Profile(NamedTuple):
    """A device's matrix unit.

    Attributes:
        name: the value of the flag `profile`.
        formats: for each operand format (a key of `OPERANDS`) the ways of the device, the default first.
        note: further facts for `explain` and the documentation.
        tf32_rounding: how its libraries round operands to TF32, unless the flag of this name is set; None for the
            flag's default.
        exact_gemv: whether matrix-vector products are computed in float32.
        flushes: whether subnormal operands and results are flushed to zero.
        follows: the version of the software, data or paper that the rules are those of.
    """

    name: str
    formats: dict[str, tuple[Format, ...]]
    note: str = ""
    tf32_rounding: str | None = None
    exact_gemv: bool = False
    flushes: bool = False
    follows: str = ""

    def _repr_html_(self) -> str:
        from ..display.html import Rows, as_html

        lines = [
            (name, way.instruction, str(way.rule or "unknown"), way.evidence)
            for name, ways in self.formats.items()
            for way in ways
        ]
        return as_html(f"{self.name}. {self.note}", Rows([("format", "instruction", "rule", "evidence"), *lines], 4))

    def format(self, operand: str, instruction: str | None = None) -> Format:
        """How products of a format are summed, by `instruction` if given. Raises ValueError if the device does not have
        it."""
        ways = self.formats.get(operand, ())
        if not ways:
            has = ", ".join(self.formats) or "none with a known summation order"
            raise ValueError(f"profile {self.name!r} has no matrix unit for {operand!r}; its formats: {has}")
        for way in ways:
            if instruction is None or way.instruction == instruction:
                return way
        known = ", ".join(repr(way.instruction) for way in ways if way.instruction) or "one way only"
        raise ValueError(f"profile {self.name!r} has no {instruction!r} for {operand!r}; it has {known}")


def _rows(rule: Rule | None, operands: str, evidence: str = "hardware") -> dict[str, tuple[Format, ...]]:
    return {operand: (Format(rule, evidence),) for operand in operands.split()}


_AMPERE, _HOPPER = (-132, -20), (-133, -21)
_ADA_FP8 = _rows(Aligned(13, 16, _AMPERE, "rz22"), "e4m3 e5m2")
_BY_FP16 = Format(Halves(Aligned(25, 16, _HOPPER)), instruction="mma.sync")
_A100 = {**_rows(Aligned(24, 8, _AMPERE), "fp16 bf16"), **_rows(Aligned(24, 4, _AMPERE), "tf32")}
_H100 = {**_rows(Aligned(25, 16, _HOPPER), "fp16 bf16"), **_rows(Aligned(25, 8, _HOPPER), "tf32", "model")}
_WGMMA = Format(Aligned(13, 32, _HOPPER, "rz22"), instruction="wgmma", promote_every=128)
_TCGEN05 = Format(Aligned(25, 32, _HOPPER), "model", "tcgen05", scaled_blocks=(32,))
_MXF8 = Format(Aligned(25, 32, _HOPPER), "model", scaled_blocks=(32,))

_MATLAB, _MMA_SIM = "MATLAB-tensor-core, commit b12b5a7", "MMA-Sim, arXiv 2511.10909"
_FOLLOWS = {
    **dict.fromkeys(("v100", "a100", "ada"), _MATLAB),
    **dict.fromkeys(("h100", "b200"), f"{_MATLAB}; {_MMA_SIM}"),
    **dict.fromkeys(("t4", "rtx_blackwell", "mi100", "mi250"), _MMA_SIM),
    "mi300": f"{_MMA_SIM}; hipBLASLt as of ROCm/rocm-libraries issue 9176",
    "apple_m5": "MLX as of issue 4411",
    "tpu": "JAX as of issue 26668",
}

PROFILES: dict[str, Profile] = {
    row.name: row._replace(follows=_FOLLOWS[row.name])
    for row in (
        Profile("v100", _rows(Aligned(23, 4, (-298, -19)), "fp16")),
        Profile(
            "t4", _rows(Aligned(24, 8, _AMPERE), "fp16", "model"), "its least exponents are assumed equal to Ampere's"
        ),
        Profile("a100", _A100, "A2, A30 and RTX 30 compute the same"),
        Profile("ada", {**_A100, **_ADA_FP8}, "L40S and RTX 40"),
        Profile("h100", {**_H100, "e4m3": (_WGMMA, _BY_FP16), "e5m2": (_WGMMA, _BY_FP16)}, "H200 and GH200 too"),
        Profile("b200", {**_H100, "e4m3": (_TCGEN05, _BY_FP16), "e5m2": (_TCGEN05, _BY_FP16)}),
        Profile(
            "rtx_blackwell",
            {
                **{operand: (ways[0]._replace(evidence="model"),) for operand, ways in _H100.items()},
                "e4m3": (_MXF8,),
                "e5m2": (_MXF8,),
            },
        ),
        Profile("mi100", {**_rows(Exact(4), "fp16", "model"), **_rows(Exact(2), "bf16", "model")}),
        Profile(
            "mi250",
            {
                **_rows(Tree(4), "fp16", "model"),
                "bf16": (Format(Tree(4), "model", "bf16_1k"), Format(Tree(2), "model", "bf16")),
            },
            "subnormal operands and sums are flushed to zero; MI210 too",
        ),
        Profile(
            "mi300",
            {
                **_rows(TwoStage(8), "fp16 bf16", "model"),
                **_rows(TwoStage(4), "tf32", "model"),
                **_rows(TwoStage(16, apart=True), "e4m3fnuz e5m2fnuz", "model"),
            },
            "tf32 means xf32, which truncates operands",
            tf32_rounding="rz",
        ),
        Profile(
            "apple_m5",
            _rows(None, "tf32 fp16 bf16", "inferred"),
            "truncates TF32 operands, according to errors measured by users",
            tf32_rounding="rz",
            exact_gemv=True,
        ),
        Profile("tpu", _rows(None, "bf16", "model"), "unknown summation order", flushes=True),
    )
}
"""Every profile by name."""


def find_profile(name: str | Profile) -> Profile:
    """The profile of a name in any case, or the given profile. Raises ValueError for an unknown name."""
    if isinstance(name, Profile):
        return name
    try:
        return PROFILES[Names(tuple(PROFILES), any_case=True).canonical(name)]
    except (KeyError, TypeError):
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}, got {name!r}") from None


def add(profile: Profile) -> None:
    """Register a profile under its name. Raises ValueError for unknown formats."""
    unknown = profile.formats.keys() - OPERANDS.keys()
    if unknown:
        raise ValueError(f"formats must be of {', '.join(OPERANDS)}, got {', '.join(sorted(unknown))}")
    if PROFILES.get(profile.name) != profile:
        PROFILES[profile.name] = profile
        renew()


# Stacks for `backends.emulate`: the family of flags that each uses, the defaults of those flags, and the device. "mlx"
# computes float32 products in TF32, truncated, except matrix-vector products.
#
# An explicitly set flag, `profile` included, overrides the stack's default. A default profile applies to the formats of
# the device; other formats use float32 sums.


class Stack(NamedTuple):
    """A row of `STACKS`.

    Attributes:
        name: the value of the flag `emulate`.
        family: the only family of flags that applies.
        source: where the defaults come from.
        follows: the version of the software whose behaviour this is.
        defaults: values of the family's unset flags, where they differ from torch's.
        profile: the device that sums products and rounds operands to TF32, unless the flag `profile` is set.
        exact_vectors: why products with a vector are exact, where the routines for them have no TF32.
    """

    name: str
    family: str
    source: str
    follows: str
    defaults: Mapping[str, str] = MappingProxyType({})
    profile: str | None = None
    exact_vectors: str = ""


_LEVELS = "TF32 is a mode of products of matrices; {} of vectors have none"
_CUBLAS = _LEVELS.format("cuBLAS's gemv and dot")

_PRODUCTS = ("cuda.matmul.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision")

STACKS: dict[str, Stack] = {
    row.name: row
    for row in (
        Stack(
            "cuda",
            "cuda",
            "torch on NVIDIA GPUs: the defaults of torch.backends.cuda and cudnn; cuBLAS's "
            "documentation of tensor cores (2.1.11) and math modes",
            "PyTorch 2.13, cuBLAS 13",
            exact_vectors=_CUBLAS,
        ),
        Stack("mkldnn", "mkldnn", "torch on CPUs with oneDNN: the defaults of torch.backends.mkldnn", "PyTorch 2.13"),
        Stack("xla", "xla", "torch_xla on TPUs: one bf16 pass by default", "OpenXLA, commit 827aca0"),
        Stack(
            "ort-cuda",
            "cuda",
            "ONNX Runtime: the CUDA execution provider's option use_tf32 is 1 by default",
            "ONNX Runtime, as documented in 2026",
            dict.fromkeys(_PRODUCTS, "tf32"),
        ),
        Stack(
            "mlx",
            "cuda",
            "MLX on Apple's M5: MLX_ENABLE_TF32 is 1 by default, for products, convolutions and attention "
            "(ml-explore/mlx, issues 3860 and 4411, pull request 3894)",
            "MLX after pull request 3894",
            dict.fromkeys(_PRODUCTS, "tf32"),
            "apple_m5",
        ),
        Stack(
            "rocm",
            "cuda",
            "torch on AMD GPUs: TF32 needs HIPBLASLT_ALLOW_TF32=1, in products alone, and truncates "
            "(ROCm/rocm-libraries issue 9176)",
            "PyTorch 2.13, hipBLASLt as of issue 9176",
            {"cudnn.conv.fp32_precision": "ieee", "cudnn.rnn.fp32_precision": "ieee"},
            "mi300",
            _LEVELS.format("rocBLAS's gemv and dot"),
        ),
        Stack(
            "jax-tpu",
            "xla",
            "JAX on TPUs: products are one bf16 pass by default, of operands rounded to nearest even (docs.jax.dev, "
            "Matmul precision; cloud.google.com/tpu, bfloat16)",
            "JAX, as documented in 2026",
            profile="tpu",
        ),
    )
}
"""Every stack by name; torch's own first."""
