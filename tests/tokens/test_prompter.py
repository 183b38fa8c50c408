"""Prompts in exact ids: continued ones are the record and the template's own text, and nothing is tokenised twice."""

from random import Random

import httpx
import pytest
from tests.sampling import few
from tests.support.conversations import TOOLS, conversation
from tests.support.real_vllm import RealVllm
from tests.support.template_replay import TemplateReplay

from paddock.errors import ConfigError, RequestError
from paddock.testing.templates import PLAIN, TEMPLATES
from paddock.testing.vocabularies import small_tokenizer, small_vocabulary
from paddock.tokens import ChatTemplate, Prompter, Vocabulary
from paddock.types import JsonObject

USER = {"role": "user", "content": "Hi."}


@pytest.mark.parametrize("part", few(range(4), [0], pytest.mark.long))
@pytest.mark.parametrize("name", few(PLAIN, ["instruct", "merged_results"]))
def test_the_record_reads_as_the_template_writes_the_whole_conversation(name: str, part: int) -> None:
    made = TEMPLATES[name]
    replayed = TemplateReplay(made.source, made.marks)
    random = Random(f"{name} {part}")
    reasoning = not replayed.prompter.traits.strips_reasoning
    for _ in range(75 if name == "chatml" else 40):
        replayed.check(conversation(random, strict=made.strict, one_call=made.one_call, reasoning=reasoning), random)


@pytest.mark.parametrize("name", sorted(set(TEMPLATES) - set(PLAIN)))
def test_whatever_a_template_does_to_the_past_the_new_text_is_its_own(name: str) -> None:
    """The ids to append say what the template ends the whole conversation with."""
    made, random = TEMPLATES[name], Random(name)
    replayed = TemplateReplay(made.source, made.marks)
    for _ in range(200):
        dialogue = conversation(random)
        history = list(dialogue.start)
        for step in dialogue.steps:
            history.append(step.answer)
            new = replayed.prompter.after([], step.follows, dialogue.tools)
            history += step.follows
            written = replayed.text(dialogue, history, prompt=True)
            assert written.endswith(replayed.vocabulary.decode(new))
            assert new[0] in replayed.vocabulary.stop_ids


def test_appended_ids_are_those_of_the_whole_text_where_marks_are_tokens() -> None:
    replayed, random = TemplateReplay(*TEMPLATES["chatml"][:2]), Random(1)
    for _ in range(200):
        dialogue = conversation(random)
        history = [*dialogue.start, dialogue.steps[0].answer]
        new = replayed.prompter.after([], dialogue.steps[0].follows, dialogue.tools)
        whole = replayed.prompter.whole([*history, *dialogue.steps[0].follows], dialogue.tools)
        assert whole[-len(new) :] == new


def test_the_work_of_a_turn_does_not_grow_with_the_history() -> None:
    replayed = TemplateReplay(*TEMPLATES["chatml"][:2])
    counter = replayed.vocabulary
    result = {"role": "tool", "tool_call_id": "a", "content": "x" * 1000}
    counts: list[int] = []
    record = replayed.prompter.whole([USER], TOOLS)
    for _ in range(50):
        before = counter.encoded_chars
        record += replayed.prompter.after(record, [result], TOOLS)
        counts.append(counter.encoded_chars - before)
    assert set(counts) == {counts[0]}
    assert counts[0] < 1100


def test_an_answer_that_was_cut_is_ended_first() -> None:
    replayed = TemplateReplay(*TEMPLATES["chatml"][:2])
    end = replayed.vocabulary.stops["<|im_end|>"]
    other_end = replayed.vocabulary.stops["<|endoftext|>"]
    ended = replayed.prompter.after([5, end], [USER])
    assert replayed.prompter.after([5], [USER]) == [end, *ended]
    assert replayed.prompter.after([], [USER]) == [end, *ended]
    assert replayed.prompter.after([other_end], [USER]) == ended


def test_nothing_new_is_a_new_answer() -> None:
    replayed = TemplateReplay(*TEMPLATES["chatml"][:2])
    assert replayed.vocabulary.decode(replayed.prompter.after([], [])) == "<|im_end|>\n<|im_start|>assistant\n"


def test_marks_in_ids_and_names_of_calls_end_no_answer() -> None:
    replayed = TemplateReplay(*TEMPLATES["chatml"][:2])
    result = {"role": "tool", "tool_call_id": "<|im_end|>", "name": "<|im_end|>x", "content": "seen"}
    new = replayed.prompter.after([], [result])
    assert replayed.vocabulary.decode(new) == ("<|im_end|>\n<|im_start|>tool\nseen<|im_end|>\n<|im_start|>assistant\n")


LOOKING_UP = """\
{%- set seen = namespace(text='') %}
{%- for m in messages %}
{%- for c in m.tool_calls or [] %}{%- set seen.text = seen.text ~ c.id ~ '=' ~ c.function.name ~ ';' %}{%- endfor %}
{%- if m.role == 'tool' %}
{%- if m.tool_call_id ~ '=' not in seen.text %}{{- raise_exception('a result of no call') }}{%- endif %}
{{- '<|im_start|>' ~ seen.text.split(m.tool_call_id ~ '=')[1].split(';')[0] ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}"""


def test_a_template_that_looks_up_the_call_of_a_result_finds_it() -> None:
    replayed = TemplateReplay(LOOKING_UP, "chatml")
    results = [{"role": "tool", "tool_call_id": call_id, "content": call_id} for call_id in "ab"]
    new = replayed.prompter.after([], results, names={"a": "look", "b": "write"})
    assert replayed.vocabulary.decode(new) == (
        "<|im_end|>\n<|im_start|>look\na<|im_end|>\n<|im_start|>write\nb<|im_end|>\n"
    )


def test_long_ids_of_calls_are_shortened_where_the_template_wants_it() -> None:
    replayed = TemplateReplay(*TEMPLATES["instruct"][:2])
    call = {"id": "call_1234567890", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "call_1234567890", "content": "seen"}
    text = replayed.vocabulary.decode(
        replayed.prompter.whole([USER, {"role": "assistant", "content": "", "tool_calls": [call]}, result])
    )
    new = replayed.vocabulary.decode(replayed.prompter.after([], [result]))
    assert text.endswith(new)
    assert "call_1234567890" not in text


def test_more_results_than_the_template_takes_calls_are_written() -> None:
    replayed = TemplateReplay(*TEMPLATES["headers"][:2])
    results = [{"role": "tool", "tool_call_id": call_id, "content": f"seen {call_id}"} for call_id in "ab"]
    text = replayed.vocabulary.decode(replayed.prompter.after([], results))
    assert text.count("ipython") == 2
    assert text.startswith("<|eom_id|>")


NEEDS_SYSTEM = "{%- if messages[0].role != 'system' %}{{- raise_exception('who am I?') }}{%- endif %}"


def test_a_template_that_wants_a_system_message_gets_one() -> None:
    source = NEEDS_SYSTEM + TEMPLATES["chatml"].source
    new = TemplateReplay(source, "chatml").prompter.after([], [USER])
    assert new == TemplateReplay(*TEMPLATES["chatml"][:2]).prompter.after([], [USER])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "a user's message"),
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}<|im_end|>", "a user's message"),
        (
            "{% for m in messages %}{{ m.content }}{{ '<|im_end|>' if m.role != 'assistant' }}{% endfor %}",
            "a user's message",
        ),
        (
            "{% for m in messages %}{{ m.content }}{{ '<|im_end|>' if not m.tool_calls }}{% endfor %}",
            "a tool's result",
        ),
        ("{{ raise_exception('never') }}", "never"),
    ],
)
def test_a_template_that_can_not_be_continued_is_refused_at_the_start(source: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        TemplateReplay(source, "chatml")
    assert caught.value.kind == "template_unsupported"


def test_chatml_with_a_vocabulary_that_ends_otherwise_is_refused() -> None:
    with pytest.raises(ConfigError, match="<\\|endoftext\\|>"):
        TemplateReplay(TEMPLATES["chatml"].source, "plain")


def test_what_the_template_refuses_is_the_requests_fault() -> None:
    replayed = TemplateReplay(*TEMPLATES["instruct"][:2])
    with pytest.raises(RequestError, match="the system speaks first"):
        replayed.prompter.after([], [{"role": "system", "content": "Stop."}])
    with pytest.raises(RequestError, match="take turns"):
        replayed.prompter.whole([USER, USER])


def test_a_stop_that_text_may_merge_with_is_still_one_id() -> None:
    """The end of an answer as an ordinary token."""
    vocabulary = Vocabulary.of(small_tokenizer("plain"), stops=["s"])
    source = "{% for m in messages %}{{ m.content }}{{ 's' if m.role == 'assistant' else '.' }}{% endfor %}"
    prompter = Prompter(ChatTemplate(source, {}), vocabulary)
    assert vocabulary.encode("self")[0] != vocabulary.stops["s"]
    new = prompter.after([], [{"role": "user", "content": "elf"}])
    assert new == [vocabulary.stops["s"], *vocabulary.encode("elf.")]


def test_a_developer_is_the_system_where_the_template_knows_none() -> None:
    replayed = TemplateReplay(*TEMPLATES["chatml"][:2])
    dialogue = [{"role": "system", "content": "A"}, USER, {"role": "developer", "content": "B"}]
    as_system = [{"role": "system", "content": "A\n\nB"}, USER]
    assert replayed.prompter.whole(dialogue) == replayed.prompter.whole(as_system)
    note = replayed.prompter.after([], [{"role": "developer", "content": "B"}])
    assert note == replayed.prompter.after([], [{"role": "system", "content": "B"}])


def test_a_requests_arguments_win_over_those_for_all() -> None:
    vocabulary = small_vocabulary()
    source = "{{- mood }}" + TEMPLATES["chatml"].source + "{{- mood }}"
    prompter = Prompter(ChatTemplate(source, {}), vocabulary, arguments={"mood": "calm"})
    assert vocabulary.decode(prompter.whole([USER])).startswith("calm<")
    assert vocabulary.decode(prompter.whole([USER], None, {"mood": "wild"})).startswith("wild<")
    assert vocabulary.decode(prompter.after([], [USER], None, {"mood": "wild"})).endswith("wild")


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_whole_prompts_have_the_ids_that_vllm_gives(real_vllm: RealVllm) -> None:
    vocabulary = Vocabulary.load(real_vllm.model)
    assert vocabulary.chat_template is not None
    prompter = Prompter(ChatTemplate(vocabulary.chat_template, vocabulary.special_texts), vocabulary)
    random = Random(5)
    odds: list[JsonObject] = [
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "developer", "content": "é"},
    ]
    for _ in range(12):
        dialogue = conversation(random)
        for odd in odds:
            messages = [*dialogue.messages, odd, {"role": "user", "content": [{"type": "text", "text": "a"}] * 2}]
            body = {
                "model": str(real_vllm.model),
                "messages": messages,
                "tools": dialogue.tools,
                "add_generation_prompt": True,
            }
            answer = httpx.post(f"{real_vllm.engine_url}/tokenize", json=body, timeout=60)
            assert answer.status_code == 200, answer.text
            assert prompter.whole(messages, dialogue.tools) == answer.json()["tokens"]
