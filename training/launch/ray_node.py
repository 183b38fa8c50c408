"""`python -m paddock.training.launch.ray_node`: Ray on one node of a job, from the job's start to its end.

    ray_node --hosts A,B,C ...                on each but the first: part of the cluster, until the head ends
    ray_node --hosts A,B,C ... -- COMMAND     on the first: the head, and COMMAND once all nodes are there

Command with RAY_ADDRESS, for `cluster.address: auto`. Signals are passed on to it, and its exit code is this one's: Ray
        ends after it, so a run that is told to end has its roles until it has ended.
Law     Ray listens on the address by which other nodes reach this one, asks for the token of RAY_AUTH_TOKEN_PATH, and
        keeps its files in a folder of its own, which is removed.
Errors  exit code 1 and a line: the nodes that are not there in time, or a Ray that ended before the job.
"""

import argparse
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

LOOK_S = 1.0
CONNECT_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 20.0
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_ENV = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="ray_node", description=__doc__)
    parser.add_argument("--hosts", type=lambda text: text.split(","), required=True, help="all nodes, the head's first")
    parser.add_argument("--port", type=int, required=True, help="of the head")
    parser.add_argument("--wait-s", type=float, required=True, help="seconds for all nodes to be there")
    parser.add_argument("--object-store-mib", type=int, required=True)
    parser.add_argument("--gpus", type=int, default=0, help="of this node")
    parser.add_argument("command", nargs="*", help="what the first node runs")
    args = parser.parse_args(words)
    deadline = time.monotonic() + args.wait_s
    return _head(args, deadline) if args.command else _worker(args, deadline)


def _head(args: argparse.Namespace, deadline: float) -> int:
    for number in PASSED_ON:
        signal.signal(number, _leave)
    address = f"{_own_address(args.hosts[1])}:{args.port}"
    role = ["--head", f"--port={args.port}", "--include-dashboard=false"]
    # Ray gives its own start half a minute, which is too short on a loaded machine: it is tried again.
    while True:
        with _ray_process(args, args.hosts[1], role) as ray:
            lacking = _lacking(ray, address, args.hosts, deadline)
            if not lacking:
                return _run(args.command, address)
        if time.monotonic() > deadline:
            return _fail(f"after {args.wait_s:g} s (ray_wait_s) Ray has not started on {', '.join(lacking)}")


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _run(words: Sequence[str], address: str) -> int:
    with subprocess.Popen(words, env={**os.environ, "RAY_ADDRESS": address}) as command:
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: command.send_signal(number))
        code = command.wait()
    return code if code >= 0 else 128 - code


def _worker(args: argparse.Namespace, deadline: float) -> int:
    # SLURM sends a job's signals to all of its steps: the head's is the one that decides.
    for number in PASSED_ON:
        signal.signal(number, lambda *_: None)
    head = args.hosts[0]
    while not _listens(head, args.port):
        if time.monotonic() > deadline:
            return _fail(f"after {args.wait_s:g} s (ray_wait_s) there is no head on {head}, port {args.port}")
        time.sleep(LOOK_S)
    while True:
        with _ray_process(args, head, [f"--address={socket.gethostbyname(head)}:{args.port}"]) as ray:
            while ray.poll() is None:
                if not _listens(head, args.port):
                    return 0
                time.sleep(LOOK_S)
        if not _listens(head, args.port):
            return 0
        if time.monotonic() > deadline:
            return _fail(f"Ray ended with {ray.returncode} before the job")


@contextmanager
def _ray_process(args: argparse.Namespace, peer: str, role: list[str]) -> "Iterator[subprocess.Popen[bytes]]":
    """Ray on this node. `peer`: another node, which reaches this one."""
    # A short name: paths of sockets are bounded.
    with tempfile.TemporaryDirectory(prefix="paddock-ray-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--temp-dir={folder}"]
        command += [f"--node-ip-address={_own_address(peer)}", *role]
        command += [f"--object-store-memory={args.object_store_mib << 20}"]
        command += [f"--num-gpus={args.gpus}"] if args.gpus else []
        process = subprocess.Popen(command, env={**os.environ, **_ENV}, stdout=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _own_address(peer: str) -> str:
    """The address from which this machine reaches another: of its own name it may know a loopback's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plug:
        plug.connect((peer, 9))
        return str(plug.getsockname()[0])


def _listens(host: str, port: int) -> bool:
    """Whether somebody listens there; a network that says nothing is no answer, and Ray has its own limit for that."""
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    return True


def _lacking(ray_process: "subprocess.Popen[bytes]", address: str, hosts: Sequence[str], deadline: float) -> list[str]:
    """The hosts that are no nodes of the cluster when time is over, or when the head has ended; none as soon as all
    are."""
    import ray

    lacking = list(hosts)
    try:
        while lacking and ray_process.poll() is None and time.monotonic() < deadline:
            try:
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, ignore_reinit_error=True)
                lacking = _not_among(ray.nodes(), hosts)
            except (ConnectionError, RuntimeError, ValueError):
                # It starts.
                lacking = list(hosts)
            time.sleep(LOOK_S if lacking else 0)
        return lacking
    finally:
        ray.shutdown()


def _not_among(nodes: Sequence[Any], hosts: Sequence[str]) -> list[str]:
    alive = {node["NodeManagerAddress"] for node in nodes if node["Alive"]}
    # The head's own name may stand for a loopback; it is there, or nobody would have answered.
    return [host for host in hosts[1:] if socket.gethostbyname(host) not in alive]


def _fail(text: str) -> int:
    sys.stderr.write(f"paddock launch: {text}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
