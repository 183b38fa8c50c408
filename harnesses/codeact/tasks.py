"""The task list: kept for the rollout, in no file.

Source  the task tracker of openhands-ai 0.62.0; other than there, the answer to a plan names no file of the host.
"""

from paddock.types import JsonObject

_SIGNS = {"todo": "⏳", "in_progress": "🔄", "done": "✅"}


class TaskList:
    """One rollout's list."""

    def __init__(self) -> None:
        self._tasks: list[JsonObject] | None = None

    def plan(self, tasks: list[JsonObject]) -> str:
        """Replace the list."""
        self._tasks = tasks
        return f"Task list has been updated with {len(tasks)} items."

    def view(self) -> str:
        """The list as text."""
        if self._tasks is None:
            return 'No task list found. Use the "plan" command to create one.'
        lines = ["# Task List", ""]
        for number, task in enumerate(self._tasks, 1):
            sign = _SIGNS.get(str(task.get("status")), _SIGNS["todo"])
            lines += [f"{number}. {sign} {task.get('title', 'Untitled task')}", str(task.get("notes") or "")]
        return "\n".join(lines) + "\n"
