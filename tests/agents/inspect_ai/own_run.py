"""Runs a task through inspect_ai's own `eval`, and prints what each sample came to: `own_run.py TASK BASE_URL LOGS`."""

import json
import sys

from inspect_ai import eval as inspect_eval
from inspect_ai.model import get_model

task, base_url, logs = sys.argv[1:]
model = get_model("openai-api/own/m", base_url=base_url, api_key="x")
(log,) = inspect_eval(task, model=model, log_dir=logs, display="none", fail_on_error=False)
assert log.samples is not None
results = {
    str(sample.id): {name: score.value for name, score in (sample.scores or {}).items()} for sample in log.samples
}
sys.stdout.write(json.dumps(results))
