"""Makes `torch_signatures.txt` of a JSON file of torch's public callables.

    python -m tests.data.make_torch_signatures CALLABLES.json

The file has, for each namespace, names and their overloads as lists of parameters with defaults, "input, dim=None".
They are facts from torch 2.13's published stubs and `inspect.signature`. Objects other than torch's functions (a
module's own imports) are omitted, and so are overloads that another one of the name contains. For a method, "=" means
the parameters of the function of its name without the tensor and `out`. FACTORY stands for the options that most
factories share.
"""

import itertools
import json
import sys
from pathlib import Path

TARGET = Path(__file__).with_name("torch_signatures.txt")
FACTORY = "dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False"
IMPORTED = {
    *("Any", "Callable", "Counter", "DType", "Iterable", "Literal", "Mapping", "Optional", "ParamSpec", "Self"),
    *("Sequence", "SupportsFloat", "TypedDict", "TypeVar", "bisect_right", "cast", "overload", "override", "partial"),
    *("ref", "wraps", "classproperty", "handle_torch_function", "is_tensor_like", "assert_int_or_pair", "Tensor"),
    *("Optimizer.Tensor", "boolean_dispatch", "factory_kwargs", "rearrange", "variable"),
}


def parts_of(overload: str) -> list[str]:
    """The parameters of an overload: commas inside brackets and text part none."""
    parts, depth, quoted = [""], 0, False
    for character in overload:
        quoted ^= character == "'"
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def contains(longer: str, shorter: str) -> bool:
    """Whether every call that one overload takes is taken by another."""
    own, others = parts_of(shorter), parts_of(longer)
    first, second = (list(itertools.takewhile(lambda part: part != "*", each)) for each in (own, others))
    rest = set(others) - set(own) - {"*"}
    return second[: len(first)] == first and {*own} <= {*others, "*"} and all("=" in each for each in rest)


def smallest(overloads: list[str]) -> list[str]:
    kept: list[str] = []
    for each in sorted(set(overloads), key=len, reverse=True):
        if not any(contains(longer, each) for longer in kept):
            kept.append(each)
    return sorted(kept)


def as_method(overloads: list[str]) -> list[str]:
    """The overloads of a function as those of a method."""
    found = [", ".join(part for part in parts_of(each)[1:] if part != "out=None") for each in overloads]
    return smallest([each.removesuffix(", *") if each != "*" else "" for each in found])


def main() -> None:
    callables = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    lines = []
    functions = {name: smallest(overloads) for name, overloads in callables["torch"].items()}
    for namespace, names in callables.items():
        if isinstance(names, dict):
            lines.append(f"[{namespace}]")
        for name, overloads in names.items() if isinstance(names, dict) else ():
            if name in IMPORTED and (namespace, name) != ("torch", "Tensor"):
                continue
            known = smallest(overloads)
            if namespace == "Tensor" and name in functions and as_method(functions[name]) == known:
                known = ["="]
            lines.append(f"{name}: {' | '.join(known)}".rstrip().replace(FACTORY, "FACTORY"))
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
