"""Settings reach Megatron-core as what core compares them with."""

import os
import subprocess

import pytest
from tests.training.grpo.megatron.launch import ROOT

SCRIPT = """
import sys
from megatron.core.transformer.enums import AttnBackend
from paddock.training.grpo.megatron.conversions import layout_of
from paddock.training.grpo.megatron_config import MegatronConfig
from paddock.training.grpo.policy_config import PolicyConfig
config = MegatronConfig(enabled=True, attention_backend="flash")
layout = layout_of(PolicyConfig(model_name="none", megatron_cfg=config))
sys.exit(0 if layout.fields(fused=True)["attention_backend"] is AttnBackend.flash else 1)
"""
pytestmark = pytest.mark.vllm


def test_the_kind_of_attention_is_a_member_of_cores_enum(vllm_python: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([vllm_python, "-c", SCRIPT], capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
