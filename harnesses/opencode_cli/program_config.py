"""OpenCode's own configuration: `opencode.json`, with one model, the policy, and one agent.

Source  OpenCode 1.18.33, by trial. What would ask others than the model, differ between rollouts, read the
        configuration of the repository or add words of its own to the prompt is off.
Model   its name is ours: the program chooses tools, prompts and parameters by what the name has in it.
Compact a window that no rollout reaches keeps the history whole; an overflow is told by the model server.
"""

from typing import Literal

from paddock.harness import ModelEndpoint
from paddock.types import JsonObject

Dialect = Literal["chat", "responses", "messages"]
Toolset = Literal["edit", "apply_patch"]

PROVIDER = "paddock"
AGENT = "swe"
SUBAGENT = "general"
ENDLESS_TOKENS = 100_000_000
_CLIENTS: dict[Dialect, str] = {
    "chat": "@ai-sdk/openai-compatible",
    "responses": "@ai-sdk/openai",
    "messages": "@ai-sdk/anthropic",
}
_MODELS: dict[Toolset, str] = {"edit": "policy", "apply_patch": "gpt-policy"}
"""Any name with `gpt-` in it, but for some, has the program show `apply_patch`."""
_OFF = (
    *("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "CLAUDE_CODE", "PROJECT_CONFIG", "SHARE"),
    *("EXTERNAL_SKILLS", "EMBEDDED_WEB_UI", "TERMINAL_TITLE"),
)
ENVIRONMENT = {f"OPENCODE_DISABLE_{name}": "1" for name in _OFF}


def model_name(toolset: Toolset) -> str:
    """As the command line has it."""
    return f"{PROVIDER}/{_MODELS[toolset]}"


def make_config(
    endpoint: ModelEndpoint,
    instructions: str,
    *,
    dialect: Dialect,
    toolset: Toolset,
    subagents: bool,
    output_tokens: int,
    compact_at_tokens: int | None,
) -> JsonObject:
    """Of `opencode.json`."""
    model = model_name(toolset)
    off = {name: {"disable": True} for name in ("title", "summary", "explore", "plan")}
    helper = {"mode": "subagent", "prompt": instructions, "tools": _tools(subagents=False)}
    return {
        "model": model,
        "small_model": model,
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "lsp": False,
        "formatter": False,
        "enabled_providers": [PROVIDER],
        "compaction": {"auto": compact_at_tokens is not None, "prune": False, "reserved": 0},
        "permission": "allow",
        "instructions": [],
        "provider": {PROVIDER: _provider(endpoint, dialect, toolset, output_tokens, compact_at_tokens)},
        "default_agent": AGENT,
        "agent": {
            **off,
            AGENT: {"mode": "primary", "prompt": instructions, "tools": _tools(subagents=subagents)},
            SUBAGENT: helper if subagents else {"disable": True},
            **({} if compact_at_tokens is not None else {"compaction": {"disable": True}}),
        },
    }


def _provider(
    endpoint: ModelEndpoint, dialect: Dialect, toolset: Toolset, output_tokens: int, compact_at_tokens: int | None
) -> JsonObject:
    # A policy under training may take minutes for an answer; the rollout's own time ends it.
    waits = dict.fromkeys(("timeout", "headerTimeout", "chunkTimeout"), False)
    return {
        "npm": _CLIENTS[dialect],
        "name": PROVIDER,
        "options": {"baseURL": endpoint.base_url, "apiKey": endpoint.api_key, **waits},
        "models": {
            _MODELS[toolset]: {
                "name": _MODELS[toolset],
                "tool_call": True,
                "reasoning": True,
                "attachment": False,
                "temperature": False,
                "limit": {
                    "context": ENDLESS_TOKENS,
                    "input": compact_at_tokens or ENDLESS_TOKENS,
                    "output": output_tokens,
                },
            }
        },
    }


def _tools(*, subagents: bool) -> JsonObject:
    return {"task": subagents, "skill": False, "webfetch": False, "websearch": False, "question": False}
