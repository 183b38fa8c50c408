"""Programs of harnesses that run on this machine, prepared once for all episodes.

verifiers keeps in a process where it has prepared a program: what is forked from this one finds it there.
"""

from verifiers.v1 import EnvConfig
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.configs.env import default_agent_harness
from verifiers.v1.runtimes import SubprocessConfig, make_runtime
from verifiers.v1.utils.loaders import load_harness


async def prepare(config: EnvConfig) -> None:
    """Set up each seat's harness in a runtime of its own. Raises what its setup raises."""
    for name, seat in agent_config_fields(config).items():
        if not isinstance(seat.runtime, SubprocessConfig):
            continue
        runtime = make_runtime(seat.runtime, name=f"prepare-{name}")
        try:
            await runtime.start()
            await load_harness(seat.harness or default_agent_harness(config.taskset.id)).setup(runtime)
        finally:
            await runtime.stop()
