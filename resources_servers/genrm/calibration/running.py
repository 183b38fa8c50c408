"""Asking a GenRM server about known preferences, each pair in both orders.

Law     a pair that the judge does not answer usably has failed: it agrees with nothing and disagrees with nothing.
Errors  those that are no matter of one pair (the request itself is refused, cancellation) leave this module.
"""

import asyncio
from collections.abc import Callable, Sequence

from paddock.errors import InfraError, VerifierError
from paddock.http import Call, Peer
from paddock.resources_servers.genrm.calibration.preferences import Preference
from paddock.resources_servers.genrm.calibration.report import Checked
from paddock.resources_servers.genrm.compare import COMPARE, CompareRequest
from paddock.resources_servers.genrm.records import Comparison


async def check(
    server: Peer,
    preferences: Sequence[Preference],
    *,
    concurrency: int,
    timeout_s: float,
    ended: Callable[[Checked], None] = lambda _: None,
) -> list[Checked]:
    """In the order of the preferences. `timeout_s`: for one pair; `ended` is told each as it ends."""
    room = asyncio.Semaphore(concurrency)

    async def one(preference: Preference) -> Checked:
        async with room:
            found = await _checked(server, preference, timeout_s)
        ended(found)
        return found

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(preference)) for preference in preferences]
    return [task.result() for task in tasks]


async def _checked(server: Peer, preference: Preference, timeout_s: float) -> Checked:
    call = Call().within(timeout_s)
    try:
        said = await _compared(server, preference, call)
        # A strategy may see a pair in one order only.
        if len({one.response_i for one in said}) < 2:
            said += [_renumbered(one) for one in await _compared(server, _swapped(preference), call)]
    except (VerifierError, InfraError) as error:
        return Checked(preference, [], error.kind)
    return Checked(preference, said)


async def _compared(server: Peer, preference: Preference, call: Call) -> list[Comparison]:
    request = CompareRequest(
        conversation_history=preference.history,
        response_objs=list(preference.responses),
        principle=preference.principle,
    )
    reply = await server.call(COMPARE, request, call)
    return [Comparison.model_validate(one) for one in reply.comparison_results]


def _swapped(preference: Preference) -> Preference:
    first, second = preference.responses
    return preference._replace(responses=(second, first))


def _renumbered(comparison: Comparison) -> Comparison:
    numbers = {"response_i": 1 - comparison.response_i, "response_j": 1 - comparison.response_j}
    return comparison.model_copy(update=numbers)
