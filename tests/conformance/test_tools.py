"""Claims about the calls that the suite of harnesses makes: a tool that it can't call is named, whoever asks."""

import pytest

from paddock.conformance.behaviours import NotApplicable
from paddock.conformance.harnesses.tools import ShownTools
from paddock.types import JsonObject


@pytest.mark.parametrize("parameters", [{}, {"properties": {"program": {"type": "string"}}}, None])
async def test_a_shell_without_a_command_is_not_applicable_within_a_coroutine(parameters: JsonObject | None) -> None:
    tool = {"type": "function", "name": "bash", "parameters": parameters}
    with pytest.raises(NotApplicable, match="`bash` takes none of command"):
        ShownTools([tool]).shell("ls")
