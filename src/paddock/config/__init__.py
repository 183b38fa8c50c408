"""Strict config: YAML files composed into instances of servers, every key checked, the environment read late.

Form    `instance name -> server type -> implementation -> fields`; `{type, name}` refers to another instance.
Source  the form of NeMo-Gym's configs, whose names `aliases.yaml` maps to ours.
Law     an unknown key, a reference to nothing and an unset value are errors that name the key path and the nearest
        right name; a value of the environment is never stored. OmegaConf resolves interpolations; all else is here.
Errors  ConfigError.
"""

from paddock.config.aliases import AliasTable, alias_table
from paddock.config.config import Config
from paddock.config.files import find_file
from paddock.config.loader import load
from paddock.config.plugins import implementations, resolve_class
from paddock.config.problems import nearest
from paddock.config.settings import KINDS, Instance, Kind, Note, RunSettings
from paddock.config.validation import validate
from paddock.types.renamed import RenamedKeys

__all__ = [
    "KINDS",
    "AliasTable",
    "Config",
    "Instance",
    "Kind",
    "Note",
    "RenamedKeys",
    "RunSettings",
    "alias_table",
    "find_file",
    "implementations",
    "load",
    "nearest",
    "resolve_class",
    "validate",
]
