"""What a publisher's own grading says of many logs of one row, beside what our program reads in them: run by itself.

Runs under the interpreter that has the publisher's code. Stdin: `family`, `program` (the path of `publisher_parsers`),
`args` of the reader, `row`, `logs`; stdout: `resolved` by the publisher and `statuses` by ours, one each per log.
"""

import contextlib
import importlib
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

Answers = Iterator[tuple[bool, dict[str, str]]]


def rebench(ours: Any, args: dict[str, Any], row: dict[str, Any], logs: list[str]) -> Answers:
    theirs = _module("rebench_eval", Path(args["folder"]) / "scripts" / "eval.py")
    parser = theirs.get_parser(args["parser"])
    for log in logs:
        parsed = {theirs._normalize_test_name(name): word for name, word in parser(log).items()}
        result = {"passed_actual": sorted(name for name, word in parsed.items() if word == "PASSED")}
        report = theirs.build_report_item(row, {"result": result})
        targets = {theirs._normalize_test_name(name) for name in row["FAIL_TO_PASS"]}
        resolved = not report["failed_from_pass_to_pass"] and set(report["from_fail_to_pass"]) == targets
        yield resolved, ours.rebench_parse(**args, log=log)


def smith(ours: Any, args: dict[str, Any], row: dict[str, Any], logs: list[str]) -> Answers:
    statuses = [ours.smith_parse(**args, log=log) for log in logs]
    grading = _smith_grading(ours)
    for log, status in zip(logs, statuses, strict=True):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(f"+ : '>>>>> Start Test Output'\n{log}\n+ : '>>>>> End Test Output'\n")
            file.flush()
            prediction = {"instance_id": row["instance_id"], "model_patch": "x"}
            yield grading.get_eval_report(prediction, row, file.name)["resolved"], status


def multi(ours: Any, args: dict[str, Any], row: dict[str, Any], logs: list[str]) -> Answers:
    statuses = [_parse(ours, args, log) for log in logs]
    report = importlib.import_module("multi_swe_bench.harness.report")
    results = importlib.import_module("multi_swe_bench.harness.test_result")
    instance = ours._multi(args["pull"])

    def result(run: dict[str, Any]) -> Any:
        tests = {key: set(run[key]) for key in ("passed_tests", "failed_tests", "skipped_tests")}
        return results.TestResult(*(len(names) for names in tests.values()), **tests)

    for log, status in zip(logs, statuses, strict=True):
        try:
            made = report.generate_report(instance, result(row["run_result"]), result(row["test_patch_result"]), log)
        except ValueError:
            # An instance that the publisher counts as failed.
            yield False, status
            continue
        lists = ("p2p_tests", "f2p_tests", "s2p_tests", "n2p_tests")
        yield made.valid and all(set(row[key]) <= set(getattr(made, key)) for key in lists), status


def _parse(ours: Any, args: dict[str, Any], log: str) -> dict[str, str]:
    try:
        found: dict[str, str] = ours.multi_parse(**args, log=log)
    except ours.LogError:
        return {}
    return found


def ext(ours: Any, args: dict[str, Any], row: dict[str, Any], logs: list[str]) -> Answers:
    utils = ours._nemo("utils")
    for log in logs:
        text, _, results = log.partition("\0")
        whole = f"{text}\n<<<SWE_BENCH_EXT_RESULT_FILE_START>>>\n{results}\n<<<SWE_BENCH_EXT_RESULT_FILE_END>>>\n"
        lists = row["FAIL_TO_PASS"], row["PASS_TO_PASS"]
        answer = utils.parse_and_check_tests(whole, args["framework"], *lists)
        yield answer["resolved"], ours.ext_parse(**args, log=text, results=results)


def _smith_grading(ours: Any) -> Any:
    """Import its grading over swebench's, which is imported without docker and the like."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("swebench", "swesmith")]:
        del sys.modules[name]
    swebench = importlib.import_module("swebench")
    bare = ModuleType("swebench.harness")
    bare.__path__ = [str(Path(str(swebench.__file__)).parent / "harness")]
    sys.modules["swebench.harness"] = bare
    constants = importlib.import_module("swebench.harness.constants")
    moved = {**vars(ours._constants()), "KEY_PREDICTION": "model_patch", "KEY_MODEL": "model_name_or_path"}
    for name, value in moved.items():
        # What has moved since.
        if not name.startswith("__") and not hasattr(constants, name):
            setattr(constants, name, value)
    sys.modules["swebench.harness.dockerfiles"] = ours._Stub("swebench.harness.dockerfiles")
    return importlib.import_module("swesmith.harness.grading")


def _module(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    given = json.load(sys.stdin)
    program = _module("publisher_parsers", Path(given["program"]))
    with contextlib.redirect_stdout(sys.stderr):
        graded = list(globals()[given["family"]](program, given["args"], given["row"], given["logs"]))
    json.dump({"resolved": [one for one, _ in graded], "statuses": [one for _, one in graded]}, sys.stdout)
