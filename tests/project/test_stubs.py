"""The type stubs say what the declarations say."""

import importlib

from ..stubs import stubs


def test_stubs_are_those_of_the_declarations():
    for path, text in stubs().items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is out of date: run `make stubs`"


def test_what_type_checkers_see_runs():
    importlib.import_module("tests.support.types_seen")
