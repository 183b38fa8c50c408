"""Codex: the tools and the loop of OpenAI's coding agent, over a workspace."""

from paddock.harnesses.codex.harness import CodexHarness

__all__ = ["CodexHarness"]
