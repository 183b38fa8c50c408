"""A payload that means harm in some sandboxes, and honest gradings beside it, on one machine and by one provider.

Payload `hostile`, in sandboxes with small limits, where an agent goes on with its work (`hostile_sandboxes`).
Honest  as many gradings at a time of patches whose verdicts are known, over the SWE demo's rows: each is graded once
        before, alone; then again and again. A grading may fail, with an error that is nobody's reward.
Counts  wrong: a verdict that is not the one of before; breaches: those, and what came to harm outside; leftovers: what
        is there after the end; hung: an act that did not end in its time; traces: exceptions of no kind that the
        protocol knows; over_bounds: processes over their bounds of memory and descriptors.
Machine a disk of its own (a file of `DISK_MIB`) under the sandboxes, in a mount namespace of its own.
Needs   root, mkfs.ext4 and loop devices; the rows' images (`paddock images build`).
Prints  how far it is, each half minute.
"""

import argparse
import asyncio
import os
import random
import sys
import time
import uuid
from collections import Counter
from statistics import quantiles
from typing import Any

import orjson

from benchmarks.faults.canaries import Canaries, canaries
from benchmarks.faults.disks import loop_disk
from benchmarks.faults.gauges import Baseline, Gauges
from benchmarks.faults.grading import ROWS, patch_of
from benchmarks.faults.hostile_sandboxes import HostileSandboxes, variables
from paddock.errors import PaddockError
from paddock.http import read_row
from paddock.resources_servers.swe.grading import Grader, GradingOptions, measure_of
from paddock.resources_servers.swe.images import resolve_image
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import read
from paddock.sandbox import SandboxSettings
from paddock.sandbox.owner import state_folder
from paddock.sandbox.runtime_choice import open_local_provider

ALONE, MARK = "PADDOCK_PAYLOAD_ALONE", "PADDOCK_PAYLOAD_MARK"
PATCHES = {"gold": True, "equivalent": True, "noop": False, "wrong": False}
"""Whether each is resolved."""
OPTIONS = {"tests_timeout_s": 300.0, "limits": {"memory_mib": 512, "pids": 256, "disk_mib": 256}}
DISK_MIB = 8192
END_S = 900.0
"""For gradings that have begun to end, without the payload."""
NEWS_S = 30.0
BOUNDS = {"owner_mib": 1024.0, "owner_fds": 4096.0, "keeper_mib": 64.0, "keeper_fds": 64.0}


class HonestGradings:
    """Gradings, and what came of them."""

    def __init__(self, grader: Grader, instances: list[SweInstance]) -> None:
        self.right = 0
        self.wrong: list[str] = []
        self.failures: Counter[str] = Counter()
        self.crashes: list[str] = []
        self.seconds: list[float] = []
        self._grader = grader
        self._cases = [(instance, name) for instance in instances for name in PATCHES]
        self._reasons: dict[tuple[str, str], str] = {}

    async def grade_once(self) -> None:
        """Each case once, on a machine that is quiet."""
        for instance, name in self._cases:
            reason = (await self._grader.grade(instance, patch_of(instance, name))).reason
            if (reason == "resolved") != PATCHES[name]:
                raise SystemExit(f"{instance.instance_id}, {name}, alone: {reason}")
            self._reasons[instance.instance_id, name] = reason

    async def run(self, until: float, chance: random.Random) -> None:
        while time.monotonic() < until:
            instance, name = chance.choice(self._cases)
            started = time.monotonic()
            try:
                reason = (await self._grader.grade(instance, patch_of(instance, name))).reason
            except PaddockError as error:
                self.failures[f"{error.outcome}: {error.kind}"] += 1
                print(f"failed: {instance.instance_id}, {name}: {error.kind}: {error.message[:300]}", flush=True)
                continue
            except Exception as error:  # noqa: BLE001 - it is one of the figures
                self.crashes.append(f"{instance.instance_id}, {name}: {error!r}")
                continue
            self.seconds.append(time.monotonic() - started)
            if reason == self._reasons[instance.instance_id, name]:
                self.right += 1
            else:
                self.wrong.append(f"{instance.instance_id}, {name}: {reason}")


def run(words: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults payload")
    parser.add_argument("--sandboxes", type=int, default=16, help="hostile ones, and gradings beside (default: 16)")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the payload (default: 10)")
    parser.add_argument("--runtime", default="auto", help="of the sandboxes (default: auto)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    args = parser.parse_args(words)
    _enter(["faults", "payload", *words])
    settings = SandboxSettings(runtime=args.runtime)
    instances = [read(read_row(orjson.loads(line))) for line in ROWS.read_bytes().splitlines()]
    with loop_disk(state_folder(settings.home), DISK_MIB):
        return asyncio.run(_campaign(args, settings, instances))


def _enter(words: list[str]) -> None:
    """Become the same campaign in a mount namespace of its own."""
    if ALONE in os.environ:
        return
    if os.geteuid() != 0:
        raise SystemExit("faults payload needs root: it makes a disk for its sandboxes")
    argv = ["unshare", "--mount", "--propagation", "private", "--", sys.executable, "-m", "benchmarks", *words]
    os.execvpe(argv[0], argv, {**os.environ, ALONE: "1"})


async def _campaign(
    args: argparse.Namespace, settings: SandboxSettings, instances: list[SweInstance]
) -> dict[str, Any]:
    mark = uuid.uuid4().hex
    before = Baseline(settings.home, mark)
    provider = await open_local_provider(settings)
    gauges = Gauges()
    try:
        available = [one for one in instances if provider.store.has(resolve_image(one))]
        if not available:
            raise SystemExit(f"no image of {ROWS} is here: paddock images build --rows {ROWS}")
        images = [provider.store.get(resolve_image(one)) for one in available]
        layers = sorted({layer for image in images for layer in image.layers})
        grader = Grader(provider, GradingOptions.model_validate(OPTIONS), resolve_image, measure_of(settings.home))
        honest = HonestGradings(grader, available)
        users = [settings.payload_id, *([settings.uids.first] if settings.uids else [])]
        with canaries(settings.home, users, layers) as outside:
            await honest.grade_once()
            chance = random.Random(args.seed)
            env = {MARK: mark, **variables(outside.port, outside.name, outside.folder)}
            hosts = [
                HostileSandboxes(
                    provider, chance.choice(images).record.name, env, random.Random(chance.getrandbits(64))
                )
                for _ in range(args.sandboxes)
            ]
            gauges.start()
            await _together(hosts, honest, gauges, outside, args)
            await grader.close()
            harm = outside.harm()
    finally:
        await provider.close()
        if gauges.is_alive():
            gauges.close()
    figures = _figures(hosts, honest, gauges, harm)
    leftovers = await asyncio.to_thread(before.leftovers)
    for line in leftovers:
        print(f"left: {line}", flush=True)
    return {
        "seed": args.seed,
        "runtime": provider.runtime.name,
        "minutes": args.minutes,
        **figures,
        "leftovers": len(leftovers),
    }


async def _together(
    hosts: list[HostileSandboxes], honest: HonestGradings, gauges: Gauges, outside: Canaries, args: argparse.Namespace
) -> None:
    started = time.monotonic()
    until = started + 60 * args.minutes
    probe_loop = asyncio.create_task(gauges.probe_loop())
    hostile = asyncio.gather(*(host.run(until) for host in hosts))
    workers = [honest.run(until, random.Random(f"{args.seed} {nth}")) for nth in range(args.sandboxes)]
    graded = asyncio.gather(*workers)
    news = asyncio.create_task(_print_progress(hosts, honest, outside, started))
    try:
        await hostile
        async with asyncio.timeout(END_S):
            await graded
    finally:
        for task in (probe_loop, news, hostile, graded):
            task.cancel()
        await asyncio.gather(probe_loop, news, hostile, graded, return_exceptions=True)


async def _print_progress(
    hosts: list[HostileSandboxes], honest: HonestGradings, outside: Canaries, started: float
) -> None:
    while True:
        await asyncio.sleep(NEWS_S)
        harm = await asyncio.to_thread(outside.harm)
        progress = {
            "s": round(time.monotonic() - started),
            "right": honest.right,
            "wrong": honest.wrong,
            "failed": dict(honest.failures),
            **_sum(host.counts for host in hosts),
            "harm": harm,
        }
        print(orjson.dumps(progress).decode(), flush=True)


def _figures(hosts: list[HostileSandboxes], honest: HonestGradings, gauges: Gauges, harm: list[str]) -> dict[str, Any]:
    breaches = [*harm, *(line for host in hosts for line in host.breaches)]
    crashes = [*honest.crashes, *(line for host in hosts for line in host.crashes)]
    for line in (*breaches[:20], *honest.wrong, *crashes[:20]):
        print(line, flush=True)
    over = {name for name, most in BOUNDS.items() if gauges.peaks.get(name, 0.0) > most}
    counts = _sum(host.counts for host in hosts)
    return {
        "right": honest.right,
        "wrong": len(honest.wrong),
        "failed": honest.failures.total(),
        "breaches": len(breaches),
        "hung": counts.pop("hung", 0),
        "traces": len(crashes),
        "over_bounds": len(over),
        "payload": counts,
        "failures": dict(honest.failures),
        "ends": _sum(host.ends for host in hosts),
        "acts_failed": _sum(host.failures for host in hosts),
        "grading_s": _spread(honest.seconds),
        "act_s": _spread([second for host in hosts for second in host.acts_s]),
        "loop_late_s": _spread(gauges.late_s),
        "peaks": gauges.peaks,
    }


def _sum(counters: Any) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counters:
        total.update(one)
    return dict(total.most_common())


def _spread(values: list[float]) -> dict[str, float]:
    if len(values) < 2:
        return {}
    cuts = quantiles(values, n=100)
    return {"p50": cuts[49], "p99": cuts[98], "max": max(values)}
