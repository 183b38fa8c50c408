"""Installs our environments in NeMo-RL without changing it: two ways, called in the driver before its set-up.

Shim    `use_shim`: its own actor stays and imports `nemo_gym`, which is ours when `shims/` is on PYTHONPATH. The actor
        runs under the driver's interpreter, where this package is installed, and not in an environment of its own.
Actor   `use_actor`: what makes its actor makes ours (`actor.GymActor`). Whoever has its own set-up puts the handle of
        `gym_actor` into `task_to_env["nemo_gym"]`. Distillation makes NeMo-RL's actor by itself: there, the shim.
Both    `python -m paddock.training.nemo_rl [--actor] examples/nemo_gym/run_grpo_nemo_gym.py --config ...`
Source  NVIDIA-NeMo/RL: `spinup_nemo_gym_actor`, which modules bind by name, and `ACTOR_ENVIRONMENT_REGISTRY`.
Errors  ConfigError where NeMo-RL, Ray or the shim can't be imported.
"""

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from paddock.errors import ConfigError
from paddock.training.nemo_rl.actor import GymActor

ENVIRONMENTS = "nemo_rl.environments.nemo_gym"
REGISTRY = "nemo_rl.distributed.ray_actor_environment_registry"
CLUSTER = "nemo_rl.distributed.virtual_cluster"
MAX_CALLS = 10_000
"""Calls of the actor at a time: one for each prompt in flight, and its health."""
SHUTDOWN_TIMEOUT_S = 10.0
SHIMS = "put the folder `shims` of Paddock's repository on PYTHONPATH, before others"
ACTOR_KEYS = ("invalid_tool_call_patterns", "thinking_tags", "tokenizer_config", "pad_dynamic_image_shapes")
"""Keys of `env.nemo_gym` that are settings of the actor, not of the environment."""


def use_shim() -> None:
    """Make NeMo-RL's actor run under the interpreter that has this package."""
    module = _import("nemo_gym", SHIMS)
    if not hasattr(module, "OURS"):
        raise ConfigError(f"`nemo_gym` is the one in {module.__file__}: {SHIMS}", kind="not_the_shim")
    registry = _import(REGISTRY).ACTOR_ENVIRONMENT_REGISTRY
    registry[f"{ENVIRONMENTS}.NemoGym"] = _import(CLUSTER).PY_EXECUTABLES.SYSTEM


def use_actor() -> None:
    """Make NeMo-RL use our actor, also in modules that are imported already."""
    original = _import(ENVIRONMENTS).spinup_nemo_gym_actor
    for module in list(sys.modules.values()):
        # Not `getattr`: some modules import others for each name that they are asked for.
        namespace = getattr(module, "__dict__", {})
        if namespace.get("spinup_nemo_gym_actor") is original:
            namespace["spinup_nemo_gym_actor"] = spinup_gym_actor


def spinup_gym_actor(
    env_configs: Mapping[str, Any],
    base_urls: Sequence[str],
    model_name: str,
    *,
    tokenizer: Any,
    enable_router_replay: bool,
    routed_experts_dtype: str,
    use_fastokens: bool,
) -> Any:
    """In place of `spinup_nemo_gym_actor`; `env_configs`: `master_config.env`."""
    body = dict(env_configs["nemo_gym"])
    actor_settings = {key: value for key in ACTOR_KEYS if (value := body.pop(key, None)) is not None}
    cfg = {
        "model_name": model_name,
        "base_urls": list(base_urls),
        "initial_global_config_dict": body,
        "require_routed_experts": enable_router_replay,
        "routed_experts_dtype": routed_experts_dtype,
        "use_fastokens": use_fastokens,
        **actor_settings,
    }
    return remote_actor(cfg, tokenizer)


def remote_actor(cfg: Mapping[str, Any], tokenizer: Any, **options: Any) -> Any:
    """A handle of the actor in the running Ray, its servers ready. `cfg`: as `ActorConfig`; `options`: Ray's. It ends
    with its owner, or by `shutdown` and `ray.kill`."""
    ray = _import("ray")
    actor = ray.remote(GymActor).options(max_concurrency=MAX_CALLS, **options).remote(dict(cfg))
    try:
        ray.get(actor._spinup.remote())
        ray.get(actor.set_tokenizer.remote(tokenizer))
    except BaseException:
        ray.kill(actor)
        raise
    return actor


@contextmanager
def gym_actor(cfg: Mapping[str, Any], tokenizer: Any, **options: Any) -> Iterator[Any]:
    """The handle, for `task_to_env["nemo_gym"]`, while this is open."""
    actor = remote_actor(cfg, tokenizer, **options)
    ray = _import("ray")
    try:
        yield actor
    finally:
        try:
            ray.get(actor.shutdown.remote(), timeout=SHUTDOWN_TIMEOUT_S)
        finally:
            ray.kill(actor)


def _import(name: str, remedy: str = "it has to be installed beside this package") -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"`{name}` can't be imported: {error}; {remedy}", kind="not_importable") from error
