"""OpenAI's Codex CLI itself, in the sandbox."""

from paddock.harnesses.codex_cli.harness import CodexCliHarness

__all__ = ["CodexCliHarness"]
