"""`python measure_inputs.py`: packed rows as context-parallel processes have them; a line of JSON. It claims nothing.

Runs in the environment that has torch; `test_inputs.py` says what has to come of it.
"""

import json
import sys
from typing import Any

import torch
from tests.training.grpo.megatron.tiny import batch

from paddock.training.grpo.megatron.inputs import InputForm, inputs_of, own_indices, whole_length
from paddock.training.grpo.microbatches import RankShare, micro_batches

CAPACITY = 48


def measured(size: int, tensor: int) -> dict[str, Any]:
    rows = batch().rows
    found: dict[str, Any] = {"rows": [], "pieces": [], "tokens": [], "longest": 0}
    divisor = tensor * (2 * size if size > 1 else 1)
    share = RankShare(0, 1, torch.device("cpu"))
    for micro in micro_batches(rows, range(len(rows)), share, size=1, capacity=CAPACITY, packed=True):
        parts = [inputs_of(micro, InputForm(divisor, True, True, size, rank)) for rank in range(size)]
        n = whole_length(parts[0])
        owned = torch.cat([torch.arange(n) if one.own is None else one.own for one in parts]).sort().values
        before = micro.ids[micro.row, micro.at - 1]
        places = [one.at if one.own is None else own_indices(one, n)[one.at] for one in parts]
        there = torch.stack([place >= 0 for place in places]).sum(0)
        seen = sum((one.ids[0][place.clamp(0)] * (place >= 0) for one, place in zip(parts, places, strict=True)))
        found["rows"] += micro.rows
        found["pieces"].append(
            [torch.equal(owned, torch.arange(n)), n % (divisor * 1), len({one.ids.shape for one in parts})]
        )
        found["tokens"].append([bool((there == 1).all()), torch.equal(torch.as_tensor(seen), before)])
        found["longest"] = max(found["longest"], sum(micro.lengths))
    return found


def main() -> None:
    found = {f"{size} {tensor}": measured(size, tensor) for size, tensor in ((1, 1), (2, 1), (4, 2))}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
