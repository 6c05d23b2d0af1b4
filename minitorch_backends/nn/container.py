"""Modules that hold modules: Sequential, ModuleList and ModuleDict."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from operator import index
from typing import Any, Self

from .module import Module, _tree

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _Numbered(Module):
    """Children named "0", "1", ..., reached by index, slice and iteration."""

    def _items(self) -> list[Module]:
        return [value for value in vars(self).values() if isinstance(value, Module)]

    def _place(self, position: Any) -> str:
        """The name of the child at `position`, which may count from the end. Raises IndexError where there is none."""
        position = index(position)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range; expected an index into the {len(self)} modules")
        return list(self._names())[position]

    def _names(self) -> list[str]:
        return [name for name, value in vars(self).items() if isinstance(value, Module)]

    def _fill(self, modules: Iterable[Module]) -> Self:
        """Hold these modules, and no others, numbered from 0."""
        modules = list(modules)
        for name in self._names():
            delattr(self, name)
        for position, module in enumerate(modules):
            self.add_module(str(position), module)
        return self

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        return self.extend([module])

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for position, module in enumerate(list(modules), len(self)):
            self.add_module(str(position), module)
        return self

    def insert(self, position: int, module: Module) -> Self:
        """Put a module in before `position`."""
        modules = self._items()
        modules.insert(position, module)
        return self._fill(modules)

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._items())

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return type(self)()._fill(self._items()[position])
        return getattr(self, self._place(position))

    def __setitem__(self, position: int, module: Module) -> None:
        self.add_module(self._place(position), module)

    def __delitem__(self, position: Any) -> None:
        modules = self._items()
        del modules[position]
        self._fill(modules)


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


class ModuleList(_Numbered):
    """A list whose modules are children, so that their parameters are found."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.extend(modules)

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


class ModuleDict(Module):
    """A dict from names to modules that are children, so that their parameters are found."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()) -> None:
        self.update(modules)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules, in place of those of the same names."""
        for name, module in dict(modules).items():
            self[name] = module

    def _held(self) -> dict[str, Module]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Module)}

    def __getitem__(self, name: str) -> Module:
        return self._held()[name]

    def __setitem__(self, name: str, module: Module) -> None:
        if name in self:
            setattr(self, name, module)
        else:
            self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def pop(self, name: str) -> Module:
        """Take a module away. Raises KeyError where there is none of the name."""
        module = self[name]
        delattr(self, name)
        return module

    def __len__(self) -> int:
        return len(self._held())

    def __iter__(self) -> Iterator[str]:
        return iter(self._held())

    def __contains__(self, name: object) -> bool:
        return name in self._held()

    def keys(self) -> KeysView[str]:
        """The names, in the order of addition."""
        return self._held().keys()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._held().values()

    def items(self) -> ItemsView[str, Module]:
        """Names and modules."""
        return self._held().items()
