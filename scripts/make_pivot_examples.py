"""Writes the pivot server's example rows from the trajectories in `scripts/pivot_examples`.

Source  one YAML file per invented project: issue, files, and the steps of an expert, in no harness's words. Each step
        is put into the words of the project's family (OpenHands, Codex, OpenCode); what its tool would have shown is
        made from the project's files as they are at that step. Each step becomes a row.
        `chat.yaml` holds conversations with other tools, written out.
Output  resources_servers/pivot/data/example.jsonl, the same bytes every time; `--stdout` prints them instead.
Errors  an edit whose old text does not occur exactly once, or a step that the family has no tool for, raises.
"""

import argparse
import json
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

HERE = Path(__file__).parent / "pivot_examples"
TARGET = Path(__file__).parents[1] / "resources_servers" / "pivot" / "data" / "example.jsonl"
KINDS = {"find": "search", "create": "edit", "insert": "edit"}
NULL_KEYS = ("background", "include", "instructions", "max_output_tokens", "metadata", "model", "temperature", "top_p")
CONTEXT_LINES = 2

Json = dict[str, Any]


class ExampleCall(NamedTuple):
    name: str
    arguments: Json
    output: str


class ExampleProject:
    """A project's files, changed by the steps in order."""

    def __init__(self, root: str, files: dict[str, str]) -> None:
        self.root = root
        self.files = dict(files)

    def absolute(self, path: str) -> str:
        return self.root if path == "." else f"{self.root}/{path}"

    def lines(self, path: str, span: list[int] | None) -> list[tuple[int, str]]:
        numbered = list(enumerate(self.files[path].splitlines(), 1))
        return numbered if span is None else numbered[span[0] - 1 : None if span[1] == -1 else span[1]]

    def matches(self, pattern: str, path: str) -> Iterator[tuple[str, int, str]]:
        for name in sorted(self.files):
            if path == "." or name == path or name.startswith(path + "/"):
                for number, line in self.lines(name, None):
                    if re.search(pattern, line):
                        yield name, number, line

    def entries(self, path: str) -> list[str]:
        """Names below a directory, directories with a slash, relative to it."""
        start = "" if path == "." else path + "/"
        names = [name[len(start) :] for name in self.files if name.startswith(start)]
        parents = {"/".join(name.split("/")[:depth]) + "/" for name in names for depth in range(1, name.count("/") + 1)}
        return sorted({*names, *parents})

    def replace(self, path: str, old: str, new: str) -> str:
        """The text before; raises unless `old` occurs exactly once."""
        before = self.files[path]
        if before.count(old) != 1:
            raise ValueError(f"{path}: old text occurs {before.count(old)} times: {old!r}")
        self.files[path] = before.replace(old, new)
        return before


def numbered(lines: list[tuple[int, str]]) -> str:
    return "\n".join(f"{number:6}\t{line}" for number, line in lines)


def patch(world: ExampleProject, path: str, old: str, new: str) -> str:
    """One hunk that replaces whole lines, with some context; the edit is made here."""
    before = world.replace(path, old, new)
    at = before.index(old)
    above, below = before[:at].split("\n"), before[at + len(old) :].split("\n")
    if above.pop() or below.pop(0) or (below and below.pop()):
        raise ValueError(f"{path}: not whole lines of a file that ends in a newline: {old!r}")
    removed, added = old.split("\n"), new.split("\n")
    while removed and added and removed[0] == added[0]:
        above.append(removed.pop(0))
        added.pop(0)
    body = [" " + line for line in above[-CONTEXT_LINES:]] + ["-" + line for line in removed]
    body += ["+" + line for line in added] + [" " + line for line in below[:CONTEXT_LINES]]
    return "\n".join(["*** Begin Patch", f"*** Update File: {path}", "@@", *body, "*** End Patch"])


class OpenHands:
    def __init__(self, world: ExampleProject) -> None:
        self.world = world

    def _editor(self, command: str, path: str, output: str, **more: Any) -> ExampleCall:
        arguments = {"command": command, "path": self.world.absolute(path), **more}
        return ExampleCall("str_replace_editor", arguments, output)

    def _snippet(self, path: str, around: str) -> str:
        text = self.world.files[path]
        first = text[: text.index(around)].count("\n") + 1
        shown = self.world.lines(path, [max(1, first - 3), first + around.count("\n") + 3])
        place = self.world.absolute(path)
        return (
            f"The file {place} has been edited. Here's the result of running `cat -n` on a snippet of {place}:\n"
            f"{numbered(shown)}\nReview the changes and make sure they are as expected."
        )

    def do_shell(self, step: Json) -> ExampleCall:
        tail = (
            f"[Current working directory: {self.world.root}]\n[Command finished with exit code {step.get('exit', 0)}]"
        )
        return ExampleCall(
            "execute_bash", {"command": step["command"]}, f"{step.get('output', '')}\n{tail}".lstrip("\n")
        )

    def do_search(self, step: Json) -> ExampleCall:
        place = self.world.absolute(step["path"])
        found = [f"{self.world.absolute(name)}:{n}:{line}" for name, n, line in self.world.matches(**step)]
        command = f'grep -rn "{step["pattern"]}" {place}'
        return self.do_shell({"command": command, "output": "\n".join(found), "exit": 0 if found else 1})

    def do_list(self, step: Json) -> ExampleCall:
        place = self.world.absolute(step["path"])
        names = "\n".join([f"{place}/", *[f"{place}/{name}" for name in self.world.entries(step["path"])]])
        return self._editor("view", step["path"], f"Here are the files and directories in {place}:\n{names}")

    def do_read(self, step: Json) -> ExampleCall:
        span, path = step.get("lines"), step["path"]
        shown = numbered(self.world.lines(path, span))
        output = f"Here's the result of running `cat -n` on {self.world.absolute(path)}:\n{shown}"
        return self._editor("view", path, output, **({"view_range": span} if span else {}))

    def do_edit(self, step: Json) -> ExampleCall:
        self.world.replace(**step)
        output = self._snippet(step["path"], step["new"] or self.world.files[step["path"]][:1])
        return self._editor("str_replace", step["path"], output, old_str=step["old"], new_str=step["new"])

    def do_insert(self, step: Json) -> ExampleCall:
        lines = self.world.files[step["path"]].splitlines(keepends=True)
        text = step["text"] if step["text"].endswith("\n") else step["text"] + "\n"
        self.world.files[step["path"]] = "".join([*lines[: step["line"]], text, *lines[step["line"] :]])
        output = self._snippet(step["path"], text)
        return self._editor("insert", step["path"], output, insert_line=step["line"], new_str=step["text"])

    def do_create(self, step: Json) -> ExampleCall:
        self.world.files[step["path"]] = step["text"]
        output = f"File created successfully at: {self.world.absolute(step['path'])}"
        return self._editor("create", step["path"], output, file_text=step["text"])

    def do_think(self, step: str) -> ExampleCall:
        return ExampleCall("think", {"thought": step}, "Your thought has been logged.")

    def do_plan(self, step: list[list[str]]) -> ExampleCall:
        words = {"pending": "todo", "in_progress": "in_progress", "completed": "done"}
        tasks = [{"id": str(n), "title": title, "status": words[status]} for n, (title, status) in enumerate(step, 1)]
        return ExampleCall(
            "task_tracker", {"command": "plan", "task_list": tasks}, f"Task list updated with {len(tasks)} items."
        )

    def do_finish(self, step: str) -> ExampleCall:
        return ExampleCall("finish", {"message": step}, "")


class Codex:
    def __init__(self, world: ExampleProject, shell_name: str = "exec_command") -> None:
        self.world = world
        self.shell_name = shell_name

    def do_shell(self, step: Json) -> ExampleCall:
        output, code, root = step.get("output", ""), step.get("exit", 0), self.world.root
        if self.shell_name == "shell_command":
            shown = f"Exit code: {code}\nWall time: 0 seconds\nOutput:\n{output}"
            return ExampleCall("shell_command", {"command": step["command"], "workdir": root}, shown)
        head = f"Chunk ID: 3f9a1c\nWall time: 0.0712 seconds\nProcess exited with code {code}\n"
        shown = f"{head}Original token count: {len(output) // 4}\nOutput:\n{output}"
        return ExampleCall("exec_command", {"cmd": step["command"], "workdir": root}, shown)

    def do_search(self, step: Json) -> ExampleCall:
        found = sorted({self.world.absolute(name) for name, _, _ in self.world.matches(**step)})
        arguments = {"pattern": step["pattern"], "path": self.world.absolute(step["path"])}
        return ExampleCall("grep_files", arguments, "\n".join(found) or "No matches found.")

    def do_list(self, step: Json) -> ExampleCall:
        place = self.world.absolute(step["path"])
        names = ["  " * name.rstrip("/").count("/") + name for name in self.world.entries(step["path"])]
        return ExampleCall("list_dir", {"dir_path": place, "depth": 3}, "\n".join([f"Absolute path: {place}", *names]))

    def do_read(self, step: Json) -> ExampleCall:
        arguments: Json = {"file_path": self.world.absolute(step["path"])}
        if span := step.get("lines"):
            arguments |= {"offset": span[0], "limit": span[1] - span[0] + 1}
        shown = self.world.lines(step["path"], step.get("lines"))
        return ExampleCall("read_file", arguments, "\n".join(f"L{number}: {line}" for number, line in shown))

    def do_edit(self, step: Json) -> ExampleCall:
        return self._patch(patch(self.world, **step), "M", step["path"])

    def do_create(self, step: Json) -> ExampleCall:
        self.world.files[step["path"]] = step["text"]
        body = [f"+{line}" for line in step["text"].splitlines()]
        text = "\n".join(["*** Begin Patch", f"*** Add File: {step['path']}", *body, "*** End Patch"])
        return self._patch(text, "A", step["path"])

    def _patch(self, text: str, letter: str, path: str) -> ExampleCall:
        shown = f"Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\n{letter} {path}"
        return ExampleCall("apply_patch", {"input": text}, shown)

    def do_plan(self, step: list[list[str]]) -> ExampleCall:
        return ExampleCall(
            "update_plan", {"plan": [{"step": title, "status": status} for title, status in step]}, "Plan updated"
        )

    def do_finish(self, step: str) -> ExampleCall:
        return ExampleCall("finish", {"message": step}, "")


class OpenCode:
    def __init__(self, world: ExampleProject) -> None:
        self.world = world

    def do_shell(self, step: Json) -> ExampleCall:
        return ExampleCall("bash", {"command": step["command"]}, step.get("output") or "(no output)")

    def do_search(self, step: Json) -> ExampleCall:
        found: dict[str, list[str]] = {}
        for name, number, line in self.world.matches(**step):
            found.setdefault(self.world.absolute(name), []).append(f"  Line {number}: {line}")
        count = sum(map(len, found.values()))
        text = "\n".join(f"{name}:\n" + "\n".join(lines) for name, lines in found.items())
        arguments = {"pattern": step["pattern"], "path": self.world.absolute(step["path"])}
        return ExampleCall("grep", arguments, f"Found {count} matches\n{text}" if count else "No files found")

    def do_find(self, step: Json) -> ExampleCall:
        suffix = step["pattern"].rsplit("*", 1)[-1]
        names = [self.world.absolute(name) for name in sorted(self.world.files) if name.endswith(suffix)]
        return ExampleCall("glob", {"pattern": step["pattern"], "path": self.world.root}, "\n".join(names))

    def do_list(self, step: Json) -> ExampleCall:
        place = self.world.absolute(step["path"])
        names = ["  " * (name.rstrip("/").count("/") + 1) + name for name in self.world.entries(step["path"])]
        return ExampleCall("list", {"path": place}, "\n".join([f"{place}/", *names]))

    def do_read(self, step: Json) -> ExampleCall:
        path, span = step["path"], step.get("lines")
        arguments: Json = {"filePath": self.world.absolute(path)}
        if span:
            arguments |= {"offset": span[0], "limit": span[1] - span[0] + 1}
        shown = "\n".join(f"{number}: {line}" for number, line in self.world.lines(path, span))
        total = len(self.world.files[path].splitlines())
        end = "" if span else f"\n(End of file - total {total} lines)"
        head = f"<path>{self.world.absolute(path)}</path>\n<type>file</type>\n<content>"
        return ExampleCall("read", arguments, f"{head}\n{shown}{end}\n</content>")

    def do_edit(self, step: Json) -> ExampleCall:
        self.world.replace(**step)
        arguments = {"filePath": self.world.absolute(step["path"]), "oldString": step["old"], "newString": step["new"]}
        return ExampleCall("edit", arguments, "Edit applied successfully.")

    def do_create(self, step: Json) -> ExampleCall:
        self.world.files[step["path"]] = step["text"]
        arguments = {"filePath": self.world.absolute(step["path"]), "content": step["text"]}
        return ExampleCall("write", arguments, "Wrote file successfully.")

    def do_plan(self, step: list[list[str]]) -> ExampleCall:
        todos = [{"content": title, "status": status, "priority": "high"} for title, status in step]
        return ExampleCall("todowrite", {"todos": todos}, json.dumps(todos, indent=2))

    def do_finish(self, step: str) -> ExampleCall:
        return ExampleCall("finish", {"message": step}, "")


def function_tool(tool: Json, rename: Callable[[str], str]) -> Json:
    parameters = {
        "type": "object",
        "properties": tool["properties"],
        "required": tool["required"],
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "name": rename(tool["name"]),
        "description": tool["description"],
        "parameters": parameters,
        "strict": False,
    }


def renamer(project: Json) -> Callable[[str], str]:
    names: dict[str, str] = project.get("names", {})

    def rename(name: str) -> str:
        name = names.get(name, name)
        return "".join(word.capitalize() for word in name.split("_")) if project.get("camel_case") else name

    return rename


class ExampleTrajectory:
    """One project's steps, rendered for its family; `rows` yields a row per step."""

    def __init__(self, project: Json, families: Json) -> None:
        self.project = project
        self.family: str = project["family"]
        world = ExampleProject(project["root"], project["files"])
        shell_name = project.get("shell", "exec_command")
        harnesses: dict[str, Any] = {"openhands": OpenHands(world), "opencode": OpenCode(world)}
        self.harness = harnesses.get(self.family) or Codex(world, shell_name)
        self.rename = renamer(project)
        other_shells = {"exec_command", "shell_command"} - {shell_name}
        tools = [tool for tool in families[self.family]["tools"] if tool["name"] not in other_shells]
        self.tools = [function_tool(tool, self.rename) for tool in tools]
        self.history: list[Json] = [
            {"type": "message", "role": "system", "content": families[self.family]["system"].strip()},
            {"type": "message", "role": "user", "content": self._task()},
        ]
        self.count = 0

    def _task(self) -> str:
        return f"The repository is in {self.project['root']}.\n\n{self.project['issue'].strip()}"

    def rows(self) -> Iterator[Json]:
        for index, step in enumerate(self.project["steps"]):
            before = list(self.history)
            kind, value = next((key, value) for key, value in step.items() if key not in ("say", "reasoning"))
            if "reasoning" in step:
                self._reason(step["reasoning"])
                before = list(self.history)
            expected = self._message(value) if kind == "message" else self._calls(kind, value, step.get("say"))
            yield self._row(index, KINDS.get(kind, kind), before, expected)

    def _reason(self, text: str) -> None:
        summary = [{"type": "summary_text", "text": text}]
        self.history.append({"type": "reasoning", "id": f"rs_{len(self.history)}", "summary": summary})

    def _message(self, text: str) -> Json:
        self.history.append({"type": "message", "role": "assistant", "content": text.strip()})
        return {"type": "message", "content": text.strip()}

    def _calls(self, kind: str, value: Any, say: str | None) -> Json:
        steps = [next(iter(one.items())) for one in value] if kind == "batch" else [(kind, value)]
        made: list[ExampleCall] = [getattr(self.harness, f"do_{name}")(argument) for name, argument in steps]
        if say:
            self.history.append({"type": "message", "role": "assistant", "content": say})
        items = []
        for call in made:
            self.count += 1
            items.append(call_item(self.rename(call.name), call.arguments, f"call_{self.count:03}"))
        self.history += items
        for item, call in zip(items, made, strict=True):
            self.history.append({"type": "function_call_output", "call_id": item["call_id"], "output": call.output})
        calls = [{key: item[key] for key in ("type", "name", "arguments")} for item in items]
        return {"type": "function_call_batch", "calls": calls} if kind == "batch" else calls[0]

    def _row(self, index: int, kind: str, history: list[Json], expected: Json) -> Json:
        params: Json = {"input": history, "tools": self.tools, "parallel_tool_calls": True}
        if self.project.get("nulls"):
            params |= {"tool_choice": "auto", **dict.fromkeys(NULL_KEYS)}
        return row(f"{self.project['name']}/{index}", params, expected, self.family, kind)


def call_item(name: str, arguments: Json, call_id: str) -> Json:
    text = json.dumps(arguments, ensure_ascii=False)
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": text}


def row(key: str, params: Json, expected: Json, family: str, kind: str, place: str = "") -> Json:
    """`place`: under which key the expected action stands; by default it follows from the row's key."""
    stable = uuid.uuid5(uuid.NAMESPACE_URL, f"paddock:pivot/{key}")
    metadata: Json = {"family": family, "kind": kind}
    place = place or ("expected_answer" if stable.int % 8 == 0 else "expected_action")
    action: Json = {"expected_action": expected}
    if place == "expected_answer":
        action = {"expected_answer": json.dumps(expected, ensure_ascii=False)}
    elif place == "metadata":
        action, metadata = {}, {**metadata, "expected_action": expected}
    return {"uuid": str(stable), "responses_create_params": params, **action, "metadata": metadata}


def chat_rows(chats: list[Json]) -> Iterator[Json]:
    for chat in chats:
        tools = [function_tool(tool, str) for tool in chat["tools"]]
        history: list[Json] = [{"type": "message", "role": "system", "content": chat["system"].strip()}]
        for index, turn in enumerate(chat["turns"]):
            if "user" in turn:
                history.append({"type": "message", "role": "user", "content": turn["user"].strip()})
                continue
            made = [call_item(name, args, f"call_{index}_{n}") for n, (name, args) in enumerate(turn.get("calls", []))]
            calls = [{key: item[key] for key in ("type", "name", "arguments")} for item in made]
            message = {"type": "message", "content": turn.get("message", "").strip()}
            expected = (
                message
                if not calls
                else calls[0]
                if len(calls) == 1
                else {"type": "function_call_batch", "calls": calls}
            )
            params = {
                "input": list(history),
                "tools": tools,
                "parallel_tool_calls": chat["parallel"],
                "tool_choice": "auto",
            }
            kind = "message" if not calls else "call" if len(calls) == 1 else "batch"
            yield row(f"{chat['name']}/{index}", params, expected, "chat", kind, turn.get("place", ""))
            history += made if calls else [{**message, "role": "assistant"}]
            for item, output in zip(made, turn.get("outputs", []), strict=bool(turn.get("outputs"))):
                text = json.dumps(output, ensure_ascii=False)
                history.append({"type": "function_call_output", "call_id": item["call_id"], "output": text})


def all_rows() -> Iterator[Json]:
    families = yaml.safe_load((HERE / "tools.yaml").read_text())
    for path in sorted(HERE.glob("project_*.yaml")):
        yield from ExampleTrajectory(yaml.safe_load(path.read_text()), families).rows()
    yield from chat_rows(yaml.safe_load((HERE / "chat.yaml").read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the pivot server's example rows.")
    parser.add_argument("--stdout", action="store_true", help="print the rows instead of writing the file")
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in all_rows())
    if parser.parse_args().stdout:
        sys.stdout.write(text)
    else:
        TARGET.write_text(text, encoding="utf-8")
        print(f"{TARGET}: {text.count(chr(10))} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
