"""Shapes of a script that no word of it shows: what starts itself again and again.

Law     a function multiplies when its body starts it in the background without waiting, or twice in one pipeline; a
        loop is endless when its condition is constant, and it multiplies when its body leaves something in the
        background and never waits, sleeps, reads or breaks. Plain recursion and plain endless loops are neither.
"""

from collections.abc import Iterable, Iterator

from paddock.shell import Script, nodes, simple_commands
from paddock.shell.syntax import Block, Compound, Function, Node, Pipeline, Statement

_PAUSES = frozenset({"wait", "sleep", "break", "exit", "return", "read", "usleep"})
_ALWAYS = {"while": frozenset({"true", ":", "1", "/bin/true"}), "until": frozenset({"false", "/bin/false"})}


def multiplies(function: Function) -> bool:
    for node in nodes(function.body):
        if isinstance(node, Pipeline) and _calls(node, function.name) > 1:
            return True
    statements = list(_statements(function.body))
    return any(
        statement.background and _calls(statement.node, function.name) for statement in statements
    ) and not _pauses(statements)


def endless(loop: Compound) -> bool:
    scripts = [part for part in loop.parts if isinstance(part, Script)]
    if not scripts:
        return False
    body = scripts[-1]
    if not any(statement.background for statement in body.statements) or _pauses(body.statements):
        return False
    keyword = loop.parts[0] if isinstance(loop.parts[0], str) else ""
    if loop.kind == "c_style_for_statement":
        return not any(part not in ("for", "((", "))", ";", ";;", "do", "done") for part in loop.parts[:-2])
    condition = [command.words[0].text for command in simple_commands(scripts[0]) if command.words]
    return len(scripts) > 1 and len(condition) == 1 and condition[0] in _ALWAYS.get(keyword, ())


def _calls(tree: Script | Node, name: str) -> int:
    return sum(1 for command in simple_commands(tree) if command.words and command.words[0].text == name)


def _pauses(statements: Iterable[Statement]) -> bool:
    waiting = (command.node for command in statements if not command.background)
    return any(
        command.words and command.words[0].text in _PAUSES for node in waiting for command in simple_commands(node)
    )


def _statements(tree: Node) -> Iterator[Statement]:
    for node in nodes(tree):
        if isinstance(node, Block):
            yield from node.body.statements
        elif isinstance(node, Compound):
            for part in node.parts:
                if isinstance(part, Script):
                    yield from part.statements
