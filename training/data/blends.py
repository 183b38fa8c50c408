"""Published data by short names: where it is and which files of it are meant.

Source  the guides of Nemotron 3 Super and of NeMo-RL; the cards of the data sets on the hub. The blends stand under two
        names there; the second is for who finds the first gone.
Law     only names: nothing of the data is here. `markers` are what placeholder rows of a blend say in `dataset` for the
        rows of this source.
"""

from typing import NamedTuple


class Published(NamedTuple):
    """One repository of data on the hub."""

    repo: str
    patterns: tuple[str, ...]
    """Of the files that are meant, as `fnmatch` reads them; `*` also takes in slashes."""
    split: str = ""
    """How the files of the split begin, where a folder has several."""
    markers: tuple[str, ...] = ()
    also: str = ""
    """Another name of the same."""


PUBLISHED = {
    "super": Published(
        "nvidia/Nemotron-RL-Super-Training-Blends",
        ("rlvr1.jsonl", "rlvr2.jsonl", "rlvr3.jsonl", "swe1.jsonl", "swe2.jsonl", "rlhf.jsonl"),
        also="nvidia/Nemotron-3-Super-RL-Training-Blends",
    ),
    "swe_pivot": Published("nvidia/Nemotron-RL-Agentic-SWE-Pivot-v1", ("*.jsonl",)),
    "dapo": Published(
        "BytedTsinghua-SIA/DAPO-Math-17k", ("*.parquet",), split="train", markers=("super_v3_lcsft_step1000_dapo17k",)
    ),
    "skywork": Published(
        "Skywork/Skywork-OR1-RL-Data",
        ("*math-*.parquet",),
        split="math",
        markers=("super_v3_lcsft_step1000_skyworks",),
    ),
    "swe_bench": Published("SWE-bench/SWE-bench", ("*test-*.parquet",), split="test"),
    "swe_bench_verified": Published("SWE-bench/SWE-bench_Verified", ("*test-*.parquet",), split="test"),
    "swe_gym": Published("SWE-Gym/SWE-Gym", ("*train-*.parquet",), split="train"),
    "r2e_gym": Published("R2E-Gym/R2E-Gym-Subset", ("*train-*.parquet",), split="train"),
}

SOURCES = {marker: name for name, one in PUBLISHED.items() for marker in one.markers}
"""Short name of the source by what a placeholder row says."""

AGENTS = {
    "single_step_tool_use_with_argument_comparison_swe": "pivot",
    "single_step_tool_use_with_argument_comparison_agent": "pivot",
    "swe_pivot_single_step_tool_use_with_argument_comparison_agent": "pivot",
    "swe_pivot_tool_simulation_agent": "pivot",
    "swe_agents": "swe",
    "swe_agents_train": "swe",
    "swe_agents_val": "swe",
    "genrm_simple_agent": "genrm",
    "genrm_simple_agent_reasoning_off": "genrm",
}
"""Which resources server reads the rows of an agent that published rows name."""
