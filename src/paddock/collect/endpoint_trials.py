"""The endpoints of a run's model servers are tried once, before a server is started (`paddock.server.endpoint_trial`).

Which   those that servers which this command starts call, judges' too; not with an oracle. Servers that start an
        engine of their own wait for it themselves.
"""

import asyncio

from paddock.collect.locations import ServerLocations
from paddock.collect.plan import Plan
from paddock.config import resolve_class
from paddock.server import ModelServer


async def try_endpoints(plan: Plan, locations: ServerLocations) -> list[str]:
    """Warnings about endpoints that may not answer. ConfigError: one can't work as it is configured."""
    from paddock.server.endpoint_trial import UpstreamEndpoint, try_endpoint

    timeout_s = plan.settings.endpoint_timeout_s
    # Nodes of a cluster may reach other places than this machine.
    if not timeout_s or not locations.start or plan.identity.oracle or plan.settings.cluster is not None:
        return []
    endpoints: dict[str, UpstreamEndpoint] = {}
    for name in plan.config.needed(plan.router.agents):
        instance = plan.config.instance(name)
        cls = resolve_class(instance.implementation, instance.kind)
        if name in locations.urls or not issubclass(cls, ModelServer):
            continue
        endpoint = cls.endpoint(plan.config.settings(name, cls.config_type))
        if endpoint is not None:
            endpoints[name] = endpoint
    found = await asyncio.gather(*(try_endpoint(name, one, timeout_s) for name, one in endpoints.items()))
    return [warning for warnings in found for warning in warnings]
