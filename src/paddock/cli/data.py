"""`paddock data`: rows for training: fetched, filled, split, checked, converted, and what their sandboxes need.

Law     files are there whole or not at all; a row that can't be used is named with its file and line, never dropped
        in silence; a row, or a small batch of rows, is in memory at a time.
Exit    0 done; 1 some rows or files were left out or are wrong, each named; 2 a mistake in the command, or data that
        can't be read; 130 interrupted: the same command does it again, a download goes on where it was.
"""

import argparse
from pathlib import Path

SUBCOMMANDS = True

EXITS = """
exit codes:
  0    done{partly}
  2    a mistake in the command, or a file that can't be read
  130  interrupted; {again}"""
AGAIN = "the same command does it again"
DOWNLOAD = """examples:
  paddock data download super --out data_with_placeholders
  paddock data download super --file swe1.jsonl --file swe2.jsonl --out blends
  paddock data download dapo --out sources/dapo
  paddock data download owner/name --file 'data/*.parquet' --revision v1.0 --out mine

Short names: {names}.
The commit is written to paddock_download.json in the folder; the same command again goes on with it. For what a branch
is by now, name another folder. HF_ENDPOINT says where the hub is, HF_TOKEN who asks."""
FILL = """examples:
  paddock data fill data_with_placeholders --out data_filled --source dapo=sources/dapo --source skywork=sources/skywork
  paddock data fill rlvr1.jsonl --out data_filled --source dapo=dapo-math-17k.parquet"""
SPLIT = """examples:
  paddock data split data_filled --out data          (data/NAME/train-split.jsonl and val-split.jsonl for each)
  paddock data split swe1.jsonl --last 500 --out data"""
CHECK = """examples:
  paddock data check data/swe1/train-split.jsonl data/swe2/train-split.jsonl
  paddock data check rows.jsonl --server pivot
  paddock data check rows.jsonl --config mine.yaml --config agent_map.their_agent=my_agent

Without --config and --server the agents that published rows name are known; of other rows the form is checked."""
CONVERT = """examples:
  paddock data convert sources/swe_gym --form swe_gym --out swe_gym.jsonl
  paddock data convert test-00000-of-00001.parquet --form swe_bench --dataset SWE-bench/SWE-bench_Verified \\
      --agent swe_agents_val --out verified.jsonl"""
INSTANCES = """examples:
  paddock data instances swe2.jsonl --out instance_ids.txt"""
IMAGES = """examples:
  paddock data images swe2.jsonl --out docker_images.txt
  paddock data images swe2.jsonl --files             (name, tab, the .sif file that NeMo-RL looks for)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_download(actions.add_parser("download", help="fetch published files, resumable, one commit"))
    _add_fill(actions.add_parser("fill", help="fill placeholder rows from the data sets that they point at"))
    _add_split(actions.add_parser("split", help="hold out the last rows for validation"))
    _add_check(actions.add_parser("check", help="what the servers that will read rows refuse, by line"))
    _add_convert(actions.add_parser("convert", help="make rows of SWE-bench, SWE-Gym and R2E-Gym instances"))
    _add_lists(actions)


def run(args: argparse.Namespace) -> int:
    from paddock.cli import data_jobs

    return data_jobs.JOBS[args.action](args)


def _add_download(parser: argparse.ArgumentParser) -> None:
    from paddock.training.data.blends import PUBLISHED

    names = ", ".join(f"{name} ({data_set.repo})" for name, data_set in PUBLISHED.items())
    partly = "the hub can't be reached, or sends other bytes than it lists"
    _help(parser, DOWNLOAD.format(names=names), partly, again="the same command goes on")
    parser.add_argument("name", metavar="NAME", help="a short name, see below, or OWNER/NAME of a data set")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the files")
    parser.add_argument(
        "--file", action="append", default=[], metavar="PATTERN", help="which files (default: those of the short name)"
    )
    parser.add_argument(
        "--revision", metavar="REV", help="branch, tag or commit (default: the folder's commit, else main)"
    )


def _add_fill(parser: argparse.ArgumentParser) -> None:
    _help(parser, FILL, "some rows could not be filled: each is named and left out")
    _add_rows(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the filled files")
    parser.add_argument(
        "--source", action="append", default=[], metavar="NAME=PLACE", help="dapo or skywork: its file or folder"
    )


def _add_split(parser: argparse.ArgumentParser) -> None:
    _help(parser, SPLIT)
    _add_rows(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="has a folder for each file")
    parser.add_argument("--last", type=int, default=100, metavar="N", help="rows for validation (default: 100)")


def _add_check(parser: argparse.ArgumentParser) -> None:
    _help(parser, CHECK, "some rows are wrong: each is named")
    _add_rows(parser)
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--server", metavar="NAME", help="the resources server of all rows, or module:Class")
    who.add_argument(
        "--config", action="append", default=[], metavar="FILE|KEY=VALUE", help="whose agents run the rows; repeatable"
    )
    parser.add_argument("--agent", metavar="NAME", help="with --config: agent for rows that name none")


def _add_convert(parser: argparse.ArgumentParser) -> None:
    from paddock.training.data.instance_forms import FORMS

    _help(parser, CONVERT, "some instances can't be rows: each is named and left out")
    parser.add_argument(
        "rows", nargs="+", type=Path, metavar="TABLE", help="Parquet or JSONL files, or folders of them"
    )
    parser.add_argument("--form", required=True, choices=list(FORMS), help="what they are")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="file of the rows")
    parser.add_argument(
        "--dataset", metavar="NAME", help="published name, which chooses the grader (default: the form's)"
    )
    parser.add_argument("--split", metavar="NAME", help="which split they are (default: the form's)")
    parser.add_argument("--agent", default="swe_agents_train", metavar="NAME", help="default: swe_agents_train")


def _add_lists(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    instances = actions.add_parser("instances", help="the ids of rows' instances, each once")
    _help(instances, INSTANCES, "some rows have none: each is named")
    images = actions.add_parser("images", help="the images of rows' sandboxes, each once")
    _help(images, IMAGES, "some rows name none: each is named")
    for parser in (instances, images):
        _add_rows(parser)
        parser.add_argument("--out", type=Path, metavar="FILE", help="file of the list (default: stdout)")
    images.add_argument("--dataset", metavar="NAME", help="whose rule names them (default: as rows say)")
    images.add_argument("--files", action="store_true", help="also the name of each image's file")


def _add_rows(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rows", nargs="+", type=Path, metavar="ROWS", help="JSONL files, or folders of them")


def _help(parser: argparse.ArgumentParser, examples: str, partly: str = "", *, again: str = AGAIN) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = examples + "\n" + EXITS.format(partly=partly and f"\n  1    {partly}", again=again)
