"""From an implementation's name to its class.

Law     `pivot` is the folder `paddock/<kind>/pivot`; its class is the one in `__all__` with `KIND == kind`.
        `my_pkg.mod:Class` is a class of that kind anywhere. Nothing is registered.
Errors  ConfigError: an unknown name lists what exists and the nearest; a failed import inside a plugin names the
        package that is missing.
"""

import importlib
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

from paddock.config.files import PACKAGE
from paddock.config.problems import suggestion
from paddock.errors import ConfigError


def implementations(kind: str) -> list[str]:
    """The plugin folders of a kind."""
    root = PACKAGE / kind
    if not root.is_dir():
        return []
    folders = (path.name for path in root.iterdir() if path.is_dir())
    return sorted(name for name in folders if name.isidentifier() and not name.startswith("_"))


def check_exists(spec: str, kind: str, *, also: Iterable[str] = ()) -> None:
    """ConfigError unless `spec` is a plugin folder or `module:Class`; imports nothing. `also`: other names to show."""
    if ":" in spec or spec in implementations(kind):
        return
    other = ", ".join(sorted(also))
    hint = f"; or NeMo-Gym's: {other}" if other else ""
    near = suggestion(spec, implementations(kind))
    raise ConfigError(
        f"unknown implementation `{spec}` of {kind}{near}, or `package.module:Class`{hint}", kind="plugin"
    )


def resolve_class(spec: str, kind: str) -> type[Any]:
    """The class of an implementation."""
    check_exists(spec, kind)
    if ":" not in spec:
        module = _import(f"paddock.{kind}.{spec}", spec)
        return only_class(module, kind)
    module_name, _, class_name = spec.partition(":")
    module = _import(module_name, spec)
    value: Any = getattr(module, class_name, None)
    if not _is_kind(value, kind):
        classes = [name for name, other in vars(module).items() if _is_kind(other, kind)]
        hint = suggestion(class_name, classes, label=f"classes of {kind} there")
        raise ConfigError(f"`{spec}` is no class of {kind}{hint}", kind="plugin")
    cls: type[Any] = value
    return cls


def resolve_function(spec: str) -> Callable[..., Any]:
    """The function that `package.module:function` names."""
    module_name, colon, name = spec.partition(":")
    if not colon or not module_name or not name:
        raise ConfigError(f"`{spec}`: a function is named as `package.module:function`", kind="plugin")
    module = _import(module_name, spec)
    value: Any = getattr(module, name, None)
    if not isinstance(value, FunctionType):
        functions = [other for other, found in vars(module).items() if isinstance(found, FunctionType)]
        hint = suggestion(name, functions, label="functions there")
        raise ConfigError(f"`{spec}` is no function{hint}", kind="plugin")
    return value


def _import(module: str, spec: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
        if module == missing or module.startswith(f"{missing}."):
            raise ConfigError(
                f"`{spec}`: there is no module `{missing}` among what is installed, on PYTHONPATH or, for commands, in "
                "the working directory",
                kind="plugin",
            ) from error
        what = "module" if missing.partition(".")[0] == "paddock" else "package"
        raise ConfigError(f"`{spec}` needs the {what} `{missing}`, which is not installed", kind="plugin") from error
    except ImportError as error:
        raise ConfigError(f"`{spec}` can't be imported: {error}", kind="plugin") from error


def only_class(module: ModuleType, kind: str) -> type[Any]:
    """The one class of `kind` that a plugin's module exports."""
    exported: dict[str, Any] = {name: getattr(module, name, None) for name in getattr(module, "__all__", ())}
    classes = {name: value for name, value in exported.items() if _is_kind(value, kind)}
    if len(classes) != 1:
        have = ", ".join(f"`{name}`" for name in classes or exported) or "nothing"
        raise ConfigError(
            f"`{module.__name__}` must export one class of {kind} in `__all__`, exports {have}", kind="plugin"
        )
    cls: type[Any] = next(iter(classes.values()))
    return cls


def _is_kind(value: Any, kind: str) -> bool:
    return isinstance(value, type) and getattr(value, "KIND", None) == kind
