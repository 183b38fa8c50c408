"""Claims about the end of an exact server."""

from pathlib import Path

import pytest

from paddock.server.exact import ExactConfig
from paddock.server.recording_server import RecordingServer
from paddock.testing.engines import ScriptedEngine, ScriptedExactServer
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, Prompter


class Stoppable(ScriptedEngine):
    stopped = False

    async def stop(self) -> None:
        self.stopped = True


class FullDisk(RecordingServer[ExactConfig]):
    async def stop(self) -> None:
        await super().stop()
        raise OSError("no space left")


class OnFullDisk(ScriptedExactServer, FullDisk):
    """Its base fails to stop."""


async def test_the_engine_is_stopped_also_where_the_record_fails_to_close(tmp_path: Path) -> None:
    vocabulary = small_vocabulary()
    engine = Stoppable(vocabulary, lambda _prompt: "So.")
    prompter = Prompter(ChatTemplate(TEMPLATES["chatml"].source, vocabulary.special_texts), vocabulary)
    config = ExactConfig.model_validate({"turn_store": {"folder": tmp_path}})
    server = OnFullDisk(config, engine=engine, prompter=prompter, vocabulary=vocabulary)
    await server.start()
    with pytest.raises(OSError, match="no space left"):
        await server.stop()
    assert engine.stopped
