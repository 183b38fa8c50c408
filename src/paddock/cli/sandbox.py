"""`paddock sandbox`: the sandboxes of this machine, removing what dead owners left, and serving them to others.

    paddock sandbox list     owners, living and dead, with their sandboxes
    paddock sandbox clean    all (processes, cgroups, containers, folders) of dead owners, never a living one's
    paddock sandbox serve    sandboxes for clients elsewhere (`sandbox.nodes`), until a signal
    paddock sandbox swe-rl   sandboxes for the published swe-rl recipe, until a signal
    paddock sandbox nodes, drain, uncordon    nodes that serve: how they are, and whether they take more

Exit    0 done; 1 something could not be removed, and is named, or a node is not well; 2 a mistake in the command.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli import sandbox_nodes, sandbox_serve, sandbox_swe_rl

if TYPE_CHECKING:
    from paddock.sandbox.sweep import OwnerSweep

SUBCOMMANDS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="owners, living and dead, with their sandboxes")
    commands.add_parser("clean", help="remove what dead owners left")
    serve = commands.add_parser("serve", help="serve this machine's sandboxes to clients elsewhere")
    sandbox_serve.add_arguments(serve)
    swe_rl = commands.add_parser("swe-rl", help="stand in for the container servers of the published swe-rl recipe")
    sandbox_swe_rl.add_arguments(swe_rl)
    for command in commands.choices.values():
        command.add_argument("--home", type=Path, metavar="DIR", help="where sandboxes live (default: PADDOCK_HOME)")
    for name, help_text in sandbox_nodes.COMMANDS.items():
        sandbox_nodes.add_arguments(commands.add_parser(name, help=help_text))


def run(args: argparse.Namespace) -> int:
    if args.command == "serve":
        return sandbox_serve.run(args)
    if args.command == "swe-rl":
        return sandbox_swe_rl.run(args)
    if args.command in sandbox_nodes.COMMANDS:
        return sandbox_nodes.run(args)
    from paddock.sandbox.settings import SandboxSettings

    settings = SandboxSettings(home=args.home.absolute()) if args.home else SandboxSettings()
    return _list(settings.home) if args.command == "list" else _clean(settings.home)


def _list(home: Path) -> int:
    from paddock.sandbox.owner import handle_of, is_alive, owners, sandboxes

    for owner in owners(home):
        _say(f"{owner.name}  {'alive' if is_alive(owner) else 'dead'}")
        for folder in sandboxes(owner):
            handle = handle_of(folder)
            if handle is None:
                _say(f"  {folder.name}")
                continue
            labels = "".join(f"  {name}={value}" for name, value in sorted(handle.spec.labels.items()))
            _say(f"  {handle.sandbox_id}  {handle.runtime}  {handle.spec.purpose}  {handle.spec.image}{labels}")
    return 0


def _clean(home: Path) -> int:
    from paddock.sandbox.cgroups import find_cgroups
    from paddock.sandbox.doctor.image import probe_settings
    from paddock.sandbox.settings import SandboxSettings
    from paddock.sandbox.sweep import sweep

    cgroups = find_cgroups()
    swept: list[OwnerSweep] = []
    for folder in (home, probe_settings(SandboxSettings(home=home)).home):
        swept += sweep(folder, cgroups)
    for owner in swept:
        state = "" if owner.complete else "  NOT ALL OF IT"
        _say(f"{owner.owner_id}  {', '.join(owner.removed) or 'its folder'}{state}")
    return 0 if all(owner.complete for owner in swept) else 1


def _say(line: str) -> None:
    print(line)  # noqa: T201 - this is the command's voice
