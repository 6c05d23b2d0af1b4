"""The precision flags against torch's, over random sequences of settings of both."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minitorch_backends import backends
from minitorch_backends.flags import Snapshot

READ = {
    "generic": lambda b: b.fp32_precision,
    "cudnn": lambda b: b.cudnn.fp32_precision,
    "cuda.matmul": lambda b: b.cuda.matmul.fp32_precision,
    "mkldnn": lambda b: b.mkldnn.fp32_precision,
    "mkldnn.matmul": lambda b: b.mkldnn.matmul.fp32_precision,
}


def write_mkldnn(b: Any, value: str) -> None:
    """oneDNN's own flag: torch's assignment would write the generic one."""
    if b is torch.backends:
        b.mkldnn.set_flags(_fp32_precision=value)
    else:
        b.mkldnn.fp32_precision = value


def set_matmul(b: Any, value: str) -> None:
    (torch if b is torch.backends else b).set_float32_matmul_precision(value)


WRITE: dict[str, Any] = {
    "generic": (lambda b, value: setattr(b, "fp32_precision", value), ("none", "ieee", "tf32", "bf16")),
    "cudnn": (lambda b, value: setattr(b.cudnn, "fp32_precision", value), ("none", "ieee", "tf32")),
    "cuda.matmul": (lambda b, value: setattr(b.cuda.matmul, "fp32_precision", value), ("none", "ieee", "tf32")),
    "allow_tf32": (lambda b, value: setattr(b.cuda.matmul, "allow_tf32", value), (True, False)),
    "mkldnn": (write_mkldnn, ("none", "ieee", "tf32", "bf16")),
    "mkldnn.matmul": (
        lambda b, value: setattr(b.mkldnn.matmul, "fp32_precision", value),
        ("none", "ieee", "tf32", "bf16"),
    ),
    "set_matmul": (set_matmul, ("highest", "high", "medium")),
}


def reset() -> None:
    # torch's own test helpers forbid assignments when they are imported.
    torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True
    backends.restore(Snapshot(()))
    torch.set_float32_matmul_precision("highest")
    for name in ("generic", "cudnn", "cuda.matmul", "mkldnn", "mkldnn.matmul"):
        WRITE[name][0](torch.backends, "none")


@pytest.fixture(autouse=True)
def unchanged_flags() -> Iterator[None]:
    before = backends.snapshot()
    yield
    reset()
    backends.restore(before)


settings_of = st.one_of(*(st.tuples(st.just(name), st.sampled_from(values)) for name, (_, values) in WRITE.items()))


@given(st.lists(settings_of, max_size=12))
def test_precisions_read_as_in_torch(sequence: list[tuple[str, Any]]) -> None:
    reset()
    for name, value in sequence:
        for each in (backends, torch.backends):
            WRITE[name][0](each, value)
        for level, read in READ.items():
            assert read(backends) == read(torch.backends), (level, name, value)


@pytest.mark.parametrize("name", [name for name in WRITE if name not in ("mkldnn", "set_matmul")])
@pytest.mark.parametrize("value", ["bogus", "IEEE", "", 1, None, 0.5, (), "bf16"])
def test_bad_values_raise_as_in_torch(name: str, value: Any) -> None:
    reset()
    write, legal = WRITE[name]
    if value in legal:
        return
    raised = []
    for each in (torch.backends, backends):
        with pytest.raises((RuntimeError, TypeError)) as error:
            write(each, value)
        raised.append(error.type)
    assert raised[0] is raised[1]
