"""What `interop.torch.emulate` counts: products by kernel and precision, and those that torch computed itself."""

import json
import pickle
import threading
import warnings

import pytest

from minitorch_backends.interop.torch import Counts, LeftProductWarning, emulate

torch = pytest.importorskip("torch")


def test_products_are_counted_by_kernel_and_precision() -> None:
    """(4, 8) @ (8, 16) three times forward, and its two gradients; the counts are those of observed calls each time."""
    layer, x = torch.nn.Linear(8, 16, bias=False), torch.randn(4, 8, requires_grad=True)
    with emulate(fp32_precision="tf32") as mode:
        for _ in range(3):
            layer(x).sum().backward()
        torch.nn.functional.linear(x.bfloat16(), layer.weight.bfloat16())
    found = {(each.kernel, each.precision): (each.calls, each.flops) for each in mode.products}
    assert found.pop(("matmul", "tf32")) == (9, 9 * 2 * 4 * 8 * 16)
    assert sum(flops for _, flops in found.values()) == 2 * 4 * 8 * 16


@pytest.mark.parametrize(
    ("compute", "flops"),
    [
        (lambda: torch.mm(torch.eye(3, 4).double(), torch.eye(4, 5).double()), 2 * 3 * 4 * 5),
        (lambda: torch.mm(torch.eye(4).to_sparse(), torch.ones(4, 5)), 2 * 4 * 5),
        (lambda: torch.mv(torch.eye(4).double(), torch.ones(4).double()), 2 * 4 * 4),
        (lambda: torch.linalg.inv(torch.eye(4).double().expand(3, 4, 4)), 3 * 2 * 4**3),
        (lambda: torch.nn.functional.conv1d(torch.ones(2, 3, 9).double(), torch.ones(5, 3, 2).double()), 960),
    ],
)
def test_operations_of_what_torch_computes_are_counted(compute, flops: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftProductWarning)
        with emulate() as mode:
            compute()
    assert [each.flops for each in mode.left] == [flops]


def test_counts_are_merged_from_other_processes_and_threads() -> None:
    a = torch.randn(5, 5)
    with emulate() as mode:
        a @ a
        torch.mm(a.double(), a.double())
    sent = Counts.from_dict(json.loads(json.dumps(mode.counts.as_dict())))
    total = pickle.loads(pickle.dumps(mode.counts))
    threads = [threading.Thread(target=total.merge, args=(sent,)) for _ in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [(each.kernel, each.calls, each.flops) for each in total.products] == [("matmul", 21, 21 * 250)]
    assert [(each.op, each.count, each.flops) for each in total.left] == [("aten.mm.default", 21, 21 * 250)]
    total.clear()
    assert total.as_dict() == {"products": [], "left": []}


def test_an_operator_made_of_products_is_not_left_when_these_are_prepared() -> None:
    x, weight, bias = torch.randn(5, 2, 3), torch.randn(2, 3, 4), torch.randn(4)
    with emulate() as mode:
        for _ in range(3):
            torch.conv_tbc(x, weight, bias)
    assert not mode.left
    assert mode.products
