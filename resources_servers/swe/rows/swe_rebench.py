"""SWE-rebench rows (V1, and SWE-bench-extra in that form): SWE-bench's columns, and how each is installed and tested.

Source  nebius/SWE-rebench: `install_config` has `test_cmd`, `log_parser` and `env_vars`; its other keys made the image,
        which `docker_image` or `image_name` names, else the rule of the dataset. Tree and environment are SWE-bench's.
Command `test_cmd` followed by the test patch's files, as their fork of the official harness does it.
Errors  RowError for a row without one of these, or whose parser swebench has not.
"""

from collections.abc import Mapping
from typing import Any

from paddock.resources_servers.swe import official
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.rows import fields, scripts, swe_bench
from paddock.resources_servers.swe.rows.commands import with_files


def read(row: Mapping[str, Any]) -> SweInstance:
    """Read a SWE-rebench row."""
    config = fields.obj(row, "install_config")
    own = fields.recipe_fields(row)
    test_patch = fields.patch(row, "test_patch")
    parser = _text(config, "log_parser")
    official.require_parser(parser, "install_config.log_parser")
    command = with_files(_text(config, "test_cmd"), test_patch)
    script = scripts.make(command, test_patch=test_patch, workdir=swe_bench.WORKDIR, conda="python" not in own)
    instance = swe_bench.instance(row, own, "swe_rebench", script, parser, "pass_and_fail")
    return instance.model_copy(update={"env": {**_strings(config, "env_vars"), **instance.env}})


def _text(config: Mapping[str, Any], key: str) -> str:
    return fields.text({f"install_config.{key}": config.get(key)}, f"install_config.{key}")


def _strings(config: Mapping[str, Any], key: str) -> dict[str, str]:
    return fields.strings({f"install_config.{key}": config.get(key)}, f"install_config.{key}")
