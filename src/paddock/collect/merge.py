"""Merge of the shards of one run.

Law     shards are of one run: same config, rows, repeats and selection, same number of shards, each shard once and
        none missing. What comes out is what one collector would have written, rows in order; when a shard was not
        complete, the merged run can be resumed with the same command without `shard`.
Errors  ConfigError that names the folder and what differs.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from paddock.collect.folder import (
    CONFIG,
    FAILURES,
    INDEX,
    RESULTS,
    ROLLOUTS,
    RUN,
    has_run,
    locked,
    write_json,
)
from paddock.collect.identity import RunIdentity, differences, read_identity
from paddock.collect.journal import row_result_lines
from paddock.collect.lines import digest_of, is_sealed, seal, to_line
from paddock.collect.recovery import StoredRun, read_failures, recover
from paddock.collect.results import RolloutResult
from paddock.collect.run import CollectionResult, stored_pace, summarise
from paddock.collect.tally import Pace
from paddock.errors import ConfigError
from paddock.types.formats import FORMAT
from paddock.whole_file import write_whole


class _Shard(NamedTuple):
    folder: Path
    identity: RunIdentity
    run: StoredRun


def merge(folders: Sequence[Path], out: Path) -> CollectionResult:
    """Merge the shards in `folders` into one run in the folder `out`."""
    with ExitStack() as stack:
        for folder in dict.fromkeys(folders):
            if not (folder / RUN).exists():
                raise ConfigError(f"{folder}: holds no run", kind="run_unreadable")
            stack.enter_context(locked(folder))
        stack.enter_context(locked(out))
        if has_run(out):
            raise ConfigError(f"{out} holds a run already: take another folder (--out)", kind="folder_taken")
        shards = [_Shard(folder, read_identity(folder), recover(folder)) for folder in dict.fromkeys(folders)]
        identity = _whole(shards)
        write_whole(out / CONFIG, (shards[0].folder / CONFIG).read_bytes())
        write_json(out / RUN, identity.model_dump())
        _write_rollouts(shards, out)
        write_whole(out / FAILURES, b"".join(_failures(shards)))
        results = (result for shard in shards for result in shard.run.results())
        write_whole(out / RESULTS, b"".join(row_result_lines(results, identity)))
        return CollectionResult("finished", summarise(out, identity.agents, _parts_pace(shards)), identity.n_rollouts)


def _whole(shards: Sequence[_Shard]) -> RunIdentity:
    """The identity of the run that the shards make up."""
    first = shards[0].identity
    for shard in shards[1:]:
        as_first = shard.identity.model_copy(update={"shard": first.shard})
        differing = differences(first, as_first)
        if differing:
            raise ConfigError(
                f"{shard.folder} is of another run than {shards[0].folder}: {'; '.join(differing)}", kind="run_differs"
            )
    have = [shard.identity.shard for shard in shards]
    twice = sorted({number for number in have if have.count(number) > 1})
    missing = [number for number in range(first.shards) if number not in have]
    if twice or missing:
        wrong = [f"shard {number} is given twice" for number in twice] + [
            f"shard {number} is missing" for number in missing
        ]
        raise ConfigError(f"{'; '.join(wrong)} (of {first.shards})", kind="shards_incomplete")
    n_rows = sum(shard.identity.n_rows for shard in shards)
    n_rollouts = sum(shard.identity.n_rollouts for shard in shards)
    whole = {"format": FORMAT, "shard": 0, "shards": 1}
    return first.model_copy(update={**whole, "n_rows": n_rows, "n_rollouts": n_rollouts})


def _write_rollouts(shards: Sequence[_Shard], out: Path) -> None:
    """Write all lines, ordered by row and member, and their index."""
    ordered = sorted(((result, shard.folder) for shard in shards for result in shard.run.verdicts), key=_by_member)
    with ExitStack() as stack:
        files = {shard.folder: stack.enter_context((shard.folder / ROLLOUTS).open("rb")) for shard in shards}
        target = stack.enter_context((out / ROLLOUTS).open("wb"))
        index = stack.enter_context((out / INDEX).open("wb"))
        for result, folder in ordered:
            files[folder].seek(result.start or 0)
            start = target.tell()
            line = files[folder].read((result.end or 0) - (result.start or 0))
            line = line if is_sealed(line) else seal(line)
            target.write(line)
            position = {"start": start, "end": target.tell(), "crc32": digest_of(line)}
            index.write(to_line(result.model_copy(update=position)))


def _by_member(stored: tuple[RolloutResult, Path]) -> tuple[int, int]:
    return stored[0].key


def _failures(shards: Sequence[_Shard]) -> Iterator[bytes]:
    failed = [failed for shard in shards for failed in read_failures(shard.folder / FAILURES)]
    return map(to_line, sorted(failed, key=lambda attempt: (*attempt.key, attempt.attempt)))


def _parts_pace(shards: Sequence[_Shard]) -> Pace:
    """The pace of the merged run. Shards run at the same time, so the slowest says how long it took."""
    paces = [stored_pace(shard.folder) for shard in shards]
    return Pace(max(pace.wall_s for pace in paces), sum(pace.n_ended for pace in paces))
