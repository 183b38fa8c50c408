"""`python -m paddock.training.slime ROWS OUT`: slime's data file of a row file.

Output  a line per row: `prompt` for slime's log, and the row in `metadata`. slime reads it with `--prompt-data OUT
        --input-key prompt --metadata-key metadata`.
Exit    0 written; 2 a row that can't be read: then nothing is.
"""

import sys
from pathlib import Path

import orjson

from paddock.collect.new_file import new_file
from paddock.collect.rows import RowSource, lines
from paddock.collect.settings import Selection
from paddock.errors import PaddockError, RowError

USAGE = "usage: python -m paddock.training.slime ROWS OUT"


def main(words: list[str]) -> int:
    if len(words) != 2:
        print(USAGE, file=sys.stderr)  # noqa: T201 - a command
        return 2
    source, target = map(Path, words)
    try:
        with new_file(target, make_folder=False) as file:
            for line in lines([RowSource(source)], Selection()):
                try:
                    row = orjson.loads(line.text)
                except orjson.JSONDecodeError as error:
                    raise RowError(f"{line.where}: no JSON: {error}", kind="row_unreadable") from error
                wire = {"prompt": f"{source.stem}:{line.number}", "metadata": {"row": row}}
                file.write(orjson.dumps(wire, option=orjson.OPT_APPEND_NEWLINE))
    except PaddockError as error:
        print(f"{USAGE}\n{error.message}", file=sys.stderr)  # noqa: T201 - a command
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
