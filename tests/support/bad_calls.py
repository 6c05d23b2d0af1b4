"""Calls that must be refused, written for this package and for torch alike: `call(m)` where m is either module.

Each says which exception torch raises, and what the message must name: the values that were given, and what to do.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class BadCall(NamedTuple):
    """One call that is refused.

    Attributes:
        name: what is wrong with it.
        call: makes it, in the module that it is given.
        error: the type of the exception, which is torch's.
        says: what its message contains here.
    """

    name: str
    call: Callable[[Any], Any]
    error: type[Exception]
    says: tuple[str, ...]


def ones(m: Any, *shape: int, dtype: str = "float32") -> Any:
    """A tensor of ones, of a dtype that both modules know by this name."""
    return m.ones(shape, dtype=getattr(m, dtype))


def half(m: Any, *shape: int) -> Any:
    return ones(m, *shape, dtype="float16")


def leaf(m: Any, *shape: int) -> Any:
    return ones(m, *shape).requires_grad_()


def integers(m: Any, *values: int) -> Any:
    return m.tensor(list(values))


def release(m: Any) -> Any:
    """A result whose graph has been through one backward pass."""
    x = leaf(m, 2)
    y = (x * x).sum()
    y.backward()
    return y


def stale(m: Any) -> Any:
    """A result whose graph saved a tensor that has been written to since."""
    x, w = leaf(m, 2), ones(m, 2)
    y = (x * w).sum()
    w.add_(1)
    return y


def expand(m: Any) -> Any:
    return ones(m, 1).expand(3)


SHAPES = [
    BadCall("sum of shapes that do not broadcast", lambda m: ones(m, 2, 3) + ones(m, 4), RuntimeError, ("2, 3", "4")),
    BadCall(
        "inplace result of another shape", lambda m: ones(m, 3).add_(ones(m, 2, 3)), RuntimeError, ("[3]", "[2, 3]")
    ),
    BadCall("matmul of sizes that differ", lambda m: ones(m, 2, 3) @ ones(m, 4, 5), RuntimeError, ("2x3", "4x5")),
    BadCall("matmul of a 0-dim tensor", lambda m: m.matmul(ones(m), ones(m, 2)), RuntimeError, ("0",)),
    BadCall("matmul of batches that differ", lambda m: ones(m, 2, 3, 4) @ ones(m, 5, 4, 3), RuntimeError, ("2", "5")),
    BadCall("mm of a vector", lambda m: m.mm(ones(m, 3), ones(m, 3, 3)), RuntimeError, ("2", "[3]")),
    BadCall("bmm of matrices", lambda m: m.bmm(ones(m, 3, 3), ones(m, 3, 3)), RuntimeError, ("3", "[3, 3]")),
    BadCall("mv of sizes that differ", lambda m: m.mv(ones(m, 2, 3), ones(m, 2)), RuntimeError, ("2", "3")),
    BadCall("dot of sizes that differ", lambda m: m.dot(ones(m, 2), ones(m, 3)), RuntimeError, ("2", "3")),
    BadCall("reshape to another count", lambda m: ones(m, 6).reshape(4), RuntimeError, ("[4]", "6")),
    BadCall("reshape with two sizes to infer", lambda m: ones(m, 6).reshape(-1, -1), RuntimeError, ("-1",)),
    BadCall("reshape with a negative size", lambda m: ones(m, 6).reshape(-2, 3), RuntimeError, ("-2",)),
    BadCall(
        "clone in an unknown memory format",
        lambda m: ones(m, 2, 3).clone(memory_format="rows"),
        TypeError,
        ("'rows'", "channels_last"),
    ),
    BadCall("view that would need a copy", lambda m: ones(m, 2, 3).t().view(6), RuntimeError, ("reshape", "6")),
    BadCall("expand of a dimension that is not 1", lambda m: ones(m, 2).expand(3), RuntimeError, ("2", "3")),
    BadCall("expand to fewer dimensions", lambda m: ones(m, 2, 3).expand(3), RuntimeError, ("[2, 3]", "3")),
    BadCall("cat of shapes that differ", lambda m: m.cat([ones(m, 2, 3), ones(m, 2, 4)]), RuntimeError, ("3", "4")),
    BadCall("cat of different ndims", lambda m: m.cat([ones(m, 2), ones(m, 2, 4)]), RuntimeError, ("1", "2")),
    BadCall("stack of shapes that differ", lambda m: m.stack([ones(m, 2), ones(m, 3)]), RuntimeError, ("[2]", "[3]")),
    BadCall("split in sizes that do not add up", lambda m: m.split(ones(m, 5), [2, 2]), RuntimeError, ("5", "2")),
    BadCall("unflatten to another count", lambda m: ones(m, 6).unflatten(0, (4, 2)), RuntimeError, ("6", "4")),
    BadCall("diagonal of a vector", lambda m: ones(m, 3).diagonal(), IndexError, ("1",)),
    BadCall("item of several elements", lambda m: ones(m, 3).item(), RuntimeError, ("3", "tolist")),
    BadCall("truth of several elements", lambda m: bool(ones(m, 3)), RuntimeError, ("3", "any()")),
    BadCall("length of a 0-dim tensor", lambda m: len(ones(m)), TypeError, ("0-d",)),
    BadCall("iteration over a 0-dim tensor", lambda m: list(ones(m)), TypeError, ("0-d",)),
    BadCall(
        "linear of sizes that differ",
        lambda m: m.nn.functional.linear(ones(m, 2, 3), ones(m, 4, 5)),
        RuntimeError,
        ("3", "5"),
    ),
    BadCall(
        "layer_norm over another shape",
        lambda m: m.nn.functional.layer_norm(ones(m, 2, 3), (4,)),
        RuntimeError,
        ("[4]", "[2, 3]"),
    ),
]

DIMENSIONS = [
    BadCall("sum over a missing dim", lambda m: ones(m, 2, 3).sum(2), IndexError, ("[-2, 1]", "2")),
    BadCall("sum over a dim twice", lambda m: ones(m, 2, 3).sum((0, 0)), RuntimeError, ("dim 0", "multiple times")),
    BadCall("sum over a negative dim", lambda m: ones(m, 2, 3).sum(-3), IndexError, ("[-2, 1]", "-3")),
    BadCall("argmax over a missing dim", lambda m: ones(m, 2).argmax(1), IndexError, ("[-1, 0]", "1")),
    BadCall("transpose of a missing dim", lambda m: ones(m, 2, 3).transpose(0, 2), IndexError, ("[-2, 1]", "2")),
    BadCall("permute with too few dims", lambda m: ones(m, 2, 3).permute(0), RuntimeError, ("[0]", "2")),
    BadCall("permute with a dim twice", lambda m: ones(m, 2, 3).permute(0, 0), RuntimeError, ("0",)),
    BadCall("t of three dims", lambda m: ones(m, 2, 3, 4).t(), RuntimeError, ("3",)),
    BadCall("unsqueeze out of range", lambda m: ones(m, 2).unsqueeze(3), IndexError, ("[-2, 1]", "3")),
    BadCall("cat over a missing dim", lambda m: m.cat([ones(m, 2)], 1), IndexError, ("[-1, 0]", "1")),
    BadCall("softmax over a missing dim", lambda m: m.softmax(ones(m, 2), 1), IndexError, ("[-1, 0]", "1")),
    BadCall("cumsum over a missing dim", lambda m: m.cumsum(ones(m, 2), 2), IndexError, ("[-1, 0]", "2")),
    BadCall("size of a missing dim", lambda m: ones(m, 2).size(1), IndexError, ("[-1, 0]", "1")),
    BadCall("narrow out of range", lambda m: ones(m, 3).narrow(0, 2, 2), RuntimeError, ("2", "3")),
    BadCall("topk of too many", lambda m: ones(m, 3).topk(4), RuntimeError, ("4", "3")),
    BadCall(
        "softplus with a list of betas",
        lambda m: m.nn.functional.softplus(ones(m, 3), [1.0, 2.0]),
        TypeError,
        ("'beta'", "[1.0, 2.0]"),
    ),
    BadCall("topk of a fraction", lambda m: ones(m, 3).topk(2.0), TypeError, ("'k'", "2.0")),
    BadCall("max of nothing", lambda m: ones(m, 0).max(), RuntimeError, ("dim",)),
    BadCall("amax of nothing", lambda m: ones(m, 0).amax(), RuntimeError, ("dim",)),
    BadCall("argmax of nothing", lambda m: ones(m, 0).argmax(), IndexError, ("dim",)),
]

INDICES = [
    BadCall("index out of range", lambda m: ones(m, 3)[3], IndexError, ("3",)),
    BadCall("negative index out of range", lambda m: ones(m, 3)[-4], IndexError, ("-4", "3")),
    BadCall("too many indices", lambda m: ones(m, 3)[0, 0], IndexError, ("1",)),
    BadCall("index of a 0-dim tensor", lambda m: ones(m)[0], IndexError, ("0-dim",)),
    BadCall("an index that is not an integer", lambda m: ones(m, 3)[1.5], IndexError, ("float",)),
    BadCall("an index that is text", lambda m: ones(m, 3)["a"], TypeError, ("'a'", "str")),
    BadCall("a floating index tensor", lambda m: ones(m, 3)[ones(m, 2)], IndexError, ("float32",)),
    BadCall("index tensor out of range", lambda m: ones(m, 3)[integers(m, 0, 7)], IndexError, ("7", "3")),
    BadCall(
        "index tensors that do not broadcast",
        lambda m: ones(m, 3, 3)[integers(m, 0, 1), integers(m, 0, 1, 2)],
        IndexError,
        ("[2]", "[3]"),
    ),
    BadCall("mask of another shape", lambda m: ones(m, 3)[m.tensor([True, False])], IndexError, ("[2]", "[3]")),
    BadCall("step of 0", lambda m: ones(m, 3)[::0], ValueError, ("step", "0")),
    BadCall(
        "assignment of a shape that does not fit",
        lambda m: ones(m, 3).__setitem__(slice(0, 2), ones(m, 3)),
        RuntimeError,
        ("3", "2"),
    ),
    BadCall("assignment out of range", lambda m: ones(m, 3).__setitem__(3, 1.0), IndexError, ("3",)),
    BadCall("gather with a floating index", lambda m: ones(m, 3).gather(0, ones(m, 3)), RuntimeError, ("int64",)),
    BadCall("gather out of range", lambda m: ones(m, 3).gather(0, integers(m, 5)), RuntimeError, ("5", "3")),
    BadCall("scatter out of range", lambda m: ones(m, 3).scatter(0, integers(m, 5), 1.0), RuntimeError, ("5", "3")),
    BadCall("index_select out of range", lambda m: ones(m, 3).index_select(0, integers(m, 5)), IndexError, ("5",)),
    BadCall(
        "embedding out of range",
        lambda m: m.nn.functional.embedding(integers(m, 9), ones(m, 3, 2)),
        IndexError,
        ("9", "0 to 2"),
    ),
    BadCall(
        "nll_loss of a missing class",
        lambda m: m.nn.functional.nll_loss(ones(m, 1, 3), integers(m, 5)),
        IndexError,
        ("5",),
    ),
    BadCall("one_hot of a negative class", lambda m: m.nn.functional.one_hot(integers(m, -1)), RuntimeError, ("-1",)),
]

DTYPES = [
    BadCall(
        "matmul of two dtypes",
        lambda m: ones(m, 2, 2) @ ones(m, 2, 2, dtype="float64"),
        RuntimeError,
        ("float32", "float64"),
    ),
    BadCall("mean of integers", lambda m: m.mean(ones(m, 2, dtype="int64")), RuntimeError, ("int64",)),
    BadCall(
        "difference of booleans", lambda m: ones(m, 2, dtype="bool") - ones(m, 2, dtype="bool"), RuntimeError, ("bool",)
    ),
    BadCall("negative of booleans", lambda m: -ones(m, 2, dtype="bool"), RuntimeError, ("bool",)),
    BadCall(
        "fraction written into integers",
        lambda m: ones(m, 2, dtype="int64").mul_(1.5),
        RuntimeError,
        ("float32", "int64"),
    ),
    BadCall("complex written into floats", lambda m: ones(m, 2).mul_(1j), RuntimeError, ("complex64", "float32")),
    BadCall("integer to a negative power", lambda m: ones(m, 2, dtype="int64") ** -1, RuntimeError, ("-1",)),
    BadCall("integer division by zero", lambda m: ones(m, 2, dtype="int64") // 0, RuntimeError, ("0",)),
    BadCall("comparison of complex numbers", lambda m: ones(m, 2, dtype="complex64") < 1, RuntimeError, ("complex64",)),
    BadCall("floor of complex numbers", lambda m: m.floor(ones(m, 2, dtype="complex64")), RuntimeError, ("complex64",)),
    BadCall("sort of complex numbers", lambda m: m.sort(ones(m, 2, dtype="complex64")), RuntimeError, ("complex64",)),
    BadCall("bitwise and of floats", lambda m: ones(m, 2) & ones(m, 2), RuntimeError, ("float32",)),
    BadCall(
        "integers that require gradients",
        lambda m: ones(m, 2, dtype="int64").requires_grad_(),
        RuntimeError,
        ("int64", "floating"),
    ),
    BadCall("an integer default dtype", lambda m: m.set_default_dtype(m.int64), TypeError, ("int64", "float32")),
    BadCall(
        "cross_entropy with a wrong number of targets",
        lambda m: m.nn.functional.cross_entropy(ones(m, 2, 3), integers(m, 0)),
        ValueError,
        ("2", "1"),
    ),
    BadCall(
        "masked_fill with a mask of integers",
        lambda m: ones(m, 2).masked_fill(integers(m, 0, 1), 0.0),
        RuntimeError,
        ("int64", "bool"),
    ),
    BadCall("a constant beyond float32", lambda m: m.full((2,), 1e300), RuntimeError, ("1e+300", "float32")),
    BadCall("fill_ with a number beyond float16", lambda m: half(m, 2).fill_(1e9), RuntimeError, ("1000000000",)),
    BadCall(
        "masked_fill with a number beyond float16",
        lambda m: half(m, 2).masked_fill(m.tensor([True, False]), -1e9),
        RuntimeError,
        ("-1000000000", "float16", "math.inf"),
    ),
    BadCall(
        "index_fill with a number beyond float16",
        lambda m: half(m, 2).index_fill(0, integers(m, 0), 1e9),
        RuntimeError,
        ("1000000000", "float16"),
    ),
    BadCall(
        "scatter of a number beyond float16",
        lambda m: half(m, 2).scatter(0, integers(m, 0), 1e9),
        RuntimeError,
        ("1000000000", "float16"),
    ),
    BadCall(
        "pad with a number beyond float16",
        lambda m: m.nn.functional.pad(half(m, 2), (1, 1), value=1e9),
        RuntimeError,
        ("1000000000", "float16"),
    ),
    BadCall("limits of integers by finfo", lambda m: m.finfo(m.int32), TypeError, ("int32", "iinfo")),
    BadCall("limits of floats by iinfo", lambda m: m.iinfo(m.float32), TypeError, ("float32", "finfo")),
    BadCall("limits of booleans", lambda m: m.iinfo(m.bool), TypeError, ("bool",)),
    BadCall("limits of a number", lambda m: m.finfo(3), TypeError, ("3", "float32")),
]

ARGUMENTS = [
    BadCall("sum with text", lambda m: ones(m, 2) + "a", TypeError, ("str",)),
    BadCall("sum with None", lambda m: m.add(ones(m, 2), None), TypeError, ("NoneType", "other")),
    BadCall("a missing argument", lambda m: m.mul(ones(m, 2)), TypeError, ("other",)),
    BadCall("an unknown keyword", lambda m: m.exp(ones(m, 2), base=2), TypeError, ("base",)),
    BadCall("too many arguments", lambda m: m.exp(ones(m, 2), 2, 3), TypeError, ("exp",)),
    BadCall("exp of a list", lambda m: m.exp([1.0]), TypeError, ("list", "input")),
    BadCall("cat of a tensor", lambda m: m.cat(ones(m, 2)), TypeError, ("Tensor",)),
    BadCall("stack of numbers", lambda m: m.stack([1, 2]), TypeError, ("int",)),
    BadCall("reshape to a float", lambda m: ones(m, 2).reshape(2.0), TypeError, ("2.0",)),
    BadCall("clamp without bounds", lambda m: m.clamp(ones(m, 2)), RuntimeError, ("min", "max")),
    BadCall("dropout of more than all", lambda m: m.nn.functional.dropout(ones(m, 2), 1.5), ValueError, ("1.5", "0")),
    BadCall(
        "an unknown reduction",
        lambda m: m.nn.functional.mse_loss(ones(m, 2), ones(m, 2), reduction="all"),
        ValueError,
        ("all",),
    ),
    BadCall("ragged lists", lambda m: m.tensor([[1, 2], [3]]), ValueError, ("length",)),
    BadCall("a tensor of text", lambda m: m.tensor(["a"]), TypeError, ("'a'", "numbers")),
    BadCall("a tensor of None", lambda m: m.tensor([None]), RuntimeError, ("None", "numbers")),
    BadCall("an unknown dtype", lambda m: m.zeros(2, dtype="float33"), TypeError, ("float33",)),
    BadCall("a negative size", lambda m: m.zeros(-1), RuntimeError, ("-1",)),
    BadCall("a range without step", lambda m: m.arange(0, 3, 0), RuntimeError, ("0",)),
    BadCall("a range in the other direction", lambda m: m.arange(0, 3, -1), RuntimeError, ("-1",)),
    BadCall("a negative number of steps", lambda m: m.linspace(0, 1, -1), RuntimeError, ("-1",)),
    BadCall("an identity of negative size", lambda m: m.eye(-1), RuntimeError, ("-1",)),
    BadCall("random integers from an empty range", lambda m: m.randint(3, 3, (2,)), RuntimeError, ("3",)),
    BadCall("a generator's seed that is text", lambda m: m.manual_seed("a"), ValueError, ("a",)),
    BadCall("an array of objects", lambda m: m.from_numpy(np.array([object()])), TypeError, ("object",)),
    BadCall("from_numpy of a list", lambda m: m.from_numpy([1, 2]), TypeError, ("list",)),
    BadCall("a parameter made of a list", lambda m: m.nn.Parameter([1.0]), AttributeError, ("list",)),
]

AUTOGRAD = [
    BadCall("backward of several elements", lambda m: (leaf(m, 3) * 2).backward(), RuntimeError, ("[3]", "gradient=")),
    BadCall("backward without a graph", lambda m: ones(m, 1).backward(), RuntimeError, ("requires_grad_()",)),
    BadCall("gradient of another shape", lambda m: (leaf(m, 3) * 2).backward(ones(m, 2)), RuntimeError, ("[2]", "[3]")),
    BadCall(
        "gradient that is not a tensor",
        lambda m: (leaf(m, 3) * 2).backward([1.0, 1.0, 1.0]),
        TypeError,
        ("float", "tensor("),
    ),
    BadCall("second backward", lambda m: release(m).backward(), RuntimeError, ("MulBackward0", "retain_graph=True")),
    BadCall(
        "backward after a write", lambda m: stale(m).backward(), RuntimeError, ("version 1", "version 0", "clone()")
    ),
    BadCall("inplace on a leaf", lambda m: leaf(m, 2).add_(1), RuntimeError, ("leaf", "no_grad()", "clone()")),
    BadCall(
        "assignment to an item of a leaf",
        lambda m: leaf(m, 2).__setitem__(0, 1.0),
        RuntimeError,
        ("leaf", "no_grad()", "clone()"),
    ),
    BadCall("inplace on expanded memory", lambda m: expand(m).add_(1), RuntimeError, ("[3]", "clone()")),
    BadCall("array of a leaf", lambda m: leaf(m, 2).numpy(), RuntimeError, ("detach()",)),
    BadCall(
        "requires_grad of a result",
        lambda m: (leaf(m, 2) * 2).requires_grad_(False),
        RuntimeError,
        ("MulBackward0", "detach()"),
    ),
    BadCall(
        "requires_grad that is not a boolean",
        lambda m: setattr(ones(m, 2), "requires_grad", 1),
        RuntimeError,
        ("1", "True"),
    ),
    BadCall(
        "grad of an unused input",
        lambda m: m.autograd.grad(leaf(m, 2).sum(), leaf(m, 2)),
        RuntimeError,
        ("[2]", "allow_unused"),
    ),
    BadCall("grad of nothing", lambda m: m.autograd.grad(leaf(m, 2).sum(), []), RuntimeError, ("input",)),
    BadCall("set_grad_enabled without a boolean", lambda m: m.set_grad_enabled(1), TypeError, ("1", "True")),
    BadCall("a grad of another shape", lambda m: setattr(leaf(m, 2), "grad", ones(m, 3)), RuntimeError, ("[3]", "[2]")),
]

EDGES = [
    BadCall("the softmax of integers", lambda m: m.softmax(integers(m, 1, 2), 0), RuntimeError, ("softmax()", "int64")),
    BadCall(
        "the eigenvalues of integers",
        lambda m: m.linalg.eigvalsh(ones(m, 2, 2, dtype="int64")),
        RuntimeError,
        ("linalg_eigvalsh()", "int64"),
    ),
    BadCall(
        "a norm of integer matrices",
        lambda m: m.linalg.matrix_norm(ones(m, 2, 2, dtype="int8"), float("inf")),
        RuntimeError,
        ("matrix_norm", "int8"),
    ),
    BadCall(
        "a system of two dtypes",
        lambda m: m.linalg.lstsq(ones(m, 3, 2), ones(m, 3, 1, dtype="float64")),
        RuntimeError,
        ("float32", "float64"),
    ),
    BadCall("a range beyond memory", lambda m: m.arange(1e30), RuntimeError, ("addresses",)),
    BadCall("an expansion beyond memory", lambda m: m.zeros(1).expand(2**62, 4), RuntimeError, (str(2**62), "4")),
    BadCall("renorm to no number", lambda m: m.renorm(ones(m, 2, 2), 2, 0, float("nan")), RuntimeError, ("nan",)),
    BadCall(
        "a weight with more dimensions than the loss",
        lambda m: m.nn.functional.binary_cross_entropy(ones(m, 3), ones(m, 3), weight=ones(m, 4, 3)),
        RuntimeError,
        ("[3]", "weight", "[4, 3]"),
    ),
    BadCall(
        "a weight of another size than the loss",
        lambda m: m.nn.functional.binary_cross_entropy_with_logits(ones(m, 3), ones(m, 3), pos_weight=ones(m, 4)),
        RuntimeError,
        ("[3]", "pos_weight", "[4]"),
    ),
    BadCall(
        "means of an image without rows",
        lambda m: m.nn.functional.adaptive_avg_pool2d(ones(m, 1, 2, 0, 4), 2),
        RuntimeError,
        ("[1, 2, 0, 4]", "dimension 2"),
    ),
]

MODULES = [
    BadCall("an optimiser of nothing", lambda m: m.optim.SGD([], lr=0.1), ValueError, ("empty",)),
    BadCall("an optimiser of numbers", lambda m: m.optim.SGD([1.0], lr=0.1), TypeError, ("float",)),
    BadCall("a negative learning rate", lambda m: m.optim.SGD([leaf(m, 2)], lr=-1.0), ValueError, ("-1.0",)),
    BadCall("a decay out of range", lambda m: m.optim.Adam([leaf(m, 2)], betas=(1.0, 0.5)), ValueError, ("1.0",)),
    BadCall(
        "a state with missing entries",
        lambda m: m.nn.Linear(2, 3).load_state_dict({}),
        RuntimeError,
        ("weight", "bias"),
    ),
    BadCall(
        "a state of another shape",
        lambda m: m.nn.Linear(2, 3).load_state_dict({"weight": ones(m, 2, 2), "bias": ones(m, 3)}),
        RuntimeError,
        ("weight", "[2, 2]", "[3, 2]"),
    ),
    BadCall("a module's missing attribute", lambda m: m.nn.Linear(2, 3).wieght, AttributeError, ("wieght", "Linear")),
    BadCall("dropout with a bad probability", lambda m: m.nn.Dropout(-0.5), ValueError, ("-0.5",)),
]

OPERANDS = [
    BadCall("a number compared with a tensor", lambda m: m.lt(2, ones(m, 3)), TypeError, ("'input'", "Tensor", "int")),
    BadCall("a maximum with a number", lambda m: m.maximum(ones(m, 3), 2.0), TypeError, ("'other'", "float")),
    BadCall("two numbers to a power", lambda m: m.pow(2, 3), TypeError, ("'input'", "int")),
    BadCall("the sine of a number", lambda m: m.sin(2.0), TypeError, ("'input'", "float")),
    BadCall("a hypotenuse of an integer", lambda m: m.hypot(integers(m, 3), 4), TypeError, ("'other'", "int")),
    BadCall(
        "parts of two dtypes",
        lambda m: m.complex(ones(m, 3), ones(m, 3, dtype="float64")),
        RuntimeError,
        ("imag", "float32", "float64"),
    ),
    BadCall("draws from integers", lambda m: m.multinomial(integers(m, 1, 0), 2), RuntimeError, ("int64", "float()")),
    BadCall(
        "a start of several integers",
        lambda m: m.narrow(ones(m, 4), 0, integers(m, 0, 1), 2),
        RuntimeError,
        ("start", "[2]"),
    ),
    BadCall("a vector that is rotated", lambda m: m.rot90(ones(m, 3)), RuntimeError, ("2 dimensions", "got 1")),
    BadCall("nothing to concatenate", lambda m: m.cat([]), ValueError, ("non-empty", "[]")),
    BadCall(
        "an adaptive pool of a matrix",
        lambda m: m.nn.functional.adaptive_max_pool2d(ones(m, 2, 3), (2, 2)),
        ValueError,
        ("3 or 4 dimensions", "[2, 3]"),
    ),
]

BAD_CALLS = [*SHAPES, *DIMENSIONS, *INDICES, *DTYPES, *ARGUMENTS, *AUTOGRAD, *EDGES, *MODULES, *OPERANDS]
