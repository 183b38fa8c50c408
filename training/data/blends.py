"""Published data sets by short names: their repositories and files.

Source  the guides of Nemotron 3 Super and of NeMo-RL; the cards of the data sets on the hub. The blends stand under two
        names there; the second is for who finds the first gone.
Law     there are only names here, no data. `markers` are the values of `dataset` in placeholder rows of a blend that
        point at this source.
"""

from typing import NamedTuple


class PublishedData(NamedTuple):
    """One repository of data on the hub."""

    repo: str
    patterns: tuple[str, ...]
    """Patterns of the files, as `fnmatch` reads them; `*` also matches slashes."""
    split: str = ""
    """How the names of the split's files begin, where a folder has several."""
    markers: tuple[str, ...] = ()
    also: str = ""
    """Another name of the same repository."""


PUBLISHED = {
    "super": PublishedData(
        "nvidia/Nemotron-RL-Super-Training-Blends",
        ("rlvr1.jsonl", "rlvr2.jsonl", "rlvr3.jsonl", "swe1.jsonl", "swe2.jsonl", "rlhf.jsonl"),
        also="nvidia/Nemotron-3-Super-RL-Training-Blends",
    ),
    "swe_pivot": PublishedData("nvidia/Nemotron-RL-Agentic-SWE-Pivot-v1", ("*.jsonl",)),
    "dapo": PublishedData(
        "BytedTsinghua-SIA/DAPO-Math-17k", ("*.parquet",), split="train", markers=("super_v3_lcsft_step1000_dapo17k",)
    ),
    "skywork": PublishedData(
        "Skywork/Skywork-OR1-RL-Data",
        ("*math-*.parquet",),
        split="math",
        markers=("super_v3_lcsft_step1000_skyworks",),
    ),
    "swe_bench": PublishedData("SWE-bench/SWE-bench", ("*test-*.parquet",), split="test"),
    "swe_bench_verified": PublishedData("SWE-bench/SWE-bench_Verified", ("*test-*.parquet",), split="test"),
    "swe_gym": PublishedData("SWE-Gym/SWE-Gym", ("*train-*.parquet",), split="train"),
    "r2e_gym": PublishedData("R2E-Gym/R2E-Gym-Subset", ("*train-*.parquet",), split="train"),
}

SOURCES = {marker: name for name, data in PUBLISHED.items() for marker in data.markers}
"""The short name of a source, by its marker."""

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
"""The resources server that reads the rows of an agent, by the agent's name in published rows."""
