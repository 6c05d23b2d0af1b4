"""kernels/README.md names every kernel and way, and no other; the divisions of products are those that run."""

import re
from pathlib import Path

import numpy as np
import pytest

import minitorch_backends  # noqa: F401  (declares every kernel)
from minitorch_backends.kernels import registry
from minitorch_backends.kernels.block import tuning
from minitorch_backends.kernels.gemm import compiled, product
from minitorch_backends.kernels.gemm.divisions import division_of
from minitorch_backends.kernels.runtime import cpu

TEXT = (Path(registry.__file__).resolve().parent / "README.md").read_text(encoding="utf-8")


def families():
    """(kernels, rows of ways) of each section that names kernels."""
    for section in TEXT.split("\n## ")[1:]:
        named = re.search(r"^Kernels?: (.*?)\. Measured by", section, re.DOTALL | re.MULTILINE)
        if named:
            table = section.split("| division |")[0]
            yield re.findall(r"`(\w+)`", named[1]), re.findall(r"^\| `(\w+)` \| (\S+) \|", table, re.MULTILINE)


def test_the_map_names_every_kernel_once():
    named = [kernel for kernels, _ in families() for kernel in kernels]
    assert sorted(named) == sorted(registry.kernels.load())


def test_the_map_names_every_way_with_its_level():
    for kernels, rows in families():
        ways = {way for name in kernels for way in registry.kernels.load()[name].implementations.values()}
        assert sorted(rows) == sorted({(way.name, way.isa or "-") for way in ways}), kernels


def test_the_map_keeps_the_order_of_the_policy():
    """The better ways of a kernel come first."""
    for kernels, rows in families():
        places = {name: place for place, (name, _) in enumerate(rows)}
        for name in kernels[:1]:
            order = [places[way] for way in registry.kernels.load()[name].implementations]
            assert order == sorted(order), name


SHAPES = [
    ((20, 20), (20, 20)), ((16, 300, 300), (16, 300, 300)), ((4096, 64), (64, 64)), ((512, 300), (300, 300)),
    ((64, 2000), (2000, 600)), ((1200, 900), (900, 1200)), ((2, 3, 40, 40), (40, 40)),
]  # fmt: skip


@pytest.mark.skipif(cpu.capability() == "portable", reason="these sizes are chosen for vectors of a level")
@pytest.mark.parametrize("shapes", SHAPES)
def test_the_division_that_explain_prints_is_the_one_that_runs(shapes, monkeypatch):
    a, b = (np.ones(shape, np.float32) for shape in shapes)
    isa, ran, divide = compiled.vector_isa(), [], product.divide

    def note(*arguments):
        division = divide(*arguments)
        ran.append(division.name)
        return division

    monkeypatch.setattr(product, "divide", note)
    monkeypatch.setattr(product.unpacked, "multiply", lambda *_: ran.append("unpacked"))
    said = division_of(isa, "ieee", "rna", a.dtype, a.shape, b.shape)
    with tuning.thresholds(isa).override():  # which forgets divisions of earlier calls
        product.product(a, b, isa=isa, addend=np.ones(1, np.float32))
    assert f"| `{said}` |" in TEXT
    assert ran[0] == said
