"""The targets, and the calls that are drawn for them."""

import inspect
import random
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import minitorch_backends as mt
from minitorch_backends.tensor.registry import registry

from ..declared.table import load
from .values import TENSORS, expression, hostile, laid_out

__all__ = ["Case", "draw", "targets"]

SPACES = {
    "mt": mt,
    "mt.nn.functional": mt.nn.functional,
    "mt.linalg": mt.linalg,
    "mt.fft": mt.fft,
    "mt.special": getattr(mt, "special", None),
    "mt.nn.init": mt.nn.init,
    "mt.nn.utils": mt.nn.utils,
    "mt.autograd": mt.autograd,
    "mt.autograd.functional": mt.autograd.functional,
    "mt.explain": mt.explain,
    "mt.testing": mt.testing,
    "mt.utils": mt.utils,
    "mt.func": mt.func,
    "mt.Generator": mt.Generator,
    "mt.Tensor": mt.Tensor,
    "mt.nn": mt.nn,
    "mt.nn.Module": mt.nn.Module,
    "mt.optim": mt.optim,
    "mt.optim.Optimizer": mt.optim.Optimizer,
    "mt.optim.lr_scheduler": mt.optim.lr_scheduler,
    "mt.optim.lr_scheduler.LRScheduler": mt.optim.lr_scheduler.LRScheduler,
}

CONSTRUCTED = (mt.nn.Module, mt.optim.Optimizer, mt.optim.lr_scheduler.LRScheduler)
"""Classes whose subclasses are targets too: the worker uses what a call makes."""

LEFT_OUT = {
    "mt.warmup": "compiles every kernel of a level",
    "mt.stop_spinning": "sets the environment of the process",
    "mt.Tensor.__class_getitem__": "Python's own",
    "mt.load_ipython_extension": "IPython passes its shell",
    "mt.seed": "is there to change the generator by chance",
    "mt.Tensor.index_assign_": "is a part of assignments by index",
    "mt.Tensor.index_multiply_": "is a part of scatter",
    **dict.fromkeys(
        map("mt.Generator.{}".format, ("exponential", "integers", "normal", "permutation", "uniform")),
        "draws arrays for functions of the package",
    ),
    "mt.Tensor.__array__": "NumPy passes a dtype",
    "mt.Tensor.__array_wrap__": "NumPy passes an array",
    "mt.Tensor.__format__": "Python passes text",
    "mt.Tensor.__deepcopy__": "Python passes a dict",
}

_TENSOR = "mt.ones(2, 3)"
_SGD = "mt.optim.SGD([mt.ones(2, requires_grad=True)], 0.1)"

RECEIVERS = {
    "mt.Generator": "mt.Generator()", "mt.Tensor": _TENSOR, "mt.nn.Module": "mt.nn.Linear(3, 2)",
    "mt.optim.Optimizer": _SGD, "mt.optim.lr_scheduler.LRScheduler": f"mt.optim.lr_scheduler.StepLR({_SGD}, 2)",
}  # fmt: skip
"""What the methods of a class are called on."""

FAMILIAR = {
    "input": "mt.ones(2, 3)", "other": "mt.ones(2, 3)", "tensor": "mt.ones(2, 3)",
    "tensors": "[mt.ones(2, 3)]", "size": "(2, 3)", "dim": "0", "func": "mt.sum", "inputs": "mt.ones(2, 3)",
    "params": "[mt.ones(2, 3, requires_grad=True)]", "optimizer": _SGD, "module": "mt.nn.Linear(3, 2)",
    "model": "mt.nn.Linear(3, 2)", "parameters": "[mt.ones(2, 3, requires_grad=True)]",
}  # fmt: skip
"""Values of required parameters that no sample shows."""


class Case(NamedTuple):
    """A call as source code: what is called, its positional and its keyword arguments."""

    target: str
    args: tuple[str, ...]
    named: dict[str, str]

    @property
    def code(self) -> str:
        return f"{self.target}({', '.join([*self.args, *(f'{name}={value}' for name, value in self.named.items())])})"


class Target(NamedTuple):
    """A function, the calls that its samples show, and its parameters."""

    code: str
    samples: Callable[[], Iterator[Any]] | None
    parameters: tuple[inspect.Parameter, ...]


def targets() -> dict[str, Target]:
    """Every public function, method and constructor, and every registered op that users do not call, by their code."""
    found = {}
    for space, module in SPACES.items():
        for name in dir(module) if module is not None else ():
            function, code = getattr(module, name), f"{space}.{name}"
            if _is_called(name, function, module) and code not in LEFT_OUT:
                declared = registry.get(name) or registry.get(name.strip("_"))
                found[code] = _target(code, function, declared if RECEIVERS.get(space) in (None, _TENSOR) else None)
    public = {name.rpartition(".")[2] for name in found}
    for name, declared in registry.items():
        if name not in public:
            found[code] = _target(code := f"registry[{name!r}].public", declared.public, declared)
    return found


def _is_called(name: str, function: Any, module: Any) -> bool:
    if name.startswith("__") and module is mt.Tensor:
        return name in vars(mt.Tensor) and isinstance(function, types.FunctionType) and name != "__init__"
    if name.startswith("_") or name not in getattr(module, "__all__", [name]):
        return False
    if isinstance(function, type):
        return issubclass(function, CONSTRUCTED)
    return isinstance(function, (types.FunctionType, types.MethodType))


def _target(code: str, function: Any, declared: Any) -> Target:
    try:
        parameters = tuple(inspect.signature(function).parameters.values())
    except ValueError:
        parameters = ()
    samples = load()[declared.name].samples if declared is not None else None
    return Target(code, samples, parameters)


def draw(target: Target, seed: int, number: int) -> Case:
    """The case of this number: a sample's call, or one made up from the signature, with one to three places changed."""
    choice = random.Random(f"{seed} {target.code} {number}")
    args, named = _sample(target, choice)
    for _ in range(choice.choice((1, 1, 1, 2, 3))):
        _change(target, args, named, choice)
    return Case(target.code, tuple(args), named)


def _sample(target: Target, choice: random.Random) -> tuple[list[str], dict[str, str]]:
    samples = list(target.samples()) if target.samples is not None else []
    if samples:
        sample = choice.choice(samples)
        args = list(map(expression, sample.args))
        if _receiver(target) and not args[0].startswith("mt."):
            args[0] = _receiver(target)
        return args, {key: expression(each) for key, each in sample.kwargs.items()}
    required = [each for each in target.parameters if each.default is each.empty]
    args = [_familiar(each, choice) for each in required if each.kind is each.POSITIONAL_OR_KEYWORD]
    if _receiver(target):
        args[:1] = [_receiver(target)]
    args += [_familiar(each, choice) for each in required if each.kind is each.VAR_POSITIONAL for _ in range(2)]
    return args, {each.name: _familiar(each, choice) for each in required if each.kind is each.KEYWORD_ONLY}


def _receiver(target: Target) -> str:
    return RECEIVERS.get(target.code.rpartition(".")[0], "")


def _familiar(parameter: inspect.Parameter, choice: random.Random) -> str:
    return FAMILIAR.get(parameter.name) or choice.choice(("1", "2", "0.5", "(2, 2)", "mt.ones(2, 3)", hostile(choice)))


def _change(target: Target, args: list[str], named: dict[str, str], choice: random.Random) -> None:
    """Replace an argument, or an element of one, lay a tensor out anew, or give an argument that was left out."""
    later = target.parameters[len(args) :]
    absent = [each.name for each in later if each.name not in named and each.kind in (1, 3)] + ["out"]
    places: list[int | str] = [*range(len(args)), *named]
    place = choice.choice(places) if places and choice.random() < 0.7 else choice.choice(absent)
    old = args[place] if isinstance(place, int) else named.get(place, "")
    is_tensor = old.startswith("mt.") and old != "mt.Tensor"
    is_receiver = place == 0 and bool(_receiver(target))
    if is_receiver and not target.code.startswith("mt.Tensor."):
        return
    if is_tensor and choice.random() < 0.4:
        new = laid_out(choice, old)
    elif is_receiver or place == "out" or (is_tensor and choice.random() < 0.5):
        new = choice.choice(TENSORS)
    elif old.startswith(("(", "[")) and "mt." not in old and choice.random() < 0.6:
        parts = old.strip("()[]").split(", ")
        parts[choice.randrange(len(parts))] = hostile(choice)
        new = f"({', '.join(filter(None, parts))},)"
    else:
        new = hostile(choice)
    if isinstance(place, int):
        args[place] = new
    else:
        named[place] = new
