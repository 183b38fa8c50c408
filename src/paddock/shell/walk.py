"""Walks the tree of a script: its commands wherever they stand, and the words of a plain one.

Law     `simple_commands` gives every simple command once, in the order of the text, those inside substitutions, loops,
        functions and here-documents included, whether they would run or not.
"""

from collections.abc import Iterator

from paddock.shell.parse import parse
from paddock.shell.syntax import (
    AndOr,
    Arith,
    Assign,
    Block,
    Compound,
    Function,
    Node,
    Param,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Sub,
    Word,
)


def words(command: str) -> list[str] | None:
    """The words of a command that is one simple command of literal words; None: it is more than that."""
    script = parse(command)
    if script.error or len(script.statements) != 1:
        return None
    node = script.statements[0].node
    if not isinstance(node, Simple) or node.assigns or node.redirects or script.statements[0].background:
        return None
    texts = [word.text for word in node.words]
    return [text for text in texts if text is not None] if None not in texts else None


def simple_commands(tree: Script | Node) -> Iterator[Simple]:
    """Every simple command of `tree`."""
    for node in nodes(tree):
        if isinstance(node, Simple):
            yield node


def nodes(tree: Script | Node) -> Iterator[Node]:
    """Every node of `tree`, outer before inner."""
    if isinstance(tree, Script):
        for statement in tree.statements:
            yield from nodes(statement.node)
        return
    yield tree
    for child in _children(tree):
        yield from nodes(child)


def _children(node: Node) -> Iterator[Script | Node]:
    if isinstance(node, Pipeline):
        yield from node.stages
    elif isinstance(node, AndOr):
        yield node.first
        for _, follower in node.rest:
            yield follower
    elif isinstance(node, Function):
        yield node.body
    elif isinstance(node, Block):
        yield node.body
        yield from _of_redirects(node.redirects)
    elif isinstance(node, Compound):
        for part in node.parts:
            if isinstance(part, Script):
                yield part
            elif not isinstance(part, str):
                yield from _of_word(part) if isinstance(part, Word) else _of_assign(part)
        yield from _of_redirects(node.redirects)
    else:
        for assign in node.assigns:
            yield from _of_assign(assign)
        for word in node.words:
            yield from _of_word(word)
        yield from _of_redirects(node.redirects)


def _of_redirects(redirects: tuple[Redirect, ...]) -> Iterator[Script]:
    for redirect in redirects:
        yield from _of_word(redirect.target)


def _of_assign(assign: Assign) -> Iterator[Script]:
    for word in (assign.value,) if isinstance(assign.value, Word) else assign.value:
        yield from _of_word(word)


def _of_word(word: Word) -> Iterator[Script]:
    for part in word.parts:
        if isinstance(part, Sub):
            yield part.script
        elif isinstance(part, (Param, Arith)):
            yield from part.scripts
