"""Operators that a new torch brings are noticed, and judged: those that multiply must be computed here or counted."""

import torch
from torch.utils.flop_counter import flop_registry

from minitorch_backends.lab.torch_capture import is_product

from . import operators


def test_the_table_has_every_operator_of_the_installed_torch() -> None:
    table, found = operators.read(), operators.operators()
    new = sorted(f"{name} ({kind}: {operators.KINDS[kind]})" for name, kind in found.items() if name not in table)
    changed = sorted(f"{name}: {found[name]}" for name in {*found} & {*table} if found[name] != table[name])
    remedy = "look at each, then run `python -m tests.parity.operators` and commit tests/parity/operators.txt"
    assert not new, f"torch has {len(new)} operators that the table lacks; {remedy}:\n" + "\n".join(new)
    assert not changed, f"{len(changed)} operators are not of the table's kind; {remedy}:\n" + "\n".join(changed)


def test_what_torch_counts_as_products_is_judged_to_multiply() -> None:
    packets = (each for each in flop_registry if isinstance(each, torch._ops.OpOverloadPacket))
    names = {each._qualified_op_name.split("::")[1] for each in packets}
    assert len(names) > 20
    assert [name for name in sorted(names) if not is_product(name)] == []
