"""Claims about the tables of options: their form, what is read from help texts, what programs say."""

import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "src" / "paddock" / "shell" / "option_tables"
TABLES = sorted(FOLDER.glob("*.options.toml"))
DECISION_KEYS = {"looks", "twins", "exclusive", "ordered", "aliases", "ends", "attached", "mixes", "number", "paths"}


def load() -> ModuleType:
    spec = spec_from_file_location("option_tables", ROOT / "scripts" / "option_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = load()
HELPS: list[tuple[str, list[str], dict[str, str]]] = [
    # GNU's long options, with values that are attached or may be left out.
    (
        "gnu",
        [
            "Usage: prog [OPTION]...",
            "  -a, --all        show all",
            "  -n, --lines=[-]NUM  print NUM lines",
            "      --color[=WHEN]  colour it",
            "  -i[SUFFIX], --in-place[=SUFFIX]",
            "                 edit in place",
        ],
        {"-a --all": "switches", "-n --lines": "values", "--color": "optional", "-i --in-place": "optional"},
    ),
    # Names by themselves, a value that is a word, two shorts that are no twins, several longs that are.
    (
        "gnu",
        [
            "  -b, -m     ignored",
            "  -C DIRECTORY, --directory=DIRECTORY",
            "        go there",
            "  -j [N], --jobs[=N]  jobs",
            "  -L level   depth",
            "  --filelimit # Do not descend",
            "  -n, --just-print, --dry-run, --recon",
        ],
        {
            "-b": "switches",
            "-m": "switches",
            "-C --directory": "values",
            "-j --jobs": "optional",
            "-L": "values",
            "--filelimit": "values",
            "-n --just-print --dry-run --recon": "switches",
        },
    ),
    # Angle brackets, a repeated option, and prose in which options are named.
    (
        "gnu",
        [
            "    -A, --after-context <NUM>",
            "        -B and -C are like it. This can be disabled with --no-context.",
            "    -u, --unrestricted...",
            "  -p, --package [<SPEC>]  one",
        ],
        {
            "-A --after-context": "values",
            "--no-context": "switches",
            "-u --unrestricted": "switches",
            "-p --package": "values",
        },
    ),
    # Python's.
    (
        "gnu",
        ["-c cmd : program passed in as string", "-B     : write no files", "-W arg : warnings"],
        {"-c": "values", "-B": "switches", "-W": "values"},
    ),
    # gawk's.
    (
        "gnu",
        ["\t-f progfile\t\t--file=progfile", "\t-M\t\t\t--bignum"],
        {"-f --file": "values", "-M --bignum": "switches"},
    ),
    # wget's.
    (
        "gnu",
        ["  -q,  --quiet        quiet", "  -O,  --output-document=FILE  there"],
        {"-q --quiet": "switches", "-O --output-document": "values"},
    ),
    # jq's manual.
    (
        "gnu",
        ["       ○   --raw-output / -r:", "       ○   --arg name value:"],
        {"-r --raw-output": "switches", "--arg": "pairs"},
    ),
    # git's manual puts what belongs together on one line, whether it means the same or not.
    (
        "git",
        [
            "SYNOPSIS",
            "       git x [--cached]",
            "",
            "DESCRIPTION",
            "       -p, -u, --patch",
            "       -U<n>, --unified=<n>",
            "       --author=<a>, --committer=<a>",
            "       --[no-]renames",
            "       -<number>, -n <number>, --max-count=<number>",
        ],
        {
            "-p -u --patch": "switches",
            "-U --unified": "values",
            "--author": "values",
            "--committer": "values",
            "--renames": "switches",
            "--no-renames": "switches",
            "-n --max-count": "values",
            "--cached": "switches",
        },
    ),
    # Go's.
    ("go", ["\t-race", "\t\tfind races", "\t-run regexp", "\t    only those"], {"-race": "switches", "-run": "values"}),
    # npm's.
    (
        "npm",
        [
            "Usage:",
            "npm x",
            "",
            "Options:",
            "[-S|--save|--no-save] [--omit <dev|optional>]",
            "",
            "  -S|--save",
            "    Save.",
            "",
            "  --omit",
        ],
        {"-S --save": "switches", "--no-save": "switches", "--omit": "values"},
    ),
    # jest's.
    (
        "yargs",
        ["  -b, --bail   Stop early.   [boolean]", "      --cacheDirectory  Where the cache", "      is.   [string]"],
        {"-b --bail": "switches", "--cacheDirectory": "values"},
    ),
]


@pytest.mark.parametrize(("style", "lines", "options"), HELPS)
def test_options_are_read_from_help_texts(style: str, lines: list[str], options: dict[str, str]) -> None:
    assert {" ".join(spec.names): spec.takes for spec in SCRIPT.specs_of("\n".join(lines), style)} == options


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_a_table_says_where_it_is_from_and_has_each_name_once(path: Path) -> None:
    table = tomllib.loads(path.read_text())
    assert table.pop("program") == path.name.removesuffix(".options.toml")
    assert table.pop("version")
    assert table
    for command, section in table.items():
        assert section.pop("source"), command
        assert set(section) <= set(SCRIPT.KINDS)
        names = [name for options in section.values() for option in options for name in option.split()]
        assert len(names) == len(set(names)), command
        assert all(name.startswith("-") and len(name) > 1 for name in names)


def test_a_decision_is_about_options_that_a_table_has() -> None:
    tables = {key: value for path in TABLES for key, value in tomllib.loads(path.read_text()).items()}
    for command, section in tomllib.loads((FOLDER / "decisions.toml").read_text()).items():
        assert set(section) <= DECISION_KEYS, command
        known = {name for kind in SCRIPT.KINDS for text in tables[command].get(kind, ()) for name in text.split()}
        known |= {name for text in section.get("twins", ()) for name in text.split()}
        named = [name for key in ("looks", "ordered", "ends") for name in section.get(key, ())]
        named += [name for text in section.get("exclusive", ()) for name in text.split()]
        assert set(named) <= known, (command, sorted(set(named) - known))


@pytest.mark.long
def test_programs_of_the_same_version_say_what_the_tables_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert SCRIPT.main("--check") == 0, capsys.readouterr().out
