"""SWE rows of a tiny repository, in real sandboxes, and a model that often mends the wrong one of its functions.

Repository  three functions of a calculator, each with a wrong sign. A row's tests want one of them mended and the
        others left as they were, so that each problem has one right command of three.
Rows    the function by name in ten wordings are trained on, four others are held out. Of each five rows that are
        trained on one is of an image in which a command waits first.
Model   Qwen3 of 131,520 parameters, taught to call the shell with one of the three commands, and then to finish. In
        half of its lessons it mends the next function, in a quarter each of the others: mostly a wrong one.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.learning.mender.harness import PAUSE_FILE
from tests.support.small_bug import put_repository

from paddock.testing.sandboxes import WORKDIR
from paddock.types import JsonObject

PAUSE_S = 25
"""In the images of slow rows, before each command."""
IMAGE, SLOW_IMAGE = "mender", f"mender-pauses-{PAUSE_S}s"
SIGNS = {"add": "+", "sub": "-", "mul": "*"}
WRONG = "%"
WORDINGS = (
    "{} gives wrong numbers.",
    "Mend {}.",
    "The result of {} is wrong.",
    "Please look at {}.",
    "Nobody can use {} any more.",
    "Since yesterday {} is broken.",
    "Something is wrong in {}.",
    "Please make {} right.",
    "A user says that {} fails.",
    "Why does {} give this?",
    "Look into {}, please.",
    "I can't use {}.",
    "Please mend {} for a user.",
    "{} is broken.",
)
N_TRAINED = 10
TOOLS = ("shell", "finish")
_TESTS = "test_calc.py"


def put_images(home: Path) -> None:
    """The image, and one in which each command waits. FileNotFoundError, SandboxError: this machine lacks the
    programs."""
    files = {"calc.py": "\n".join(_lines()) + "\n", "README": "A calculator.\n"}
    put_repository(home, IMAGE, files)
    put_repository(home, SLOW_IMAGE, files, outside={PAUSE_FILE: f"{PAUSE_S}\n"})


def command_of(name: str) -> str:
    """The command that mends a function: its line, counted from 1."""
    return f"sed -i '{_wrong_line(name)}s/{WRONG}/{SIGNS[name]}/' calc.py"


def write_rows(folder: Path) -> None:
    """`train.jsonl` and `held_out.jsonl`."""
    rows = [(nth, name, wording.format(name)) for nth, wording in enumerate(WORDINGS) for name in SIGNS]
    trained = [(name, text) for nth, name, text in rows if nth < N_TRAINED]
    held_out = [(name, text) for nth, name, text in rows if nth >= N_TRAINED]
    _write(folder / "train.jsonl", (_row(f"train-{nth}", *row, slow=nth % 5 == 0) for nth, row in enumerate(trained)))
    _write(folder / "held_out.jsonl", (_row(f"held-{nth}", *row, slow=False) for nth, row in enumerate(held_out)))


def make(folder: Path, *, seed: int) -> None:
    """Rows and a model; under an interpreter with torch."""
    from paddock.testing.tiny_qwen3 import make_chooser
    from paddock.tokens.template import ChatTemplate

    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder)
    source = Path(__file__).parents[3] / "scripts" / "train_demo.jinja"
    template = ChatTemplate(source.read_text(), {"eos_token": "<|im_end|>"})
    tools = [{"type": "function", "function": {"name": name}} for name in TOOLS]

    def text_of(messages: list[JsonObject]) -> str:
        return template.render(messages, tools=tools, generation_prompt=True, arguments={})

    arguments = {name: json.dumps({"command": command_of(name)}) for name in SIGNS}
    calls = {name: _answer("shell", own) for name, own in arguments.items()}
    choices = []
    for wording in WORDINGS:
        for name in SIGNS:
            problem: JsonObject = {"role": "user", "content": wording.format(name)}
            lessons = [*calls.values(), calls[_next(name)]]
            choices.append((text_of([problem]), lessons))
            for own in arguments.values():
                call = {"type": "function", "function": {"name": "shell", "arguments": own}}
                called: JsonObject = {"role": "assistant", "content": "", "tool_calls": [call]}
                result: JsonObject = {"role": "tool", "content": "exit code 0"}
                choices.append((text_of([problem, called, result]), [_answer("finish", "{}")]))
    make_chooser(folder / "model", choices, template=source, seed=seed, steps=1500)


def _next(name: str) -> str:
    names = list(SIGNS)
    return names[(names.index(name) + 1) % len(names)]


def _answer(tool: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{tool}", "arguments": {arguments}}}\n</tool_call><|im_end|>'


def _row(instance: str, name: str, text: str, *, slow: bool) -> JsonObject:
    image = SLOW_IMAGE if slow else IMAGE
    checks = [f'("{other}", calc.{other}(7, 4) == 7 {SIGNS[other] if other == name else WRONG} 4)' for other in SIGNS]
    listed = ", ".join(checks)
    script = (
        f"import sys\n\nimport calc\n\nchecks = ({listed})\nfor name, good in checks:\n"
        f'    print("PASSED" if good else "FAILED", "{_TESTS}::" + name)\n'
        "sys.exit(not all(good for _, good in checks))\n"
    )
    return {
        "instance_id": f"mender__{instance}",
        "responses_create_params": {"input": []},
        "agent_ref": {"name": "agent"},
        "problem_statement": text,
        "image": image,
        "workdir": WORKDIR,
        "patch": _fix(name),
        "test_files": {_TESTS: script},
        "test_command": f"python3 {_TESTS}",
        "log_parser": "parse_log_pytest",
        "FAIL_TO_PASS": [f"{_TESTS}::{name}"],
        "PASS_TO_PASS": [f"{_TESTS}::{other}" for other in SIGNS if other != name],
    }


def _lines() -> list[str]:
    """The lines of the calculator."""
    lines = []
    for name in SIGNS:
        lines += [f"def {name}(a, b):", f"    return a {WRONG} b", "", ""]
    return lines[:-2]


def _wrong_line(name: str) -> int:
    """The line of a function's wrong sign, from 1."""
    return _lines().index(f"def {name}(a, b):") + 2


def _fix(name: str) -> str:
    lines = _lines()
    hunk = [f" {line}" for line in lines]
    wrong = _wrong_line(name) - 1
    hunk[wrong : wrong + 1] = [f"-{lines[wrong]}", f"+{lines[wrong].replace(WRONG, SIGNS[name])}"]
    head = ["diff --git a/calc.py b/calc.py", "--- a/calc.py", "+++ b/calc.py"]
    return "\n".join([*head, f"@@ -1,{len(lines)} +1,{len(lines)} @@", *hunk, ""])


def _write(path: Path, rows: Iterator[JsonObject]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
