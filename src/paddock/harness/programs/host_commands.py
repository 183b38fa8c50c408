"""Commands of this machine that an installation or a check runs: each has a time limit, and leaves no process.

Law     the supervisor stands over each (`paddock.processes`): when the time is over, or we end in whatever way, all
        that the command started is killed; it holds our lock until then, so nobody takes over a folder that is still
        written to.
Env     what finds programs, packages and the network, as the user has it, and no key or secret beside: a list of
        names, not of exceptions.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from paddock.processes import CommandResult, run_supervised

_NAMES = {
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PYENV_ROOT"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("NETRC", "NPM_TOKEN"),
}
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
_PREFIXES = ("npm_config_", "pip_")
"""Settings of package managers, in either case."""


class HostCommands:
    """Runs commands with the part of an environment that package managers need."""

    def __init__(self, environ: Mapping[str, str], *, held: Sequence[int] = ()) -> None:
        """`held`: file descriptors that stay open as long as any process of a command."""
        self.environ = {name: value for name, value in environ.items() if _passes(name)}
        self._held = held

    def find(self, name: str) -> str | None:
        """Return the path of a command; None: there is none on PATH."""
        return shutil.which(name, path=self.environ.get("PATH", os.defpath))

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        timeout_s: float,
        cwd: Path | None = None,
        own_home: bool = False,
    ) -> CommandResult:
        """Run a command to its end. `own_home`: HOME is an empty folder, which is removed afterwards."""
        return run_supervised(
            argv, timeout_s=timeout_s, env=self.environ, cwd=cwd, own_home=own_home, pass_fds=self._held
        )


def _passes(name: str) -> bool:
    lower = name.lower()
    return name in _NAMES or lower in _PROXIES or lower.startswith(_PREFIXES)
