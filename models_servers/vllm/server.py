"""vLLM as an exact model server: prompts built from recorded ids, answers recorded as ids with their log-probs.

Law     that of `paddock.server.exact`. Always in a process of its own, under the interpreter of the environment that
        has vLLM (`python`): what reads its answers is vLLM's own code.
Errors  those of `engine`, `replicas`, `parsing`; ConfigError for a tokenizer or chat template that can't be used.
"""

import asyncio
import logging
from typing import ClassVar

from paddock.errors import ConfigError
from paddock.models_servers.vllm.config import VllmConfig
from paddock.models_servers.vllm.engine import VllmEngine
from paddock.models_servers.vllm.parsing import VllmParsers
from paddock.server.exact import Equipment, ExactServer
from paddock.tokens import ChatTemplate, Prompter, Vocabulary

_log = logging.getLogger(__name__)


class VllmServer(ExactServer[VllmConfig]):
    OWN_PROCESS: ClassVar[bool] = True
    config_type = VllmConfig

    @property
    def model_name(self) -> str:
        return self.config.model

    async def equip(self) -> Equipment:
        config = self.config
        vocabulary = Vocabulary.load(config.tokenizer_folder)
        path = config.template_path
        source = path.read_text() if path else vocabulary.chat_template
        if source is None:
            raise ConfigError(
                f"{self.name}: the tokenizer has no chat template: set `chat_template`", kind="template_missing"
            )
        template = ChatTemplate(source, vocabulary.special_texts)
        prompter = Prompter(template, vocabulary, arguments=config.chat_template_kwargs)
        for said in prompter.traits.described():
            _log.info("%s: its chat template %s; recorded tokens stay as they were sampled", self.name, said)
        if prompter.traits.uses_date:
            _log.warning("%s: its chat template uses the date: prompts of one group may differ", self.name)
        parsers = await asyncio.to_thread(
            VllmParsers,
            config.tokenizer_folder,
            tool_parser=config.tool_parser,
            reasoning_parser=config.reasoning_parser,
            chat_template_kwargs=config.chat_template_kwargs,
        )
        return Equipment(VllmEngine(config, name=self.name), vocabulary, prompter, parsers)
