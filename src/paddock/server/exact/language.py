"""The fields of model servers that make ids of messages themselves: tokenizer and chat template.

Errors  ConfigError for a tokenizer or a chat template that can't be used (`tokenizer_missing`, `template_missing`), and
        for a parser that is not there (`parser_unknown`).
"""

import logging
from pathlib import Path
from typing import NamedTuple

from paddock.errors import ConfigError
from paddock.server.exact.engine import TokenEngine
from paddock.server.exact.parsers import answer_parsers
from paddock.server.exact.server import Equipment, ExactConfig
from paddock.tokens import ChatTemplate, Prompter, Vocabulary

TEMPLATES = Path(__file__).parent / "templates"
INLINE = ("{{", "{%")
"""What no file's name holds, and every template does."""
_log = logging.getLogger(__name__)


class LanguageConfig(ExactConfig):
    """An exact server whose prompts are built here."""

    model: str
    """Folder or name of the model."""
    tokenizer: Path | None = None
    """Folder with `tokenizer.json`; None: the model's folder."""
    chat_template: str | None = None
    """File of a chat template, the name of one of ours (`thinking`), or the template itself; None: the tokenizer's
    own."""
    tool_parser: str | None = None
    """Format of tool calls (`hermes`, `qwen3_coder`, ...), as vLLM names it; None: answers hold no calls."""
    reasoning_parser: str | None = None
    """Format of reasoning (`qwen3`, `deepseek_r1`, ...), as vLLM names it; None: reasoning is plain text."""

    @property
    def tokenizer_folder(self) -> Path:
        """ConfigError where there is none on this machine."""
        folder = (self.tokenizer or Path(self.model)).expanduser()
        if not folder.is_dir():
            hint = "is no folder" if self.tokenizer else "is a name: set `tokenizer` to the folder of its tokenizer"
            raise ConfigError(f"tokenizer: {folder} {hint}", kind="tokenizer_missing")
        return folder

    @property
    def template(self) -> str | None:
        """Source of the chat template; None: the tokenizer's own."""
        if self.chat_template is None or any(mark in self.chat_template for mark in INLINE):
            return self.chat_template
        for path in (TEMPLATES / f"{self.chat_template}.jinja", Path(self.chat_template).expanduser()):
            if path.is_file():
                return path.read_text("utf-8")
        ours = ", ".join(sorted(path.stem for path in TEMPLATES.glob("*.jinja")))
        raise ConfigError(
            f"chat_template: no file {self.chat_template}, and none of ours has that name ({ours})",
            kind="template_missing",
        )


class PromptLanguage(NamedTuple):
    """What makes ids of messages, and text of ids."""

    vocabulary: Vocabulary
    prompter: Prompter


def load_language(config: LanguageConfig, name: str) -> PromptLanguage:
    """Tokenizer and chat template of the server `name`."""
    vocabulary = Vocabulary.load(config.tokenizer_folder)
    source = config.template or vocabulary.chat_template
    if source is None:
        raise ConfigError(f"{name}: the tokenizer has no chat template: set `chat_template`", kind="template_missing")
    template = ChatTemplate(source, vocabulary.special_texts)
    prompter = Prompter(template, vocabulary, arguments=config.chat_template_kwargs)
    for trait in prompter.traits.describe():
        _log.info("%s: its chat template %s; recorded tokens stay as they were sampled", name, trait)
    if prompter.traits.uses_date:
        _log.warning("%s: its chat template uses the date: prompts of one group may differ", name)
    return PromptLanguage(vocabulary, prompter)


def equipment(config: LanguageConfig, name: str, engine: TokenEngine) -> Equipment:
    """What the server `name` needs around its engine; its answers are read without vLLM."""
    vocabulary, prompter = load_language(config, name)
    parsers = answer_parsers(vocabulary, tool_parser=config.tool_parser, reasoning_parser=config.reasoning_parser)
    return Equipment(engine, vocabulary, prompter, parsers)
