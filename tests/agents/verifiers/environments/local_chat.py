"""A harness of verifiers that runs its loop in its own process: it asks until an answer says DONE."""

import json

import httpx
import verifiers.v1 as vf
from verifiers.v1.runtimes import ProgramResult


async def answer(client, endpoint, model, messages):
    body = {"model": model, "messages": messages, "stream": True}
    parts = []
    async with client.stream("POST", f"{endpoint}/chat/completions", json=body) as reply:
        reply.raise_for_status()
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                event = json.loads(line[6:])
                parts += [choice["delta"].get("content") or "" for choice in event.get("choices") or []]
    return "".join(parts)


class LocalChatConfig(vf.HarnessConfig):
    pass


class LocalChat(vf.Harness[LocalChatConfig]):
    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        headers = {"authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(headers=headers, timeout=60, trust_env=False) as client:
            for _ in range(6):
                messages.append({"role": "assistant", "content": await answer(client, endpoint, ctx.model, messages)})
                if "DONE" in messages[-1]["content"]:
                    break
                messages.append({"role": "user", "content": "Go on."})
        return ProgramResult(0, "", "")


__all__ = ["LocalChat"]
