"""SGLang as an exact model server: prompts built from recorded ids, answers recorded as ids with their log-probs.

Law     that of `paddock.server.exact`. SGLang is asked at `/generate` with `input_ids`; it runs already, and whoever
        trains sends it new weights: paused by `retract`, answers that run go on exactly, with a span for each version.
Errors  those of `engine` and `checks`; ConfigError for a tokenizer, a chat template or a parser that is not there.
"""

from paddock.models_servers.sglang.config import SglangConfig
from paddock.models_servers.sglang.engine import SglangEngine
from paddock.server.exact import Equipment, ExactServer
from paddock.server.exact.language import equipment


class SglangServer(ExactServer[SglangConfig]):
    config_type = SglangConfig

    @property
    def model_name(self) -> str:
        return self.config.model

    async def equip(self) -> Equipment:
        return equipment(self.config, self.name, SglangEngine(self.config))
