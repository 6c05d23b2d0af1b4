"""Devices whose matrix units can be computed bit for bit: a row for each, with its evidence.

    from minitorch_backends.profiles import Aligned, Format, Profile, add
    add(Profile("mine", {"fp16": (Format(Aligned(fraction=23, length=4, least=(-133, -21)), "inferred"),)}))

Sources: F. A. Khattak, M. Mikaitis, arXiv 2512.07004, with outputs of the devices; P. Xie et al., arXiv 2511.10909.
"""

from __future__ import annotations

from typing import NamedTuple

from ..kernels.matrix_units import OPERANDS, Aligned, Exact, Halves, Rule, Tree, TwoStage

__all__ = ["PROFILES", "Aligned", "Exact", "Format", "Halves", "Profile", "Tree", "TwoStage", "add", "named"]


class Format(NamedTuple):
    """How a device adds up products of one format.

    Attributes:
        rule: the arithmetic of the unit; None where the order of its sums is not known, which are float32 sums here.
        evidence: "hardware" where published outputs of the device agree in every bit, "model" where only simulators or
            papers say so, "inferred" where it is a reading of these.
        instruction: the instruction that computes so, where a device has several for the format.
        promote_every: places of K after which libraries take partial sums out of the unit and add them in fp32, unless
            they are asked for fast accumulation; 0 for never.
        scaled_blocks: sizes of blocks along K whose scales, powers of two, the unit applies itself.
    """

    rule: Rule | None
    evidence: str = "hardware"
    instruction: str = ""
    promote_every: int = 0
    scaled_blocks: tuple[int, ...] = ()


class Profile(NamedTuple):
    """A device's matrix unit.

    Attributes:
        name: what users type.
        formats: for each format of operands (a key of `OPERANDS`) the ways of the device, the usual one first.
        note: what else a user should know, for `explain` and the documentation.
        tf32_rounding: of operands to TF32 by its libraries, unless the flag of this name is set; None: the flag's.
        exact_gemv: whether products with a vector are float32's.
        flushes: whether subnormal operands and results count as zero.
    """

    name: str
    formats: dict[str, tuple[Format, ...]]
    note: str = ""
    tf32_rounding: str | None = None
    exact_gemv: bool = False
    flushes: bool = False

    def format(self, operand: str, instruction: str | None = None) -> Format:
        """How products of a format are added up, by an instruction where it is named. Raises ValueError where the
        device does not have it."""
        ways = self.formats.get(operand, ())
        if not ways:
            has = ", ".join(self.formats) or "none whose order of sums is known"
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

PROFILES: dict[str, Profile] = {
    row.name: row
    for row in (
        Profile("v100", _rows(Aligned(23, 4, (-298, -19)), "fp16")),
        Profile("t4", _rows(Aligned(24, 8, _AMPERE), "fp16", "model"), "its least exponents are taken from Ampere's"),
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
            "subnormal operands and sums count as zero; MI210 too",
        ),
        Profile(
            "mi300",
            {
                **_rows(TwoStage(8), "fp16 bf16", "model"),
                **_rows(TwoStage(4), "tf32", "model"),
                **_rows(TwoStage(16, apart=True), "e4m3fnuz e5m2fnuz", "model"),
            },
            "tf32 is xf32, whose operands are truncated",
            tf32_rounding="rz",
        ),
        Profile(
            "apple_m5",
            _rows(None, "tf32 fp16 bf16", "inferred"),
            "TF32 operands are truncated, as errors that users have measured say",
            tf32_rounding="rz",
            exact_gemv=True,
        ),
        Profile("tpu", _rows(None, "bf16", "model"), "sums in an order that is not known", flushes=True),
    )
}
"""Every profile by name."""


def named(name: str | Profile) -> Profile:
    """The profile of a name, or the one that is given. Raises ValueError, with the names, for others."""
    if isinstance(name, Profile):
        return name
    try:
        return PROFILES[name]
    except (KeyError, TypeError):
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}, got {name!r}") from None


def add(profile: Profile) -> None:
    """Make a profile known by its name. Raises ValueError where it has formats that no unit has."""
    unknown = profile.formats.keys() - OPERANDS.keys()
    if unknown:
        raise ValueError(f"formats must be of {', '.join(OPERANDS)}, got {', '.join(sorted(unknown))}")
    PROFILES[profile.name] = profile
