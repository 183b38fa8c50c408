"""Where sandboxes are placed, by what is known of nodes: who goes where, who waits, who is let go."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from paddock.errors import ConfigError
from paddock.sandbox import ImageMissing, SandboxError, SandboxLimits, SandboxSpec
from paddock.sandbox.admission import AdmissionSettings
from paddock.sandbox.remote.node import NodeState
from paddock.sandbox.remote.placement import Grant, NodePlacement
from paddock.sandbox.remote.room import FreeRoom, NodeRoom

PATIENCE_S = 0.2


def room_of(memory_mib: int, **more: Any) -> NodeRoom:
    admission = AdmissionSettings(memory_mib=memory_mib, cores=8, cores_per_sandbox=0.5, disk_mib=10_000)
    return NodeRoom(admission=admission, free=FreeRoom.of(admission.total()), **more)


def node_of(name: str, memory_mib: int = 1000, *, images: str = "a", **more: Any) -> NodeState:
    node = NodeState(f"http://{name}")
    node.take_note(room_of(memory_mib, **more))
    node.images = set(images)
    node.trouble = None
    return node


def placement_of(*nodes: NodeState, max_sandboxes: int | None = None) -> NodePlacement:
    return NodePlacement(nodes, max_sandboxes=max_sandboxes, patience_s=PATIENCE_S)


def spec_of(memory_mib: int = 400, image: str = "a", group: str | None = None) -> SandboxSpec:
    return SandboxSpec(image=image, limits=SandboxLimits(memory_mib=memory_mib), group=group)


class AskingLine:
    """Those who ask, in the order in which they came."""

    def __init__(self, placement: NodePlacement) -> None:
        self._placement = placement
        self._asked: list[asyncio.Task[Grant]] = []

    def ask(self, spec: SandboxSpec | None = None) -> "asyncio.Task[Grant]":
        ticket = len(self._asked)
        self._asked.append(asyncio.ensure_future(self._placement.take(spec or spec_of(), ticket)))
        return self._asked[-1]

    async def places(self) -> list[str]:
        """Where each is; `-`: nowhere yet."""
        for _ in range(5):
            await asyncio.sleep(0)
        return [task.result().node.url.removeprefix("http://") if task.done() else "-" for task in self._asked]

    def go(self) -> None:
        for task in self._asked:
            task.cancel()


async def test_each_goes_where_most_is_left_and_what_is_granted_is_reserved() -> None:
    placement = placement_of(node_of("small", 900), node_of("large", 1700))
    line = AskingLine(placement)
    for _ in range(6):
        line.ask()
    assert await line.places() == ["large", "small", "large", "large", "small", "large"]
    line.ask()
    assert (await line.places())[-1] == "-"
    line.go()


async def test_the_scarcest_part_decides() -> None:
    narrow = node_of("narrow", 100_000)
    narrow.free = narrow.free._replace(cores=0.4)
    line = AskingLine(placement_of(narrow, node_of("wide", 500)))
    line.ask()
    line.ask()
    assert await line.places() == ["wide", "-"]
    line.go()


async def test_images_decide_before_room_and_one_is_waited_for() -> None:
    placement = placement_of(node_of("has", 500, images="ab"), node_of("lacks", 9000))
    line = AskingLine(placement)
    first = line.ask(spec_of(image="b"))
    line.ask(spec_of(image="b"))
    assert await line.places() == ["has", "-"]
    line.ask()
    assert await line.places() == ["has", "-", "lacks"]
    placement.give(await first)
    assert await line.places() == ["has", "has", "lacks"]


async def test_the_members_of_a_group_are_spread_over_nodes_with_its_image_before_room_decides() -> None:
    large, small = node_of("large", 9000), node_of("small", 1000)
    placement = placement_of(large, small, node_of("lacks", 90_000, images="b"))
    line = AskingLine(placement)
    first, second = line.ask(spec_of(group="g")), line.ask(spec_of(group="g"))
    line.ask(spec_of(group="h"))
    assert await line.places() == ["large", "small", "large"]
    placement.give(await second)
    line.ask(spec_of(group="g"))
    assert (await line.places())[3:] == ["small"]
    placement.refuse(await first, room_of(9000))
    large.refused = False
    line.ask(spec_of(group="g"))
    assert (await line.places())[4:] == ["large"]


@pytest.mark.parametrize("seed", range(20))
async def test_no_node_gets_one_more_of_a_group_while_another_with_image_and_room_has_fewer(seed: int) -> None:
    draw = random.Random(seed)
    nodes = [
        node_of(f"n{number}", draw.choice([400, 800, 2000, 4000]), images=draw.choice(["a", "b", "ab"]))
        for number in range(draw.randint(2, 30))
    ]
    nodes += [node_of("has-a", 400, images="a"), node_of("has-b", 400, images="b")]
    placement = placement_of(*nodes)
    live: list[Grant] = []
    for ticket in range(300):
        if live and draw.random() < 0.4:
            placement.give(live.pop(draw.randrange(len(live))))
            continue
        group = draw.choice("gh")
        spec = spec_of(draw.choice([200, 400]), {"g": "a", "h": "b"}[group], group)
        of_group = Counter(grant.node.url for grant in live if grant.group == group)
        able = [node for node in nodes if spec.image in node.images and node.room_left(spec) >= 0]
        asked = asyncio.ensure_future(placement.take(spec, ticket))
        await asyncio.sleep(0)
        if able:
            live.append(await asked)
            assert of_group[live[-1].node.url] == min(of_group[node.url] for node in able)
        else:
            asked.cancel()
            await asyncio.wait([asked])
    assert placement.waiting == 0


async def test_nobody_overtakes_who_waits_for_the_same_node() -> None:
    placement = placement_of(node_of("one"), node_of("other", 300))
    line = AskingLine(placement)
    first = line.ask(spec_of(500))
    line.ask(spec_of(900))
    line.ask(spec_of(100))
    line.ask(spec_of(400))
    assert await line.places() == ["one", "-", "other", "-"]
    placement.give(await first)
    assert await line.places() == ["one", "one", "other", "-"]
    line.go()


async def test_all_nodes_together_hold_so_many_and_no_more() -> None:
    placement = placement_of(node_of("one"), node_of("other"), max_sandboxes=3)
    line = AskingLine(placement)
    grants = [line.ask() for _ in range(4)]
    assert (await line.places()).count("-") == 1
    placement.give(await grants[0])
    assert (await line.places()).count("-") == 0


async def test_one_that_leaves_the_queue_lets_others_through_and_keeps_nothing() -> None:
    node = node_of("one")
    placement = placement_of(node)
    line = AskingLine(placement)
    first, large = line.ask(spec_of(500)), line.ask(spec_of(900))
    line.ask(spec_of(400))
    assert await line.places() == ["one", "-", "-"]
    large.cancel()
    await asyncio.wait([large])
    assert placement.waiting == 0
    late = line.ask(spec_of(900))
    await asyncio.sleep(0)
    placement.give(await first)
    late.cancel()  # it is granted, and has not heard of it
    await asyncio.wait([late])
    assert node.free.memory_mib == 600
    await placement.take(spec_of(600), 9)
    gone = line.ask(spec_of(100))
    await asyncio.sleep(0)
    gone.cancel()
    placement.give(Grant(node, node.demand(spec_of(600))))  # it has not left the queue yet
    placement.let_go_of_the_lost()
    await asyncio.wait([gone])
    assert (gone.cancelled(), node.free.memory_mib) == (True, 600)


async def test_a_refusal_is_believed_and_costs_no_place_in_the_queue() -> None:
    node = node_of("one")
    placement = placement_of(node)
    line = AskingLine(placement)
    first = line.ask()
    line.ask(spec_of(900))
    grant = await first
    full = room_of(1000).model_copy(update={"free": FreeRoom.of(room_of(1000).free.amount._replace(memory_mib=300))})
    placement.refuse(grant, full)
    again = asyncio.ensure_future(placement.take(spec_of(), 0))
    assert (await line.places())[-1] == "-"
    node.take_note(room_of(1000))
    placement.place()
    assert (await again).node is node
    assert (await line.places())[-1] == "-"
    line.go()


async def test_a_draining_node_gets_nothing_and_is_waited_for() -> None:
    node = node_of("one", draining=True)
    placement = placement_of(node)
    line = AskingLine(placement)
    line.ask()
    await asyncio.sleep(2 * PATIENCE_S)
    placement.let_go_of_the_lost()
    assert await line.places() == ["-"]
    node.take_note(room_of(1000))
    placement.place()
    assert await line.places() == ["one"]


async def test_a_node_in_trouble_is_waited_for_a_while_and_then_it_is_the_machines() -> None:
    node = node_of("one")
    placement = placement_of(node)
    line = AskingLine(placement)
    node.is_in_trouble(SandboxError("one: no answer", kind="node_unreachable"))
    waiting = line.ask()
    assert await line.places() == ["-"]
    node.trouble = None
    placement.place()
    assert (await waiting).node is node
    node.is_in_trouble(SandboxError("one: no answer", kind="node_unreachable"))
    lost = line.ask()
    await asyncio.sleep(2 * PATIENCE_S)
    assert not lost.done()
    placement.let_go_of_the_lost()
    with pytest.raises(SandboxError, match="no answer") as told:
        await lost
    late = line.ask()  # by who comes later, it is waited for as long: it may be coming back
    await asyncio.sleep(0)
    placement.let_go_of_the_lost()
    assert not late.done()
    line.go()
    assert (told.value.kind, told.value.retryable) == ("node_unreachable", True)


async def test_an_image_that_a_lost_node_may_have_is_never_called_missing() -> None:
    unknown = NodeState("http://unknown")
    line = AskingLine(placement_of(node_of("one"), unknown))
    waiting = line.ask(spec_of(image="b"))
    assert await line.places() == ["-"]
    unknown.take_note(room_of(1000))
    unknown.trouble = None
    line.go()
    await asyncio.wait([waiting])
    with pytest.raises(ImageMissing, match=r"'bc': no node has this image.*nearest: 'b'"):
        unknown.images = {"b"}
        await placement_of(node_of("one"), unknown).take(spec_of(image="bc"), 0)


async def test_what_fits_on_no_node_is_said_at_once() -> None:
    nodes = node_of("one"), node_of("large", 9000, images="b")
    with pytest.raises(ConfigError, match=r"1500 MiB.*never fits.*http://one: 1000 MiB") as told:
        await placement_of(*nodes).take(spec_of(1500), 0)
    assert told.value.kind == "never_admitted"


async def test_nobody_waits_for_a_client_that_has_closed() -> None:
    placement = placement_of(node_of("one", draining=True))
    waiting = AskingLine(placement).ask()
    await asyncio.sleep(0)
    placement.close()
    with pytest.raises(SandboxError, match="has closed"):
        await waiting
