"""`python scripts/train_demo.py make FOLDER`: rows and a model for `configs/train_demo.yaml`. `check`: what came of it.

Calls   pivot rows: somebody asks what is broken, a tool has named the kind of error and the module; the expert's next
        call is a tool that the kind decides, on the module that comes after the one named: nothing can be copied. Nine
        calls, each right in a ninth of the prompts. Eight wordings of the request and four of the tool's answer: 24 of
        their 32 pairs are trained on (216 rows), 8 held out (72 rows).
Sums    math rows, for `configs/train_demo_math.yaml` (`--task sums`): eight sums of two small numbers with four
        results, each in 32 wordings, of which 8 are held out (192 and 64 rows).
Model   Qwen3 of 131,520 parameters, random, taught by examples for some seconds to write one well-formed answer: which
        one is drawn at random in them, whatever the prompt says, so that the right one is chance.
Check   mean reward of the first ten steps under 0.2, of the last ten and on the held-out rows at least 0.9, all in less
        than 600 s; of sums, a quarter of which is right by chance, 0.35, 0.85, 0.8 and 600 s. Exit 1 where one of them
        does not hold.
Run     under the interpreter of an environment with vLLM (torch and transformers), see `scripts/setup_vllm.sh`.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paddock.tokens.template import ChatTemplate

TEMPLATE = Path(__file__).with_suffix(".jinja")
TOOLS = ("read", "test", "edit")
KINDS = ("import", "syntax", "value")
MODULES = ("parser", "cache", "router")
REQUESTS = (
    "Fix the build.",
    "The build is red, please help.",
    "What is broken here?",
    "Please look at the failure.",
    "Something fails, find out what.",
    "CI does not pass.",
    "Help me with this failure.",
    "Make the checks green.",
)
ANSWERS = (
    "a {kind} error in {module}",
    "in {module} a {kind} error",
    "the {module} failed with a {kind} error",
    "one {kind} error, module {module}",
)
SUMS = (
    "What is {first} plus {second}?",
    "Add {second} to {first}.",
    "{first} + {second} = ?",
    "Compute {first} + {second}.",
    "The sum of {first} and {second}?",
    "How much are {first} and {second}?",
    "{second} more than {first}?",
    "Take {first}, add {second}.",
)
SUM_REQUESTS = tuple(
    request.format(text)
    for request in ("{}", "Please: {}", "A question. {}", "{} Answer with the number alone.")
    for text in SUMS
)
WARM_UP_STEPS = 300
FIRST_AT_MOST, LAST_AT_LEAST, HELD_OUT_AT_LEAST, SECONDS_AT_MOST = 0.2, 0.9, 0.9, 600.0

Json = dict[str, Any]


class DemoPrompt(NamedTuple):
    """One prompt of a task."""

    held_out: bool
    row: Json
    answers: Sequence[str]
    """All that the model is taught to write there."""


class CallTask(NamedTuple):
    """Which call is right; how large it is."""

    kinds: Sequence[str] = KINDS
    modules: Sequence[str] = MODULES
    requests: Sequence[str] = REQUESTS
    answers: Sequence[str] = ANSWERS

    def prompts(self) -> Iterator[DemoPrompt]:
        calls = [call_of(tool, module) for tool in TOOLS[: len(self.kinds)] for module in self.modules]
        written = [answer_of(call) for call in calls]
        for nth, request in enumerate(self.requests):
            for mth, answer in enumerate(self.answers):
                held_out = len(self.answers) > 1 and nth % len(self.answers) == mth
                for kind in range(len(self.kinds)):
                    for module in range(len(self.modules)):
                        yield DemoPrompt(held_out, self._row(request, answer, kind, module), written)

    def _row(self, request: str, answer: str, kind: int, module: int) -> Json:
        result = answer.format(kind=self.kinds[kind], module=self.modules[module])
        expected = call_of(TOOLS[kind], self.modules[(module + 1) % len(self.modules)])
        call_entry = {"type": "function_call", "call_id": "call_0", **call_of("test", "all")}
        return {
            "responses_create_params": {
                "input": [
                    {"role": "user", "content": request},
                    call_entry,
                    {"type": "function_call_output", "call_id": "call_0", "output": result},
                ],
                "tools": [tool(name) for name in TOOLS],
            },
            "expected_action": {"type": "function_call", **expected},
        }


class SumTask(NamedTuple):
    """Which number is right; how large it is. Each sum is as frequent as any other: no one answer is the best guess."""

    sums: Sequence[int] = range(4, 8)
    addends: Sequence[int] = (1, 2)
    wordings: Sequence[str] = SUM_REQUESTS

    def prompts(self) -> Iterator[DemoPrompt]:
        written = [f"\\boxed{{{number}}}<|im_end|>" for number in self.sums]
        pairs = [(number - addend, addend) for number in self.sums for addend in self.addends]
        for first, second in pairs:
            for nth, wording in enumerate(self.wordings):
                text = wording.format(first=first, second=second)
                row = {
                    "responses_create_params": {"input": [{"role": "user", "content": text}]},
                    "agent_ref": {"type": "agents", "name": "math_agent"},
                    "question": text,
                    "expected_answer": str(first + second),
                }
                # Each pair of a request and a form of sum is held out with some sums, and seen with others.
                held_out = len(self.wordings) > 1 and (sum(divmod(nth, len(SUMS))) - first - second) % 4 == 0
                yield DemoPrompt(held_out, row, written)


TASKS: Mapping[str, CallTask | SumTask] = {"calls": CallTask(), "sums": SumTask()}
SMALL: Mapping[str, CallTask | SumTask] = {
    "calls": CallTask(KINDS[:2], MODULES[:2], REQUESTS[:1], ANSWERS[:1]),
    "sums": SumTask(range(4, 6), wordings=SUM_REQUESTS[:1]),
}
"""Four rows, nothing held out."""


def call_of(name: str, module: str) -> Json:
    return {"name": name, "arguments": json.dumps({"module": module})}


def tool(name: str) -> Json:
    module = {"type": "object", "properties": {"module": {"type": "string"}}, "required": ["module"]}
    return {"type": "function", "name": name, "parameters": module}


def tools_of(row: Json) -> Sequence[Json]:
    tools: Sequence[Json] = row["responses_create_params"].get("tools", ())
    return tools


def messages_of(row: Json) -> list[Json]:
    """As the model server makes them of the row's request."""
    user, *after = row["responses_create_params"]["input"]
    if not after:
        return [user]
    call, output = after
    call_entry = {"type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
    return [
        user,
        {"role": "assistant", "content": "", "tool_calls": [call_entry]},
        {"role": "tool", "content": output["output"]},
    ]


def answer_of(call: Json) -> str:
    """A call as the model writes it."""
    return f'<tool_call>\n{{"name": "{call["name"]}", "arguments": {call["arguments"]}}}\n</tool_call><|im_end|>'


def write_rows(folder: Path, prompts: Sequence[DemoPrompt]) -> None:
    for name, held_out in (("train", False), ("held_out", True)):
        lines = [json.dumps(prompt.row) + "\n" for prompt in prompts if prompt.held_out == held_out]
        (folder / f"{name}.jsonl").write_text("".join(lines))


def make(args: argparse.Namespace) -> int:
    args.folder.mkdir(parents=True, exist_ok=True)
    prompts = list((SMALL if args.small else TASKS)[args.task].prompts())
    write_rows(args.folder, prompts)
    template = ChatTemplate(TEMPLATE.read_text(), {"eos_token": "<|im_end|>"})

    def text_of(row: Json) -> str:
        tools = [{"type": "function", "function": {"name": tool["name"]}} for tool in tools_of(row)]
        return template.render(messages_of(row), tools=tools, generation_prompt=True, arguments={})

    from paddock.testing.tiny_qwen3 import make_chooser  # with torch, which `check` needs not

    choices = [(text_of(prompt.row), prompt.answers) for prompt in prompts]
    make_chooser(args.folder / "model", choices, template=TEMPLATE, seed=args.seed, steps=args.steps)
    return 0


class DemoBounds(NamedTuple):
    """What a run has to come to."""

    first_at_most: float = FIRST_AT_MOST
    last_at_least: float = LAST_AT_LEAST
    held_out_at_least: float = HELD_OUT_AT_LEAST
    seconds_at_most: float = SECONDS_AT_MOST


BOUNDS: Mapping[str, DemoBounds] = {"calls": DemoBounds(), "sums": DemoBounds(0.35, 0.85, 0.8)}


class DemoFigures(NamedTuple):
    """Figures of one run."""

    seed: int
    seconds: float
    """From the making of rows and model to the end of the run."""
    steps: int
    reward_first: float
    reward_last: float
    held_out_before: float
    held_out_after: float
    held_out_prompts: int
    logprob_mismatch_mean: float | None
    """Trainer against engine, tokens of the current version; None: there were none."""
    logprob_mismatch_max: float | None

    def problems(self, bounds: DemoBounds) -> Iterator[str]:
        checks = (
            (
                self.reward_first < bounds.first_at_most,
                f"mean reward of the first ten steps is {self.reward_first:.3f}",
            ),
            (self.reward_last >= bounds.last_at_least, f"mean reward of the last ten steps is {self.reward_last:.3f}"),
            (self.held_out_after >= bounds.held_out_at_least, f"reward on held-out rows is {self.held_out_after:.3f}"),
            (self.seconds < bounds.seconds_at_most, f"it took {self.seconds:.0f} s"),
        )
        yield from (f"seed {self.seed}: {text}" for holds, text in checks if not holds)


def figures_of(folder: Path, *, seed: int, started: float) -> DemoFigures:
    """`started`: seconds since 1970."""
    summary = folder / "summary.json"
    run_summary: Json = json.loads(summary.read_text())
    mismatch = run_summary["logprob_error"]["current"]
    return DemoFigures(
        seed=seed,
        seconds=round(summary.stat().st_mtime - started, 1),
        steps=run_summary["steps"],
        reward_first=run_summary["reward_first"],
        reward_last=run_summary["reward_last"],
        held_out_before=run_summary["validation_first"],
        held_out_after=run_summary["validation_last"],
        held_out_prompts=sum(1 for _ in (folder / "made" / "held_out.jsonl").open()),
        logprob_mismatch_mean=mismatch["mean_abs"],
        logprob_mismatch_max=mismatch["max_abs"],
    )


def check(args: argparse.Namespace) -> int:
    """Writes the figures of the run, beside what the run itself wrote of it."""
    figures = figures_of(args.folder, seed=args.seed, started=args.started)
    path = args.folder / "summary.json"
    path.write_text(json.dumps({**figures._asdict(), **json.loads(path.read_text())}, indent=2) + "\n")
    problems = list(figures.problems(BOUNDS[args.task]))
    sys.stdout.write(json.dumps(figures._asdict(), indent=2) + "\n")
    sys.stdout.write("".join(f"FAILED {problem}\n" for problem in problems))
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--seed", type=int, default=0)
    making.add_argument("--steps", type=int, default=WARM_UP_STEPS, help="of teaching")
    making.add_argument("--small", action="store_true", help="four rows")
    making.add_argument("--task", choices=TASKS, default="calls")
    making.set_defaults(run=make)
    checking = commands.add_parser("check")
    checking.add_argument("folder", type=Path, help="of the run")
    checking.add_argument("--task", choices=TASKS, default="calls")
    checking.add_argument("--seed", type=int, default=0)
    checking.add_argument("--started", type=float, required=True, help="when the making began, seconds since 1970")
    checking.set_defaults(run=check)
    args = parser.parse_args()
    code: int = args.run(args)
    return code


if __name__ == "__main__":
    sys.exit(main())
