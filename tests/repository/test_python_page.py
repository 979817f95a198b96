"""docs/python.md is up to date, and what it shows is there: public names at top level, options of the command line."""

from dataclasses import fields
from typing import Any

import cortado
from cortado.cli.entry import make_parser
from cortado.options import Options
from helpers.cli_page import commands
from helpers.golden import Golden
from helpers.paths import ROOT
from helpers.python_page import page

# What an option means nothing without.
CAMERA = {"input_format": "grey8", "input_size": "8x8", "resize": "4x4"}
PARTNERS: dict[str, dict[str, Any]] = {
    "--input-format": CAMERA,
    "--resize-filter": CAMERA,
    "--weights auto": {"flash_budget": "64K"},
    "--weights float32": {"activations": "float32"},
    "--precision auto": {"min_sqnr": 30.0},
}


def test_the_page_about_python_is_up_to_date(golden: Golden) -> None:
    golden(ROOT / "docs" / "python.md", page())


def test_every_public_name_is_what_it_is_said_to_be() -> None:
    for name in cortado.__all__:
        value = getattr(cortado, name)
        assert name == "__version__" or callable(value), f"cortado.{name} is a {type(value).__name__}"


def test_every_option_of_python_is_one_of_the_command_line() -> None:
    parser = dict(commands(make_parser()))["compile"]
    given = {action.dest: action for action in parser._actions}
    for one in fields(Options):
        action = given[one.name]
        assert f"--{one.name.replace('_', '-')}" in action.option_strings
        default = getattr(one.default, "value", one.default)
        assert (tuple(action.default) if isinstance(action.default, list) else action.default) == default, one.name
        for text in action.choices or ():
            option = f"--{one.name.replace('_', '-')}"
            chosen = {**PARTNERS.get(option, PARTNERS.get(f"{option} {text}", {})), one.name: text}
            assert getattr(Options(**chosen), one.name).value == text
