"""A judge of free answers that goes by words; in a config `paddock.testing.answer_judge:ScriptedAnswerJudge`.

Rule    the last two texts that are enclosed in the prompt (`paddock.quote`) are the same where one has all words of the
        other, whatever their capitals: enough to see an environment run, and easy to cheat.
Replies end with the first of `labels` where they are the same, with the second where not.
"""

import re

from paddock.http import Call, ModelReply
from paddock.quote import PREFIX
from paddock.server import ModelServer, ServerConfig
from paddock.types import JsonObject
from paddock.types.responses import content_text, make_response, message_item

_ENCLOSED = re.compile(r"^\[begin [^\n]*\]\n(.*?)\n\[end [^\n]*\]$", re.MULTILINE | re.DOTALL)


class ScriptedAnswerJudgeConfig(ServerConfig):
    """What its verdicts are called."""

    labels: tuple[str, str] = ("[[A=B]]", "[[A!=B]]")
    """Of the same answers, and of different ones."""


class ScriptedAnswerJudge(ModelServer[ScriptedAnswerJudgeConfig]):
    config_type = ScriptedAnswerJudgeConfig

    async def responses(self, body: JsonObject, call: Call) -> ModelReply:
        texts = _ENCLOSED.findall(content_text(body["input"][-1]["content"]))
        first, second = (set(re.findall(r"\w+", text.replace(PREFIX, "").casefold())) for text in texts[-2:])
        label = self.config.labels[0 if first <= second or second <= first else 1]
        return make_response([message_item(f"Their words were looked at.\n{label}")], body, model=self.name)
