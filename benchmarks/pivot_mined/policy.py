"""The starting policy of `pivot_mined`: `python -m benchmarks.pivot_mined.policy FOLDER`, with torch and transformers.

Files   trajectories.jsonl: those that are mined. held_out.jsonl: pivot rows of all steps of the others. model: a model
        as `scripts/train_demo.py` makes it, taught what `task.policy_answers` says.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.train_demo import TEMPLATE, WARM_UP_STEPS

from benchmarks.pivot_mined.task import candidates_of, make_trajectories, policy_answers, write_lines
from paddock.resources_servers.pivot.mining.candidates import PivotCandidate
from paddock.resources_servers.pivot.mining.rows import row_of
from paddock.server.dialects import conversation
from paddock.server.dialects.canonical import chat_messages
from paddock.testing.tiny_qwen3 import make_chooser
from paddock.tokens.template import ChatTemplate


def make(folder: Path) -> None:
    """Write trajectories, held-out rows and the model."""
    folder.mkdir(parents=True, exist_ok=True)
    split = make_trajectories()
    write_lines(folder / "trajectories.jsonl", split.mined)
    held_out = candidates_of(split.held_out)
    write_lines(folder / "held_out.jsonl", [row_of(candidate) for candidate in held_out])
    choices = list(_choices([*candidates_of(split.mined), *held_out]))
    make_chooser(folder / "model", choices, template=TEMPLATE, seed=0, steps=WARM_UP_STEPS)


def _choices(candidates: Sequence[PivotCandidate]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each prompt as the model server renders it, and what the policy may answer."""
    template = ChatTemplate(TEMPLATE.read_text(), {"eos_token": "<|im_end|>"})
    for candidate in candidates:
        request = conversation("responses", row_of(candidate)["responses_create_params"])
        tools = request.tools or []
        prompt = template.render(chat_messages(request.items), tools=tools, generation_prompt=True, arguments={})
        yield prompt, tuple(_written(command) for command in policy_answers(candidate))


def _written(command: str) -> str:
    """A command as the model writes it."""
    arguments = json.dumps({"command": command})
    return f'<tool_call>\n{{"name": "bash", "arguments": {arguments}}}\n</tool_call><|im_end|>'


if __name__ == "__main__":
    make(Path(sys.argv[1]))
