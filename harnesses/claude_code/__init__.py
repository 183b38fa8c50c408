"""Claude Code itself, in the sandbox."""

from paddock.harnesses.claude_code.harness import ClaudeCodeHarness

__all__ = ["ClaudeCodeHarness"]
