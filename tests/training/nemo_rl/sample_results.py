"""A model server in exact ids for configs: it answers with as many words as it has answered before, modulo seven."""

from itertools import count

from paddock.server.exact import Equipment, ExactConfig, ExactServer
from paddock.testing.engines import JsonCallParser, ScriptedEngine
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, Prompter


class WordCountServer(ExactServer[ExactConfig]):
    config_type = ExactConfig

    @property
    def model_name(self) -> str:
        return "sampled"

    async def equip(self) -> Equipment:
        vocabulary = small_vocabulary()
        template = ChatTemplate(TEMPLATES["chatml"].source, vocabulary.special_texts)
        numbers = count()
        engine = ScriptedEngine(vocabulary, lambda prompt: "Well, " * (next(numbers) % 7) + "done.")
        return Equipment(engine, vocabulary, Prompter(template, vocabulary), lambda tools, prompt_ids: JsonCallParser())
