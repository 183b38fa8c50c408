"""mini-swe-agent itself, outside of the sandbox; its commands run inside."""

from paddock.harnesses.mini_swe_agent.harness import MiniSweAgentHarness

__all__ = ["MiniSweAgentHarness"]
