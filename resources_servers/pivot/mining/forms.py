"""The forms in which trajectories are published, each read into a `Trajectory`.

Source  Chat messages (SWE-smith's, SWE-Gym's, mini-swe-agent's and Nemotron's tables among them), Anthropic messages,
        Responses items, rollouts of our runs, `.traj` files of SWE-agent, events of OpenHands (its server's and its
        SDK's), Harbor's ATIF.
Law     a form is told by the keys that only it has; the first of `FORMS` that fits is taken. A call without an id gets
        one; a command that a model wrote in a fenced block is a call of `bash`, answered by the next message.
Errors  TrajectoryError where no form fits, or where nothing is called in it.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from paddock.resources_servers.pivot.mining.trajectory import Trajectory, TrajectoryError, tools_of_calls
from paddock.server.dialects.canonical import (
    canonical_call,
    canonical_items,
    canonical_message,
    canonical_output,
    items_of_chat,
)
from paddock.server.dialects.from_messages import responses_form
from paddock.server.dialects.tools import responses_tools
from paddock.types import JsonObject
from paddock.types.responses import content_text, output_items

_FENCED = re.compile(r"```(?:bash|sh|mswea_bash_command)\s*\n(.*?)\n?```", re.DOTALL)


class TrajectoryForm(NamedTuple):
    """One published form."""

    name: str
    fits: Callable[[JsonObject], bool]
    items: Callable[[JsonObject], list[JsonObject]]
    tools: Callable[[JsonObject], Any]
    """The tools as the source offers them, in any dialect; empty: it does not say."""


def read_record(record: JsonObject, name: str) -> Trajectory:
    """Read one record of a file. `name` stands for it where it has no id of its own."""
    form = next((form for form in FORMS if form.fits(record)), None)
    if form is None:
        known = ", ".join(form.name for form in FORMS)
        raise TrajectoryError(f"of no known form ({known}); its keys are {', '.join(list(record)[:12])}")
    items = form.items(record)
    if not any(item.get("type") == "function_call" for item in items):
        raise TrajectoryError(f"{form.name}: nothing is called in it")
    offered = form.tools(record)
    tools = responses_tools(offered).tools if isinstance(offered, list) and offered else []
    about = _About(record)
    return Trajectory(
        name=about.text("traj_id", "trajectory_id", "session_id", "instance_id", "uuid", "id") or name,
        form=form.name,
        items=items,
        tools=tools or tools_of_calls(items),
        repository=about.text("repo", "repository"),
        instance_id=about.text("instance_id"),
        resolved=about.resolved(),
        cwd=about.cwd(),
        image=about.text("image_name", "image", "docker_image"),
        hidden_paths=tuple(path for path in _hidden_paths(record) if isinstance(path, str)),
    )


class _About:
    """What a record says beside its messages, on its top level or in `info`, `metadata`, `extra` or its config."""

    def __init__(self, record: JsonObject) -> None:
        self._places = [record]
        for key in ("info", "metadata", "extra", "instance", "environment_config"):
            if isinstance(record.get(key), dict):
                self._places.append(record[key])
        config = record.get("info", {}).get("config") if isinstance(record.get("info"), dict) else None
        if isinstance(config, dict) and isinstance(config.get("environment"), dict):
            self._places.append(config["environment"])

    def text(self, *keys: str) -> str | None:
        values = (place.get(key) for key in keys for place in self._places)
        return next((value for value in values if isinstance(value, str) and value), None)

    def resolved(self) -> bool | None:
        for place in self._places:
            for key in ("resolved", "success", "target"):
                if isinstance(place.get(key), bool):
                    return bool(place[key])
            reward = place.get("reward")
            if isinstance(reward, int | float) and not isinstance(reward, bool):
                return reward > 0
        return None

    def cwd(self) -> str | None:
        found = self.text("cwd", "workdir", "working_dir")
        return found if found and found.startswith("/") else None


def _hidden_paths(record: JsonObject) -> list[Any]:
    paths = record.get("hidden_paths")
    return paths if isinstance(paths, list) else []


def _list(value: Any) -> list[JsonObject]:
    """A list, also where a table holds it as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    return output_items(value)


def _chat(record: JsonObject) -> list[JsonObject]:
    messages = [message for message in _list(record["messages"]) if message.get("role") != "exit"]
    calls = any(message.get("tool_calls") for message in messages)
    return list(items_of_chat(messages)) if calls else list(_fenced(messages))


def _fenced(messages: list[JsonObject]) -> Iterator[JsonObject]:
    """Yield the items of a history in which commands stand in fenced blocks and results are the user's messages."""
    waiting: str | None = None
    for index, message in enumerate(messages):
        text = content_text(message.get("content"))
        found = _FENCED.findall(text) if message.get("role") == "assistant" else []
        if waiting is not None and message.get("role") != "assistant":
            yield canonical_output(waiting, text)
            waiting = None
        elif len(found) == 1:
            thought = _FENCED.sub("", text).strip()
            if thought:
                yield canonical_message("assistant", thought)
            waiting = f"call_{index}"
            yield canonical_call(waiting, "bash", {"command": found[0]})
        else:
            yield canonical_message(str(message.get("role") or "user"), text)


def _is_anthropic(record: JsonObject) -> bool:
    blocks = [block for message in _list(record.get("messages")) for block in output_items(message.get("content"))]
    return any(block.get("type") in ("tool_use", "tool_result") for block in blocks)


def _anthropic(record: JsonObject) -> list[JsonObject]:
    keys = {key: record[key] for key in ("system", "tools") if record.get(key)}
    return output_items(responses_form({"messages": _list(record["messages"]), **keys}).body["input"])


def _swe_agent(record: JsonObject) -> list[JsonObject]:
    """SWE-agent's history; its demonstrations and its system's own notes are messages, too."""
    items: list[JsonObject] = []
    waiting: list[str] = []
    for index, entry in enumerate(_list(record["history"])):
        text = content_text(entry.get("content"))
        if entry.get("role") == "assistant" and not entry.get("is_demo"):
            if thought := str(entry.get("thought") or "").strip():
                items.append(canonical_message("assistant", thought))
            calls = list(items_of_chat([{"role": "assistant", "content": "", "tool_calls": entry.get("tool_calls")}]))
            if not entry.get("tool_calls") and str(entry.get("action") or "").strip():
                calls = [canonical_call(f"call_{index}", "bash", {"command": str(entry["action"]).strip()})]
            calls = [call for call in calls if call.get("type") == "function_call"]
            items.extend(calls)
            waiting = [str(call["call_id"]) for call in calls]
        elif waiting:
            items.append(canonical_output(waiting.pop(0), text))
        else:
            items.append(canonical_message(str(entry.get("role") or "user"), text))
    return items


def _openhands(record: JsonObject) -> list[JsonObject]:
    items: list[JsonObject] = []
    for event in _list(record.get("history") or record.get("trajectory") or record.get("events")):
        items.extend(_sdk_event(event) if "kind" in event else _server_event(event))
    return items


def _server_event(event: JsonObject) -> Iterator[JsonObject]:
    """Yield the items of an event of OpenHands' server: an action with a tool call, or what came of it."""
    arguments: JsonObject = event["args"] if isinstance(event.get("args"), dict) else {}
    metadata: JsonObject = event["tool_call_metadata"] if isinstance(event.get("tool_call_metadata"), dict) else {}
    call_id = metadata.get("tool_call_id")
    if event.get("action") == "system":
        yield canonical_message("system", str(arguments.get("content", "")))
    elif event.get("action") == "message":
        role = "user" if event.get("source") == "user" else "assistant"
        yield canonical_message(role, str(arguments.get("content", "")))
    elif "observation" in event and call_id:
        yield canonical_output(call_id, str(event.get("content", "")))
    elif "action" in event and call_id:
        answers = output_items((metadata.get("model_response") or {}).get("choices"))
        message = answers[0].get("message") if answers else None
        if not isinstance(message, dict):
            return
        own = [call for call in _list(message.get("tool_calls")) if call.get("id") == call_id]
        yield from items_of_chat([{**message, "role": "assistant", "tool_calls": own}])


def _sdk_event(event: JsonObject) -> Iterator[JsonObject]:
    """Yield the items of an event of OpenHands' SDK."""
    match event.get("kind"):
        case "SystemPromptEvent":
            yield canonical_message("system", content_text([event.get("system_prompt")]))
        case "MessageEvent":
            message: JsonObject = event["llm_message"] if isinstance(event.get("llm_message"), dict) else {}
            yield canonical_message(str(message.get("role") or "user"), content_text(message.get("content")))
        case "ActionEvent":
            if thought := content_text(event.get("thought")).strip():
                yield canonical_message("assistant", thought)
            call: JsonObject = event["tool_call"] if isinstance(event.get("tool_call"), dict) else {}
            function = call.get("function") if isinstance(call.get("function"), dict) else call
            yield canonical_call(call.get("id"), event.get("tool_name"), (function or {}).get("arguments", "{}"))
        case "ObservationEvent" | "AgentErrorEvent":
            seen: JsonObject = event["observation"] if isinstance(event.get("observation"), dict) else event
            content = seen.get("content", seen.get("output", event.get("error", "")))
            yield canonical_output(
                event.get("tool_call_id"), content if isinstance(content, str) else content_text(content)
            )


def _atif(record: JsonObject) -> list[JsonObject]:
    """Harbor's Agent Trajectory Interchange Format."""
    items: list[JsonObject] = []
    for step in _list(record["steps"]):
        source = step.get("source")
        text = content_text(step.get("message"))
        if text:
            items.append(canonical_message("assistant" if source == "agent" else str(source or "user"), text))
        for call in _list(step.get("tool_calls")):
            items.append(canonical_call(call.get("tool_call_id"), call.get("function_name"), call.get("arguments")))
        observation = step.get("observation")
        for result in _list(observation.get("results")) if isinstance(observation, dict) else []:
            if result.get("source_call_id"):
                items.append(canonical_output(result["source_call_id"], content_text(result.get("content"))))
    return items


def _rollout(record: JsonObject) -> list[JsonObject]:
    params = record["responses_create_params"]
    given = record["response"].get("output") if isinstance(record.get("response"), dict) else []
    # Of a prompt that a harness made of its task, the rollout has the task alone.
    prompt = params.get("input") or record.get("problem_statement")
    return [*canonical_items(prompt, []), *canonical_items(given, [])]


def _responses(record: JsonObject) -> list[JsonObject]:
    given = record.get("input", record.get("items"))
    return [*canonical_items(given, []), *canonical_items(_list(record.get("output")), [])]


def _has_lists(*keys: str) -> Callable[[JsonObject], bool]:
    return lambda record: all(bool(_list(record.get(key))) for key in keys)


FORMS: tuple[TrajectoryForm, ...] = (
    TrajectoryForm(
        "rollout",
        lambda record: (
            isinstance(record.get("responses_create_params"), dict) and isinstance(record.get("response"), dict)
        ),
        _rollout,
        lambda record: record["responses_create_params"].get("tools"),
    ),
    TrajectoryForm(
        "atif",
        lambda record: str(record.get("schema_version", "")).startswith("ATIF") and bool(_list(record.get("steps"))),
        _atif,
        lambda record: (record.get("agent") or {}).get("tool_definitions"),
    ),
    TrajectoryForm(
        "swe_agent",
        lambda record: any("action" in entry and "role" in entry for entry in _list(record.get("history"))),
        _swe_agent,
        lambda _: [],
    ),
    TrajectoryForm(
        "openhands",
        lambda record: any(
            "tool_call_metadata" in event or event.get("kind") == "ActionEvent"
            for key in ("history", "trajectory", "events")
            for event in _list(record.get(key))
        ),
        _openhands,
        lambda record: next(
            (
                event.get("tools") or (event.get("args") or {}).get("tools")
                for event in _list(record.get("history") or record.get("trajectory") or record.get("events"))
                if event.get("action") == "system" or event.get("kind") == "SystemPromptEvent"
            ),
            [],
        ),
    ),
    TrajectoryForm("anthropic", _is_anthropic, _anthropic, lambda record: record.get("tools")),
    TrajectoryForm("chat", _has_lists("messages"), _chat, lambda record: _list(record.get("tools"))),
    TrajectoryForm(
        "responses",
        lambda record: bool(_list(record.get("input")) or _list(record.get("items"))),
        _responses,
        lambda record: record.get("tools"),
    ),
)
