"""mini-swe-agent's own agent and models over a bridge: run by `paddock.harness.outside.bridge`, never imported by us.

Agent   `DefaultAgent`, whatever a configuration names: nobody is there to ask. Its own limits hold where one sets them.
Model   litellm's classes, in the dialect that was asked for; where and with which key is told to litellm alone, so that
        neither is in a configuration, a prompt or the trajectory. Nothing is charged.
Env     each command in a shell of its own in the sandbox. What a template can know of a machine is the same for all.
Left    its trajectory, in its working directory, written by itself after each step.
Source  mini-swe-agent 2.4.6.
"""

import subprocess
from pathlib import Path
from typing import Any

TRAJECTORY = "trajectory.traj.json"
CLASSES = {"chat": "litellm", "responses": "litellm_response", "text": "litellm_textbased"}
DIALECTS = {"response": "responses", "textbased": "text"}
"""By how the names of its model classes end; others speak chat."""
ROUTES = ("api_base", "base_url", "api_key", "api_version", "custom_llm_provider", "organization", "extra_headers")
PLACES = ("environment_class", "image", "cwd", "interpreter")
HOLDERS = ("agent_class", "output_path", "cost_limit")
ENDS = {"Submitted": "finished", "LimitsExceeded": "turn_limit", "TimeExceeded": "time_limit"}
"""By exit status; others are how it gives up."""
TIMEOUT_S = 7 * 24 * 3600
"""For an answer: the rollout's own time ends it."""


def drive(bridge: Any, start: dict[str, Any]) -> dict[str, Any]:
    from jinja2 import TemplateError
    from minisweagent.agents.default import DefaultAgent
    from pydantic import ValidationError

    try:
        config = _config(start["layers"])
        agent_config = {key: value for key, value in config.get("agent", {}).items() if key not in HOLDERS}
        if start["system"] is not None:
            agent_config["system_template"] = "{{ paddock_system }}"
        agent = DefaultAgent(
            _model(config.get("model", {}), start),
            _environment(bridge, config.get("environment", {}), start),
            **agent_config,
            cost_limit=0.0,
            output_path=Path(TRAJECTORY),
        )
    except (ValidationError, TypeError, ValueError, OSError) as error:
        return {"ended": "config", "text": f"{start['named']}: {error}"}
    try:
        left = agent.run(start["prompt"], paddock_system=start["system"])
    except TemplateError as error:
        return {"ended": "config", "text": f"{start['named']}: {type(error).__name__}: {error}"}
    agent.save(Path(TRAJECTORY), {"instance_id": start["instance_id"]})
    status = left.get("exit_status", "")
    return {"ended": ENDS.get(status, "gave_up"), "text": status}


def _config(layers: list[dict[str, Any]]) -> dict[str, Any]:
    from minisweagent.config import get_config_from_spec
    from minisweagent.utils.serialize import recursive_merge

    given = [get_config_from_spec(layer["name"]) if layer["blocks"] is None else layer["blocks"] for layer in layers]
    merged: dict[str, Any] = recursive_merge(*given)
    return merged


def _model(block: dict[str, Any], start: dict[str, Any]) -> Any:
    import litellm
    from minisweagent.models import get_model_class

    endpoint = start["endpoint"]
    litellm.api_base, litellm.api_key = endpoint["base_url"], endpoint["api_key"]
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    named = str(block.pop("model_class", ""))
    cls = get_model_class("", CLASSES[start["dialect"] or _dialect(named, block)])
    kwargs = {key: value for key, value in block.pop("model_kwargs", {}).items() if key not in ROUTES}
    block["model_name"] = f"openai/{endpoint['model']}"
    model = cls(**block, model_kwargs={"timeout": TIMEOUT_S, **kwargs})
    # What is wrong with a call is wrong with it the next time too.
    model.abort_exceptions = [*cls.abort_exceptions, litellm.exceptions.BadRequestError]
    return model


def _dialect(named: str, block: dict[str, Any]) -> str:
    """Of a configuration: by its class, or because it says how an action is found in a text."""
    by_class = next((dialect for end, dialect in DIALECTS.items() if end in named.lower()), None)
    return by_class or ("text" if "action_regex" in block else "chat")


def _environment(bridge: Any, block: dict[str, Any], start: dict[str, Any]) -> Any:
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.utils.serialize import recursive_merge

    interpreter = list(block.get("interpreter") or ["bash", "-c"])
    tool_s = start["tool_s"]

    class SandboxEnvironment(LocalEnvironment):  # type: ignore[misc]
        """Its own, but for where a command runs."""

        def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
            command = action.get("command", "")
            limits = [limit for limit in (timeout or self.config.timeout, tool_s) if limit]
            limit_s = min(limits) if limits else None
            try:
                done = bridge.exec(
                    argv=[*interpreter, command], timeout_s=limit_s, cwd=cwd or None, env=self.config.env
                )
                if done["timed_out"]:
                    raise subprocess.TimeoutExpired(command, limit_s or 0, output=done["output"])
            except (OSError, TypeError, ValueError, subprocess.TimeoutExpired) as error:
                output = {
                    "output": getattr(error, "output", None) or "",
                    "returncode": -1,
                    "exception_info": f"An error occurred while executing the command: {error}",
                    "extra": {"exception_type": type(error).__name__, "exception": str(error)},
                }
            else:
                output = {"output": done["output"], "returncode": done["exit_code"], "exception_info": ""}
            self._check_finished(output)
            return output

        def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
            merged: dict[str, Any] = recursive_merge(self.config.model_dump(), start["platform"], kwargs)
            return merged

    own = {key: value for key, value in block.items() if key not in PLACES}
    return SandboxEnvironment(**own, cwd=start["workdir"])
