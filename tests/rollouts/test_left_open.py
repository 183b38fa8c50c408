"""A program that ends with a stream half read and its client open: all is closed, and nothing is said of it."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path

import orjson

from paddock.rollouts import Completion, RolloutOptions, open_rollouts
from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary, write_model_folder

folder = Path(sys.argv[1])
model = write_model_folder(folder / "model", chat_template=TEMPLATES["chatml"].source)
ids = [*small_vocabulary().encode("no"), *small_vocabulary().encode("<|im_end|>")]


async def engine(prompt, sampling, *, rollout):
    return Completion(ids, [-0.1] * len(ids), "stop", 1)


rollouts = open_rollouts(
    "configs/inventory_demo.yaml",
    engine=engine,
    engine_settings={"tokenizer": str(model)},
    options=RolloutOptions(out=str(folder / "out")),
)
rows = [orjson.loads(line) for line in Path(sys.argv[2]).read_bytes().splitlines()]
stream = iter(rollouts.groups(rows * 20, size=4))
print(next(stream).rewards)
"""
ROWS = Path(__file__).parents[2] / "examples" / "inventory.jsonl"


@pytest.mark.slow
def test_a_client_that_is_left_open_closes_with_the_program(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(ROWS)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[0.0, 0.0, 0.0, 0.0]\n", "")
