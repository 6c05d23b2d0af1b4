"""A trace in oneDNN's columns has the form of the lines that oneDNN itself prints for torch's product."""

import re
from collections.abc import Mapping

import pytest
import torch

from ..support.processes import python

PROGRAM = """
import {name} as lib
a, b = lib.ones(24, 32, dtype=lib.bfloat16), lib.ones(32, 16, dtype=lib.bfloat16)
a @ b
"""
OWN = {"implementation": re.compile(r"[\w:]+"), "exec_time": re.compile(r"[\d.e-]+"), "attributes": re.compile(r".*")}
"""Columns that depend on the engine, and what they are made of; all the others are equal."""


def trace(name: str) -> tuple[str, Mapping[str, str]]:
    """The template and the columns of the one product of a library's trace."""
    lines = python(PROGRAM.format(name=name), ONEDNN_VERBOSE="1").out.splitlines()
    (template,) = [line for line in lines if line.startswith("onednn_verbose,v1,primitive,info,template:")]
    (product,) = [line for line in lines if ",exec," in line]
    columns = template.partition("template:")[2].split(",")
    fields = product.removeprefix("onednn_verbose,v1,primitive,").split(",")
    return template, dict(zip(columns, fields, strict=True))


def test_a_product_reads_as_onednns() -> None:
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("torch multiplies bfloat16 tensors without oneDNN here, whose kernels for them need AVX-512")
    (own_template, own), (template, peer) = trace("minitorch_backends"), trace("torch")
    assert own_template == template
    for column, text in own.items():
        if column in OWN:
            assert OWN[column].fullmatch(text), column
        else:
            assert text == peer[column], column
