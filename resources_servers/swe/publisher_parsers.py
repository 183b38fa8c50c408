"""Parsers of publishers whose rows swebench can't read: a program of its own, run under an interpreter that has them.

Call    one JSON object on stdin (`call`, `args`, `cpu_s`), one on stdout: `result`, or `missing` with what to install.
        It needs the standard library and the publisher's own code; nothing of paddock is imported.
Code    SWE-rebench-V2 and NeMo-Gym: modules of functions. SWE-smith and Multi-SWE-bench: classes by repository, in
        packages that import docker, ghapi and the like, which no parser calls: empty modules stand in for them.
Errors  of a parser none: code under test wrote the log, and what no parser can read tells of no test. MemoryError and
        OSError are the machine's: the process ends with 1, and one line on stderr.
"""

import contextlib
import enum
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import math
import re
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

SWE_SMITH, MULTI_SWE, NEMO_GYM = ("swesmith", "0.0.9"), ("multi-swe-bench", "1.1.2"), ("nemo-gym", "0.4.0")
_TIMES = (
    re.compile(r"\s*\[\s*\d+(?:\.\d+)?\s*(?:ms|s)\s*\]\s*$", re.IGNORECASE),
    re.compile(r"\s+in\s+\d+(?:\.\d+)?\s+(?:msec|sec)\b", re.IGNORECASE),
    re.compile(r"\s*\(\s*\d+(?:\.\d+)?\s*(?:ms|s)\s*\)\s*$", re.IGNORECASE),
)
_MULTI_STATUS = {"passed_tests": "PASSED", "failed_tests": "FAILED", "skipped_tests": "SKIPPED"}
_SMITH_LANGUAGES = ("golang", "rust", "javascript", "typescript", "java", "php", "c", "cpp", "csharp")
_RESULT_START, _RESULT_END = "<<<SWE_BENCH_EXT_RESULT_FILE_START>>>", "<<<SWE_BENCH_EXT_RESULT_FILE_END>>>"


class MissingError(Exception):
    """The publisher's code is not there, or has no such thing."""


class LogError(Exception):
    """A parser failed over a log."""


def without_times(name: str) -> str:
    """Return a test's name without the time that some runners write into it (the rule of SWE-rebench V2)."""
    for pattern in _TIMES:
        name = pattern.sub("", name)
    return name.strip()


def rebench_parser(folder: str, parser: str) -> bool:
    """Say whether a checkout of SWE-rebench-V2 has a parser; MissingError where it is no such checkout."""
    module = _rebench(folder)
    return parser in module.NAME_TO_PARSER or hasattr(module, parser)


def rebench_parse(folder: str, parser: str, log: str) -> dict[str, str]:
    """Status by test, names without times."""
    module = _rebench(folder)
    function = module.NAME_TO_PARSER.get(parser) or getattr(module, parser)
    with _reading():
        return {without_times(name): _word(status) for name, status in function(log).items()}


def smith_profile(repo: str) -> dict[str, Any]:
    """Image, test command and language of a SWE-smith repository (`owner__repo.commit8`)."""
    profile = _smith(repo)
    kinds = [kind.__name__ for kind in type(profile).__mro__]
    command = str(profile.test_cmd)
    return {
        "image": profile.image_name,
        "test_command": command,
        "timeout_s": profile.timeout,
        "selects_files": profile.min_testing,
        "python": "PythonProfile" in kinds,
    }


def smith_files(repo: str, fail_to_pass: list[str], pass_to_pass: list[str], instance_id: str) -> list[str]:
    """Paths of the tests that a row lists, in the order of the publisher's: without a clone, so for Python only."""
    profile = _smith(repo)
    row = {"instance_id": instance_id, "FAIL_TO_PASS": fail_to_pass, "PASS_TO_PASS": pass_to_pass}
    f2p, p2p = profile.get_test_files(row)
    return [str(path) for path in (*f2p, *p2p)]


def smith_parse(repo: str, log: str) -> dict[str, str]:
    """Status by test."""
    profile = _smith(repo)
    with _reading():
        return {str(name): _word(status) for name, status in profile.log_parser(log).items()}


def multi_profile(pull: dict[str, Any]) -> dict[str, Any]:
    """Image, script of the run with both patches, and module of a Multi-SWE-bench repository."""
    with _stubs("docker", "git", "toml", "yaml", "github", "swerex", "tqdm", "unidiff", "dataclasses_json"):
        _version(*MULTI_SWE)
        importlib.import_module("multi_swe_bench.harness.repos")
        instance = _multi(pull)
    files = {file.name: file.content for file in instance.dependency().files()}
    if "fix-run.sh" not in files:
        raise MissingError(f"multi-swe-bench {MULTI_SWE[1]} has no fix-run.sh for {pull['org']}/{pull['repo']}")
    return {"image": instance.name(), "script": files["fix-run.sh"], "module": type(instance).__module__}


def multi_parse(pull: dict[str, Any], module: str, log: str) -> dict[str, str]:
    """Status by test; `module` is what `multi_profile` found, the only one that is imported."""
    with _stubs("unidiff", "dataclasses_json"):
        parts = module.split(".")
        for end in range(len(parts) - 1, 0, -1):
            name = ".".join(parts[:end])
            if name.startswith("multi_swe_bench.harness.repos"):
                # The packages above it import all others.
                sys.modules.setdefault(name, _bare(name))
        importlib.import_module(module)
        instance = _multi(pull)
    with _reading():
        result = instance.parse_log(log)
        return {name: word for key, word in _MULTI_STATUS.items() for name in getattr(result, key)}


def ext_command(command: str, framework: str) -> dict[str, Any]:
    """The test command with the framework's flags, and the file or pattern that it leaves its results in."""
    frameworks = _nemo("frameworks")
    config = frameworks.get_framework_config(framework, command)
    return {
        "command": frameworks.get_test_command_with_output(command, framework),
        "result_file": config.get("result_file"),
        "known": framework in frameworks.FRAMEWORK_CONFIGS,
    }


def ext_parse(framework: str, tests: list[str], log: str, results: str) -> dict[str, str]:
    """Status of the listed tests by the publisher's matching of names; the others are not told."""
    utils = _nemo("utils")
    output = log.replace(_RESULT_START, "").replace(_RESULT_END, "")
    if results.strip():
        output = f"{output}\n{_RESULT_START}\n{results}\n{_RESULT_END}\n"
    with _reading():
        found = utils.parse_and_check_tests(output, framework, tests, [])["fail_to_pass_results"]
        matched = {test: found.get(utils.normalize_test_id(test, framework), "NOT_FOUND") for test in tests}
    return {test: word for test, word in matched.items() if word != "NOT_FOUND"}


CALLS: dict[str, Callable[..., Any]] = {
    call.__name__: call
    for call in (
        *(rebench_parser, rebench_parse, smith_profile, smith_files, smith_parse),
        *(multi_profile, multi_parse, ext_command, ext_parse),
    )
}


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (MemoryError, OSError):
        raise
    except Exception as error:
        raise LogError(str(error)) from error


def _word(status: Any) -> str:
    return str(status.value if isinstance(status, enum.Enum) else status)


def _version(package: str, wanted: str) -> None:
    try:
        found = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        found = ""
    if found != wanted:
        there = f"found {found}" if found else "it is not there"
        raise MissingError(f"needs {package} {wanted} ({there}): pip install --no-deps {package}=={wanted}")


def _rebench(folder: str) -> Any:
    if not (Path(folder) / "lib" / "agent" / "log_parsers.py").is_file():
        raise MissingError(f"{folder}: no checkout of SWE-rebench/SWE-rebench-V2: has no lib/agent/log_parsers.py")
    sys.path.insert(0, folder)
    return importlib.import_module("lib.agent.log_parsers")


def _nemo(module: str) -> Any:
    _version(*NEMO_GYM)
    return importlib.import_module(f"responses_api_agents.swe_agents.swe_bench_ext.{module}")


def _smith(repo: str) -> Any:
    with _stubs("docker", "docker.models", "docker.models.containers", "dotenv", "ghapi", "ghapi.all", "unidiff"):
        _version(*SWE_SMITH)
        # What it imports of swebench has moved since; it is names, and one table of files for builds.
        sys.modules["swebench"] = _Stub("swebench")
        sys.modules["swebench.harness"] = _Stub("swebench.harness")
        sys.modules["swebench.harness.constants"] = _constants()
        sys.modules["swebench.harness.dockerfiles"] = _Stub("swebench.harness.dockerfiles")
        # The package above the modules imports all languages; most rows are Python's.
        sys.modules["swesmith.profiles"] = _bare("swesmith.profiles")
        for language in ("python", *_SMITH_LANGUAGES):
            importlib.import_module(f"swesmith.profiles.{language}")
            registry = sys.modules["swesmith.profiles.base"].registry
            if repo in registry:
                return registry.get(repo)
    raise MissingError(f"swesmith {SWE_SMITH[1]} has no profile of {repo}")


def _constants() -> ModuleType:
    words = ("FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")
    module = _Stub("swebench.harness.constants")
    values = {
        **{name: name for name in ("FAIL_TO_PASS", "PASS_TO_PASS", "FAIL_TO_FAIL", "PASS_TO_FAIL")},
        "KEY_INSTANCE_ID": "instance_id",
        "DOCKER_USER": "root",
        "DOCKER_WORKDIR": "/testbed",
        "TestStatus": enum.Enum("TestStatus", {word: word for word in words}),
    }
    for name, value in values.items():
        setattr(module, name, value)
    return module


def _multi(pull: dict[str, Any]) -> Any:
    harness = "multi_swe_bench.harness"
    pulls = importlib.import_module(f"{harness}.pull_request")
    config = importlib.import_module(f"{harness}.image").Config(need_clone=False, global_env=None, clear_env=False)
    request = SimpleNamespace(**pull, base=SimpleNamespace(**pull["base_commit"]))
    names = {"org", "repo", "number", "tag", "number_interval", "lang", "fix_patch", "test_patch"}
    fields = {name: getattr(request, name) for name in names if hasattr(request, name)}
    built = pulls.PullRequest(
        **fields, state="", title="", body="", base=pulls.Base(label="", **pull["base_commit"]), resolved_issues=[]
    )
    try:
        return importlib.import_module(f"{harness}.instance").Instance.create(built, config)
    except ValueError as error:
        raise MissingError(f"multi-swe-bench {MULTI_SWE[1]}: {error}") from None


class _Stub(ModuleType):
    """A module of which any name can be imported; nothing of it does anything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing


class _Nothing(dict[str, Any]):
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # A decorator gives back the class that it is given.
        return args[0] if len(args) == 1 and inspect.isclass(args[0]) and not kwargs else super().__new__(cls)


def _bare(name: str) -> ModuleType:
    """Make a package that is where it is, and imports nothing by itself."""
    top, *below = name.split(".")
    root = importlib.util.find_spec(top)
    assert root is not None
    assert root.origin is not None
    module = ModuleType(name)
    module.__path__ = [str(Path(root.origin).parent.joinpath(*below))]
    return module


@contextlib.contextmanager
def _stubs(*names: str) -> Iterator[None]:
    """Let empty modules stand in for those of `names` that are not there."""
    for name in names:
        if name.split(".")[0] in sys.modules or importlib.util.find_spec(name.split(".")[0]) is None:
            sys.modules.setdefault(name, _Stub(name))
    yield


def main() -> None:
    """Serve the one call that stdin holds."""
    request = json.load(sys.stdin)
    used_s = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used_s + request["cpu_s"]), resource.RLIM_INFINITY))
    answer: dict[str, Any]
    with contextlib.redirect_stdout(sys.stderr):
        try:
            answer = {"result": CALLS[request["call"]](**request["args"])}
        except MissingError as missing:
            answer = {"missing": str(missing)}
        except ImportError as missing:
            answer = {"missing": f"the publisher's code needs more: {missing}"}
        except LogError:
            answer = {"result": {}}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    try:
        main()
    except (MemoryError, OSError) as lack:
        sys.exit(f"{type(lack).__name__}: {lack}")
