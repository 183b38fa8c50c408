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
FP8 = """
import sys
from megatron.core.transformer.transformer_config import TransformerConfig
from paddock.errors import ConfigError
from paddock.training.grpo.megatron.conversions import layout_of, make_conversion
from paddock.training.grpo.policy_config import PolicyConfig
for recipe in ("tensorwise", "delayed", "mxfp8", "blockwise"):
    fp8 = {"enabled": True, "fp8": "hybrid", "fp8_recipe": recipe}
    policy = PolicyConfig.model_validate({"model_name": "none", "megatron_cfg": {"enabled": True, "fp8_cfg": fp8}})
    fields = layout_of(policy).fields(fused=False)
    assert (fields["fp8"], fields["fp8_recipe"]) == ("hybrid", recipe)
    TransformerConfig(num_layers=2, hidden_size=64, num_attention_heads=4, **fields)
try:
    make_conversion(policy)
except ConfigError as error:
    sys.exit(0 if error.kind == "transformer_engine" else 1)
sys.exit("it was made")
"""
pytestmark = pytest.mark.vllm


def test_fp8_is_taken_by_core_and_refused_without_transformer_engine(vllm_python: str) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run([vllm_python, "-c", FP8], capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr


def test_the_kind_of_attention_is_a_member_of_cores_enum(vllm_python: str) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run([vllm_python, "-c", SCRIPT], capture_output=True, text=True, timeout=600, env=env)
    assert done.returncode == 0, done.stderr
