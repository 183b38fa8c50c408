"""`python -m paddock.server.vllm.ray_server ...`: vLLM's API server, whose ranks are where `ray_executor` has them.

Source  vLLM 0.32, `entrypoints/launchers/api_server/entry.py`, with its arguments. The executor is none of them: where
        it is named by its path, vLLM refuses stages.
"""

import uvloop
from vllm.entrypoints.launchers.api_server.entry import run_server
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
from vllm.logger import configure_logging_from_args
from vllm.utils.argparse_utils import FlexibleArgumentParser

from paddock.server.vllm.ray_executor import PlacedRayExecutor


def main() -> None:
    """Serve until a signal comes."""
    cli_env_setup()
    args = make_arg_parser(FlexibleArgumentParser()).parse_args()
    configure_logging_from_args(args)
    validate_parsed_serve_args(args)
    args.distributed_executor_backend = PlacedRayExecutor
    uvloop.run(run_server(args))


if __name__ == "__main__":
    main()
