"""The lines of torch that a policy prints, run by torch."""

import torch

from minitorch_backends.lab import Policy


def test_lines_set_the_flags_of_each_module():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    flag, seen = torch.backends.cuda.matmul, []
    before = flag.fp32_precision
    exec(Policy({"*": {"fp32_precision": "tf32"}, "1": {"fp32_precision": "ieee"}}).torch(), {"model": model})
    for layer in model:
        layer.register_forward_hook(lambda *_: seen.append(flag.fp32_precision), prepend=True)
    model(torch.ones(1, 2))
    assert seen == ["tf32", "ieee"]
    assert flag.fp32_precision == before


def test_one_rule_sets_the_process():
    flags = torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn
    before = [flag.fp32_precision for flag in flags]
    try:
        exec(Policy({"*": "tf32"}).torch(), {})
        assert [flag.fp32_precision for flag in flags] == ["tf32"] * 3
    finally:
        for flag, value in zip(flags, before, strict=True):
            flag.fp32_precision = value
