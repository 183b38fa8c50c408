"""The CodeAct harness of OpenHands as a Python class: a persistent shell, a file editor, a task list, thoughts."""

from paddock.harnesses.codeact.harness import CodeActHarness

__all__ = ["CodeActHarness"]
