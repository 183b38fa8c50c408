"""Whole runs under faults at random moments: what is on the disk in the end is what an undisturbed run gives.

Episode `paddock eval` over the demo's rows with the known answers, in one process or with `--isolate`, at a random
        concurrency. While its first `DISTURBED` commands run, signals hit the command or a process below it, whatever
        part that plays; a stopped one goes on after a moment. Root's episodes have small disks of their own under the
        temporary folder and the sandboxes, which are full for a moment. Each command after the first is `--resume`;
        the last ones are left alone.
Counts  wrong: a reward that is not the known one; missing: a rollout without a verdict in the end; doubled: two lines
        of one rollout; hung: a command that did not end in its time; traces: commands that printed a traceback;
        leftovers: processes, files in the temporary folder and sandboxes that are there after one more command has
        looked.
Needs   the rows' images for `--environment swe`, and a home (`PADDOCK_HOME`) that nobody else uses meanwhile.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import psutil

from benchmarks.faults.disks import Ballast, small_disk
from benchmarks.faults.victims import victim
from paddock.sandbox import SandboxSettings
from paddock.sandbox.owner import state_folder

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSTOP)
DISTURBED = 5
COMMANDS = 15
"""The most commands of one episode."""
MOMENT_S = 2.0
"""The longest that a process stays stopped, or a disk full."""
FULL_SHARE = 0.15
"""Share of full disks among root's faults; the others are signals."""
DISK_MIB = 512
"""The size of each small disk."""
MARK = "PADDOCK_FAULTS_EPISODE"
TRACE = "Traceback (most recent call last)"
BEFORE_CHARS, TRACE_CHARS = 500, 6000
"""Characters of output that are shown before a trace and with it."""
END_S = 10.0
"""For processes of an ended command to be gone."""


class Environment(NamedTuple):
    config: str
    n_rollouts: int
    """Rollouts without repeats."""
    repeats: int
    """How often each row runs in one episode, by default."""
    fault_period_s: float
    """Mean seconds between faults."""
    limit_s: float
    """For one command."""
    rewards: dict[str, float]
    """The known reward by agent, where it is not 1."""


ENVIRONMENTS = {
    "pivot": Environment("configs/demo.yaml", 101, 4, 0.3, 300.0, {}),
    "swe": Environment("configs/swe_demo.yaml", 18, 3, 5.0, 1200.0, {"null": 0.0, "noop": 0.0}),
}


def run(words: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks faults runs")
    parser.add_argument("--environment", choices=ENVIRONMENTS, default="pivot")
    parser.add_argument("--rollouts", type=int, default=10_000, help="of all episodes together (default: 10000)")
    parser.add_argument("--repeats", type=int, help="of each row in one episode (default: pivot 4, swe 3)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    args = parser.parse_args(words)
    environment, chance = ENVIRONMENTS[args.environment], random.Random(args.seed)
    environment = environment._replace(repeats=args.repeats or environment.repeats)
    # Ignored in what a shell runs in the background, and then in all that we start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    counts: Counter[str] = Counter()
    while counts["rollouts"] < args.rollouts:
        counts.update(DisturbedRun(environment, chance).play())
        print(orjson.dumps(dict(counts)).decode(), flush=True)
    return {"environment": args.environment, "seed": args.seed, **counts}


class DisturbedRun:
    """One run from its first command to its end."""

    def __init__(self, environment: Environment, chance: random.Random) -> None:
        self._environment = environment
        self._chance = chance
        self._mark = uuid.uuid4().hex
        self._disks: list[Path] = []
        self._counts: Counter[str] = Counter(episodes=1, traces=0)

    def play(self) -> Counter[str]:
        with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as disks:
            out, temporary = Path(name, "run"), Path(name, "tmp")
            temporary.mkdir()
            if os.geteuid() == 0:
                self._disks = [temporary, state_folder(SandboxSettings().home)]
                for disk in self._disks:
                    disks.enter_context(small_disk(disk, DISK_MIB))
            repeats = str(self._environment.repeats)
            arguments = ["eval", self._environment.config, "--oracle", "--repeats", repeats, "--out", str(out)]
            arguments += ["--retry-wait-s", "0.1", "--concurrency", str(self._chance.choice((2, 3, 16, 64)))]
            arguments += ["--isolate"] if self._chance.random() < 0.4 else []
            for nth in range(COMMANDS):
                resume = ["--resume"] if (out / "run.json").exists() else []
                if self._command([*arguments, *resume], temporary, disturbed=nth < DISTURBED) == 0:
                    break
            self._command([*arguments, "--resume"], temporary, disturbed=False)
            self._judge(out)
            self._look(temporary)
        return self._counts

    def _command(self, words: list[str], temporary: Path, *, disturbed: bool) -> int | None:
        self._counts["commands"] += 1
        env = {**os.environ, "TMPDIR": str(temporary), MARK: self._mark}
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen([sys.executable, "-m", "paddock", *words], stdout=output, stderr=output, env=env)
            end = time.monotonic() + self._environment.limit_s
            try:
                while process.poll() is None and time.monotonic() < end:
                    time.sleep(self._chance.expovariate(1 / self._environment.fault_period_s) if disturbed else 0.05)
                    if disturbed and process.poll() is None:
                        self._strike(process.pid)
                if process.poll() is None:
                    self._counts["hung"] += 1
                    process.kill()
                code = process.wait()
            finally:
                process.kill()
            output.seek(0)
            text = output.read().decode(errors="replace")
            if TRACE in text:
                self._counts["traces"] += 1
                print(f"trace: {text[max(0, text.index(TRACE) - BEFORE_CHARS) :][:TRACE_CHARS]}", flush=True)
            return code

    def _strike(self, pid: int) -> None:
        if self._disks and self._chance.random() < FULL_SHARE:
            ballast = Ballast(self._chance.choice(self._disks))
            ballast.fill()
            time.sleep(self._chance.uniform(0, MOMENT_S))
            ballast.free()
            self._counts["full"] += 1
            return
        with contextlib.suppress(psutil.Error):
            part, process = victim(psutil.Process(pid), self._chance)
            number = self._chance.choice(SIGNALS)
            process.send_signal(number)
            self._counts.update(("signals", number.name, part))
            if number == signal.SIGSTOP:
                time.sleep(self._chance.uniform(0, MOMENT_S))
                process.send_signal(signal.SIGCONT)

    def _judge(self, out: Path) -> None:
        lines = [orjson.loads(line) for line in (out / "rollouts.jsonl").read_bytes().splitlines()]
        keys = Counter((line["_ng_task_index"], line["_ng_rollout_index"]) for line in lines)
        self._counts["rollouts"] += len(keys)
        self._counts["missing"] += self._environment.n_rollouts * self._environment.repeats - len(keys)
        self._counts["doubled"] += sum(times - 1 for times in keys.values())
        wrong = [
            line for line in lines if line["reward"] != self._environment.rewards.get(line["agent_ref"]["name"], 1.0)
        ]
        self._counts["wrong"] += len(wrong)
        for line in wrong:
            result = {key: line["rollout"].get(key) for key in ("outcome", "verdict")}
            print(f"wrong: {line['agent_ref']['name']}, row {line['_ng_task_index']}: {result}", flush=True)

    def _look(self, temporary: Path) -> None:
        end = time.monotonic() + END_S
        while (living := self._marked_processes()) and time.monotonic() < end:
            time.sleep(0.1)
        home = state_folder(SandboxSettings().home)
        sandboxes = [one for one in home.iterdir() if one.is_dir() and any(one.iterdir())] if home.is_dir() else []
        files = [one for one in temporary.rglob("*") if not one.is_dir()]
        for one in (*living, *sandboxes, *files):
            print(f"left: {one}", flush=True)
        self._counts["leftovers"] += len(living) + len(sandboxes) + len(files)

    def _marked_processes(self) -> list[psutil.Process]:
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
        return processes
