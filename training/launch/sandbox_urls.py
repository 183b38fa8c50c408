"""`python -m paddock.training.launch.sandbox_urls`: the URLs of a job's nodes of sandboxes, once all of them answer.

    sandbox_urls --hosts A,B --port P --wait-s S       nodes by name
    sandbox_urls --service NAME --count N ...          nodes by the addresses of one name, such as a headless Service's

Output  stdout: a list in YAML, for an override of `sandbox.nodes`.
Errors  exit code 1 and a line: the nodes that do not answer in time, or at once where the process that serves them, or
        starts them, has ended (`--pid`).
"""

import argparse
import http.client
import json
import socket
import sys
import time
from collections.abc import Sequence

import psutil

from paddock.sandbox.remote.wire import HEALTH

LOOK_S = 1.0
ANSWER_TIMEOUT_S = 5.0


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="sandbox_urls", description=__doc__)
    parser.add_argument("--hosts", type=lambda text: text.split(","), default=[])
    parser.add_argument("--service", help="a name with an address for each node, in place of --hosts")
    parser.add_argument("--count", type=int, default=1, help="nodes that there have to be, with --service")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--wait-s", type=float, required=True, help="seconds for all to answer")
    parser.add_argument("--pid", type=int, help="the process that starts them")
    args = parser.parse_args(words)
    deadline = time.monotonic() + args.wait_s
    while True:
        hosts = _addresses(args.service) if args.service else args.hosts
        silent = [host for host in hosts if not _is_well(host, args.port)]
        if not silent and len(hosts) >= args.count:
            sys.stdout.write(json.dumps([f"http://{host}:{args.port}" for host in hosts]) + "\n")
            return 0
        who = f"{', '.join(silent) or 'none'} of {len(hosts)} do not answer"
        if args.pid is not None and _has_ended(args.pid):
            return _fail(f"nodes of sandboxes ended at their start; {who}")
        if time.monotonic() > deadline:
            return _fail(f"after {args.wait_s:g} s (sandbox_wait_s) nodes of sandboxes are not ready: {who}")
        time.sleep(LOOK_S)


def _addresses(service: str) -> list[str]:
    try:
        found = socket.getaddrinfo(service, None, socket.AF_INET, socket.SOCK_STREAM)
    except socket.gaierror:
        return []
    return sorted({str(address[0]) for *_, address in found})


def _is_well(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", HEALTH)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _fail(text: str) -> int:
    sys.stderr.write(f"paddock launch: {text}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
