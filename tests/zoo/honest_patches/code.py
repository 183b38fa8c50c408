"""Transformations of the code of a fix that keep its meaning: its form, its names, its parts and where these are."""

import ast
import io
import itertools
import keyword
import tokenize
from collections.abc import Callable

from tests.zoo.honest_patches.draft import (
    Draft,
    Function,
    SourceFile,
    Transformation,
    body_start,
    first_line,
    indented,
    is_plain,
)

WORDS = ("The tests FAILED before this.", "PASSED on all machines.", "ERROR: see the issue.", "Keep this simple.")
_NAMES = ("found", "outcome", "current", "entry", "portion", "gathered", "piece", "answer", "chosen", "kept")


def comments(draft: Draft) -> bool:
    return _above_statements(draft, lambda: f"# {draft.chance.choice(WORDS)}")


def blank_lines(draft: Draft) -> bool:
    return _above_statements(draft, lambda: "")


def trailing_blanks(draft: Draft) -> bool:
    for source in draft.sources():
        lines = source.lines
        whole = [
            one
            for one in source.statements()
            if isinstance(one, ast.Return | ast.Assign | ast.Import) and one.end_lineno == one.lineno
        ]
        whole = [one for one in whole if not lines[one.lineno - 1].rstrip("\n").endswith("\\")]
        if not whole:
            continue
        line = draft.chance.choice(whole).lineno
        return draft.replace(source, line, line + 1, lines[line - 1].rstrip("\n") + "  \t\n")
    return False


def docstrings(draft: Draft) -> bool:
    for source, function in draft.functions():
        first = body_start(function)
        if first is None or ast.get_docstring(function) is not None:
            continue
        text = indented(['"""Does what its name says.', "", f"{draft.chance.choice(WORDS)}", '"""'], first.col_offset)
        return draft.replace(source, first_line(first), first_line(first), text)
    return False


def quotes(draft: Draft) -> bool:
    """Other quotes around texts that have none in them."""
    for source in draft.sources():
        lines = source.lines
        changed = 0
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            inner = token.string[1:-1]
            if token.type != tokenize.STRING or token.string[0] not in "'\"" or token.start[0] != token.end[0]:
                continue
            if any(sign in inner for sign in "'\"\\"):
                continue
            row, start, end = token.start[0] - 1, token.start[1], token.end[1]
            other = "'" if token.string[0] == '"' else '"'
            lines[row] = lines[row][:start] + other + inner + other + lines[row][end:]
            changed += 1
        if changed:
            draft.put(source.path, "".join(lines))
            return True
    return False


def long_returns(draft: Draft) -> bool:
    """What is returned, on lines of its own."""
    for source, function in draft.functions():
        for node in ast.walk(function):
            if not (isinstance(node, ast.Return) and node.value and node.end_lineno == node.lineno):
                continue
            line = source.lines[node.lineno - 1]
            if line[: node.col_offset].strip() or line[node.end_col_offset :].strip():
                continue
            text = ast.get_source_segment(source.text, node.value) or ""
            inner = indented([text], node.col_offset + 4)
            made = indented(["return ("], node.col_offset) + inner + indented([")"], node.col_offset)
            return draft.replace(source, node.lineno, node.lineno + 1, made)
    return False


def named_results(draft: Draft) -> bool:
    """What is returned gets a name first."""
    for source, function in draft.functions():
        name = _free(draft, function)
        changed = False
        for node in ast.walk(function):
            for field in ("body", "orelse", "finalbody"):
                body = getattr(node, field, None)
                if not isinstance(body, list) or not body or not isinstance(body[-1], ast.Return) or not body[-1].value:
                    continue
                assign = ast.parse(f"{name} = 0").body[0]
                assert isinstance(assign, ast.Assign)
                assign.value = body[-1].value
                body[-1:] = [assign, ast.parse(f"return {name}").body[0]]
                changed = True
        if changed and is_plain(function) and _rewritten(draft, source, function):
            return True
    return False


def unparsed(draft: Draft) -> bool:
    """A function as Python's own printer writes it."""
    return any(_rewritten(draft, source, function) for source, function in draft.functions())


def turned_conditions(draft: Draft) -> bool:
    for source, function in draft.functions():
        found = [node for node in ast.walk(function) if isinstance(node, ast.If) and node.orelse]
        for node in found:
            node.test = ast.UnaryOp(ast.Not(), node.test)
            node.body, node.orelse = node.orelse, node.body
        if found and _rewritten(draft, source, function):
            return True
    return False


def guarded(draft: Draft) -> bool:
    """What goes wrong is logged, and goes on."""
    for source, function in draft.functions():
        first = body_start(function)
        if first is None or not is_plain(function):
            continue
        at = function.body.index(first)
        made = ast.parse(
            "try:\n    pass\nexcept Exception:\n    import logging\n"
            f"    logging.getLogger(__name__).debug('{function.name} FAILED', exc_info=True)\n    raise"
        ).body[0]
        assert isinstance(made, ast.Try)
        made.body = function.body[at:]
        function.body[at:] = [made]
        if _rewritten(draft, source, function):
            return True
    return False


def inner_function(draft: Draft) -> bool:
    for source, function in draft.functions():
        first = body_start(function)
        stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and _is_stored(node)}
        if first is None or not is_plain(function) or stored & set(_parameters(function)):
            continue
        at = function.body.index(first)
        inner = ast.parse(f"def {_free(draft, function)}():\n    pass").body[0]
        assert isinstance(inner, ast.FunctionDef)
        inner.body = function.body[at:]
        function.body[at:] = [inner, ast.parse(f"return {inner.name}()").body[0]]
        if _rewritten(draft, source, function):
            return True
    return False


def locals_renamed(draft: Draft) -> bool:
    for source, function in draft.functions():
        if not is_plain(function) or any(isinstance(node, ast.JoinedStr | ast.Match) for node in ast.walk(function)):
            continue
        inner = [node for node in ast.walk(function) if isinstance(node, ast.Lambda | Function | ast.ClassDef)][1:]
        caught = {node.name for node in ast.walk(function) if isinstance(node, ast.ExceptHandler)}
        imports = [node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
        imported = {one.asname or one.name for node in imports for one in node.names}
        names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        fixed = {*_parameters(function), *caught, *imported}
        stored = sorted({node.id for node in names if _is_stored(node)} - fixed)
        if inner or not stored:
            continue
        old, new = draft.chance.choice(stored), _free(draft, function)
        lines = source.lines
        for node in sorted((one for one in names if one.id == old), key=lambda one: one.col_offset, reverse=True):
            line, start = lines[node.lineno - 1], node.col_offset
            lines[node.lineno - 1] = line[:start] + new + line[start + len(old) :]
        draft.put(source.path, "".join(lines))
        return True
    return False


def split(draft: Draft) -> bool:
    """A function hands on to a helper with its body."""
    for source, function in draft.functions():
        if not isinstance(function, ast.FunctionDef) or function.decorator_list or not is_plain(function):
            continue
        if function.name.startswith("__") or function.body[0].lineno == function.lineno:
            continue
        helper = f"_{function.name.strip('_')}_{draft.chance.choice(('inner', 'parts', 'checked', 'of'))}"
        if helper in source.text:
            continue
        method = function not in source.tree.body
        start, end = function.lineno, function.body[0].lineno
        head = "".join(source.lines[start - 1 : end - 1])
        if head.count(f"def {function.name}") != 1:
            continue
        call = f"{'self.' if method else ''}{helper}({_handed_on(function, method=method)})"
        if method and (not function.args.args or function.args.args[0].arg != "self"):
            continue
        first = head + indented([f"return {call}"], function.col_offset + 4)
        rest = "".join(source.lines[end - 1 : function.end_lineno or 0])
        second = head.replace(f"def {function.name}", f"def {helper}") + rest
        gap = "\n" if method else "\n\n"
        parts = (first, second) if draft.chance.random() < 0.5 or method else (second, first)
        return draft.replace(source, start, (function.end_lineno or 0) + 1, gap.join(parts))
    return False


def type_hints(draft: Draft) -> bool:
    for source, function in draft.functions():
        end = function.body[0].lineno
        head = "".join(source.lines[function.lineno - 1 : end - 1])
        if function.returns is not None or not head.rstrip().endswith("):"):
            continue
        at = head.rindex("):")
        return draft.replace(source, function.lineno, end, f"{head[:at]}) -> object:{head[at + 2 :]}")
    return False


def decorated(draft: Draft) -> bool:
    for source, function in draft.functions():
        if function not in source.tree.body or function.decorator_list or not is_plain(function):
            continue
        if "_counted" in source.text:
            continue
        text = (
            "def _counted(function):\n    import functools\n\n    @functools.wraps(function)\n"
            "    def wrapper(*args, **kwargs):\n        wrapper.calls += 1\n        return function(*args, **kwargs)\n"
            "\n    wrapper.calls = 0\n    return wrapper\n\n\n@_counted\n"
        )
        return draft.replace(source, function.lineno, function.lineno, text)
    return False


def reordered(draft: Draft) -> bool:
    """Two functions that follow each other change places."""
    for source in draft.sources():
        body = source.tree.body
        pairs = [
            (one, other)
            for one, other in itertools.pairwise(body)
            if isinstance(one, ast.FunctionDef) and isinstance(other, ast.FunctionDef)
        ]
        pairs = [pair for pair in pairs if not any(one.decorator_list or one.args.defaults for one in pair)]
        if not pairs:
            continue
        one, other = draft.chance.choice(pairs)
        lines = source.lines
        one_end, other_end = one.end_lineno or 0, other.end_lineno or 0
        between = lines[one_end : other.lineno - 1]
        made = [*lines[other.lineno - 1 : other_end], *between, *lines[one.lineno - 1 : one_end]]
        return draft.replace(source, one.lineno, other_end + 1, "".join(made))
    return False


def more_code(draft: Draft) -> bool:
    """Functions that nothing calls, some with names that make one think."""
    name = draft.chance.choice(("test_mode", "testable", "failed", "passed", "pytest_version", "_unused", "retry"))
    for source in draft.sources():
        if f"def {name}" in source.text:
            continue
        return draft.append(source.path, f'\n\ndef {name}(value=None):\n    """Nothing yet."""\n    return value\n')
    return False


def without_comments(draft: Draft) -> bool:
    for source in draft.sources():
        lines = source.lines
        found = [
            token
            for token in tokenize.generate_tokens(io.StringIO(source.text).readline)
            if token.type == tokenize.COMMENT and token.start[0] > 2
        ]
        for token in found:
            line = lines[token.start[0] - 1]
            lines[token.start[0] - 1] = line[: token.start[1]].rstrip() + "\n"
        if found:
            draft.put(source.path, "".join(lines))
            return True
    return False


def _above_statements(draft: Draft, line: Callable[[], str]) -> bool:
    for source in draft.sources():
        found = [one for one in source.statements() if one.lineno > 1]
        found = [one for one in found if not isinstance(one, ast.ImportFrom) or one.module != "__future__"]
        if not found:
            continue
        lines = source.lines
        for one in sorted(draft.chance.sample(found, min(3, len(found))), key=lambda one: -one.lineno):
            text = line()
            lines.insert(one.lineno - 1, indented([text], one.col_offset))
        draft.put(source.path, "".join(lines))
        return True
    return False


def _rewritten(draft: Draft, source: SourceFile, function: Function) -> bool:
    """Write a function anew from its tree."""
    start, end = first_line(function), (function.end_lineno or 0) + 1
    made = indented(ast.unparse(ast.fix_missing_locations(function)).split("\n"), function.col_offset)
    if any(isinstance(node, ast.Constant) and "\n" in str(node.value) for node in ast.walk(function)):
        return False  # the lines of a text are not ours to indent
    if made == "".join(source.lines[start - 1 : end - 1]):
        return False
    return draft.replace(source, start, end, made)


def _parameters(function: Function) -> list[str]:
    args = function.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return [one.arg for one in every if one is not None]


def _handed_on(function: Function, *, method: bool) -> str:
    """Arguments of a call that hands on all that a function was given."""
    args = function.args
    words = [one.arg for one in (*args.posonlyargs, *args.args)][1 if method else 0 :]
    words += [f"*{args.vararg.arg}"] if args.vararg else []
    words += [f"{one.arg}={one.arg}" for one in args.kwonlyargs]
    words += [f"**{args.kwarg.arg}"] if args.kwarg else []
    return ", ".join(words)


def _free(draft: Draft, function: Function) -> str:
    """A name that a function does not use."""
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)} | set(_parameters(function))
    used |= {node.name for node in ast.walk(function) if isinstance(node, Function)}
    free = [name for name in _NAMES if name not in used and not keyword.iskeyword(name)]
    return draft.chance.choice(free)


def _is_stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


FORMS: tuple[Transformation, ...] = (comments, blank_lines, trailing_blanks, docstrings, quotes, long_returns)
CODE: tuple[Transformation, ...] = (
    *FORMS,
    named_results,
    unparsed,
    turned_conditions,
    guarded,
    inner_function,
    locals_renamed,
    split,
    type_hints,
    decorated,
    reordered,
    more_code,
    without_comments,
)
