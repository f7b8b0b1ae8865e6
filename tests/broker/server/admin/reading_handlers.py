"""The behaviour of handlers, read from their source, for comparison with their routes."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

Nodes = tuple[ast.AST, ...]
OURS = "magnetar_broker.server.admin."
ELSEWHERE = OURS + "operations."
"""The module of operations that run in another process: the request does not reach them."""


def functions_of(
    handler: Callable[..., Any], with_objects: bool = False
) -> Iterator[tuple[Nodes, dict[str, Any]]]:
    """Yield the syntax of a handler and of all our functions that it uses, each with its globals.

    With `with_objects`, include all methods of the objects that it creates.
    """
    found: set[FunctionType] = set()
    waiting = [handler]
    while waiting:
        used = waiting.pop()
        if isinstance(used, type):
            waiting += _methods(used) if with_objects else []
            continue
        function = getattr(used, "__func__", used)
        if function in found or not isinstance(function, FunctionType):
            continue
        found.add(function)
        syntax = syntax_of(function)
        yield syntax, function.__globals__
        waiting += _used(syntax, function, getattr(used, "__self__", None))


def _methods(of: type) -> list[Callable[..., Any]]:
    """Return the methods written in the file of the class; Python generates others."""
    file = getattr(sys.modules[of.__module__], "__file__", None)
    functions = [one for one in vars(of).values() if isinstance(one, FunctionType)]
    return [one for one in functions if one.__code__.co_filename == file]


@cache
def syntax_of(function: Callable[..., Any]) -> Nodes:
    """Return all nodes of the syntax of a function."""
    return tuple(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))))


def _used(syntax: Nodes, function: FunctionType, of: object) -> Iterator[Callable[..., Any]]:
    local = set(_variables(function.__code__))
    calls = [node for node in syntax if isinstance(node, ast.Call)]
    called = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    for node in syntax:
        used = None
        if isinstance(node, ast.Name) and node.id not in local:
            used = function.__globals__.get(node.id)
            if isinstance(used, type) and node.id not in called:
                continue  # in an annotation
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = getattr(of, node.attr, None) if node.value.id == "self" else None
        module = str(getattr(used, "__module__", ""))
        if callable(used) and module.startswith(OURS) and not module.startswith(ELSEWHERE):
            yield used


def _variables(code: CodeType) -> Iterator[str]:
    """Yield the variables of a function, and of those inside it."""
    yield from code.co_varnames
    yield from code.co_cellvars
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _variables(inner)


def attributes_of(handler: Callable[..., Any]) -> set[str]:
    """Return the names of all attributes that a handler reads, each after that of its object."""
    return {
        f"{getattr(node.value, 'attr', getattr(node.value, 'id', ''))}.{node.attr}"
        for syntax, _ in functions_of(handler, with_objects=True)
        for node in syntax
        if isinstance(node, ast.Attribute)
    }


def reads_body(handler: Callable[..., Any]) -> bool:
    """Tell whether a handler reads the body."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("body", "json", "json_or_none")
        and isinstance(node.value, ast.Name)
        and node.value.id == "request"
        for syntax, _ in functions_of(handler)
        for node in syntax
    )


def query_of(handler: Callable[..., Any]) -> set[str]:
    """Return the parameters of the query that a handler reads under a fixed name."""
    found = set()
    for syntax, names in functions_of(handler):
        for node in syntax:
            name = _queried(node)
            if isinstance(name, ast.Constant):
                found.add(str(name.value))
            elif isinstance(name, ast.Name) and isinstance(names.get(name.id), str):
                found.add(names[name.id])
    return found


def _queried(node: ast.AST) -> ast.expr | None:
    """Return the name of the parameter, if this expression reads one."""
    match node:
        case (
            ast.Call(func=ast.Name("_in_query"), args=[_, ast.Constant() as name, *_])
            | ast.Call(func=ast.Attribute(ast.Name("request"), "flag"), args=[name])
        ):
            return name
        case ast.Call(func=ast.Attribute(ast.Attribute(attr="query"), "get"), args=[name, *_]):
            return name
        case ast.Call(func=ast.Attribute(attr="values_of"), args=[name]):
            return name
        case ast.Subscript(value=ast.Attribute(attr="query"), slice=name):
            return name
        case ast.Compare(left=name, comparators=[ast.Attribute(attr="query")]):
            return name
    return None
