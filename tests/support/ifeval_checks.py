"""What published checks of instructions say of answers: `ifeval_checks.py PACKAGE`, with its requirements.

PACKAGE `lm_eval.tasks.ifeval`, or `verifiable_instructions`, which has IFTrain's kinds too.

Standard input, JSON: a list of `[kind, kwargs, text]`; standard output: a list of booleans, null where a check raised.
Without NLTK's `punkt` sentences are counted by the published regular expressions (`split_into_sentences`), and words
are taken from the whole text instead of from each sentence.
"""

import contextlib
import importlib
import json
import sys
from typing import Any


def main() -> None:
    package, given = sys.argv[1], json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        nltk = importlib.import_module("nltk")
        nltk.__dict__["download"] = lambda *_, **__: False
        registry = importlib.import_module(f"{package}.instructions_registry")
        util = importlib.import_module(f"{package}.instructions_util")
        importlib.import_module("langdetect").DetectorFactory.seed = 0
        try:
            nltk.data.find("tokenizers/punkt_tab")
        except LookupError:
            words = nltk.word_tokenize
            util.__dict__["count_sentences"] = lambda text: len(util.split_into_sentences(text))
            util.nltk.word_tokenize = lambda text: words(text, preserve_line=True)
        verdicts = [follows(registry, *case) for case in given]
    json.dump(verdicts, sys.stdout)


def follows(registry: Any, kind: str, kwargs: dict[str, Any], text: str) -> bool | None:
    instruction = registry.INSTRUCTION_DICT[kind](kind)
    instruction.build_description(**kwargs)
    try:
        return bool(instruction.check_following(text))
    except Exception as error:
        sys.stderr.write(f"{kind}: {type(error).__name__}: {error}\n")
        return None


if __name__ == "__main__":
    main()
