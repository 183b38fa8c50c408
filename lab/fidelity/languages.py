"""Chat templates and vocabularies that runs are made in.

Source  our own template (`thinking`), those of `paddock.testing.templates`, each with a small vocabulary trained on the
        package's own text; a template's file, with the small vocabulary or a model folder's; a model folder.
Errors  ConfigError: no such template, no such model, a template that can't be continued.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import paddock
from paddock.config.problems import suggestion
from paddock.errors import ConfigError
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, Prompter, Vocabulary

OURS = "thinking"
_FOLDER = Path(paddock.__file__).parent / "server/exact/templates"


class Language(NamedTuple):
    """What a model reads and writes in."""

    name: str
    vocabulary: Vocabulary
    """The server's: it counts what the server tokenises."""
    policy_vocabulary: Vocabulary
    """The same ids."""
    prompter: Prompter


def language_names() -> list[str]:
    return [OURS, *TEMPLATES]


def language(name: str, *, model: Path | None = None) -> Language:
    """By a name of `language_names`, or a file. `model`: the folder of a vocabulary; its template where the name is
    empty."""
    source: str | None
    if not name:
        source = None
    elif name in TEMPLATES:
        source = TEMPLATES[name].source
    else:
        source = _read(_FOLDER / f"{OURS}.jinja" if name == OURS else Path(name))
    marks = TEMPLATES[name].marks if name in TEMPLATES else "chatml"
    make: Callable[[], Vocabulary] = (lambda: small_vocabulary(marks)) if model is None else (lambda: _load(model))
    vocabulary = make()
    source = source or vocabulary.chat_template
    if source is None:
        raise ConfigError(f"{model}: it has no chat template; name one with --template", kind="template_missing")
    shown = Path(name).stem if name else (model.name if model else "")
    prompter = Prompter(ChatTemplate(source, vocabulary.special_texts), vocabulary)
    return Language(shown, vocabulary, make(), prompter)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        names = language_names()
        raise ConfigError(
            f"template {str(file)!r}: there is no such file{suggestion(str(file), names)}", kind="template_missing"
        ) from error


def _load(model: Path) -> Vocabulary:
    return Vocabulary.load(model)
