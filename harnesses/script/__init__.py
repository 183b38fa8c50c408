"""The script harness: a fixed list of commands in place of a policy."""

from paddock.harnesses.script.harness import ScriptConfig, ScriptHarness

__all__ = ["ScriptConfig", "ScriptHarness"]
