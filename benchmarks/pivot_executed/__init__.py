"""How far `semantic` agrees with `executed`: `python -m benchmarks pivot_executed`.

Work    pairs of actions on a small repository of made-up files (`families`); with `PIVOT_REPLAYS`, pairs at the steps
        of trajectories that were played again (`replayed`): the expert's action against its other forms, near misses
        of it, and actions of other steps. Both comparators judge each pair; `executed` is taken as the truth.
Figures precision (of what `semantic` accepts, how much is executed alike), recall (of what is executed alike, how much
        it accepts), over all pairs and by family; and the pairs in which they disagree, by family and the two means.
Env     `PIVOT_PAIRS`: how many pairs (default 1,000). `PIVOT_REPLAYS`: folders of `paddock pivot mine --replay`, with
        `:` between them, whose snapshots are still in the store below `PADDOCK_HOME`. `PIVOT_DETAILS`: a file that gets
        each disagreement, a JSON line each.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.pivot_executed.agreement import ComparatorAgreement
from benchmarks.pivot_executed.families import FILES, made_up_pairs
from benchmarks.pivot_executed.replayed import replayed_pairs
from paddock.resources_servers.pivot.executed.comparator import ExecutedComparator
from paddock.resources_servers.pivot.executed.options import ExecutedOptions
from paddock.sandbox import SandboxSettings
from paddock.sandbox.runtime_choice import open_provider
from paddock.testing.sandboxes import repository_image, sandbox_home, store_of

PAIRS = int(os.environ.get("PIVOT_PAIRS", "1000"))


async def _made_up(agreement: ComparatorAgreement) -> None:
    with sandbox_home() as home:
        image = repository_image(store_of(home), "shop", FILES)
        provider = await open_provider(SandboxSettings(home=home))
        try:
            comparator = ExecutedComparator(provider, ExecutedOptions(max_cached_results=10_000))
            await agreement.judge(made_up_pairs(PAIRS, image), comparator)
        finally:
            await provider.close()


async def _replayed(agreement: ComparatorAgreement, folders: list[Path]) -> None:
    settings = SandboxSettings()
    provider = await open_provider(settings)
    try:
        options = ExecutedOptions(max_concurrent_sandboxes=4)
        pairs = await replayed_pairs(PAIRS, folders, provider, store_of(settings.home), options)
        await agreement.judge(pairs, ExecutedComparator(provider, options))
    finally:
        await provider.close()


def run() -> dict[str, Any]:
    agreement = ComparatorAgreement()
    folders = [Path(folder) for folder in os.environ.get("PIVOT_REPLAYS", "").split(":") if folder]
    if missing := [str(folder) for folder in folders if not (folder / "candidates.jsonl").exists()]:
        sys.exit(f"PIVOT_REPLAYS: no candidates.jsonl in {', '.join(missing)}: name folders of `paddock pivot mine`")
    asyncio.run(_replayed(agreement, folders) if folders else _made_up(agreement))
    if details := os.environ.get("PIVOT_DETAILS"):
        Path(details).write_text("".join(json.dumps(one) + "\n" for one in agreement.details))
    return agreement.figures()
