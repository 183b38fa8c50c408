"""The nodes of one client, each asked how it is: those of its settings, or of a Ray cluster as they come and go.

Law     a node that has left the cluster gets no more sandboxes. Those that live there go on, and end with their
        rollout, or with the lease where the node does not answer; then its client ends.
"""

import asyncio
import logging
import random
from collections.abc import Collection, Coroutine
from typing import Any, NamedTuple

from paddock.http.access import find_token
from paddock.sandbox.failures import SandboxError
from paddock.sandbox.remote.node import NodeClient, NodeState, question_timeout_s
from paddock.sandbox.remote.placement import NodePlacement
from paddock.sandbox.remote.ray_nodes import NO_NODE, RayNodes
from paddock.sandbox.settings import SandboxSettings

_log = logging.getLogger("paddock.sandbox")


class _Member(NamedTuple):
    client: NodeClient
    first_word: "asyncio.Task[None]"


class NodePool:
    """Made in a running event loop."""

    def __init__(self, settings: SandboxSettings, token: str | None) -> None:
        """`token`: before that of the settings."""
        if token is None and settings.node_token_file is not None:
            token = find_token(settings.node_token_file)
        self._settings = settings
        self._token = token
        # A question that was lost with a node is over before the one that finds it back.
        patience_s = settings.answer_margin_s + settings.node_poll_s + question_timeout_s(settings)
        self.placement = NodePlacement([], max_sandboxes=settings.max_sandboxes, patience_s=patience_s)
        self._members: dict[NodeState, _Member] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._found = asyncio.Event()
        self._begin_until = asyncio.get_running_loop().time() + patience_s
        if settings.nodes == "ray":
            self.placement.why_empty = NO_NODE
            self._start(self._follow(RayNodes()))
        else:
            self._set(settings.nodes)
        self._begun = self._start(self._begin())

    def client(self, node: NodeState) -> NodeClient:
        """The client of a node on which room is granted."""
        return self._members[node].client

    async def begin(self) -> None:
        """Wait until the nodes that were found first have said how they are, or had time to."""
        left_s = self._begin_until - asyncio.get_running_loop().time()
        await asyncio.wait([self._begun], timeout=max(0.0, left_s))

    async def ask_all(self) -> None:
        await asyncio.gather(*(member.client.ask() for member in self._members.values()))

    async def why_not_ready(self) -> str | None:
        """Why no node can start a sandbox; None: one can."""
        await self.begin()
        if not self.placement.nodes:
            return self.placement.why_empty
        troubles = [node.trouble for node in self.placement.nodes]
        return "; ".join(trouble.message for trouble in troubles if trouble) if all(troubles) else None

    async def close(self) -> None:
        self.placement.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(member.client.close() for member in self._members.values()))

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _begin(self) -> None:
        await self._found.wait()
        await asyncio.wait([member.first_word for member in self._members.values()])

    async def _follow(self, finder: RayNodes) -> None:
        """Look for the nodes of the cluster for as long as this client lives."""
        pause_s = self._settings.node_lookup_s
        try:
            while True:
                is_told = await self._look(finder)
                self.placement.place()
                self.placement.let_go_of_the_lost()
                is_empty = is_told and not self.placement.nodes
                await asyncio.sleep(min(pause_s, self._settings.node_poll_s) if is_empty else pause_s)
        finally:
            await finder.close()

    async def _look(self, finder: RayNodes) -> bool:
        """Whether Ray has told which nodes there are; else those that are known stay."""
        try:
            urls = await finder.find()
        except SandboxError as error:
            _log.warning("%s", error.message)
            self.placement.why_empty = error.message
            return False
        self.placement.why_empty = NO_NODE
        self._set(urls)
        return True

    def _set(self, urls: Collection[str]) -> None:
        """Place on these nodes."""
        placed = {node.url: node for node in self.placement.nodes}
        for url in placed.keys() - set(urls):
            _log.info("%s has left", url)
            self.placement.nodes.remove(placed[url])
        joined = sorted(set(urls) - placed.keys())
        # In an order of its own, so that clients which start together do not all begin with the same node.
        for url in random.sample(joined, len(joined)):
            client = NodeClient(url, self._token, self._settings)
            first_word = self._start(client.ask())
            self._members[client.state] = _Member(client, first_word)
            self.placement.nodes.append(client.state)
            self._start(self._watch(client, first_word))
            self._found.set()

    async def _watch(self, client: NodeClient, first_word: "asyncio.Task[None]") -> None:
        """Ask a node how it is until it has left, and nothing of this client is there."""
        node = client.state
        await asyncio.wait([first_word])
        while node in self.placement.nodes or node.n_granted:
            self.placement.place()
            if node.trouble is not None:
                self.placement.let_go_of_the_lost()
            client.say_waiting(self.placement.waiting)
            await self._pause(node)
            await client.ask()
        await client.close()
        del self._members[node]

    async def _pause(self, node: NodeState) -> None:
        """Wait until the node is to be asked: soon where it is in trouble, or somebody waits for room."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._settings.node_health_s
        while (left_s := ends_at - loop.time()) > 0:
            await asyncio.sleep(min(left_s, self._settings.node_poll_s))
            if node.trouble is not None or self.placement.waiting:
                return
