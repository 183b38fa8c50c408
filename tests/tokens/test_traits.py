"""PromptTraits of templates are found by what they write."""

import pytest

from paddock.testing.templates import TEMPLATES
from paddock.testing.vocabularies import small_vocabulary
from paddock.tokens import ChatTemplate, Prompter, PromptTraits

BOTH = ("after_user", "after_tool")
SPELLED = ("compact", "escaped")
PLAIN = PromptTraits(reformats_arguments=SPELLED)
EXPECTED = {
    "chatml": PLAIN,
    "plain_marks": PromptTraits(reformats_arguments=SPELLED, strips_reasoning=BOTH),
    "headers": PromptTraits(reformats_arguments=SPELLED, strips_reasoning=BOTH, adds_bos="at_start"),
    "instruct": PromptTraits(reformats_arguments=SPELLED, strips_reasoning=BOTH, adds_bos="at_start"),
    "stripped_reasoning": PromptTraits(
        reformats_arguments=SPELLED, strips_reasoning=("after_user",), rewrites_past=("user_after_reasoning",)
    ),
    "no_reasoning": PromptTraits(reformats_arguments=SPELLED, strips_reasoning=BOTH),
    "sorted_arguments": PromptTraits(reformats_arguments=("spaced", *SPELLED), reorders_arguments=True),
    "compact_arguments": PromptTraits(reformats_arguments=("spaced", "escaped")),
    "trimmed": PromptTraits(reformats_arguments=SPELLED, trims_text=("assistant", "user", "tool")),
    "merged_results": PromptTraits(
        reformats_arguments=SPELLED, merges_tool_results=True, rewrites_past=("second_result",)
    ),
    "dated": PromptTraits(reformats_arguments=SPELLED, uses_date=True),
    "bos_again": PromptTraits(reformats_arguments=SPELLED, adds_bos="every_turn"),
}


def traits(source: str, name: str = "chatml") -> PromptTraits:
    vocabulary = small_vocabulary(TEMPLATES[name].marks)
    return Prompter(ChatTemplate(source, vocabulary.special_texts), vocabulary).traits


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_a_template_does_to_the_past_is_found(name: str) -> None:
    assert traits(TEMPLATES[name].source, name) == EXPECTED[name]


LAST_USER = (
    "{%- if tools and m.role == 'user' and "
    "messages[loop.index0 + 1:] | selectattr('role', 'equalto', 'user') | list | length == 0 %}"
)


def changed(old: str, new: str) -> str:
    source = TEMPLATES["chatml"].source
    assert old in source
    return source.replace(old, new)


def test_reasoning_may_go_after_results_alone() -> None:
    source = changed("{%- if m.reasoning %}", "{%- if m.reasoning and not m.tool_calls %}")
    assert traits(source).strips_reasoning == ("after_tool",)


def test_an_answer_that_is_last_may_be_written_otherwise() -> None:
    source = changed("{{- m.content }}", "{{- 'So: ' if loop.last }}{{- m.content }}")
    assert "user_after_answer" in traits(source).rewrites_past


def test_tools_that_stand_before_the_last_user_rewrite_the_past() -> None:
    said = "{%- if not (loop.first and m.role == 'system') %}"
    source = changed(said, LAST_USER + "{{- tools | tojson }}{%- endif %}" + said)
    assert {"user_after_tools", "user_with_tools"} == set(traits(source).rewrites_past)


def test_results_in_one_block_are_merged_even_where_nothing_is_rewritten() -> None:
    result = "{{- '<|im_start|>tool\\n' ~ m.content ~ '<|im_end|>\\n' }}"
    source = changed(
        result,
        "{{- '<|im_start|>tool\\n' if messages[loop.index0 - 1].role != 'tool' }}{{- m.content ~ '\\n' }}",
    )
    found = traits(source)
    assert found.merges_tool_results
    assert not found.rewrites_past


def test_a_date_beside_tools_alone_is_found() -> None:
    assert traits("{{- strftime_now('%c') if tools }}" + TEMPLATES["chatml"].source).uses_date


def test_traits_are_those_of_the_arguments_that_all_requests_have() -> None:
    vocabulary = small_vocabulary()
    source = changed("{%- if m.reasoning %}", "{%- if m.reasoning and keep %}")
    template = ChatTemplate(source, vocabulary.special_texts)
    assert Prompter(template, vocabulary).traits.strips_reasoning == BOTH
    assert Prompter(template, vocabulary, arguments={"keep": True}).traits.strips_reasoning == ()


def test_traits_are_told_in_words() -> None:
    assert PromptTraits().describe() == []
    everything = PromptTraits(
        strips_reasoning=BOTH,
        reorders_arguments=True,
        reformats_arguments=("spaced",),
        trims_text=("assistant", "tool"),
        merges_tool_results=True,
        rewrites_past=("second_result",),
        uses_date=True,
        adds_bos="every_turn",
    )
    assert everything.describe() == [
        "drops reasoning after user, after tool",
        "re-orders the arguments of calls",
        "re-spells spaced arguments of calls",
        "trims text of assistant, tool",
        "merges tool results",
        "rewrites the past: second result",
        "uses the date",
        "writes BOS every turn",
    ]
