"""`paddock init`: a folder with a working start, and its test.

Output  stdout: the files that were written, and the commands to try them with.
Exit    0 written; 2 a mistake: the name is no module's, or the folder is there.
"""

import argparse
import keyword
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from string import Template

KINDS = {
    "environment": "a resources server whose rows have one right answer",
    "tools": "a resources server with tools and a state for each rollout",
    "harness": "a loop over tools of its own, for repositories in sandboxes",
    "run": "a config of environments and a model",
}
EXAMPLES = """examples:
  paddock init environment capitals
  python -m pytest capitals
  paddock eval capitals/capitals.yaml --oracle"""
SUFFIX = ".template"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    kinds = "; ".join(f"{name}: {what}" for name, what in KINDS.items())
    parser.add_argument("kind", choices=list(KINDS), help=kinds)
    parser.add_argument(
        "name", metavar="NAME", help="name of the folder and of what is in it, as Python names a module"
    )


def run(args: argparse.Namespace) -> int:
    from paddock.errors import ConfigError

    name = str(args.name)
    if not (name.isidentifier() and name.isascii()) or keyword.iskeyword(name) or name != name.lower():
        message = f"{name!r}: a name as Python's modules have it, such as `capitals` or `my_task`"
        raise ConfigError(message, kind="name_invalid")
    folder = Path(name)
    if not folder.exists() and find_spec(name) is not None:
        raise ConfigError(f"{name}: Python has a module of that name; take another one", kind="name_invalid")
    words = {"name": name, "Class": "".join(part.capitalize() for part in name.split("_"))}
    texts = {_target(path, name): Template(text).substitute(words) for path, text in _templates(args.kind)}
    try:
        folder.mkdir()
        for path, text in {"__init__.py": "", **texts}.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text)
    except FileExistsError:
        raise ConfigError(f"{folder}: is there already; nothing was written", kind="folder_taken") from None
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error}", kind="folder_unusable") from error
    for path in texts:
        _say(str(folder / path))
    _say(f"try it: python -m pytest {name}; the commands are at the top of {folder / f'{name}.yaml'}")
    return 0


def _templates(kind: str) -> "list[tuple[str, str]]":
    """Each template of a kind: its path below the kind's folder, and its text."""
    found = []
    todo: list[tuple[str, Traversable]] = [("", files("paddock.cli") / "templates" / kind)]
    while todo:
        above, folder = todo.pop()
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.is_dir():
                todo.append((f"{above}{entry.name}/", entry))
            elif entry.name.endswith(SUFFIX):
                found.append((f"{above}{entry.name}", entry.read_text()))
    return found


def _target(path: str, name: str) -> str:
    path = path.removesuffix(SUFFIX)
    return {"config.yaml": f"{name}.yaml", "test.py": f"test_{name}.py"}.get(path, path)


def _say(line: str) -> None:
    print(line)  # noqa: T201 - this is the command's voice
