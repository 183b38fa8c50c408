"""The grammar's tree to the shell's tree: one method per kind of node.

Law     an and-or list is flat, a redirection belongs to the command it stands at, `|&` and `&>` are spelled out,
        comments and separators are gone. Positions are used for one thing: words that touch are one word.
Errors  `Unsupported` for what is not understood; `salvage` then keeps the statements that are.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from tree_sitter import Node as Syntax
from tree_sitter import Tree

from paddock.shell.documents import MARK, STRING, HereDocument
from paddock.shell.syntax import (
    AndOr,
    Assign,
    Block,
    Compound,
    Function,
    Node,
    Part,
    Pipeline,
    Redirect,
    RedirectOp,
    Script,
    Simple,
    Statement,
    Sub,
    Word,
)
from paddock.shell.words import EMPTY, Unsupported, concat, document_text, literal, nested, quoted, word

QUOTE = "\ufdd2"
"""Stands for a double quote inside an expanding here-document, where it is an ordinary character."""
TOO_DEEP = "nested too deep"
MAX_SALVAGE_STEPS = 20_000
"""Nodes of the grammar's tree: far more than a command has that someone mistyped."""
_CHARS_PER_STEP = 512

_WORDS = frozenset({
    "word", "number", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion", "expansion",
    "arithmetic_expansion", "command_substitution", "process_substitution", "brace_expression", "variable_name",
    "test_operator", "extglob_pattern", "regex",
})  # fmt: skip
_STATEMENTS = frozenset({
    "command", "redirected_statement", "list", "pipeline", "negated_command", "subshell", "compound_statement",
    "if_statement", "while_statement", "for_statement", "c_style_for_statement", "case_statement",
    "function_definition", "test_command", "declaration_command", "unset_command", "variable_assignment",
    "variable_assignments",
})  # fmt: skip
_SEPARATORS = frozenset({";", "&", "\n"})
_DESCRIPTOR = re.compile(r"[0-9]+|-")
_NUMBER = re.compile(r"[0-9]{1,9}")
_OPTION = re.compile(r"-[A-Za-z0-9-]+")
"""What the grammar takes for a descriptor where a redirection touches it, as in `head -n2>f`."""
_GAP = re.compile(r"(?:\\\n)*[ \t](?:[ \t]|\\\n)*")


class Lowering:
    """One command's text and its here-documents."""

    def __init__(
        self,
        source: str,
        documents: Sequence[HereDocument],
        *,
        parse_document: Callable[[str], Tree | None],
        depth_left: int,
    ) -> None:
        self.source = source
        self.documents = documents
        self.parse_document = parse_document
        self.depth_left = depth_left
        self.continued = "\\\n" in source
        self.steps_left: int | None = None
        """How much of the grammar's tree may still be looked at; None: all of it, as one pass does."""

    def slice(self, start: int, end: int) -> str:
        if self.steps_left is not None:
            self.step((end - start) // _CHARS_PER_STEP)
        return self.source[start:end]

    def text(self, tree: Syntax) -> str:
        return self.slice(tree.start_byte, tree.end_byte)

    def script(self, children: Sequence[Syntax]) -> Script:
        """Statements from a run of nodes."""
        statements: list[Statement] = []
        for child in children:
            kind = child.type
            if kind == "&":
                if not statements:
                    raise Unsupported("`&` after nothing")
                statements[-1] = replace(statements[-1], background=True)
            elif kind in _STATEMENTS:
                statements.append(Statement(self.node(child)))
            elif kind == "file_redirect":
                redirects: list[Redirect] = []
                words = tuple(self._redirect(child, redirects))
                statements.append(Statement(Simple((), words, tuple(redirects))))
            elif kind not in _SEPARATORS and kind != "comment":
                raise Unsupported(f"unexpected {self.text(child)[:40]!r}")
        return Script(tuple(statements))

    def salvage(self, tree: Syntax) -> tuple[Statement, ...]:
        """The statements that are understood in a tree that as a whole is not, as far as `MAX_SALVAGE_STEPS` lead.

        A statement that is not understood is looked into, level by level: without an end to it the time would grow
        with the square of the text.
        """
        statements: list[Statement] = []
        pending = [tree]
        self.steps_left = MAX_SALVAGE_STEPS
        while pending and self.steps_left > 0:
            here = pending.pop()
            self.steps_left -= 1
            if here.type in _STATEMENTS and not here.has_error:
                try:
                    statements.append(Statement(self.node(here)))
                    continue
                except Unsupported:
                    pass
            pending.extend(reversed(here.children))
        return tuple(statements)

    def step(self, count: int = 1) -> None:
        """Counts what was looked at."""
        if self.steps_left is None:
            return
        self.steps_left -= count
        if self.steps_left <= 0:
            raise Unsupported("too much of it is not understood")

    def node(self, tree: Syntax) -> Node:
        if self.depth_left <= 0:
            raise Unsupported(TOO_DEEP)
        self.step(len(tree.children))
        self.depth_left -= 1
        try:
            return self._node(tree)
        finally:
            self.depth_left += 1

    def _node(self, tree: Syntax) -> Node:
        kind = tree.type
        if kind == "command":
            return self._command(tree)
        if kind == "redirected_statement":
            return self._redirected(tree)
        if kind == "list":
            return self._list(tree)
        if kind in ("pipeline", "negated_command"):
            return self._pipeline(tree)
        if kind in ("subshell", "compound_statement"):
            return self._block(tree)
        if kind == "function_definition":
            return self._function(tree)
        if kind in ("declaration_command", "unset_command"):
            return Simple((), tuple(self._declared(tree)))
        if kind == "variable_assignment":
            return Simple((self._assign(tree),), ())
        if kind == "variable_assignments":
            return Simple(tuple(self._assign(child) for child in tree.children), ())
        if kind == "test_command" and tree.children[0].type == "[":
            return Simple((), tuple(self._bracket(tree)))
        return self._compound(tree)

    def _command(self, tree: Syntax) -> Simple:
        assigns: list[Assign] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        end = -1
        if self.continued:
            self._check_gaps(tree)
        for child in tree.children:
            kind = child.type
            if kind == "variable_assignment":
                assigns.append(self._assign(child))
            elif kind in ("file_redirect", "herestring_redirect"):
                words.extend(self._redirect(child, redirects))
            elif kind == "command_name":
                words.append(word(child.children[0], self))
                end = child.end_byte
            elif kind in _WORDS or kind == "$":
                self._apart(end, child.start_byte)
                words.append(word(child, self))
                end = child.end_byte
            else:
                raise Unsupported(f"unexpected {self.text(child)[:40]!r}")
        return Simple(tuple(assigns), tuple(words), tuple(redirects))

    def _apart(self, end: int, start: int) -> None:
        """The grammar ends a word before `$"`; bash does not."""
        if end == start:
            raise Unsupported("two words that touch")

    def _check_gaps(self, tree: Syntax) -> None:
        """The grammar ends a word, and no command, at a line continuation; with bash it is the other way round."""
        for left, right in pairwise(tree.children):
            if left.end_byte != right.start_byte and not _GAP.fullmatch(self.source, left.end_byte, right.start_byte):
                raise Unsupported("words around a line continuation")

    def _redirect(self, tree: Syntax, into: list[Redirect]) -> Iterator[Word]:
        """Adds the redirection and gives the words that the grammar took for further targets."""
        fd: int | None = None
        op = ""
        end = -1
        targets: list[Word] = []
        for child in tree.children:
            if child.type == "file_descriptor":
                text = self.text(child)
                if _NUMBER.fullmatch(text):
                    fd = int(text)
                elif _OPTION.fullmatch(text):
                    yield literal(text)
                else:
                    raise Unsupported("a word that the grammar takes for a descriptor")
            elif child.type in _WORDS:
                if targets:
                    self._apart(end, child.start_byte)
                targets.append(word(child, self))
                end = child.end_byte
            else:
                op += child.type
        if self.continued:
            self._check_gaps(tree)
        if op in ("<&-", ">&-"):
            targets.insert(0, literal("-"))
            op = op[:2]
        if not targets:
            raise Unsupported("a redirection to nothing")
        into.extend(self._redirection(fd, op, targets[0]))
        yield from targets[1:]

    def _redirection(self, fd: int | None, op: str, target: Word) -> Iterator[Redirect]:
        text = target.text
        if op in ("&>", "&>>") or (op == ">&" and fd is None and not _DESCRIPTOR.fullmatch(text or "")):
            yield Redirect(1, ">>" if op == "&>>" else ">", target)
            yield Redirect(2, ">&", literal("1"))
        elif op == "<" and target.parts and (document := self._document(target)):
            yield Redirect(fd or 0, "<<", document)
        else:
            operators: dict[str, tuple[RedirectOp, int]] = {
                "<": ("<", 0), "<>": ("<>", 0), "<&": ("<&", 0),
                ">": (">", 1), ">>": (">>", 1), ">|": (">|", 1), ">&": (">&", 1),
            }  # fmt: skip
            if op not in operators:
                raise Unsupported(f"redirection {op!r}")
            spelled, default = operators[op]
            yield Redirect(default if fd is None else fd, spelled, target)

    def _document(self, target: Word) -> Word | None:
        """The text of a lifted here-document or here-string; None: an ordinary target."""
        first = getattr(target.parts[0], "text", "")
        if first.startswith(STRING):
            rest = concat(literal(first[1:]), Word(target.parts[1:]))
            return concat(rest, literal("\n"))
        if not first.startswith(MARK):
            return None
        index = first[1:]
        if not index.isdecimal() or int(index) >= len(self.documents):
            raise Unsupported("a here-document without a body")
        document = self.documents[int(index)]
        if not document.expands:
            return literal(document.body) if document.body else EMPTY
        if "$" not in document.body and "`" not in document.body:
            return literal(document_text(document.body))
        return self._expanding(document.body)

    def _expanding(self, body: str) -> Word:
        source = ': "' + body.replace('"', QUOTE) + '"'
        tree = self.parse_document(source)
        if tree is None or tree.root_node.has_error:
            raise Unsupported("a here-document whose expansions are not understood")
        string = tree.root_node.descendant_for_byte_range(2, 2)
        while string is not None and string.type != "string":
            string = string.parent
        if string is None or string.end_byte != len(source):
            raise Unsupported("a here-document whose expansions are not understood")
        inner = Lowering(source, (), parse_document=self.parse_document, depth_left=self.depth_left)
        parts = [_unquote(part) for part in quoted(string, inner, document=True)]
        return concat(Word(tuple(parts)))

    def _redirected(self, tree: Syntax) -> Node:
        body: Node | None = None
        redirects: list[Redirect] = []
        extra: list[Word] = []
        if self.continued:
            self._check_gaps(tree)
        for child in tree.children:
            if child.type in ("file_redirect", "herestring_redirect"):
                extra.extend(self._redirect(child, redirects))
            elif body is None:
                body = self.node(child)
            else:
                raise Unsupported(f"unexpected {self.text(child)[:40]!r}")
        return _at_end(body or Simple((), ()), tuple(redirects), tuple(extra))

    def _list(self, tree: Syntax) -> Node:
        """Flat, however long: the grammar nests to the left."""
        rest: list[tuple[Literal["&&", "||"], Node]] = []
        here = tree
        while here.type == "list":
            left, *middle, right = [child for child in here.children if child.type != "comment"]
            if len(middle) != 1:
                raise Unsupported("a list with a gap")
            op: Literal["&&", "||"] = "&&" if middle[0].type == "&&" else "||"
            tail = self.node(right)
            if isinstance(tail, AndOr):
                rest.extend(reversed(((op, tail.first), *tail.rest)))
            else:
                rest.append((op, tail))
            here = left
        first = self.node(here)
        rest.reverse()
        if isinstance(first, AndOr):
            return AndOr(first.first, (*first.rest, *rest))
        return AndOr(first, tuple(rest))

    def _pipeline(self, tree: Syntax) -> Node:
        """The grammar lets a list with a redirection be a stage (`a && b 2>&1 | c`): it is taken apart again."""
        groups = [_Pipe("&&", [])]
        for child in tree.children:
            kind = child.type
            here = groups[-1]
            if kind == "!":
                here.negated = not here.negated
            elif kind == "|&":
                here.stages[-1] = _at_end(here.stages[-1], (Redirect(2, ">&", literal("1")),), ())
            elif kind in _STATEMENTS:
                stage = self.node(child)
                here.add(stage.first if isinstance(stage, AndOr) else stage)
                for op, follower in stage.rest if isinstance(stage, AndOr) else ():
                    groups.append(_Pipe(op, []))
                    groups[-1].add(follower)
            elif kind not in ("|", "comment"):
                raise Unsupported(f"unexpected {self.text(child)[:40]!r}")
        first, *rest = groups
        return AndOr(first.node(), tuple((group.op, group.node()) for group in rest)) if rest else first.node()

    def _block(self, tree: Syntax) -> Node:
        kind = tree.children[0].type
        if kind == "((":
            return self._raw(tree)
        if kind not in ("(", "{"):
            raise Unsupported(f"unexpected {kind!r}")
        body = self.script(tree.children[1:-1])
        if not body.statements:
            raise Unsupported("an empty block")
        return Block("(" if kind == "(" else "{", body)

    def _function(self, tree: Syntax) -> Node:
        name = tree.child_by_field_name("name")
        body = tree.child_by_field_name("body")
        if name is None or body is None or body.type not in _STATEMENTS:
            raise Unsupported("a function without a body")
        return Function(self.text(name), self.node(body))

    def _declared(self, tree: Syntax) -> Iterator[Word]:
        """`export` and its kin, an assignment being one word."""
        yield literal(tree.children[0].type)
        for child in tree.children[1:]:
            if child.type == "variable_assignment":
                assign = self._assign(child)
                if not isinstance(assign.value, Word):
                    raise Unsupported("an array in a declaration")
                yield concat(literal(f"{assign.name}{'+' if assign.append else ''}="), assign.value)
            else:
                yield word(child, self)

    def _assign(self, tree: Syntax) -> Assign:
        name, op, *rest = tree.children
        value: Word | tuple[Word, ...] = EMPTY
        if len(rest) > 1:
            raise Unsupported("an assignment of two values")
        if rest:
            value = self._array(rest[0]) if rest[0].type == "array" else word(rest[0], self)
        return Assign(self.text(name), value, append=op.type == "+=")

    def _array(self, tree: Syntax) -> tuple[Word, ...]:
        return tuple(word(child, self) for child in tree.children if child.type not in ("(", ")", "comment"))

    def _bracket(self, tree: Syntax) -> Iterator[Word]:
        """The words of `[ ... ]`, which the grammar reads as an expression."""
        for leaf in _tokens(tree, self):
            yield word(leaf, self) if leaf.type in _WORDS else literal(self.text(leaf))

    def _raw(self, tree: Syntax) -> Compound:
        """`[[` and `((`: their tokens as written, with the scripts that run inside."""
        parts: list[str | Script | Word | Assign] = [self.text(leaf) for leaf in _tokens(tree, self)]
        parts.extend(nested(tree, self))
        return Compound(tree.children[0].type, tuple(parts))

    def _compound(self, tree: Syntax) -> Node:
        if tree.type == "test_command":
            return self._raw(tree)
        if tree.type not in _STATEMENTS:
            raise Unsupported(f"unexpected {self.text(tree)[:40]!r}")
        return Compound(tree.type, tuple(self._parts(tree)))

    def _parts(self, tree: Syntax) -> Iterator["str | Word | Script | Assign"]:
        run: list[Syntax] = []
        for child in tree.children:
            kind = child.type
            if kind in _STATEMENTS or kind in _SEPARATORS:
                run.append(child)
                continue
            if any(node.type in _STATEMENTS for node in run):
                yield self.script(run)
            run = []
            if kind in _WORDS:
                yield word(child, self) if kind != "extglob_pattern" else self.text(child)
            elif kind.endswith("_expression"):
                yield " ".join(self.text(token) for token in _tokens(child, self))
                yield from nested(child, self)
            elif child.child_count:
                yield from self._parts(child)
            elif kind != "comment":
                yield self.text(child)
        if any(node.type in _STATEMENTS for node in run):
            yield self.script(run)


@dataclass
class _Pipe:
    """A pipeline as it grows, and what stands before it in its list."""

    op: Literal["&&", "||"]
    stages: list[Node]
    negated: bool = False

    def add(self, node: Node) -> None:
        if isinstance(node, Pipeline) and not (node.negated and self.stages):
            self.negated = self.negated != node.negated
            self.stages.extend(node.stages)
        else:
            self.stages.append(node)

    def node(self) -> Node:
        if not self.stages:
            raise Unsupported("an empty pipeline")
        return Pipeline(tuple(self.stages), self.negated) if self.negated or len(self.stages) > 1 else self.stages[0]


def _at_end(node: Node, redirects: tuple[Redirect, ...], words: tuple[Word, ...]) -> Node:
    """`node` with more redirections and words at its last command."""
    if isinstance(node, AndOr):
        op, last = node.rest[-1]
        return AndOr(node.first, (*node.rest[:-1], (op, _at_end(last, redirects, words))))
    if isinstance(node, Pipeline):
        return Pipeline((*node.stages[:-1], _at_end(node.stages[-1], redirects, words)), node.negated)
    if isinstance(node, Simple):
        return Simple(node.assigns, (*node.words, *words), (*node.redirects, *redirects))
    if isinstance(node, Function) or words:
        raise Unsupported("words after a block")
    return replace(node, redirects=(*node.redirects, *redirects))


def _tokens(tree: Syntax, source: Lowering) -> Iterator[Syntax]:
    """Words and operators below `tree`, in order."""
    pending = list(reversed(tree.children))
    while pending:
        here = pending.pop()
        source.step()
        if here.child_count and here.type not in _WORDS:
            pending.extend(reversed(here.children))
        else:
            yield here


def _unquote(part: Part) -> Part:
    """The double quotes of a here-document back in place."""
    if isinstance(part, Sub) or QUOTE not in part.text:
        return part
    return replace(part, text=part.text.replace(QUOTE, '"'))
