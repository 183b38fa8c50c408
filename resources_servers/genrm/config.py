"""Config of a GenRM server; the names that NeMo-Gym's block has too mean the same.

Units   seconds, characters; scores 1 to 5, rankings 1 to 6.
Source  NeMo-Gym's `genrm_compare`; the step rewards of OpenClaw-RL's swe-rl.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from paddock.server import Reference, ServerConfig
from paddock.types import JsonObject

ComparisonStrategy = Literal["circular", "all_pairs", "uncertain"]
AggregatorMethod = Literal["simple_tiebreaker", "bradley_terry"]
IncompleteGroup = Literal["wait", "score_partial", "mask"]
MAX_GROUP_SIZE = 4096
"""Members of a group: what is done for each of them takes milliseconds of the server's time."""
MAX_PAIRED_GROUP_SIZE = 256
"""Where the work grows with the square or the cube of the members (`all_pairs`, `bradley_terry`): half a second."""
MAX_UNCERTAIN_GROUP_SIZE = 128
"""Where each of several rounds of pairs is found by such work (`uncertain`): less than a second in all."""
DEFAULT_PRINCIPLE = (
    "Judge as an impartial reader. Think first of how you would answer yourself, and hold both responses against "
    "that. Look for mistakes, and count those most that mislead whoever asked. A response is good when it does what "
    "was asked, is right, keeps to the matter and is no longer than it has to be. Between two that are equally right "
    "and useful, prefer the one with the better ideas; then the one that leaves out less of what matters. Neither the "
    "order of the responses nor their length or names may move you."
)


class RewardSettings(BaseModel):
    """From comparisons to rewards; a mix-in of the server's config."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    aggregator_method: AggregatorMethod = "simple_tiebreaker"
    """`simple_tiebreaker`: the mean of the scores that a member got, where equal scores are moved apart by the ranking;
    `bradley_terry`: its strength by maximum likelihood, as a score between 1 and 5."""
    reasoning_bonus: float = Field(default=0.0, allow_inf_nan=False)
    """Added to the score of the member with the shortest reasoning that is not empty, when it is among the best; 0:
    none."""
    answer_bonus: float = Field(default=0.0, allow_inf_nan=False)
    """The same for the shortest answer that is not empty; 0: none."""
    top_percentile: float = Field(default=0.2, ge=0, le=1)
    """Share of the group that counts as the best, at least one member."""
    group_reasoning_length_penalty_coeff: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the group's centred reasoning length; shorter is better."""
    group_answer_length_penalty_coeff: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the group's centred answer length."""
    group_style_penalty_coeff: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the group's centred density of formatting; less is better."""
    default_score: float = Field(default=3.0, ge=1, le=5)
    """Score, 1 to 5, where a judge's answer leaves one out; the reward of a group of one."""
    default_ranking: float = Field(default=3.5, ge=1, le=6)
    """Of a ranking that a judge's answer leaves out. Equal scores are moved by 3.5 - ranking, whatever this is."""


class StepScoreSettings(BaseModel):
    """Votes on single steps (`/score_step`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    votes: int = Field(default=3, ge=1)
    """Votes that a step gets."""
    max_concurrency: int = Field(default=32, ge=1)
    """Votes that are asked for at once, over all rollouts."""
    vote_timeout_s: float = Field(default=120.0, gt=0)
    """Seconds for one vote, its retries included; then it is missing."""
    responses_create_params: JsonObject = {"temperature": 1.0, "max_output_tokens": 4096}
    """Parameters of each vote's request, besides `input`; each vote has a seed of its own."""
    max_problem_chars: int = Field(default=8000, ge=1)
    """Characters of the issue that a judge is shown; the rest is cut, with a mark."""
    max_history_steps: int = Field(default=8, ge=0)
    """Steps before the judged one that a judge is shown."""
    max_history_step_chars: int = Field(default=1000, ge=1)
    """Characters that a judge is shown of each step before the judged one."""
    max_step_chars: int = Field(default=4000, ge=1)
    """Characters that a judge is shown of the step that it judges."""


class GenrmConfig(RewardSettings, ServerConfig):
    """The judge, which pairs it sees, how long a group waits, and what comes of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    genrm_model_server: Reference | list[Reference]
    """The judge: a model server that puts the two responses of a comparison to its model, such as
    `models_servers/genrm` (`prompt_form: plain` for any chat model). Several take turns from pair to pair, and within
    a pair where `num_judges_per_comparison` asks more than once; both orders of a pair go to the same one."""
    judges_read_metadata: bool = False
    """False: a judge is refused whose model server is not known to put both responses to its model. True: they are
    put to it where a model server here only passes requests on, with their `metadata` (`openai` with `upstream_api:
    responses` in front of a GenRM server elsewhere)."""
    genrm_responses_create_params: JsonObject = {"max_output_tokens": 16384, "temperature": 0.6, "top_p": 0.95}
    """Parameters of each comparison's request, besides `input` and `metadata`; an `input` here stands before the
    conversation."""
    num_rollouts_per_prompt: int = Field(default=16, ge=1)
    """Members of a group whose rows do not say how many it has (`_paddock_group_size`). At most 4096; 256 with
    `all_pairs` or `bradley_terry`, 128 with `uncertain`. The same bounds hold for the rows' own number."""
    comparison_strategy: ComparisonStrategy = "circular"
    """`circular`: each member with the next; `all_pairs`; `uncertain`: circular, then up to `comparison_budget` pairs
    in all, each where the order is least certain."""
    comparison_budget: int | None = Field(default=None, ge=1)
    """Pairs of a group that `uncertain` may compare in all; the circular ones are compared in any case. None: three for
    each member."""
    num_judges_per_comparison: int = Field(default=1, ge=1)
    """Answers on each pair; all count alike."""
    position_swap: bool = False
    """Ask for each pair in both orders."""
    use_principle: bool = False
    """Tell the judge what to go by: the row's `principle`, else `default_principle`."""
    default_principle: str = DEFAULT_PRINCIPLE
    """What the judge goes by where a row has no `principle`; read with `use_principle`."""
    genrm_parse_retries: int = Field(default=3, ge=0)
    """Further questions after an answer that can't be read; then the comparison has failed."""
    genrm_parse_retry_sleep_s: float = Field(default=0.2, ge=0)
    """Seconds before each question that follows an answer that can't be read."""
    comparison_timeout_s: float = Field(default=1800.0, gt=0)
    """Seconds for one comparison, retries included; then it has failed."""
    outage_retry_s: float = Field(default=2.0, gt=0)
    """Seconds before a judge that failed is asked again; twice as long before each further time, at most 30."""
    max_concurrency: int = Field(default=256, ge=1)
    """Comparisons that are asked for at once; further ones wait."""
    incomplete_group: IncompleteGroup = "score_partial"
    """What becomes of a group when a member comes no more, because whoever collects has given it up or because
    `group_timeout_s` are over: `score_partial`: those that are there, two or more, are compared with each other;
    `mask`: none of them gets a reward; `wait`: they wait as long as their callers do."""
    group_timeout_s: float = Field(default=1800.0, gt=0)
    """Seconds from a group's first member on in which all have to be there. Less than its rollouts may take in all
    (`rollout_timeout_s` of agents and of `eval`): their own time goes on while they wait."""
    state_dir: Path | None = None
    """Folder of the groups' state, which outlives the server; servers that share it work on the same groups. None:
    below PADDOCK_HOME, by the server's name."""
    keep_settled_s: float = Field(default=86400.0, gt=0)
    """Seconds that a settled group is remembered for repeated requests."""
    step_score: StepScoreSettings = StepScoreSettings()
    """How single steps are voted on (`/score_step`)."""

    @field_validator("genrm_model_server")
    @classmethod
    def _some_judge(cls, value: Reference | list[Reference]) -> Reference | list[Reference]:
        judges = value if isinstance(value, list) else [value]
        if not judges or any(judge.type != "models_servers" for judge in judges):
            raise ValueError("needs a model server, {type: models_servers, name: ...}, or a list of them")
        return value

    @model_validator(mode="after")
    def _budget_of_uncertain(self) -> "GenrmConfig":
        if self.comparison_budget is not None and self.comparison_strategy != "uncertain":
            raise ValueError("comparison_budget: only `comparison_strategy: uncertain` has a budget")
        return self

    @model_validator(mode="after")
    def _group_within_bounds(self) -> "GenrmConfig":
        if self.num_rollouts_per_prompt > self.max_group_size:
            raise ValueError(
                f"num_rollouts_per_prompt: {self.num_rollouts_per_prompt}; a group has 1 to {self.max_group_size} "
                f"members with `comparison_strategy: {self.comparison_strategy}` and `aggregator_method: "
                f"{self.aggregator_method}`"
            )
        return self

    @property
    def max_group_size(self) -> int:
        """Members that a group may have at most."""
        if self.comparison_strategy == "uncertain":
            return MAX_UNCERTAIN_GROUP_SIZE
        if self.comparison_strategy == "all_pairs" or self.aggregator_method == "bradley_terry":
            return MAX_PAIRED_GROUP_SIZE
        return MAX_GROUP_SIZE

    @property
    def judges(self) -> list[Reference]:
        return self.genrm_model_server if isinstance(self.genrm_model_server, list) else [self.genrm_model_server]
