"""Every prompt is a signature of its own: a docstring for the model, every field described, one name on the wire."""

import dspy
import pytest
from pydantic import TypeAdapter

from rri.lm import output_spec, render
from signatures import (
    ALL,
    DiagnoseCase,
    MintCriteria,
    RankAnswers,
    SummarizePassages,
    WriteGuidance,
    WriteMemo,
    prompt_digests,
)
from signatures.minter import MintedPoints
from signatures.referee import LETTERS
from tests.programs.role_cases import CASES

each_signature = pytest.mark.parametrize("signature", ALL, ids=lambda s: s.__name__)


def system(signature: type[dspy.Signature]) -> str:
    return str(render(signature, [], {})[0]["content"])


def squeezed(signature: type[dspy.Signature]) -> str:
    return " ".join(signature.instructions.split())


def test_every_role_has_its_signature_in_the_list() -> None:
    named = {case.make().predict.signature.__name__ for case in CASES.values()}
    assert named <= {s.__name__ for s in ALL}


def test_names_on_the_wire_are_unique_and_prompts_differ() -> None:
    specs = [output_spec(s) for s in ALL]
    judges = 2  # the strict judge returns what the plain one does
    assert len({s.__name__ for s in ALL}) == len(ALL)
    assert len({spec.name for spec in specs}) == len(ALL)
    assert len({str(spec.full) for spec in specs if spec.full}) >= len([s for s in specs if s.full]) - judges
    assert len(set(prompt_digests(ALL).values())) == len(ALL)


@each_signature
def test_the_docstring_is_the_signatures_own(signature: type[dspy.Signature]) -> None:
    assert signature.__dict__.get("__doc__")
    assert "Given the fields" not in signature.instructions
    assert len(signature.instructions.split()) > 40


@each_signature
def test_every_field_says_what_it_is(signature: type[dspy.Signature]) -> None:
    for name, field in {**signature.input_fields, **signature.output_fields}.items():
        description = (field.json_schema_extra or {}).get("desc", "")
        assert description and not description.startswith("${"), name
    assert "()" not in system(signature)


@each_signature
def test_names_in_backticks_are_fields_or_words_of_the_signature(signature: type[dspy.Signature]) -> None:
    """A renamed field must not leave its old name in the prompt."""
    fields = {*signature.input_fields, *signature.output_fields}
    shown = [TypeAdapter(field.annotation).json_schema() for field in signature.input_fields.values()]
    schema = str([output_spec(signature).schema, *shown])
    extra = {"model_failed_fair_task", "generator_at_fault"}  # in the diagnoses that the meta-optimizer is shown
    for quoted in signature.instructions.split("`")[1::2]:
        assert quoted in fields or quoted in extra or f"'{quoted}'" in schema, quoted


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        (
            MintCriteria,
            [
                "one to five",
                "5 to 10",
                "-10 to -5",
                "40 to 220",
                "in B and not in A",
                "in A and not in B",
                "third person",
            ],
        ),
        (
            MintCriteria,
            ['"does not"', '"fails to"', '"avoids"', '"the response"', "at least one criterion has positive"],
        ),
        (RankAnswers, ["how long it is", "its layout", "repeating the request", "disclaimers", "guidelines"]),
        (RankAnswers, ["same tier", "one tier holds all", "every letter exactly once", "place in the list"]),
        (DiagnoseCase, ["private thinking", "no fault", "`unknown` means that the judge failed", "task about it"]),
        (WriteGuidance, ["never a goal", "stands in `statistics`", "0.9", "0.1", "arithmetic", "number to reach"]),
        (WriteGuidance, ["only `model_failed_fair_task`", "third way", "no leave to relax", "naming axes"]),
        (WriteGuidance, ["private reasoning", "word caps", "exact headers", "one to one", "no total", "benchmark"]),
        (WriteGuidance, ["One to five short criteria", "5 to 10 points, mostly 8", "one task in three"]),
        (WriteMemo, ["One number", "specific fact", '"Do not write ...; write ... instead"', "thrown away unread"]),
        (
            SummarizePassages,
            ["nothing else", "exactly as it is written", "id and title", "say so plainly", "`max_words`"],
        ),
        (WriteMemo, ["lower points", "milder grading", "how many criteria", "benchmark", "empty memo", "`max_chars`"]),
    ],
)
def test_a_prompt_gets_across_what_the_method_lists(signature: type[dspy.Signature], said: list[str]) -> None:
    text = squeezed(signature) + " " + " ".join(system(signature).split())
    assert [phrase for phrase in said if phrase not in text] == []


@pytest.mark.parametrize("signature", [MintCriteria, RankAnswers, DiagnoseCase, SummarizePassages])
def test_a_role_that_reads_what_others_wrote_is_told_to_trust_none(signature: type[dspy.Signature]) -> None:
    assert "carries no weight" in squeezed(signature) or "carry no weight" in squeezed(signature)


def test_points_and_letters_are_enumerated_on_the_wire() -> None:
    minted = output_spec(MintCriteria).schema["$defs"]["SeparatingCriterion"]["properties"]["points"]
    assert minted["enum"] == [*range(-10, -4), *range(5, 11)] == list(MintedPoints.__args__)  # type: ignore[attr-defined]
    tiers = output_spec(RankAnswers).schema["properties"]["tiers"]
    assert tiers["items"]["items"]["enum"] == list(LETTERS) == [chr(65 + i) for i in range(26)]


@each_signature
def test_no_length_of_a_text_is_on_the_wire(signature: type[dspy.Signature]) -> None:
    """They slow constrained decoding by an order of magnitude."""
    schema = str(output_spec(signature).schema)
    assert "minLength" not in schema and "maxLength" not in schema
