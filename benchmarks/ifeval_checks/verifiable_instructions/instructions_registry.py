"""The checks of IFEval's authors, as lm-eval has them."""

import importlib

INSTRUCTION_DICT = importlib.import_module("lm_eval.tasks.ifeval.instructions_registry").INSTRUCTION_DICT
