"""Claude Code's own configuration, all of it environment variables.

Source  Claude Code 2.1.197, by trial. What would ask others than the model, differ between rollouts, or read the
        configuration and the memory of a user or of the repository is off.
Model   every name by which the program would choose one is the policy's; that name is ours, and says nothing to it.
Compact a window that no rollout reaches keeps the history whole; an overflow is told by the model server.
"""

from paddock.harness import ModelEndpoint
from paddock.harness.programs.cli import HOME

MODEL = "policy"
RETRIES = 4
"""Of a request that failed."""
ENDLESS_TOKENS = 100_000_000
ENDLESS_MS = 2_000_000_000
"""A policy under training may take minutes for an answer; the rollout's own time ends it."""
COMPACTING_TOKENS = 960_000
"""As late as it can be told to sum up."""
_WINDOW_TOKENS = 1_000_000
"""The largest that it can be told where it sums up."""
_RESERVED_TOKENS = 20_000
"""Of a window, for an answer; less where answers are shorter."""

_MODELS = ("SONNET", "OPUS", "HAIKU", "FABLE")
_ON = (
    *("IS_SANDBOX", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING"),
    *("DISABLE_AUTOUPDATER", "DISABLE_UPDATES", "DISABLE_GROWTHBOOK", "DISABLE_INSTALLATION_CHECKS"),
    *("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS", "CLAUDE_CODE_DISABLE_TERMINAL_TITLE"),
    *("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK"),
    *("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "CLAUDE_CODE_DISABLE_CRON", "CLAUDE_CODE_DISABLE_WORKFLOWS"),
    "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL",
)


def environment(
    endpoint: ModelEndpoint, *, output_tokens: int, compact_at_tokens: int | None, project_docs: bool
) -> dict[str, str]:
    """Of the program; what its commands see of it holds no secret."""
    return {
        **dict.fromkeys(_ON, "1"),
        **{f"ANTHROPIC_DEFAULT_{name}_MODEL": MODEL for name in _MODELS},
        "CLAUDE_CODE_SUBAGENT_MODEL": MODEL,
        "CLAUDE_CONFIG_DIR": f"{HOME}/.claude",
        "ANTHROPIC_BASE_URL": endpoint.base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": endpoint.api_key,
        # Its own word for effort is none: it is the rollout's.
        "CLAUDE_CODE_EFFORT_LEVEL": "unset",
        # With a certificate to show, though it shows none, it does not ask for the root beforehand.
        "CLAUDE_CODE_CLIENT_CERT": "/dev/null",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        # `TodoWrite` in place of the six tools for tasks that outlive a session.
        "CLAUDE_CODE_ENABLE_TASKS": "0",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(output_tokens),
        "CLAUDE_CODE_MAX_RETRIES": str(RETRIES),
        "API_TIMEOUT_MS": str(ENDLESS_MS),
        "CLAUDE_STREAM_IDLE_TIMEOUT_MS": str(ENDLESS_MS),
        "API_FORCE_IDLE_TIMEOUT": "0",
        "CLAUDE_ENABLE_STREAM_WATCHDOG": "0",
        "CLAUDE_ENABLE_BYTE_WATCHDOG": "0",
        **({} if project_docs else {"CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1"}),
        **_compacting(compact_at_tokens, output_tokens),
    }


def _compacting(at_tokens: int | None, output_tokens: int) -> dict[str, str]:
    if at_tokens is None:
        return {"DISABLE_COMPACT": "1", "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(ENDLESS_TOKENS)}
    # It can be told a part of what its window leaves, and rounds down.
    percent = 100 * (at_tokens + 0.5) / (_WINDOW_TOKENS - min(output_tokens, _RESERVED_TOKENS))
    return {
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(_WINDOW_TOKENS),
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(_WINDOW_TOKENS),
        "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": f"{percent:.9f}",
    }
