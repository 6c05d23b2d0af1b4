"""Modules that hold modules or parameters, in order or by name."""

from __future__ import annotations

import reprlib
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from operator import index
from typing import Any, ClassVar, Self

from ..tensor.tensor import Parameter, Tensor, kind_of
from .module import Module, _tree

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _Numbered(Module):
    """A container with the names "0", "1", ..., with access by index, slice and iteration."""

    def _items(self) -> list[Any]:
        return [vars(self)[name] for name in self._names()]

    def _place(self, position: Any) -> str:
        """The name of the entry at `position`, which may count from the end. Raises IndexError if it does not exist."""
        position = index(position)
        if not -len(self) <= position < len(self):
            raise IndexError(
                f"index {position} is out of range; expected an index into the {len(self)} {self._noun()}s"
            )
        return list(self._names())[position]

    def _noun(self) -> str:
        return "module"

    def _names(self) -> list[str]:
        """The names of the entries; an entry may be None."""
        held = vars(self).items()
        return [name for name, value in held if isinstance(value, Module) or (value is None and name.isdigit())]

    def _add(self, name: str, value: Any) -> None:
        self.add_module(name, value)

    def _fill(self, values: Iterable[Any]) -> Self:
        """Hold these, and no others, numbered from 0."""
        values = list(values)
        for name in self._names():
            delattr(self, name)
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Add one at the end."""
        return self.extend([value])

    def extend(self, values: Iterable[Any]) -> Self:
        """Add several at the end."""
        for position, value in enumerate(list(values), len(self)):
            self._add(str(position), value)
        return self

    def insert(self, position: int, value: Any) -> Self:
        """Put one in before `position`. Raises IndexError for a place that is none."""
        values = self._items()
        if not -len(values) <= position <= len(values):
            raise IndexError(
                f"index {position} is out of range for {len(values)} entries; expected -{len(values)} to {len(values)}"
            )
        values.insert(position, value)
        return self._fill(values)

    def pop(self, position: int = -1) -> Any:
        """Take one away, and return it."""
        value = self[position]
        del self[position]
        return value

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __add__(self, values: Iterable[Any]) -> Self:
        return type(self)()._fill([*self, *values])

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return self._part(position)
        return getattr(self, self._place(position))

    def _part(self, positions: slice) -> Self:
        return type(self)()._fill(self._items()[positions])

    def __setitem__(self, position: int, value: Any) -> None:
        self._add(self._place(position), value)

    def __delitem__(self, position: Any) -> None:
        values = self._items()
        del values[position]
        self._fill(values)


class Sequential(_Numbered):
    """Modules applied one after the other: `Sequential(Linear(2, 3), ReLU())`, or a dict from names to modules."""

    def __init__(self, *modules: Any) -> None:
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def forward(self, input: Any) -> Any:
        for value in self._items():
            input = value(input)
        return input

    def _part(self, positions: slice) -> Self:
        """Under their names."""
        return type(self)({name: getattr(self, name) for name in self._names()[positions]})


class ModuleList(_Numbered):
    """A list of modules registered as children, so that their parameters are found."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        self.extend(modules or ())

    def __repr__(self) -> str:
        """Equal neighbours in one line, as in torch: `(0-2): 3 x Linear(...)`."""
        runs: list[list[Any]] = []
        for position, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][1] == text:
                runs[-1][2] = position
            else:
                runs.append([position, text, position])
        lines = [
            (str(first), text) if first == last else (f"{first}-{last}", f"{last - first + 1} x {text}")
            for first, text, last in runs
        ]
        return _tree(self, lines)


class ParameterList(_Numbered):
    """A list of parameters, and of modules such as other lists; tensors become parameters."""

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        self.extend(values or ())

    def _add(self, name: str, value: Any) -> None:
        setattr(self, name, _parameter(value))

    def _noun(self) -> str:
        return "parameter"

    def _names(self) -> list[str]:
        return [name for name in vars(self) if name.isdigit()]

    def __repr__(self) -> str:
        return _format_parameters(self, enumerate(self))


# By name


class _Named(Module):
    """A dict of named entries."""

    _kind: ClassVar[type | tuple[type, ...]] = Module

    def _check(self, value: Any) -> Any:
        """Check a value and return its entry. Raises TypeError for an invalid value."""
        if not isinstance(value, Module):
            raise TypeError(f"{type(self).__name__}: expected a Module, got {kind_of(value)}")
        return value

    def update(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Add some, in place of those of the same names."""
        try:
            named = dict(values)
        except (TypeError, ValueError):
            raise TypeError(
                f"{type(self).__name__}(): argument 'values' must be a mapping or pairs of a name and a value, not "
                f"{kind_of(values)} {reprlib.repr(values)}"
            ) from None
        for name, value in named.items():
            self[name] = value

    def _entries(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if isinstance(value, self._kind)}

    def __getitem__(self, name: str) -> Any:
        return self._entries()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self:
            self._refuse_name(name)
        setattr(self, name, self._check(value))

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def get(self, name: str, default: Any = None) -> Any:
        """What has this name, or else the default."""
        return self._entries().get(name, default)

    def setdefault(self, name: str, default: Any) -> Any:
        """What has this name, which before is given to the default where nothing has it."""
        if name not in self:
            self[name] = default
        return self[name]

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last entry. Raises KeyError if the container is empty."""
        held = self._entries()
        if not held:
            raise KeyError(f"{type(self).__name__} is empty")
        name = list(held)[-1]
        return name, self.pop(name)

    def clear(self) -> None:
        """Take all away."""
        for name in self._entries():
            delattr(self, name)

    def copy(self) -> Self:
        """Another one with the same in it."""
        return type(self)(self._entries())  # type: ignore[call-arg]

    def __or__(self, values: Mapping[str, Any]) -> Self:
        made = self.copy()
        made.update(values.items())
        return made

    def __ior__(self, values: Mapping[str, Any]) -> Self:
        self.update(values.items())
        return self

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._entries())

    def pop(self, name: str) -> Any:
        """Remove and return an entry. Raises KeyError for an unknown name."""
        value = self[name]
        delattr(self, name)
        return value

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __contains__(self, name: object) -> bool:
        return name in self._entries()

    def keys(self) -> KeysView[str]:
        """The names, in the order of addition."""
        return self._entries().keys()

    def values(self) -> ValuesView[Any]:
        """The entries."""
        return self._entries().values()

    def items(self) -> ItemsView[str, Any]:
        """The names and entries."""
        return self._entries().items()


class ModuleDict(_Named):
    """A dict of modules registered as children, so that their parameters are found."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        self.update(modules or ())


class ParameterDict(_Named):
    """A dict from names to parameters, and to modules such as other dicts; tensors become parameters."""

    _kind = (Parameter, Module)

    def __init__(self, parameters: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]] | None = None) -> None:
        self.update(parameters or ())

    def _check(self, value: Any) -> Any:
        return _parameter(value)

    def __repr__(self) -> str:
        return _format_parameters(self, self.items())


def _parameter(value: Any) -> Any:
    """Check a value and return its parameter. Raises TypeError for an invalid value."""
    if not isinstance(value, (Tensor, Module)):
        raise TypeError(f"expected parameters, tensors or modules, got {kind_of(value)}")
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _format_parameters(module: Module, values: Iterable[tuple[Any, Any]]) -> str:
    """A repr with a line for each parameter."""

    def text(value: Any) -> str:
        if isinstance(value, Module):
            return repr(value)
        return f"Parameter containing: [{value.dtype} of size {'x'.join(map(str, value.shape))}]"

    return _tree(module, [(str(name), text(value)) for name, value in values])
