"""NeMo-Gym's block of a judge: it loads through the table of names, and vLLM is told what it says."""

from pathlib import Path

from paddock.config import load, resolve_class
from paddock.models_servers.genrm.config import GenrmModelConfig
from paddock.server.vllm.folders import LogFolder
from paddock.server.vllm.launcher import Launcher

RECIPE = """
config_paths: [responses_api_models/genrm_model/configs/genrm_model.yaml]
genrm_model:
  responses_api_models:
    genrm_model:
      entrypoint: app.py
      model: nvidia/Qwen3-Nemotron-235B-A22B-GenRM-2603
      uses_reasoning_parser: true
      return_token_id_information: false
      supports_principle_role: true
      vllm_serve_env_vars:
        VLLM_RAY_DP_PACK_STRATEGY: strict
        VLLM_USE_DEEP_GEMM: "0"
        VLLM_MOE_USE_DEEP_GEMM: 0
      vllm_serve_kwargs:
        attention_backend: TRITON_ATTN
        data_parallel_size: 4
        tensor_parallel_size: 8
        pipeline_parallel_size: 1
        reasoning_parser: deepseek_r1
        gpu_memory_utilization: 0.85
        max_model_len: 60000
        trust_remote_code: true
"""


def test_the_rlhf_stages_judge_is_launched_as_the_recipe_says(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    config = load([path])
    instance = config.instance("genrm_model")
    assert (instance.kind, instance.implementation) == ("models_servers", "genrm")
    judge = config.settings("genrm_model", resolve_class("genrm", "models_servers").config_type)
    assert isinstance(judge, GenrmModelConfig)
    assert (judge.prompt_form, judge.supports_principle_role) == ("roles", True)
    assert judge.launch is not None
    with LogFolder(tmp_path / "logs", "genrm_model", tmp_path) as logs:
        launcher = Launcher(judge.served, judge.launch, "gpu", logs, name="genrm_model")
    argv, env = launcher.argv(), launcher.env(0)
    assert argv[argv.index("--model") + 1] == "nvidia/Qwen3-Nemotron-235B-A22B-GenRM-2603"
    assert argv[argv.index("--attention-backend") :] == [
        *["--attention-backend", "TRITON_ATTN", "--data-parallel-size", "4", "--tensor-parallel-size", "8"],
        *["--pipeline-parallel-size", "1", "--reasoning-parser", "deepseek_r1"],
        *["--gpu-memory-utilization", "0.85", "--max-model-len", "60000", "--trust-remote-code"],
    ]
    assert (env["VLLM_RAY_DP_PACK_STRATEGY"], env["VLLM_MOE_USE_DEEP_GEMM"]) == ("strict", "0")
