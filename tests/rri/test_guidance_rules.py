"""Which guidance and which memos are taken: true and false examples for every rule, lengths at their edges."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rri.guidance_rules import GuidanceLimits, check_guidance, check_memo

LIGHT = settings(max_examples=60, deadline=None)

DROPS = "suggests dropping negative criteria"
MILDER = "suggests milder grading"
PART = "suggests credit for a part"
POINTS = "speaks of points"
COUNTS = "speaks of how many criteria"
SHARES = "speaks of shares"

REJECTED = {
    DROPS: [
        "Drop the negative criterion.",
        "Remove negatives that frustrate honest answers.",
        "Do not write negative criteria.",
        "Don\u2019t use negative criteria.",
        "Never use negative criteria.",
        "Write no negative criteria at all.",
        "There is no need for negative criteria.",
        "Avoid negatives.",
        "Write only positive criteria.",
        "Prefer positive criteria over negative ones.",
        "Replace negative criteria with positive ones.",
        "Negative criteria are unnecessary here.",
        "Skip criteria that penalise errors.",
        "Leave out penalties for wrong doses.",
        "The negative criteria should be dropped.",
        "Minimise negatives.",
        "Write the value; cut negative criteria.",
        "- Ask for values.\n- **Drop negative criteria**.",
    ],
    MILDER: [
        "Grade more leniently.",
        "Grade summaries less strictly.",
        "Judge the answer generously.",
        "Relax the criteria for writing tasks.",
        "Loosen the grading of summaries.",
        "Make the criteria easier to meet.",
        "Write easier criteria.",
        "Write less strict criteria for research tasks.",
        "Be lenient with rounding.",
        "Lower the bar for honest answers.",
        "Make it easier for honest answers.",
        "Give the answer the benefit of the doubt.",
        "Do not penalise wrong doses.",
        "Ask for the value and relax the grading.",
        "Do not write vague criteria, loosen the grading.",
    ],
    PART: [
        "Give half credit where the topic is named.",
        "Give half-credit.",
        "Award partial credit for the drug class.",
        "A partially correct dose earns credit.",
        "Allow partial credit.",
        "Give credit for effort.",
        "Reward partially correct values.",
        "Accept approximate values.",
        "Accept partially correct answers.",
        "Score partial answers proportionally.",
        "Treat partially met criteria as met.",
        "Never forget to award partial credit.",
        "Do not hesitate to give half credit.",
        "Do not only ask for values, but give partial credit too.",
        "Do not write vague criteria, give half credit.",
        "Do not write vague criteria and give half credit.",
        "Ask for values - and award partial credit.",
        "Give par\u200btial credit.",
        "Give partial\ncredit where a value is near.",
    ],
    POINTS: [
        "Lower the points of hard criteria.",
        "Give each criterion 8 points.",
        "Make every value worth five points.",
        "Reduce the points for vague criteria.",
        "Use lower point values.",
        "Award fewer points to lists.",
        "A criterion may carry 10 points.",
        "Criteria of 8 to 10 points are best.",
        "Use ten-point criteria.",
        "High-point criteria should name values.",
        "Keep points low.",
        "Set points between 5 and 7.",
        "Do not lower points.",
        "Honest answers deserve more points.",
        "Set criteria weights by importance.",
    ],
    COUNTS: [
        "Use fewer criteria.",
        "Use fewer\ncriteria.",
        "Add more criteria.",
        "Write three positive criteria.",
        "Write two short, checkable criteria.",
        "Use 3\u20135 criteria.",
        "Write exactly 4 criteria.",
        "Have one to three criteria.",
        "A dozen criteria are best.",
        "Keep at least two criteria on safety.",
        "Include at least one negative.",
        "One negative per rubric is enough.",
        "The rubric needs at most 4 items.",
        "Use no more than five criteria.",
        "Write several criteria for safety.",
        "Do not write too many criteria.",
        "Reduce the number of criteria.",
        "Watch the criteria count.",
        "Keep rubrics short.",
        "Write shorter rubrics.",
    ],
    SHARES: [
        "Put a negative on at least 40% of tasks.",
        "Have 40 percent of rubrics carry one.",
        "Put negatives on a third of tasks.",
        "Half of the rubrics need a negative.",
        "Most tasks should carry a trap.",
        "Raise the share of negative criteria.",
        "Keep the negative share high.",
        "Put a trap into every second task.",
        "Put traps into one in three tasks.",
    ],
}

TAKEN = [
    'Do not write "mentions the blood count"; write "states the haemoglobin at which blood is given" instead.',
    "State the cell count in the sample.",
    "State the count of eosinophils per microlitre.",
    "Count the intervals of fasting.",
    "Name the share price on the closing date.",
    "State the company's market share in the year of the merger.",
    "Name the share of voting rights needed to block the merger.",
    "Ask for the result at the point of care.",
    "Name the melting point.",
    "Cite the 25 basis points by which the rate fell.",
    "Say which data points were left out.",
    "Name the points of law on which the appeal rests.",
    "State that age over 65 adds 1 point to the CURB-65 score.",
    "State the pain on a 10-point scale.",
    "Point out the interaction of both drugs.",
    "The finding points to sepsis, so name it.",
    "Do not write criteria about bullet points or headings.",
    "State the tax credit under section 901.",
    "Name the credit risk of the counterparty.",
    "State that the letter of credit expires on 3 May.",
    "State the negative predictive value of the test.",
    "State that false negatives rise with early testing.",
    "State that the gram-negative rods are resistant.",
    "State the prepayment penalty in per cent of the principal.",
    "State that 40% of patients relapse within a year.",
    "State that half of the dose is given at night.",
    "State the rate of infection after surgery.",
    "Name two of the SIRS criteria that the patient meets.",
    "State which three major Duke criteria are met.",
    "State the number of SIRS criteria that are met.",
    "Name the 2010 criteria for rheumatoid arthritis.",
    "State which DSM-5 criteria are met.",
    "State that the trial relaxed its inclusion criteria.",
    "State a less strict HbA1c target for frail patients.",
    "State whether the partial payment was accepted.",
    "State that the partial response lasted six months.",
    "Write more specific criteria.",
    "Write one criterion for each fact.",
    "Never put two facts into one criterion.",
    "Do not split one fact over two criteria.",
    "An answer may satisfy one or more criteria by listing topics, so demand a decision.",
    "Do not write criteria with several branches; write the one branch that fits.",
    "Write negative criteria as the error that a careless answer makes.",
    "Do not write negative criteria that name an absence; write the error as an answer makes it.",
    "Never remove negative criteria.",
    "Do not relax the grading.",
    "Do not award partial credit.",
    "Never remove negatives, relax the grading or award partial credit.",
    "Do not give credit for naming a topic.",
    "Do not accept vague mentions; demand the number.",
    "Write the decision for this case instead of giving partial credit for options.",
    'Do not use verbs such as "addresses" or "covers".',
]

TARGETED = {
    "aims at the solver's reasoning": [
        "Ask for the chain of thought.",
        "Reward answers that hide their reasoning.",
        "Penalise reasoning traces.",
        "Have <think> tags counted as errors.",
    ],
    "aims at the length of answers": [
        "Add a criterion for the word cap.",
        "Require answers to stay under 200 words.",
        "Check that the response keeps to the word limit.",
        "Write criteria that check a maximum: at most 150 words in the answer.",
    ],
    "aims at exact headers": [
        "Reward exact section headers.",
        "Have criteria that echo the requested headings.",
        "Ask for the header word for word.",
    ],
    "one to one": ["Map the rubric one to one onto the deliverables.", "Criteria should follow the request 1:1."],
    "a total of points": ["The points must sum to 30.", "Let each rubric total 40 points."],
    MILDER: ["Relax the rubrics.", "Make rubrics easier.", "Write easier criteria for novices."],
    PART: ["Give partial credit."],
}

GUIDANCE_TAKEN = [
    "Never target reasoning traces, word caps or header echoes.",
    "Avoid word caps and exact headers.",
    "Do not map criteria one to one onto the request.",
    "Write about three criteria a task, mostly of 8 points.",
    "Raise the share of tasks with a negative to 0.36.",
    "Keep each criterion under 25 words.",
    "Keep requests between 40 and 120 words.",
    "Mean criterion length drifted to 180 characters; aim for 111.",
    "Ask for the reasoning behind the diagnosis.",
    "Ask for clinical reasoning about the choice of drug.",
    "Vary specialty, setting, urgency, language and kind of document.",
    "Ask for the letter in the headings that the hospital uses.",
    "Include one-to-one counselling scenarios.",
    "Set no total of points.",
    "Never require points to sum to 30.",
    "Raise difficulty through the task, never through lenient grading.",
    "Never make rubrics easier.",
    "Do not give partial credit.",
]


def flat(groups: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(problem, text) for problem, texts in groups.items() for text in texts]


@pytest.mark.parametrize(("problem", "text"), flat(REJECTED))
def test_a_memo_that_says_it_is_rejected_with_the_sentence(problem: str, text: str) -> None:
    problems = check_memo(text)
    assert any(p.startswith(problem) for p in problems), problems
    assert any(p.startswith(problem) for p in check_memo(text.upper()))


@pytest.mark.parametrize("text", TAKEN)
def test_a_memo_about_content_is_taken(text: str) -> None:
    assert check_memo(text) == []


@pytest.mark.parametrize(("problem", "text"), flat(TARGETED))
def test_guidance_that_breaks_a_hard_limit_is_rejected_with_the_sentence(problem: str, text: str) -> None:
    problems = check_guidance(text)
    assert any(problem in p for p in problems), problems


@pytest.mark.parametrize("text", GUIDANCE_TAKEN)
def test_guidance_within_the_limits_is_taken(text: str) -> None:
    assert check_guidance(text) == []


def test_all_good_sentences_together_are_a_good_text() -> None:
    assert check_memo("\n".join(TAKEN), max_chars=10_000) == []
    assert check_memo(" ".join(TAKEN), max_chars=10_000) == []
    assert check_guidance("\n- ".join(GUIDANCE_TAKEN)) == []


@LIGHT
@given(
    st.lists(st.sampled_from(TAKEN), max_size=4),
    st.sampled_from(flat(REJECTED)),
    st.sampled_from(["\n\n", "\n- ", " "]),
)
def test_good_sentences_around_it_hide_no_bad_one(good: list[str], bad: tuple[str, str], joint: str) -> None:
    problem, text = bad
    for sentences in ([*good, text], [text, *good]):
        assert any(p.startswith(problem) for p in check_memo(joint.join(sentences), max_chars=10_000))


@pytest.mark.parametrize("mark", ["- ", "* ", "\u2022 ", "1) ", "  - "])
def test_a_denial_reaches_no_further_than_its_list_item(mark: str) -> None:
    assert check_memo(f"{mark}Never write long criteria\n{mark}Name the dose") == []
    assert check_memo(f"{mark}Never write long criteria\n{mark}Give half credit") != []
    assert check_memo("Never write long criteria\n\nGive half credit") != []


def test_a_problem_quotes_the_sentence_and_comes_once() -> None:
    problems = check_memo("State the dose. Give half credit. Give half credit. Use fewer criteria.")
    assert len(problems) == 2
    assert problems[0] == "suggests credit for a part: 'Give half credit.'"
    assert problems[1].endswith("'Use fewer criteria.'")


def test_one_sentence_can_break_several_rules() -> None:
    problems = check_memo("Use fewer criteria and give half credit for 3 points on half of the tasks.")
    assert [p.split(":")[0].split(",")[0] for p in problems] == [
        "suggests credit for a part",
        "speaks of points",
        "speaks of how many criteria there are",
        "speaks of shares of tasks or criteria",
    ]


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_nothing_is_no_text(text: str) -> None:
    assert check_memo(text) == ["the memo is empty"]
    assert check_guidance(text) == ["the guidance is empty"]


def test_lengths_at_their_edges() -> None:
    assert check_guidance(" ".join(["vary"] * 300)) == []
    assert check_guidance(" ".join(["vary"] * 301)) == ["301 words; at most 300 are allowed"]
    assert check_guidance("vary it\nwell", max_words=2) == ["3 words; at most 2 are allowed"]
    assert check_memo(f" {'v' * 2400}\n") == []
    assert check_memo("v" * 2401) == ["2401 characters; at most 2400 are allowed"]
    assert check_memo("vary", max_chars=3) == ["4 characters; at most 3 are allowed"]


def test_a_long_text_is_read_all_the_same() -> None:
    assert len(check_memo("State the dose. " * 200 + "Give half credit.")) == 2
    assert len(check_guidance("Vary it. " * 200 + "Give half credit.")) == 2


@LIGHT
@given(st.text(max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for problems in (check_memo(text), check_guidance(text)):
        assert all(isinstance(p, str) and p for p in problems)


def test_the_method_s_lengths_are_the_defaults() -> None:
    limits = GuidanceLimits()
    assert (limits.guidance_words, limits.memo_chars) == (300, 2400)
    assert (limits.memo_asked_chars, limits.summary_chars) == (1500, 200)
    for field in GuidanceLimits.model_fields:
        assert getattr(GuidanceLimits.model_validate({field: 1}), field) == 1
        with pytest.raises(ValidationError):
            GuidanceLimits.model_validate({field: 0})
    with pytest.raises(ValidationError):
        GuidanceLimits.model_validate({"words": 3})
