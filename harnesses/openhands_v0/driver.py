"""OpenHands' own agent, controller and event stream over a bridge: run by `paddock.harness.outside.bridge`, never
imported by us.

Model   its own client, over chat completions. Retries are few: what fails longer fails the run.
Runtime `runtime.py` beside this file, over `session.py` and `editor.py`; what acts on nothing is its own.
Prompt  its own extensions say where the task is and which day it is: the day is the one that was asked for.
Left    `events.jsonl`, in its working directory: each of its events, as it comes.
Source  openhands-ai 0.62.0.
"""

import asyncio
import importlib.util
import json
from functools import partial
from pathlib import Path
from typing import Any, TextIO

EVENTS = "events.jsonl"
SESSION = "paddock"
"""It stands in what its task tracker says."""
TIMEOUT_S = 7 * 24 * 3600
"""For an answer: the rollout's own time ends it."""
FOREVER = 10**9
"""Iterations: the model server ends a rollout."""
POLICYS = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What its own code raises at an answer that it can't read, such as arguments that are no object. What its model server
or a sandbox does is raised otherwise."""
STUCK = "AgentStuckInLoopError"


def drive(bridge: Any, start: dict[str, Any]) -> dict[str, Any]:
    with Path(EVENTS).open("w", encoding="utf-8", errors="replace") as events:
        return asyncio.run(_driven(bridge, start, events))


async def _driven(bridge: Any, start: dict[str, Any], events: TextIO) -> dict[str, Any]:
    from openhands.core.loop import run_agent_until_done
    from openhands.core.schema import AgentState
    from openhands.core.setup import create_agent
    from openhands.events import EventSource, EventStream, EventStreamSubscriber
    from openhands.events.action import MessageAction
    from openhands.events.observation import AgentStateChangedObservation
    from openhands.events.serialization import event_to_dict
    from openhands.memory.memory import Memory
    from openhands.storage import get_file_store
    from openhands.utils.utils import create_registry_and_conversation_stats

    config = _config(start)
    registry, stats, config = create_registry_and_conversation_stats(config, SESSION, None)
    agent = create_agent(config, registry)
    _tell_places(agent, start)
    stream = EventStream(SESSION, get_file_store(config.file_store, config.file_store_path))
    runtime = _runtime(bridge, start, config, stream, registry)
    memory = Memory(event_stream=stream, sid=SESSION)
    memory.set_runtime_info(runtime, {}, start["workdir"])
    memory.runtime_info.date = start["date"]
    controller = _controller(agent, stream, stats)

    def answer(event: Any) -> None:
        if isinstance(event, AgentStateChangedObservation) and event.agent_state == AgentState.AWAITING_USER_INPUT:
            stream.add_event(MessageAction(content=_reply(start, controller.get_state())), EventSource.USER)

    def keep(event: Any) -> None:
        events.write(json.dumps(event_to_dict(event), ensure_ascii=False) + "\n")
        events.flush()

    stream.subscribe(EventStreamSubscriber.MAIN, answer, SESSION)
    stream.subscribe(EventStreamSubscriber.TEST, keep, SESSION)
    stream.add_event(MessageAction(content=start["prompt"]), EventSource.USER)
    # One that was refused too often stays in a state of its own, for ever.
    ends = [AgentState.FINISHED, AgentState.REJECTED, AgentState.ERROR, AgentState.STOPPED, AgentState.RATE_LIMITED]
    await run_agent_until_done(controller, runtime, memory, ends)
    stream.unsubscribe(EventStreamSubscriber.TEST, SESSION)
    return _ended(controller, runtime)


def _ended(controller: Any, runtime: Any) -> dict[str, Any]:
    state = str(controller.state.agent_state.value)
    error = controller.state.last_error
    if state == "finished":
        return {"ended": "finished", "text": state}
    unread = controller.unread or runtime.unread
    if unread is not None or error.startswith(STUCK):
        return {"ended": "gave_up", "text": unread or error}
    raise RuntimeError(f"it ended as {state}: {error}")


def _config(start: dict[str, Any]) -> Any:
    from openhands.core.config import AgentConfig, LLMConfig, OpenHandsConfig
    from openhands.core.config.condenser_config import NoOpCondenserConfig
    from pydantic import SecretStr

    endpoint = start["endpoint"]
    llm = LLMConfig(
        model=f"openai/{endpoint['model']}",
        base_url=endpoint["base_url"],
        api_key=SecretStr(endpoint["api_key"]),
        native_tool_calling=start["native"],
        caching_prompt=False,
        disable_vision=True,
        timeout=TIMEOUT_S,
        num_retries=start["retries"] + 1,
        retry_multiplier=1,
        retry_min_wait=1,
        retry_max_wait=8,
    )
    agent = AgentConfig(
        enable_browsing=False,
        enable_jupyter=False,
        enable_mcp=False,
        enable_history_truncation=False,
        condenser=NoOpCondenserConfig(),
    )
    config = OpenHandsConfig(
        default_agent="CodeActAgent",
        file_store="memory",
        enable_browser=False,
        workspace_mount_path_in_sandbox=start["workdir"],
        max_iterations=FOREVER,
    )
    config.set_llm_config(llm)
    config.set_agent_config(agent)
    return config


def _tell_places(agent: Any, start: dict[str, Any]) -> None:
    """In the words of its tools the place of the task is the sandbox's; a system prompt that is given stands for its
    own."""
    if start["system"] is not None:
        agent.prompt_manager.get_system_message = lambda **_context: start["system"]
    theirs = json.dumps(agent.tools)
    agent.tools = json.loads(theirs.replace("/workspace", json.dumps(start["workdir"])[1:-1]))


def _controller(agent: Any, stream: Any, stats: Any) -> Any:
    from openhands.controller import AgentController

    class Controller(AgentController):  # type: ignore[misc]
        """Its own, but that it remembers what it could not read."""

        unread: str | None = None

        async def _step(self) -> None:
            try:
                await super()._step()
            except POLICYS as error:
                self.unread = f"{type(error).__name__}: {error}"
                raise

    return Controller(
        agent=agent, event_stream=stream, conversation_stats=stats, iteration_delta=FOREVER, headless_mode=True
    )


def _reply(start: dict[str, Any], state: Any) -> str:
    """To a message of the agent that calls nothing."""
    from openhands.core.main import auto_continue_response

    return str(auto_continue_response(state)) if start["continues"] else "/exit"


def _runtime(bridge: Any, start: dict[str, Any], config: Any, stream: Any, registry: Any) -> Any:
    here = Path(__file__).parent
    session, workdir = _loaded(here / "session.py"), start["workdir"]
    render = _loaded(Path(start["screen"])).render_screen
    pane = _loaded(here / "pane.py").SandboxPane(bridge, workdir, start["tool_s"], render=render, marks=session.MARKS)
    editor = _loaded(here / "editor.py").SandboxEditor(partial(_loaded(Path(start["mirror"])).Mirror, bridge), workdir)
    return _loaded(here / "runtime.py").SandboxRuntime(
        workdir,
        session.SandboxSession(workdir, pane),
        editor,
        config,
        stream,
        registry,
        sid=SESSION,
        headless_mode=True,
    )


def _loaded(path: Path) -> Any:
    """A module of ours by its file: nothing of ours is on this interpreter's path."""
    spec = importlib.util.spec_from_file_location(f"paddock_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
