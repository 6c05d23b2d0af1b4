"""The tensor: a NumPy array with a place in the autograd graph.

Operations are not defined here: `@op` installs them as methods. A tensor holds its array, its node and the version
counter of its memory. This module defines its attributes and its conversions from and to Python and NumPy.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import instrumentation
from .dtypes import DType, canonical, dtype_of, scalar_dtype
from .memory import CPU, contiguous_format, is_in_format, layout, strided
from .memory import device as Device
from .methods import Methods
from .size import Size

construct: Any = None
"""Sets the array of a new tensor by the arguments of the constructor; `ops.creation.from_data` puts its function
here."""


class State:
    """Attributes that few tensors need, such as an accumulated gradient or the number of writes that rewrote their
    history.

    Attributes:
        base: for a view, the tensor whose memory and history it shares; otherwise None. (See `autograd.views.View`.)
        hooked_leaf: the node that holds the hooks of a leaf that does not currently require a gradient; unset for
            others.
    """

    __slots__ = ("grad", "hooked_leaf", "rewrites")

    base: Any = None
    hooked_leaf: Any

    def __init__(self) -> None:
        self.grad: Tensor | None = None
        self.rewrites = 0


class Tensor(Methods):
    """A multi-dimensional array of one dtype that records operations when it requires gradients.

    Make tensors with `mt.tensor(data)` and the other factories. The constructor is torch's legacy one:

    * `Tensor(2, 3)` has these sizes and uninitialised elements;
    * `Tensor(sequence)` has the default dtype, whatever the sequence holds;
    * `Tensor(tensor)` shares the tensor's memory.
    """

    __slots__ = ("__weakref__", "_array", "_node", "_state", "_cell")

    __array_priority__ = 1000

    _array: np.ndarray
    _node: Any
    _state: State | None
    _cell: Any  # version counter (`autograd.cells`); None while 0 and unshared

    def __init__(self, *sizes: Any, data: Any = None, device: Any = None) -> None:
        self._node = self._state = self._cell = None
        construct(self, sizes if data is None else (*sizes, data), device)
        if instrumentation.active:
            instrumentation.note_birth(self)

    # Shape, dtype and memory

    @property
    def shape(self) -> Size:
        return Size(self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape as a `Size`, or the size of dimension `dim`."""
        return self.shape if dim is None else self._array.shape[self._wrap_dim(dim)]

    @property
    def dtype(self) -> DType:
        return dtype_of(self._array)

    @property
    def ndim(self) -> int:
        return self._array.ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    ndimension = dim

    def numel(self) -> int:
        """The number of elements."""
        return self._array.size

    nelement = numel

    @property
    def itemsize(self) -> int:
        return self._array.itemsize

    def element_size(self) -> int:
        """Bytes per element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        return self._array.nbytes

    def stride(self, dim: int | None = None) -> Any:
        """The strides in elements (not bytes), or the stride of dimension `dim`."""
        strides = tuple(stride // self._array.itemsize for stride in self._array.strides)
        return strides if dim is None else strides[self._wrap_dim(dim)]

    def _wrap_dim(self, dim: Any) -> int:
        """`dim` as an int. Raises IndexError if it is out of range."""
        ndim = self._array.ndim
        if not hasattr(dim, "__index__") or isinstance(dim, type):
            raise TypeError(f"a dimension must be an int, not {type(dim).__name__} {dim!r}")
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})"
            )
        return dim

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        """Whether the elements lie in memory in row-major order without gaps, or in another `memory_format`."""
        if memory_format is contiguous_format:
            return self._array.flags.c_contiguous
        return is_in_format(self._array, memory_format)

    def data_ptr(self) -> int:
        """The address of the first element in memory."""
        return self._array.ctypes.data

    @property
    def device(self) -> Device:
        return CPU

    def get_device(self) -> int:
        """The index of the device: -1, as for the CPU in torch."""
        return -1

    @property
    def layout(self) -> layout:
        return strided

    @property
    def is_cpu(self) -> bool:
        return True

    @property
    def is_cuda(self) -> bool:
        return False

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    # Autograd

    @property
    def state(self) -> State:
        """The rarely needed attributes, allocated on first use."""
        if self._state is None:
            self._state = State()
        return self._state

    # Conversions

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The array itself, sharing memory. Raises RuntimeError for a tensor that requires gradients, unless `force` is
        set."""
        if self.requires_grad and not force:
            raise RuntimeError(
                "can't call numpy() on a Tensor that requires grad, since writes to the array would go unrecorded; "
                "use tensor.detach().numpy(), or numpy(force=True)"
            )
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
        """Wrap the result of a NumPy function as a tensor. Booleans stay booleans; torch converts them to uint8."""
        return adopt(canonical(np.asarray(array)))

    def item(self) -> Any:
        """The value of a tensor of one element as a Python number. Raises RuntimeError for more or none."""
        if self._array.size != 1:
            raise RuntimeError(
                f"a Tensor with {self._array.size} elements cannot be converted to a number; expected exactly one "
                "element, "
                "use tolist() for more"
            )
        return self.tolist() if self._array.ndim == 0 else self._array.reshape(()).tolist()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers, or one number for a 0-dim tensor. Raises NotImplementedError
        for the formats of 4 bits."""
        array, letter = self._array, self.dtype.letter
        if letter == "p":
            raise NotImplementedError(f"tolist() is not implemented for {self.dtype!r}; use view(mt.uint8)")
        return (array.astype(np.float32) if letter == "n" or self.dtype.name == "bfloat16" else array).tolist()

    def _real_item(self) -> Any:
        """`item` for a number whose imaginary part is 0, as a real number. Raises RuntimeError for other complex
        numbers."""
        value = self.item()
        if not isinstance(value, complex):
            return value
        if value.imag:
            raise RuntimeError(f"{value} has an imaginary part and cannot be converted to a real number; use .real")
        return value.real

    def __float__(self) -> float:
        return float(self._real_item())

    def __int__(self) -> int:
        return int(self._real_item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        if self._array.size != 1:
            raise RuntimeError(
                f"the truth value of a Tensor with {self._array.size} elements is ambiguous; expected exactly one, "
                "use any() or all()"
            )
        return bool(self.item())

    def __index__(self) -> int:
        if self.dtype.category > 1 or self._array.size != 1:
            raise TypeError(
                "only integer tensors of a single element can be converted to an index, got "
                f"{self.dtype!r}{list(self.shape)}"
            )
        return int(self.item())

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a 0-d tensor; expected at least one dimension")
        return self._array.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self._array.ndim == 0:
            raise TypeError("iteration over a 0-d tensor; expected at least one dimension")
        return iter(self.unbind(0))

    def __contains__(self, value: Any) -> bool:
        return bool(self.eq(value).any())

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        return (
            format(self.item(), spec)
            if self._array.ndim == 0 and type(self) is Tensor
            else object.__format__(self, spec)
        )

    def __reduce__(self) -> tuple:
        """Pickle without the graph: a tensor that requires a gradient becomes a leaf that requires one."""
        return _rebuild, (type(self), self._array, self.requires_grad)


for _name in ("ipu", "maia", "meta", "mkldnn", "mps", "mtia", "nested", "quantized", "sparse", "sparse_csr", "vulkan",
              "xla", "xpu"):  # fmt: skip
    setattr(Tensor, f"is_{_name}", property(lambda self: False, doc=f"Whether it is torch's kind {_name!r}: False."))


class Parameter(Tensor):
    """A trainable tensor of a module: a leaf that requires gradients and shares the memory of `data`."""

    __slots__ = ()

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise AttributeError(f"Parameter(): data must be a Tensor, got {kind_of(data)}; use mt.tensor(data) first")
        if data._cell is None:
            data._cell = [0]
        self._array, self._cell, self._node, self._state = data._array, data._cell, None, None
        self.requires_grad_(requires_grad)


def _rebuild(cls: type[Tensor], array: np.ndarray, requires_grad: bool) -> Any:
    tensor = object.__new__(cls)
    tensor._array, tensor._node, tensor._state, tensor._cell = canonical(array), None, None, None
    if instrumentation.active:
        instrumentation.note_birth(tensor)
    return tensor.requires_grad_(requires_grad)


def adopt(array: np.ndarray, node: Any = None) -> Tensor:
    """Make a tensor from `array`, produced by `node`."""
    tensor = object.__new__(Tensor)
    tensor._array, tensor._node = array, node
    tensor._state = tensor._cell = None
    if instrumentation.active:
        instrumentation.note_birth(tensor)
    return tensor


def sharing(tensor: Tensor, array: np.ndarray) -> Tensor:
    """Make a tensor from `array`, which shares memory with `tensor`. They share a version counter."""
    if tensor._cell is None:
        tensor._cell = [0]
    alias = object.__new__(Tensor)
    alias._array, alias._cell = array, tensor._cell
    alias._node = alias._state = None
    return alias


def is_foreign(value: Any) -> bool:
    """Whether `value` is an array or a tensor of a library other than NumPy and this one."""
    if isinstance(value, (Tensor, np.ndarray, np.generic, type)):
        return False
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def kind_of(value: Any) -> str:
    """The name of a value's type in messages: "int", or "torch.Tensor" for another library's type."""
    kind = type(value)
    library = f"{kind.__module__.partition('.')[0]}." if isinstance(value, np.ndarray) or is_foreign(value) else ""
    return library + kind.__name__


def not_a_tensor(name: str, argument: str, value: Any, expected: str = "a Tensor") -> TypeError:
    """The TypeError for an argument of function `name` that must be a tensor. Tensors of other libraries are named."""
    if "." in (kind := kind_of(value)):
        wanted = re.sub(r"\b(a )?Tensor\b", f"a {__name__.partition('.')[0]} Tensor", expected)
        return TypeError(f"{name}(): argument {argument!r} must be {wanted}, got {kind}; use mt.as_tensor")
    return TypeError(f"{name}(): argument {argument!r} must be {expected}, not {kind}")


def refuse_wide_integer(name: str, argument: str, value: Any) -> None:
    """Raise OverflowError, as torch does, for a Python int of more than 64 bits passed to function `name`."""
    if type(value) is int and not -(2**63) <= value < 2**64:
        text = reprlib.repr(value)
        raise OverflowError(f"{name}(): {argument} must be an integer of at most 64 bits, got {text}; use a float")


def as_array(value: Any) -> np.ndarray:
    """The array of a tensor, an array unchanged, or a 0-dim array of torch's dtype for a Python number."""
    if isinstance(value, Tensor):
        return value._array
    return value if type(value) is np.ndarray else np.asarray(value, scalar_dtype(value).dtype)
