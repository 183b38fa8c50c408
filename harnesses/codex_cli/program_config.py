"""Codex's own configuration: `config.toml` and a catalog with one model, the policy.

Source  Codex 0.169.0 (`--strict-config` accepts it), by trial. What would ask others than the model, differ between
        rollouts or add words of its own to the prompt is off.
Compact a window of tokens that no rollout reaches keeps the history whole; an overflow is told by the model server.
"""

import json

from paddock.harness import ModelEndpoint
from paddock.types import Json, JsonObject

PROVIDER = "paddock"
KEY_VARIABLE = "PADDOCK_API_KEY"
CATALOG = "catalog.json"
ENDLESS_TOKENS = 100_000_000
IDLE_TIMEOUT_MS = 3_600_000
"""A policy under training may take minutes for an answer; the rollout's own time ends it."""
_OFF = (
    *("goals", "plugins", "remote_plugin", "apps", "hooks", "image_generation", "skill_search"),
    *("skill_mcp_dependency_install", "shell_snapshot", "tool_suggest", "view_image", "sleep_tool", "browser_use"),
    *("computer_use", "memories", "enable_request_compression", "api_key_model_discovery", "workspace_dependencies"),
)


def make_config(
    endpoint: ModelEndpoint, *, project_docs_bytes: int, compact_at_tokens: int | None, stream_retries: int
) -> JsonObject:
    """Of `config.toml`."""
    return {
        "model": endpoint.model,
        "model_provider": PROVIDER,
        "model_catalog_json": CATALOG,
        "model_auto_compact_token_limit": compact_at_tokens or ENDLESS_TOKENS,
        "approval_policy": "never",
        "sandbox_mode": "danger-full-access",
        "check_for_update_on_startup": False,
        "web_search": "disabled",
        "project_doc_max_bytes": project_docs_bytes,
        "include_permissions_instructions": False,
        "include_apps_instructions": False,
        "include_collaboration_mode_instructions": False,
        "include_environment_context": True,
        "allow_login_shell": False,
        "suppress_unstable_features_warning": True,
        "analytics": {"enabled": False},
        "history": {"persistence": "none"},
        "skills": {"include_instructions": False, "bundled": {"enabled": False}},
        "tools": {"experimental_request_user_input": {"enabled": False}, "update_plan": {"enabled": True}},
        "agents": {"enabled": False},
        "features": dict.fromkeys(_OFF, False),
        "model_providers": {
            PROVIDER: {
                "name": PROVIDER,
                "base_url": endpoint.base_url,
                "env_key": KEY_VARIABLE,
                "wire_api": "responses",
                "request_max_retries": 4,
                "stream_max_retries": stream_retries,
                "stream_idle_timeout_ms": IDLE_TIMEOUT_MS,
                "supports_websockets": False,
                "requires_openai_auth": False,
            }
        },
    }


def catalog(model: str, instructions: str, *, output_limit_tokens: int) -> JsonObject:
    """The catalog with that one model."""
    return {
        "models": [
            {
                "slug": model,
                "display_name": model,
                "description": model,
                "default_reasoning_level": None,
                "supported_reasoning_levels": [],
                "shell_type": "unified_exec",
                "visibility": "list",
                "supported_in_api": True,
                "priority": 1,
                "additional_speed_tiers": [],
                "service_tiers": [],
                "availability_nux": None,
                "upgrade": None,
                "include_skills_usage_instructions": False,
                "include_plugin_usage_instructions": False,
                "include_apps_usage_instructions": False,
                "default_reasoning_summary": "none",
                "support_verbosity": False,
                "apply_patch_tool_type": "freeform",
                "web_search_tool_type": "text",
                "truncation_policy": {"mode": "tokens", "limit": output_limit_tokens},
                "supports_image_detail_original": False,
                "context_window": ENDLESS_TOKENS,
                "max_context_window": ENDLESS_TOKENS,
                "effective_context_window_percent": 100,
                "experimental_supported_tools": [],
                "input_modalities": ["text"],
                "supports_search_tool": False,
                "supports_experimental_context": False,
                "use_responses_lite": False,
                "supports_reasoning_effort_updates": False,
                "node_repl_auto_review_required": False,
                "node_repl_disabled": True,
                "supports_parallel_tool_calls": True,
                "supports_reasoning_summaries": False,
                "base_instructions": instructions,
            }
        ]
    }


def toml(config: JsonObject) -> bytes:
    """As TOML: values that are JSON too, tables by name."""
    return "".join(_tables(config, ())).encode()


def _tables(table: JsonObject, path: tuple[str, ...]) -> list[str]:
    own = [f"{key} = {_value(value)}\n" for key, value in table.items() if not isinstance(value, dict)]
    head = [f"[{'.'.join(path)}]\n"] if path and own else []
    inner = [part for key, value in table.items() if isinstance(value, dict) for part in _tables(value, (*path, key))]
    return [*head, *own, *inner]


def _value(value: Json) -> str:
    """JSON's escapes are TOML's, but for a pair of surrogates and the one control character that JSON leaves alone."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
