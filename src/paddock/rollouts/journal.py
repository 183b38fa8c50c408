"""The journal of rollouts that a trainer asks for: a folder for each start of the servers.

Files   those of a collection, as far as they hold here: `rollouts.jsonl` every rollout with a verdict, `failures.jsonl`
        every failed attempt, `config.yaml` the servers' config without its secrets. `paddock show` and `paddock
        samples` read it.
Law     a rollout is on the disk before its result is given to the trainer.
Errors  ConfigError for a folder that can't be made; InfraError (kind `disk`) when it can't be written any more.
"""

from pathlib import Path

from paddock.collect.folder import CONFIG, DURABLE, FAILURES, ROLLOUTS
from paddock.collect.identity import public_tree
from paddock.collect.lines import JournalWriter, Part, to_line
from paddock.collect.results import FailedAttempt, RolloutResult
from paddock.config import Config
from paddock.config.yaml_text import dump
from paddock.errors import ConfigError, InfraError
from paddock.whole_file import write_whole


class RolloutJournal:
    """Records rollouts and failed attempts (`paddock.collect.attempts.ResultSink`). Used from one event loop."""

    def __init__(self, folder: Path, config: Config) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True)
            write_whole(folder / CONFIG, dump(public_tree(config)).encode())
            self._writer = JournalWriter({name: folder / name for name in (ROLLOUTS, FAILURES)}, durable=DURABLE)
        except OSError as error:
            raise ConfigError(
                f"{folder}: can't be made: {error}; `eval.out` names the folder that holds those of rollouts",
                kind="folder_unusable",
            ) from error

    async def rollout(self, result: RolloutResult, line: bytes) -> RolloutResult:
        await self._put(Part(ROLLOUTS, line))
        return result

    async def failure(self, failed: FailedAttempt) -> None:
        await self._put(Part(FAILURES, to_line(failed)))

    async def close(self) -> None:
        await self._writer.close()

    async def _put(self, part: Part) -> None:
        try:
            await self._writer.put(part)
        except OSError as error:
            raise InfraError(f"{self.folder}: can't be written: {error}", kind="disk", retryable=False) from error
