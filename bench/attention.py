"""Attention: the flash kernel and its gradients beside torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import minitorch_backends as mt
from minitorch_backends import backends
from minitorch_backends.lab.race import OPENMP_REST, Contestant

from . import peers, speed
from .presentation import paragraphs
from .session import Session

TITLE = "Attention"


class Case(NamedTuple):
    """Sizes of one call; `groups` heads of key and value serve `heads` heads of query."""

    batch: int
    heads: int
    groups: int
    length: int
    depth: int
    causal: bool = False

    @property
    def name(self) -> str:
        shared = "" if self.groups == self.heads else f"/{self.groups}"
        return f"{self.batch}x{self.heads}{shared}x{self.length}x{self.depth}{' causal' if self.causal else ''}"

    @property
    def operations(self) -> float:
        """Of the two products, without what a causal call need not do."""
        return 4 * self.batch * self.heads * self.length**2 * self.depth * (0.5 if self.causal else 1)

    @property
    def options(self) -> dict[str, bool]:
        return {"is_causal": self.causal, "enable_gqa": self.groups != self.heads}


CASES = (
    Case(1, 8, 8, 128, 64),
    Case(1, 8, 8, 512, 64),
    Case(1, 8, 8, 512, 64, True),
    Case(1, 16, 16, 1024, 64),
    Case(1, 16, 16, 1024, 64, True),
    Case(1, 16, 4, 1024, 64),
    Case(1, 16, 16, 2048, 128),
    Case(1, 16, 16, 2048, 128, True),
    Case(1, 16, 16, 4096, 128),
    Case(1, 16, 16, 4096, 128, True),
)
GRADIENT_CASES = (CASES[0], CASES[1], CASES[4])

WANTED = {"ieee": 1.0, "tf32": 1.8, "bf16": None, "bf16x3": None, "bfloat16": 1.5, "float64": 1.0}
"""How many times as long torch is to take, by the precision of our float32 tensors or by the tensors' dtype."""

DTYPES = ("float32", "bfloat16", "float64")


def _arrays(seed: int, case: Case) -> list[np.ndarray]:
    random = np.random.default_rng([seed, *case])
    heads = case.heads, case.groups, case.groups
    return [random.standard_normal((case.batch, each, case.length, case.depth), dtype=np.float32) for each in heads]


def _call(library: Any, arrays: list[np.ndarray], dtype: str, case: Case, gradients: bool) -> Callable[[], Any]:
    """A call of torch's or of ours, which has torch's names."""
    inputs = [library.from_numpy(each).to(getattr(library, dtype)) for each in arrays]
    attend = partial(library.nn.functional.scaled_dot_product_attention, *inputs, **case.options)
    if not gradients:
        return attend
    g = library.ones_like(inputs[0])
    for each in inputs:
        each.requires_grad_()
    return lambda: library.autograd.grad(attend(), inputs, g)


def _contestants(seed: int, case: Case, gradients: bool) -> Iterator[Contestant]:
    arrays = _arrays(seed, case)
    for name in WANTED:
        call = _call(mt, arrays, name if name in DTYPES else "float32", case, gradients)
        yield Contestant(name, call, before=partial(_allow, "none" if name in DTYPES else name))
    torch = peers.torch_if_installed()
    for dtype in DTYPES if torch is not None else ():
        if dtype != "bfloat16" or peers.torch_multiplies_bf16():
            yield Contestant(f"torch {dtype}", _call(torch, arrays, dtype, case, gradients), OPENMP_REST)


def _allow(precision: str) -> None:
    backends.fp32_precision = precision


def _cell(seed: int, case: Case, gradients: bool) -> speed.Cell:
    against = {name: f"torch {name if name in DTYPES else 'float32'}" for name in WANTED}
    wanted = {} if gradients else {name: (against[name], least) for name, least in WANTED.items() if least is not None}
    group = "Forward and backward" if gradients else "Forward"
    operations = None if gradients else case.operations
    return speed.Cell(group, case.name, _contestants(seed, case, gradients), against, wanted, operations)


def run(session: Session) -> dict[str, Any]:
    """Time every case, forward and then with gradients."""
    quick = CASES[:3], GRADIENT_CASES[:1]
    cases, gradient_cases = session.choose(quick, (CASES[:6], GRADIENT_CASES[1:2]), (CASES, GRADIENT_CASES))
    jobs = [(case, False) for case in cases] + [(case, True) for case in gradient_cases]
    return speed.run(
        session,
        TITLE,
        {f"{case.name}{', gradients' * of}": partial(_cell, session.seed, case, of) for case, of in jobs},
    )


tables = speed.tables


def summary(result: dict[str, Any]) -> list[str]:
    """What was done, and what it shows, in paragraphs."""
    text = """
        Cases are batch x heads (/ heads of key and value) x length x size of a head, of standard normal numbers. ieee,
        tf32, bf16 and bf16x3 are precisions of float32 tensors, set by backends.fp32_precision; bfloat16 and float64
        are tensors of that dtype, which torch is given too; gradients are autograd's. GFLOP/s counts the two products.
    """
    return [*paragraphs(text), *speed.sentences(result)]


PLOTS = [speed.plot("attention")]
