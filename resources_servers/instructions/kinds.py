"""All kinds of verifiable instructions, by the names that rows give them."""

from collections.abc import Mapping

from paddock.resources_servers.instructions.checks import InstructionKind
from paddock.resources_servers.instructions.ifeval import IFEVAL_KINDS
from paddock.resources_servers.instructions.iftrain import IFTRAIN_KINDS

KINDS: Mapping[str, InstructionKind] = {**IFEVAL_KINDS, **IFTRAIN_KINDS}
