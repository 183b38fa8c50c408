"""Ask a GenRM server about known preferences, each pair in both orders.

Law     a pair that the judge does not answer usably has failed: it agrees with nothing and disagrees with nothing.
Errors  those that are no matter of one pair (the request itself is refused, cancellation) leave this module.
"""

import asyncio
from collections.abc import Callable, Sequence

from paddock.errors import InfraError, VerifierError
from paddock.http import Call, Peer
from paddock.resources_servers.genrm.calibration.preferences import Preference
from paddock.resources_servers.genrm.calibration.report import PreferenceCheck
from paddock.resources_servers.genrm.compare import COMPARE, CompareRequest
from paddock.resources_servers.genrm.records import PairComparison


async def check_judge(
    server: Peer,
    preferences: Sequence[Preference],
    *,
    concurrency: int,
    timeout_s: float,
    on_check: Callable[[PreferenceCheck], None] = lambda _: None,
) -> list[PreferenceCheck]:
    """Have a judge compare each pair; the checks come in the order of the preferences.

    `timeout_s`: seconds for one pair. `on_check` is called with each check as it ends.
    """
    slots = asyncio.Semaphore(concurrency)

    async def check_preference(preference: Preference) -> PreferenceCheck:
        async with slots:
            check = await _check(server, preference, timeout_s)
        on_check(check)
        return check

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(check_preference(preference)) for preference in preferences]
    return [task.result() for task in tasks]


async def _check(server: Peer, preference: Preference, timeout_s: float) -> PreferenceCheck:
    call = Call().within(timeout_s)
    try:
        comparisons = await _compare(server, preference, call)
        # A strategy may see a pair in one order only.
        if len({comparison.response_i for comparison in comparisons}) < 2:
            comparisons += [_renumber(comparison) for comparison in await _compare(server, _swap(preference), call)]
    except (VerifierError, InfraError) as error:
        return PreferenceCheck(preference, [], error.kind)
    return PreferenceCheck(preference, comparisons)


async def _compare(server: Peer, preference: Preference, call: Call) -> list[PairComparison]:
    request = CompareRequest(
        conversation_history=preference.history,
        response_objs=list(preference.responses),
        principle=preference.principle,
    )
    reply = await server.call(COMPARE, request, call)
    return [PairComparison.model_validate(comparison) for comparison in reply.comparison_results]


def _swap(preference: Preference) -> Preference:
    first, second = preference.responses
    return preference._replace(responses=(second, first))


def _renumber(comparison: PairComparison) -> PairComparison:
    numbers = {"response_i": 1 - comparison.response_i, "response_j": 1 - comparison.response_j}
    return comparison.model_copy(update=numbers)
