"""Explains what a machine lacked, where a system call's error says only that it failed."""

import errno
import resource


def explain(error: OSError) -> str:
    """The error's text, with what there was too little of and what sets it, where its number tells."""
    processes, files = _soft(resource.RLIMIT_NPROC), _soft(resource.RLIMIT_NOFILE)
    lacking = {
        errno.EAGAIN: f"too few processes allowed (`ulimit -u` is {processes}; or pids.max of a cgroup)",
        errno.EMFILE: f"too few open files allowed (`ulimit -n` is {files})",
        errno.ENFILE: "too few open files allowed on this machine (fs.file-max)",
        errno.ENOMEM: "too little memory",
    }.get(error.errno or 0)
    return f"{lacking}: {error}" if lacking else str(error)


def describe(error: BaseException) -> str:
    """The error with its class, explained where it is a system call's."""
    return f"{type(error).__name__}: {explain(error) if isinstance(error, OSError) else error}"


def _soft(which: int) -> str:
    soft = resource.getrlimit(which)[0]
    return "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
