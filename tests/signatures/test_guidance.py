"""Guidance joins a prompt in one place and can only add to what comes from code (METHOD 7)."""

from typing import Any

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs import Generator, Proposer
from rri.lm import output_spec, render
from signatures import GenerateTask, ProposeRequests, with_guidance

SIGNATURES = [ProposeRequests, GenerateTask]
LIGHT = settings(max_examples=40, deadline=None)
BLANK = ["", " ", "\n\t \n"]

blocks = st.text(alphabet=st.sampled_from("abc {}%\\<>\n\t.:é\u2028"), max_size=60)


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("guidance", BLANK)
@pytest.mark.parametrize("memo", BLANK)
def test_nothing_to_add_returns_the_same_class(signature: type[dspy.Signature], guidance: str, memo: str) -> None:
    assert with_guidance(signature, guidance, memo) is signature


@LIGHT
@given(guidance=blocks, memo=blocks)
def test_the_base_prompt_is_always_kept_whole_and_first(guidance: str, memo: str) -> None:
    base = GenerateTask.instructions
    guided = with_guidance(GenerateTask, guidance, memo)
    assert guided.instructions.startswith(base)
    assert GenerateTask.instructions == base
    added = guided.instructions[len(base) :]
    assert bool(added) == bool(guidance.strip() or memo.strip())
    # dspy tidies white space inside instructions, so words are compared.
    for block in (guidance, memo):
        assert " ".join(block.split()) in " ".join(added.split())


def test_each_block_stands_under_its_own_title_guidance_before_memo() -> None:
    text = with_guidance(GenerateTask, "  vary the setting \n", "do not ask for topics").instructions
    tail = text.removeprefix(GenerateTask.instructions)
    assert tail == (
        "\n\nGuidance for this stage of training:\nvary the setting\n\nMemo on known exploits:\ndo not ask for topics"
    )


def test_guidance_alone_and_memo_alone_bring_only_their_own_title() -> None:
    only_guidance = with_guidance(GenerateTask, "vary the setting").instructions
    only_memo = with_guidance(GenerateTask, memo="ask for values").instructions
    assert "Memo on known exploits" not in only_guidance
    assert "Guidance for this stage" not in only_memo
    assert only_memo.endswith("Memo on known exploits:\nask for values")


@pytest.mark.parametrize("text", ["{base}", "{title} {text}", "{0}", "{", "%s", "\\1"])
def test_markup_in_an_evolved_text_is_taken_literally(text: str) -> None:
    assert with_guidance(GenerateTask, text).instructions == (
        f"{GenerateTask.instructions}\n\nGuidance for this stage of training:\n{text}"
    )


@pytest.mark.parametrize("signature", SIGNATURES)
def test_guidance_changes_the_prompt_and_nothing_else(signature: type[dspy.Signature]) -> None:
    guided = with_guidance(signature, "vary the setting")
    assert list(guided.input_fields) == list(signature.input_fields)
    assert list(guided.output_fields) == list(signature.output_fields)
    assert output_spec(guided).schema == output_spec(signature).schema


def test_two_guided_roles_do_not_answer_for_each_other() -> None:
    """dspy gives both derived classes one name, so the reply formats on the wire must still differ."""
    proposer, generator = (output_spec(with_guidance(s, "vary")) for s in SIGNATURES)
    assert proposer.name != generator.name
    assert proposer.fields != generator.fields


def test_modules_send_their_guidance_with_the_base_prompt() -> None:
    guided: list[tuple[Any, type[dspy.Signature], list[str]]] = [
        (Proposer("vary the setting"), ProposeRequests, ["vary the setting"]),
        (Generator("vary the setting", "ask for values"), GenerateTask, ["vary the setting", "ask for values"]),
    ]
    for module, base, added in guided:
        system = render(module.predict.signature, [], {})[0]["content"]
        assert system.startswith(base.instructions)
        assert all(text in system for text in added)


def test_an_untuned_module_sends_the_bare_prompt() -> None:
    for module, base in ((Proposer(), ProposeRequests), (Generator(), GenerateTask)):
        assert render(module.predict.signature, [], {}) == render(base, [], {})
