"""The registry of ops: declarations by `@op` and `@composite`, by name. A subject of ops is loaded at first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any


class Declarations(dict[str, Any]):
    """Declarations by name. `modules` has the module of each, which is imported when the name is first looked up, or
    when all declarations are listed."""

    def __init__(self) -> None:
        super().__init__()
        self.modules: dict[str, str] = {}

    def declare(self, name: str, value: Any, module: str) -> None:
        self[name], self.modules[name] = value, module

    def announce(self, modules: Mapping[str, str]) -> None:
        """Name the modules, not yet loaded, that declare names; in order."""
        self.modules = {**modules, **self.modules}

    def __missing__(self, name: str) -> Any:
        import_module(module := self.modules[name])
        if not super().__contains__(name):
            raise ImportError(f"{module} declares no {name!r}: files of two versions are mixed, install it again")
        return super().__getitem__(name)

    def _load(self) -> None:
        for name in self.modules.keys() - super().keys():
            import_module(self.modules[name])

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.modules else default

    def pop(self, name: str) -> Any:  # type: ignore[override]
        self.modules.pop(name, None)
        return super().pop(name)

    def __contains__(self, name: object) -> bool:
        return name in self.modules

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(tuple(self.modules))

    def __len__(self) -> int:
        return len(self.modules)

    def keys(self) -> Any:
        return self.modules.keys()

    def values(self) -> Any:
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]


registry = Declarations()
"""Every op (`op.Op`) and composite (`op.Composite`) by its public name, in the order of `minitorch_backends.index`. The
suite tests all of them by the samples of `tests/declared/`."""

functions = Declarations()
"""What `nn.functional` has, by name."""
