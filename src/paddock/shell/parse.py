"""`parse(command)`: text to `Script`, by the tree-sitter grammar for bash.

Law     never raises on any `str`; time grows linearly with text: what goes wrong is given up early, and searched for
        what is understood in it by `lower.MAX_SALVAGE_STEPS` at most. Under `memo`, each text is read once.
Limits  `MAX_CHARS` characters, `MAX_DEPTH` nested commands, `MAX_PIPES` pipe characters and half a second of processor
        time; beyond one of them, and for a NUL, the script is an error.
Errors  BudgetError (`memo`) where a budget is in force. `Script.error` says why; statements before and around the error
        are kept as far as they were understood, for a reader that looks for danger. The grammar accepts a little more
        than bash does; nothing is ever executed here.
"""

import re
import threading
import time
from functools import lru_cache

import tree_sitter_bash
from tree_sitter import Language, Parser, Tree

from paddock.shell.documents import MARK, STRING, lift
from paddock.shell.lower import QUOTE, TOO_DEEP, Lowering
from paddock.shell.memo import once, take, under_way
from paddock.shell.syntax import Script
from paddock.shell.words import Unsupported

MAX_CHARS = 200_000
MAX_DEPTH = 60
MAX_PIPES = 1000
"""The grammar takes quadratic time to give up a long pipeline, and cannot be stopped meanwhile."""
_PATIENCE_BYTES = 2048
"""How far an erroneous text is followed: the grammar's recovery takes quadratic time."""
_PATIENCE_S = 0.5
"""Processor time for which a text is followed, so that a busy machine reads the same: nothing real takes as long."""

_STRANGE = re.compile(r"[^\n\t\x20-\x7e]")
"""What bash takes for an ordinary character and the grammar may take for a blank, or crash on: its scanner looks up any
character in C tables that are made for bytes. One stand-in each keeps the offsets."""

_ESCAPED_BLANK = re.compile(r"((?<!\\)(?:\\\\)*\\)[ \t]")
"""A blank after a backslash, which the grammar drops at the beginning of a word."""
_HIDDEN_HASH = re.compile(r"(?:[^\s;&|(]|\\[ \t])(?:\\\n)+#")
"""A `#` inside a word that goes on after a line continuation, which the grammar takes for a comment."""

_REMEMBERED_CHARS = 8192
_CHARS_PER_STEP = 8
_STEPS_PER_NODE = 1.25
"""All that is made of a tree later is in it: a normal form, effects, what it is for."""

_LANGUAGE = Language(tree_sitter_bash.language())
_LOCAL = threading.local()


@lru_cache(maxsize=1024)
def _parse_remembered(command: str) -> Script:
    """Outside of a judgement: who watches the commands of a shell asks for the same short ones over and over."""
    return _parse(command)


def parse(command: str) -> Script:
    """The tree of `command` as bash would read it."""
    if not under_way() and len(command) <= _REMEMBERED_CHARS:
        return _parse_remembered(command)
    return once(("parse", command), lambda: _parse(command))


def _parse(command: str) -> Script:
    if len(command) > MAX_CHARS:
        return Script((), f"longer than {MAX_CHARS} characters")
    if any(char in command for char in ("\0", MARK, STRING, QUOTE)):
        return Script((), "a character that no command may hold")
    lifted = lift(command)
    if lifted.text.count("|") > MAX_PIPES:
        return Script((), f"more than {MAX_PIPES} pipes")
    if "\\\n#" in lifted.text and _HIDDEN_HASH.search(lifted.text):
        return Script((), "a word that goes on with # on the next line")
    tree = _tree(lifted.text)
    if tree is None:
        return Script((), "not understood")
    lowering = Lowering(lifted.text, lifted.documents, parse_document=_tree, depth_left=MAX_DEPTH)
    root = tree.root_node
    try:
        if root.has_error or lifted.error:
            return Script(lowering.salvage(root), lifted.error or "not valid bash")
        return lowering.script(root.children)
    except Unsupported as error:
        return Script(lowering.salvage(root), str(error))
    except RecursionError:
        return Script((), TOO_DEEP)


def _parser() -> Parser:
    parser: Parser | None = getattr(_LOCAL, "parser", None)
    if parser is None:
        parser = _LOCAL.parser = Parser(_LANGUAGE)
    return parser


def _tree(text: str) -> Tree | None:
    """The grammar's tree, whose offsets count characters of `text`. None: given up."""
    take(len(text) // _CHARS_PER_STEP)
    tree = _grammar_tree(text)
    if tree is not None:
        take(int(_STEPS_PER_NODE * tree.root_node.descendant_count))
    return tree


def _grammar_tree(text: str) -> Tree | None:
    data = _ESCAPED_BLANK.sub("\\1\x01", _STRANGE.sub("\x01", text)).encode()
    if len(data) <= _PATIENCE_BYTES:
        return _parser().parse(data)
    deadline = time.thread_time() + _PATIENCE_S
    try:
        return _parser().parse(
            lambda at, _: data[at : at + 16384],
            progress_callback=lambda at, has_error: (
                (has_error and at > _PATIENCE_BYTES) or time.thread_time() > deadline
            ),
        )
    except ValueError:
        del _LOCAL.parser
        return None
