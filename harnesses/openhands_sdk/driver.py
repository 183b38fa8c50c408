"""The SDK's own agent and conversation over a bridge: run by `paddock.harness.outside.bridge`, never imported by us.

Model   its own client, in the dialect that was asked for. Retries are few: what fails longer fails the run.
Tools   `terminal.py` and `editor.py` beside this file; what acts on nothing is its own.
Place   its conversation wants a folder of this machine: an empty one, which is named nowhere.
Left    `events.jsonl`, in its working directory: each of its events, as it comes.
Source  openhands-sdk, openhands-tools 1.58.0.
"""

import importlib.util
import json
from functools import partial
from pathlib import Path
from typing import Any

EVENTS = "events.jsonl"
TIMEOUT_S = 7 * 24 * 3600
"""For an answer: the rollout's own time ends it."""
FOREVER = 10**9
"""Iterations: the model server ends a rollout."""
NO_TEXT = "surrogates not allowed"
"""In what its own code raises at an answer with half a surrogate pair, which is the policy's. Whatever else it raises
is its failure."""


def drive(bridge: Any, start: dict[str, Any]) -> dict[str, Any]:
    from openhands.sdk import Agent, Conversation, Tool, register_tool
    from openhands.sdk.conversation.exceptions import ConversationRunError
    from openhands.tools.task_tracker import TaskTrackerTool

    render = _loaded(Path(start["screen"])).render_screen
    mirror_of = partial(_loaded(Path(start["mirror"])).Mirror, bridge)
    here = Path(__file__).parent
    workdir = start["workdir"]
    register_tool("terminal", _loaded(here / "terminal.py").terminal_tool(bridge, workdir, start["tool_s"], render))
    register_tool("file_editor", _loaded(here / "editor.py").editor_tool(mirror_of, workdir))
    llm = _llm(start)
    own = {} if start["system"] is None else {"system_prompt": start["system"]}
    agent = Agent(
        llm=llm,
        tools=[Tool(name=name) for name in ("terminal", "file_editor", TaskTrackerTool.name)],
        condenser=_condenser(llm, start["condense"]),
        **own,
    )
    folder = Path("workspace")
    folder.mkdir()
    with Path(EVENTS).open("w", encoding="utf-8", errors="replace") as events:

        def keep(event: Any) -> None:
            events.write(json.dumps(event.model_dump(mode="json"), ensure_ascii=False) + "\n")
            events.flush()

        conversation = Conversation(
            agent,
            workspace=str(folder.resolve()),
            visualizer=None,
            stuck_detection=False,
            max_iteration_per_run=FOREVER,
            callbacks=[keep],
        )
        conversation.send_message(start["prompt"])
        try:
            conversation.run()
        except ConversationRunError as error:
            if NO_TEXT not in str(error.original_exception):
                raise
            return {"ended": "gave_up", "text": str(error.original_exception)}
    status = str(conversation.state.execution_status.value)
    return {"ended": "finished" if status == "finished" else "gave_up", "text": status}


def _llm(start: dict[str, Any]) -> Any:
    from openhands.sdk import LLM
    from pydantic import SecretStr

    endpoint = start["endpoint"]
    return LLM(
        model=f"openai/{endpoint['model']}",
        base_url=endpoint["base_url"],
        api_key=SecretStr(endpoint["api_key"]),
        api_mode=start["dialect"],
        native_tool_calling=start["native"],
        caching_prompt=False,
        disable_vision=True,
        timeout=TIMEOUT_S,
        num_retries=start["retries"],
        retry_min_wait=1,
        retry_max_wait=8,
        usage_id="agent",
    )


def _condenser(llm: Any, given: dict[str, int] | None) -> Any:
    from openhands.sdk.context.condenser import LLMSummarizingCondenser

    if given is None:
        return None
    return LLMSummarizingCondenser(llm=llm.model_copy(update={"usage_id": "condenser"}), **given)


def _loaded(path: Path) -> Any:
    """A module of ours by its file: nothing of ours is on this interpreter's path."""
    spec = importlib.util.spec_from_file_location(f"paddock_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
