"""Functions as modules: the options of a function are given once, to the constructor."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, ClassVar

from ..ops.creation.factories import empty
from ..ops.functional import reduction_of
from ..tensor.tensor import Parameter, Tensor
from . import functional as F
from .init import constant_
from .module import Module

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "ChannelShuffle", "CosineSimilarity", "Hardshrink", "Hardsigmoid",
    "Hardswish", "Hardtanh", "LPPool1d", "LPPool2d", "LPPool3d", "LeakyReLU", "LocalResponseNorm", "LogSigmoid",
    "LogSoftmax", "Mish", "PReLU", "PairwiseDistance", "PixelShuffle", "PixelUnshuffle", "RReLU", "ReLU", "ReLU6",
    "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh",
    "Tanhshrink", "Threshold",
]  # fmt: skip


class _Signature:
    """The signature of a module class, derived from its function's options on access."""

    def __get__(self, instance: Any, kind: Any) -> inspect.Signature:
        if kind is OfFunction or kind.__init__ is not OfFunction.__init__:
            raise AttributeError("__signature__")
        return _parameters(kind)[1]


class _Forward:
    """The `forward` of a kind, made when it is first looked up: for all kinds that would take 2 ms at import."""

    def __init__(self, kind: type[OfFunction]) -> None:
        self.kind = kind

    def __get__(self, instance: Any, kind: type) -> Callable[..., Any]:
        self.kind.forward = forward = _forward(self.kind)  # type: ignore[method-assign]
        return forward.__get__(instance, kind)


class OfFunction(Module):
    """A function as a module.

    A subclass names the function, the number of its leading operands, and the options that are `buffers`. Its
    constructor takes the other arguments, with the same names and defaults, except those that it fixes. Without a
    function it is an ordinary class.
    """

    _function: ClassVar[Callable[..., Any]]
    _operands: ClassVar[int]
    _buffer_names: ClassVar[tuple[str, ...]]
    _shown: ClassVar[bool]
    _fixed: ClassVar[dict[str, Any]]
    __signature__ = _Signature()

    def __init_subclass__(
        cls,
        function: Callable[..., Any] | None = None,
        operands: int = 1,
        buffers: tuple[str, ...] = (),
        shown: bool = True,
        **fixed: Any,
    ) -> None:
        super().__init_subclass__()
        if function is not None:
            cls._function, cls._operands, cls._fixed = staticmethod(function), operands, fixed
            cls._buffer_names, cls._shown, cls.forward = buffers, shown, _Forward(cls)  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        options = self._options()
        try:
            given = options.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}{options}: {error}") from None
        given.apply_defaults()
        averaging = given.arguments.pop("size_average", None), given.arguments.pop("reduce", None)
        if averaging != (None, None):
            given.arguments["reduction"] = reduction_of(*averaging)
        for name, value in given.arguments.items():
            if name in self._buffer_names:
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def _options(self) -> inspect.Signature:
        kind: Any = type(self)
        return _parameters(kind)[1]

    def extra_repr(self) -> str:
        shown = {name: getattr(self, name) for name in self._options().parameters if self._shown}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items() if name != "inplace" or value)


@functools.cache
def _parameters(kind: Any) -> tuple[list[str], inspect.Signature]:
    """The names of the operands of a kind's function, and the signature of the options."""
    parameters = inspect.signature(kind._function).parameters.values()
    given = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
    options = [each for each in given[kind._operands :] if each.name not in kind._fixed and each.name != "training"]
    return [each.name for each in given[: kind._operands]], inspect.Signature(options)


def _forward(kind: Any) -> Callable[..., Any]:
    """The `forward` of a kind: its function, of the operands and the options, which are attributes of the module."""
    operands, options = _parameters(kind)
    function: Any = kind._function
    by_name = dict(kind._fixed)
    names = [name for name in options.parameters if name not in ("size_average", "reduce", "inplace")]
    called = inspect.signature(function).parameters
    if "training" in called:
        names.append("training")
    # "size_average" comes first, and belongs to the constructor alone
    positional = "size_average" not in called and list(called)[len(operands) : len(operands) + len(names)] == names
    positional = positional and all(called[name].kind is not inspect.Parameter.KEYWORD_ONLY for name in names)
    read = operator.attrgetter(*names, "__class__") if names else None  # of two or more names it gives a tuple
    overwrites = "inplace" in options.parameters
    plain, overwriting, count = function, functools.partial(function, inplace=True), len(operands)
    if overwrites:
        plain = function.__wrapped__

    def forward(self: Any, *given: Any, **named: Any) -> Any:
        if len(given) > count:
            raise TypeError(f"forward() takes {count + 1} positional arguments but {len(given) + 1} were given")
        if named or len(given) < count:
            given = signature.bind(self, *given, **named).args[1:]
        call = overwriting if overwrites and self.inplace else plain
        if read is None:
            return call(*given, **by_name)
        values = read(self)[:-1]
        if positional:
            return call(*given, *values, **by_name)
        return call(*given, **dict(zip(names, values, strict=True)), **by_name)

    parameter = inspect.Parameter
    signature = inspect.Signature([parameter(name, parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *operands)])
    forward.__signature__ = signature  # type: ignore[attr-defined]
    return forward


# Activations


class ReLU(OfFunction, function=F.relu):
    """max(input, 0)."""


class ReLU6(OfFunction, function=F.relu6):
    """min(max(input, 0), 6)."""


class LeakyReLU(OfFunction, function=F.leaky_relu):
    """Negative input times a slope."""


class RReLU(OfFunction, function=F.rrelu):
    """Negative input times slopes, which are random in training."""


class ELU(OfFunction, function=F.elu):
    """alpha * (exp(input) - 1) where input is negative."""


class CELU(OfFunction, function=F.celu):
    """alpha * (exp(input / alpha) - 1) where input is negative."""


class SELU(OfFunction, function=F.selu):
    """An `ELU` times a scale, which keeps mean 0 and variance 1 from layer to layer."""


class GELU(OfFunction, function=F.gelu):
    """input * P(X <= input) of a normal X; `approximate` is "none" or "tanh"."""


class SiLU(OfFunction, function=F.silu):
    """input * sigmoid(input)."""


class Mish(OfFunction, function=F.mish):
    """input * tanh(softplus(input))."""


class Tanh(OfFunction, function=F.tanh):
    """tanh, elementwise."""


class Sigmoid(OfFunction, function=F.sigmoid):
    """1 / (1 + exp(-input)), elementwise."""


class LogSigmoid(OfFunction, function=F.logsigmoid):
    """The logarithm of the sigmoid."""


class Hardtanh(OfFunction, function=F.hardtanh):
    """input within `min_val` and `max_val`."""


class Hardsigmoid(OfFunction, function=F.hardsigmoid):
    """min(max(input + 3, 0), 6) / 6."""


class Hardswish(OfFunction, function=F.hardswish):
    """input * hardsigmoid(input)."""


class Hardshrink(OfFunction, function=F.hardshrink):
    """input, but 0 within `lambd` of it."""


class Softshrink(OfFunction, function=F.softshrink):
    """input, nearer to 0 by `lambd`."""


class Tanhshrink(OfFunction, function=F.tanhshrink):
    """input - tanh(input)."""


class Softplus(OfFunction, function=F.softplus):
    """log(1 + exp(beta * input)) / beta."""


class Softsign(OfFunction, function=F.softsign):
    """input / (1 + |input|)."""


class Threshold(OfFunction, function=F.threshold):
    """input, or `value` where it is not above `threshold`."""


class GLU(OfFunction, function=F.glu):
    """One half of the input along `dim`, times the sigmoid of the other."""


class Softmax(OfFunction, function=F.softmax, _stacklevel=5, dtype=None):
    """exp(input), divided by the sums along `dim`."""


class Softmin(OfFunction, function=F.softmin, _stacklevel=5, dtype=None):
    """`Softmax` of -input."""


class LogSoftmax(OfFunction, function=F.log_softmax, _stacklevel=5, dtype=None):
    """The logarithm of `Softmax`."""


class Softmax2d(Module):
    """exp(input), divided by the sums over the channels of (N, C, H, W), or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


class PReLU(Module):
    """Negative input times slopes that are learned: one, or one for each channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialise all slopes."""
        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


# Distances


class CosineSimilarity(OfFunction, function=F.cosine_similarity, operands=2, shown=False):
    """The cosine of the angle between vectors along `dim`."""


class PairwiseDistance(OfFunction, function=F.pairwise_distance, operands=2, shown=False):
    """The p-norm of differences of vectors."""


# Images


class LPPool1d(OfFunction, function=F.lp_pool1d):
    """The p-norm of each window of (N, C, L), or (C, L)."""


class LPPool2d(OfFunction, function=F.lp_pool2d):
    """The p-norm of each window of images (N, C, H, W), or (C, H, W)."""


class LPPool3d(OfFunction, function=F.lp_pool3d):
    """The p-norm of each window of volumes (N, C, D, H, W), or (C, D, H, W)."""


class LocalResponseNorm(OfFunction, function=F.local_response_norm):
    """Values over a power of the mean of squares of the channels around them."""

    size: int
    alpha: float
    beta: float
    k: float

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class PixelShuffle(OfFunction, function=F.pixel_shuffle):
    """Rearrange channels into blocks of pixels."""


class PixelUnshuffle(OfFunction, function=F.pixel_unshuffle):
    """Rearrange blocks of pixels into channels."""


class ChannelShuffle(OfFunction, function=F.channel_shuffle):
    """The first channels of all groups, then the second ones, and so on."""
