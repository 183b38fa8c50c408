"""Writes docs/settings.md: every config key with its type, default and meaning, from the models that check it.

Usage   python scripts/settings.py [--check]: with --check nothing is written, and a page that is not as the models say,
        or a key without a meaning, exits 1.
Source  the fields of the pydantic models, and the string literals below them in their source.
"""

import ast
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from paddock.collect.settings import EvalSettings
from paddock.config.plugins import implementations, resolve_class
from paddock.config.settings import KINDS, RunSettings
from paddock.rollouts import RolloutOptions
from paddock.sandbox.images.sources import ImageSettings
from paddock.sandbox.settings import SandboxSettings
from paddock.sandbox_server.swe_rl import SweRlSettings
from paddock.server.settings import ServeSettings
from paddock.training.grpo.config import TrainConfig
from paddock.training.sft.config import SftConfig

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "settings.md"
MAX_DEFAULT_CHARS = 40
HEAD = """\
# Settings

Every key of a config, from the models that check it. This page is made by `python scripts/settings.py`.

A key's unit is in its name. A key whose default is *none* must be given. Below each heading stands the file that
defines the keys and refuses what is out of range. Blocks within blocks have a section of their own.
"""
Models = dict[type[BaseModel], str]


def models() -> Iterator[tuple[str, Models]]:
    """Titles, and what stands below them: models, each with what a reader calls it."""
    yield (
        "A config's top level",
        {
            RunSettings: "top-level keys",
            EvalSettings: "`eval`",
            RolloutOptions: "`rollouts`",
            ServeSettings: "`serve`",
        },
    )
    for kind in KINDS:
        classes = [(name, resolve_class(name, kind)) for name in implementations(kind)]
        yield f"`{kind}`", {one.config_type: f"`{name}`" for name, one in classes}
    harnesses = {name: _harness_settings(name) for name in implementations("harnesses")}
    yield "`harness_config`", {model: f"`{name}`" for name, model in harnesses.items() if model is not None}
    yield "Sandboxes", {SandboxSettings: "`sandbox`", ImageSettings: "`images`"}
    yield "`paddock sandbox swe-rl`", {SweRlSettings: "its file (`--settings`)"}
    yield "`paddock train`", {TrainConfig: "a training run"}
    yield "`paddock sft`", {SftConfig: "a fine-tuning run"}


def page() -> str:
    listed: list[str] = [HEAD]
    for title, found in _with_blocks(models()):
        listed.append(f"\n## {title}\n")
        listed += [_section(model, name) for model, name in found.items()]
    return "".join(listed)


def unexplained(titles: Iterable[tuple[str, Models]]) -> list[str]:
    """Keys of models, and of the blocks in them, without a meaning, each with the file and the class that define it."""
    keys: dict[str, None] = {}  # a set in order: several models inherit one key
    for _, found in _with_blocks(titles):
        for model in found:
            meanings = _meanings(model)
            for key in model.model_fields:
                if not meanings.get(key):
                    owner = next(base for base in model.__mro__ if key in inspect.get_annotations(base))
                    keys[f"{_file(owner)}: {owner.__name__}.{key}"] = None
    return list(keys)


def _with_blocks(titles: Iterable[tuple[str, Models]]) -> Iterator[tuple[str, Models]]:
    """Models, each followed by those of the blocks in it, under the first title that has them."""
    seen: set[type[BaseModel]] = set()
    for title, found in titles:
        listed: Models = {}
        waiting = list(found.items())
        while waiting:
            model, name = waiting.pop(0)
            if model not in seen:
                seen.add(model)
                listed[model] = name
                waiting += [(inner, f"`{inner.__name__}`") for inner in _inner(model)]
        yield title, listed


def _file(model: type[BaseModel]) -> Path:
    return Path(inspect.getfile(model)).resolve().relative_to(ROOT)


def _harness_settings(name: str) -> type[BaseModel] | None:
    config_type = getattr(resolve_class(name, "harnesses"), "config_type", None)
    return config_type if inspect.isclass(config_type) and issubclass(config_type, BaseModel) else None


def _section(model: type[BaseModel], name: str) -> str:
    lines = [f"\n### {name}\n", f"\n`{_file(model)}`, `{model.__name__}`\n"]
    fields = model.model_fields
    if not fields:
        return "".join([*lines, "\nNo keys.\n"])
    meanings = _meanings(model)
    lines.append("\n| key | type | default | meaning |\n|---|---|---|---|\n")
    for key, field in fields.items():
        cells = (f"`{field.alias or key}`", f"`{_type(field.annotation)}`", _default(field), meanings.get(key, ""))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n")
    return "".join(lines)


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """The literals below fields; of one that several classes define, the last's."""
    meanings: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base is BaseModel or not issubclass(base, BaseModel):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for before, after in zip(definition.body, definition.body[1:], strict=False):
            if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
                text = after.value if isinstance(after, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    meanings[before.target.id] = re.sub(r"\bNone\b", "null", " ".join(text.value.split()))
    return meanings


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None and not inspect.isclass(field.default_factory):
        return "worked out"  # on another machine it is another
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "*none*"
    if isinstance(value, BaseModel):
        return "its own"
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return f"`{text}`" if len(text) <= MAX_DEFAULT_CHARS else "see the file"


def _type(annotation: Any) -> str:
    if annotation is None or annotation is type(None):
        return "null"
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " | ".join(_type(one) for one in args)
    if origin is None:
        return str(getattr(annotation, "__name__", annotation))
    if origin is Literal:
        return " | ".join(map(str, args))
    if origin is Annotated:
        return _type(args[0])
    inner = ", ".join("..." if one is ... else _type(one) for one in args)
    return f"{getattr(origin, '__name__', origin)}[{inner}]"


def _inner(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Models that its fields hold, however deep."""
    waiting = [field.annotation for field in model.model_fields.values()]
    while waiting:
        one = waiting.pop(0)
        if inspect.isclass(one) and not get_origin(one) and issubclass(one, BaseModel):
            yield one
        waiting[:0] = get_args(one)


def main(*words: str) -> int:
    text = page()
    problems: list[str] = []
    if "--check" not in words:
        PAGE.write_text(text)
    else:
        problems = [f"{key} has no meaning: write a docstring below the field" for key in unexplained(models())]
        if not PAGE.is_file() or PAGE.read_text() != text:
            problems.append(f"{PAGE.relative_to(ROOT)} is not as the models say: python scripts/settings.py")
    print("\n".join(problems) or "settings: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
