"""Claims about the files of NeMo-Gym's benchmarks: a config is one of them and one with a model."""

from pathlib import Path

import pytest
from tests.compat.test_nemo_gym import python

from paddock.collect.routing import Router
from paddock.collect.row_prompt import read_prompt
from paddock.config import load
from paddock.config.nemo_gym import package_folder
from paddock.errors import ConfigError

__all__ = ["python"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

MODEL = "models_servers/openai/configs/openai.yaml"
POLICY = ["policy_base_url=http://127.0.0.1:1/v1", "policy_model_name=m", "policy_api_key=none"]
REFUSED = {
    "benchmarks/aalcr/config.yaml": "replace_developer_role_with_system",
    "benchmarks/browsecomp/config.yaml": "replace_developer_role_with_system",
    "benchmarks/gdpval/config.yaml": "rollout_collection_driver",
    "benchmarks/tau2/configs/banking_alltools.yaml": "resources_server` is required",
    "benchmarks/tau2/configs/banking_terminal_use.yaml": "resources_server` is required",
    "benchmarks/tau2/configs/tau2.yaml": "resources_server` is required",
    "benchmarks/xstest/config.yaml": "unknown implementation `local_vllm_model`",
}
"""With what the error says."""


def test_each_is_read_with_the_prompts_of_its_rows_or_refused_by_what_it_asks(python: str) -> None:
    package = package_folder(Path(python))
    assert package is not None
    files = [file for file in sorted(package.glob("benchmarks/**/*.yaml")) if "jsonl_fpath" in file.read_text()]
    assert len(files) > 80
    n_prompts = 0
    for file in files:
        name = str(file.relative_to(package))
        if name in REFUSED:
            with pytest.raises(ConfigError) as caught:
                Router(load([file, MODEL], POLICY))
            assert REFUSED[name] in caught.value.message
            continue
        datasets = [one for agent in Router(load([file, MODEL], POLICY)).agents.values() for one in agent.datasets]
        for dataset in datasets:
            if dataset.prompt_config is not None:
                n_prompts += 1
                assert read_prompt(dataset.prompt_config, beside=file.parent).user
    assert n_prompts > 60
