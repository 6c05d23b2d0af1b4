"""All of ONNX's own cases of operators."""

import pkgutil

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")

from tests.interop.test_onnx import ANOTHER_RULE, cases_of, check, is_read

COUNTS = {"passed": 0, "other types or opsets": 0, "no implementation": 0}


def test_all_cases_of_onnx():
    from onnx.backend.test.case import node

    wrong = []
    for case in cases_of(*(each.name for each in pkgutil.iter_modules(node.__path__) if each.name != "ai_onnx_ml")):
        if case.model is None or case.name in ANOTHER_RULE:
            continue
        if not is_read(case.model):
            COUNTS["other types or opsets"] += 1
            continue
        try:
            check(case)
            COUNTS["passed"] += 1
        except NotImplementedError:
            COUNTS["no implementation"] += 1
        except Exception as error:
            wrong.append(f"{case.name}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
    assert COUNTS["passed"] > 1400, COUNTS
