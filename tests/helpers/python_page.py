"""docs/python.md, made from the signatures and docstrings of what `cortado` has at top level."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from functools import cache

import cortado
from cortado.base.option import declared
from cortado.options import Options
from helpers.paths import ROOT

SOURCE = ROOT / "src" / "cortado"
HEAD = """# Python

Everything that is public is an attribute of `cortado`, and is imported when it is first used:

```python
import cortado

model = cortado.prepare(module, example_inputs, batches)  # captured and quantized once
compiled = model.compile("cortex-m55", cortado.Options(optimize="ram", io="float"))
artifact = compiled.save("build/model")
cortado.evaluate("build/model", samples, labels).accuracy  # later, from the folder
```

An `Options` field is an option of `cortado compile` of the same name (`--input-layout` is `input_layout`) with the same
texts; members of the enums in `cortado.options` do as well. Mistakes are a `CortadoError`, whose text says what was
found, what was expected and what to do; what is only worth a look is a `CortadoWarning`. This page is made from
signatures and docstrings; `make golden` writes it again.
"""


def page() -> str:
    names = [name for name in cortado.__all__ if not name.startswith("__")]
    functions = [name for name in names if isinstance(_found(name), ast.FunctionDef)]
    classes = [name for name in names if name not in functions]
    return HEAD + "".join(_function(name) for name in functions) + "".join(_class(name) for name in classes)


@cache
def _module(home: str) -> ast.Module:
    return ast.parse((SOURCE / f"{home.replace('.', '/')}.py").read_text())


def _found(name: str) -> ast.FunctionDef | ast.ClassDef:
    """The definition in its own module: as it is written, not as Python shows it."""
    for node in _module(cortado._HOMES[name]).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
    raise AssertionError(f"cortado.{name} is not defined in cortado.{cortado._HOMES[name]}")


def _function(name: str) -> str:
    node = _found(name)
    assert isinstance(node, ast.FunctionDef)
    return f"\n## cortado.{name}\n\n{_signature(node)}\n{_docstring(node, name)}\n"


def _signature(node: ast.FunctionDef) -> str:
    """An argument to a line where one line would be too long."""
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    short = f"def {node.name}({', '.join(_arguments(node.args))}){returns}: ..."
    if len(short) > 100:
        arguments = "".join(f"    {text},\n" for text in _arguments(node.args))
        short = f"def {node.name}(\n{arguments}){returns}: ..."
    quoted = short.replace("'", '"')  # as the formatter has it
    return f"```python\n{quoted}\n```\n"


def _arguments(given: ast.arguments) -> Iterator[str]:
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    defaults += given.defaults
    for argument, default in zip(positional, defaults, strict=True):
        yield _argument(argument, default)
    if given.vararg is not None:
        yield f"*{ast.unparse(given.vararg)}"
    elif given.kwonlyargs:
        yield "*"
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(argument, default)


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) if default is None else f"{ast.unparse(argument)} = {ast.unparse(default)}"


def _docstring(node: ast.FunctionDef | ast.ClassDef, name: str) -> str:
    text = ast.get_docstring(node)
    assert text, f"cortado.{name} has no docstring"
    return inspect.cleandoc(text)


def _class(name: str) -> str:
    node = _found(name)
    assert isinstance(node, ast.ClassDef)
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
    told = [one for one in methods if ast.get_docstring(one)]
    parts = [f"\n## cortado.{name}\n\n{_docstring(node, name)}\n", _fields(name, node)]
    parts += [f"\n### {name}.{one.name}\n\n{_method(one)}{_docstring(one, f'{name}.{one.name}')}\n" for one in told]
    return "".join(parts)


def _method(node: ast.FunctionDef) -> str:
    """The signature without self; a property has none."""
    kinds = {ast.unparse(one) for one in node.decorator_list}
    if kinds & {"property", "cached_property"}:
        return ""
    if node.args.args and node.args.args[0].arg == "self":
        node.args.args = node.args.args[1:]
    return f"{_signature(node)}\n"


def _fields(name: str, node: ast.ClassDef) -> str:
    """The fields of a frozen dataclass, with the comments behind them."""
    lines = (SOURCE / f"{cortado._HOMES[name].replace('.', '/')}.py").read_text().splitlines()
    found = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    if not found:
        return ""
    rows = "".join(_row(one, lines[one.lineno - 1]) for one in found)
    return f"\n| field | |\n|---|---|\n{rows}"


def _row(one: ast.AnnAssign, line: str) -> str:
    """A field with its comment, or an option with its default and its help text."""
    told = one.value
    if not isinstance(told, ast.Call) or ast.unparse(told.func) != "option":
        return f"| `{_cell(ast.unparse(one))}` | {_cell(_comment(line))} |\n"
    spelled = f"{ast.unparse(one.target)}: {ast.unparse(one.annotation)} = {ast.unparse(told.args[0])}"
    (found,) = [field for field in fields(Options) if field.name == ast.unparse(one.target)]
    return f"| `{_cell(spelled)}` | {_cell(declared(found).help.replace('%%', '%'))} |\n"


def _comment(line: str) -> str:
    return line.partition("  # ")[2]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
