"""Shapes and wordings of rubrics, rewrites and patches, each number pinned at its edge."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rri.rubric_rules import (
    addresses_judge,
    check_patch,
    check_rewrite,
    check_rubric,
    is_absence,
    salvage_rewrite,
    trigram_overlap,
)
from rri.types import Criterion, Rubric

LIGHT = settings(max_examples=60, deadline=None)

ABSENCES = [
    "Does not state the dose of amoxicillin",
    "Doesn\u2019t name the drug",
    "Misses the contraindication",
    "Avoids naming a specific dose",
    "Refrains from giving a diagnosis",
    "Never states a filing deadline",
    "Omits the loading dose",
    "Leaves out the follow-up interval",
    "Lacks a differential diagnosis",
    "No mention of hyperkalaemia",
    "Cannot name the enzyme",
    "Advises against calling emergency services",
    "Warns against taking ibuprofen",
    "The plan does not name a dose",
    "It omits the loading dose",
    "- fails to mention the interaction",
    "Names the drug but does not state the dose",
    "Names the drug and fails to give a dose",
    "Recommends warfarin, never mentioning INR",
    "States the dose or omits it",
    "Gives a plan: fails to include follow-up",
    "Recommends metformin; omits the dose",
]

ABSENCES_MISSED = [
    "Can't name the enzyme",
    "Won't commit to a dose",
    "There is no mention of a dose",
    "Makes no mention of renal function",
    "Provides no dose for amoxicillin",
    "Omission of the loading dose",
    "Is missing the loading dose",
    "1. Fails to mention the interaction",
    "Names metformin (does not give the dose)",
]

ERRORS_THAT_LOOK_ABSENT = [
    "States that aspirin does not prevent stroke in this patient",
    "Claims that the drug is not excreted by the kidney",
    "Tells the patient not to call an ambulance",
    "Names a drug that cannot cross the blood-brain barrier",
    "Tells the parent to leave out the night dose",
    "Says the rash will never recur",
    "States that no antibiotic is needed",
    "Claims no dose adjustment is required in renal failure",
    "Recommends stopping warfarin without bridging",
    "States that the plaintiff failed to mitigate",
    "Identifies the missing signature as harmless",
    "Notes a deadline of 60 days where it is 30",
    "Noradrenaline is named as first-line agent",
    "Non-invasive ventilation is started at the wrong pressure",
    "The plan starts heparin despite active bleeding",
]

JUDGE_ADDRESSED = [
    "Penalise vague answers",
    "Deduct two points for a missing dose",
    "Rate the clarity of the plan",
    "Awards full marks for the dose",
    "Score 5 if the dose is named",
    "Mark as met when the dose is named",
    "Give full credit for the dose",
    "Assign 5 points when the dose is named",
    "The response names metformin",
    "The model states the dose",
    "The assistant asks about allergies",
    "- **The response** names metformin",
    "Names the drug that the response should include",
    "Names metformin; the grader should accept synonyms",
    "Names metformin as the rubric asks",
    "Names metformin (partial credit for a biguanide)",
]

JUDGE_MISSED = [
    "Penalizes vague answers",
    "Deducts points for a missing dose",
    "Awards two points for naming the dose",
    "Gives credit for naming the dose",
    "This response names metformin",
    "Response names metformin",
    "If metformin is named, award 5 points",
    "This criterion is met if the dose is named",
]

CONTENT_THAT_LOOKS_LIKE_GRADING = [
    "Names the Wells score and its cutoff",
    "Scores the Glasgow coma scale as 9",
    "Scores the patient's CURB-65 as 3",
    "Points out that LDL is above target",
    "Gives credit risk as the reason",
    "Identifies a tax credit under section 901",
    "Names three data points from the trial",
    "States a spread of 40 basis points",
    "Marks the surgical site before incision",
    "Rates the pain at 7 of 10",
    "Grades the tumour as Gleason 7",
    "Awards the tenant statutory damages",
    "Computes the answer in mmol/L",
    "Fits a Black-Scholes model",
    "Deducts 20,000 of interest from taxable income",
]

CONTENT_FLAGGED = [
    "Checks the response to treatment after 48 hours",
    "States the response rate of 40% in the trial",
    "States that the judge must recuse on these facts",
    "Rate control with a beta blocker is recommended first",
    "Grade 3 toxicity is identified",
]


@pytest.mark.parametrize("text", ABSENCES + ABSENCES_MISSED)
def test_absences_are_recognised(text: str) -> None:
    assert is_absence(text)
    assert is_absence(text.upper())


@pytest.mark.parametrize("text", ERRORS_THAT_LOOK_ABSENT)
def test_an_error_that_is_made_is_no_absence(text: str) -> None:
    assert not is_absence(text)


@pytest.mark.parametrize("text", JUDGE_ADDRESSED + JUDGE_MISSED)
def test_speaking_to_or_of_the_grading_is_recognised(text: str) -> None:
    assert addresses_judge(text)
    assert addresses_judge(text.lower())


@pytest.mark.parametrize("text", CONTENT_THAT_LOOKS_LIKE_GRADING + CONTENT_FLAGGED)
def test_content_in_the_words_of_grading_is_left_alone(text: str) -> None:
    assert not addresses_judge(text)


# --- check_rubric ------------------------------------------------------------------------------------


def rubric_of(*points: float) -> Rubric:
    return Rubric(criteria=tuple(Criterion(text=f"Names fact {i}", points=p) for i, p in enumerate(points)))


def one_of(problems: Sequence[str], words: str) -> bool:
    """Whether there is one problem and it speaks of `words`."""
    return len(problems) == 1 and words in problems[0]


@pytest.mark.parametrize(("count", "repaired"), [(1, False), (6, False), (7, True), (12, True)])
def test_as_many_criteria_as_allowed(count: int, repaired: bool) -> None:
    assert check_rubric(rubric_of(*[5] * count), repaired=repaired) == []


@pytest.mark.parametrize(("count", "repaired"), [(7, False), (13, True)])
def test_one_criterion_too_many(count: int, repaired: bool) -> None:
    assert one_of(check_rubric(rubric_of(*[5] * count), repaired=repaired), f"{count} criteria")


def test_an_empty_rubric_has_too_few_criteria_and_no_positive() -> None:
    problems = check_rubric(Rubric(criteria=()))
    assert len(problems) == 2
    assert "positive" in problems[1]


def test_one_positive_is_enough_and_none_is_refused() -> None:
    assert check_rubric(rubric_of(1, -10, -10)) == []
    assert one_of(check_rubric(rubric_of(-10, -10)), "positive")


@pytest.mark.parametrize("points", [-10.0, -0.5, 0.5, 10.0])
def test_points_up_to_ten_pass(points: float) -> None:
    assert check_rubric(rubric_of(5, points)) == []


@pytest.mark.parametrize("points", [-11.0, 0.0, 10.5])
def test_points_that_slipped_past_the_type_are_refused(points: float) -> None:
    slipped = Criterion.model_construct(text="Names a dose", points=points)
    rubric = Rubric.model_construct(criteria=(Criterion(text="Names a drug", points=5), slipped))
    assert one_of(check_rubric(rubric), "criterion 2")


@pytest.mark.parametrize("text", ABSENCES[:5])
def test_an_absence_is_refused_with_negative_points_alone(text: str) -> None:
    good = Criterion(text="Names the drug", points=5)
    assert one_of(check_rubric(Rubric(criteria=(good, Criterion(text=text, points=-5)))), "absence")
    assert check_rubric(Rubric(criteria=(good, Criterion(text=text, points=5)))) == []


@pytest.mark.parametrize("points", [5, -5])
def test_addressing_the_judge_is_refused_with_either_sign(points: float) -> None:
    criteria = (Criterion(text="Names the drug", points=5), Criterion(text="Award a named dose", points=points))
    assert one_of(check_rubric(Rubric(criteria=criteria)), "criterion 2")


@pytest.mark.parametrize("again", ["Names the drug", "names the drug.", "  Names  the DRUG "])
def test_a_repeated_criterion_is_refused(again: str) -> None:
    criteria = (Criterion(text="Names the drug", points=5), Criterion(text=again, points=8))
    assert one_of(check_rubric(Rubric(criteria=criteria)), "repeats")


def test_a_blank_criterion_is_refused() -> None:
    assert one_of(check_rubric(Rubric(criteria=(Criterion(text=" ", points=5),))), "empty")


CYRILLIC = (
    "Называет начальную дозу препарата 5 мг в сутки для пожилых",
    "Требует контроль калия крови через 5 дней после начала",
)


@pytest.mark.parametrize("pair", [CYRILLIC, ("写出起始剂量为每日一次", "说明需要监测血钾浓度")])
def test_different_criteria_of_other_scripts_are_no_repeats(pair: tuple[str, str]) -> None:
    assert check_rubric(Rubric(criteria=tuple(Criterion(text=t, points=5) for t in pair))) == []
    assert trigram_overlap(*pair) == 0


def test_the_same_criterion_of_another_script_is_a_repeat() -> None:
    criteria = tuple(Criterion(text=CYRILLIC[0], points=5) for _ in range(2))
    assert one_of(check_rubric(Rubric(criteria=criteria)), "repeats")
    assert trigram_overlap(CYRILLIC[0], CYRILLIC[0]) == 1


# --- salvage and rewrites ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "clamped"),
    [(0.5, 5), (4, 5), (4.99, 5), (5, 5), (5.5, 5.5), (10, 10), (-1, -5), (-4, -5), (-5, -5), (-7, -7), (-10, -10)],
)
def test_salvage_clamps_points_to_five_and_ten(points: float, clamped: float) -> None:
    after = salvage_rewrite(rubric_of(5), rubric_of(5, points))
    assert [c.points for c in after.criteria] == [5, clamped]


def test_salvage_brings_points_beyond_ten_back() -> None:
    slipped = tuple(Criterion.model_construct(text=f"Names fact {p}", points=p) for p in (14.0, -14.0))
    after = salvage_rewrite(rubric_of(5), Rubric.model_construct(criteria=slipped))
    assert [c.points for c in after.criteria] == [10, -10]


@pytest.mark.parametrize(("added", "kept"), [(3, 3), (4, 4), (5, 4), (9, 4)])
def test_salvage_trims_beyond_four_added_criteria(added: int, kept: int) -> None:
    before, after = rubric_of(5, 6), rubric_of(*[5] * (2 + added))
    assert salvage_rewrite(before, after).criteria == after.criteria[: 2 + kept]


def test_salvage_never_trims_the_last_positive() -> None:
    after = salvage_rewrite(rubric_of(5), rubric_of(-5, -6, -7, -8, -9, -10, 8))
    assert [c.points for c in after.criteria] == [-5, -6, -7, -8, 8]


POINTS = st.integers(-10, 10).filter(bool)


@LIGHT
@given(st.lists(POINTS, min_size=1, max_size=6), st.lists(POINTS, min_size=1, max_size=16))
def test_what_salvage_leaves(before: list[int], after: list[int]) -> None:
    once = salvage_rewrite(rubric_of(*before), rubric_of(*after))
    assert len(once.criteria) == min(len(after), len(before) + 4)
    assert all(5 <= abs(c.points) <= 10 for c in once.criteria)
    assert any(c.points > 0 for c in once.criteria) == any(p > 0 for p in after)
    texts = [c.text for c in rubric_of(*after).criteria]
    assert [t for t in texts if t in {c.text for c in once.criteria}] == [c.text for c in once.criteria]
    assert salvage_rewrite(rubric_of(*before), once) == once


@pytest.mark.parametrize(
    ("before", "after", "red_team", "problem"),
    [
        ((5, 5), (5, 5), False, None),
        ((5, 5, 5), (5, 5), False, "at least as many"),
        ((5, 5), (5, 5, -5, -5, -5), False, None),
        ((5, 5), (5, 5, -5, -5, -5, -5), False, "4 negative"),
        ((5,), (5, -5), False, "1 positive"),
        ((5,), (5, -5), True, None),
        ((5,), (-5, -5), True, "no criterion with positive"),
        ((5,), (5, -5, -5, -5, -5), True, "4 negative"),
        ((5,) * 12, (5,) * 12, False, None),
        ((5,) * 9, (5,) * 13, False, "13 criteria"),
    ],
)
def test_the_shape_of_a_rewrite(
    before: tuple[int, ...], after: tuple[int, ...], red_team: bool, problem: str | None
) -> None:
    problems = check_rewrite(rubric_of(*before), rubric_of(*after), red_team=red_team)
    assert problems == [] if problem is None else one_of(problems, problem)


def test_a_rewrite_passes_the_wording_rules_too() -> None:
    after = Rubric(criteria=(*rubric_of(5, 5).criteria, Criterion(text="Fails to name a dose", points=-5)))
    assert one_of(check_rewrite(rubric_of(5), after, red_team=False), "absence")


# --- patches -----------------------------------------------------------------------------------------


def patch_of(length: int = 60, points: float = 8) -> Criterion:
    return Criterion.model_construct(text="Names " + "x" * (length - 6), points=points)


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        (patch_of(39), "39 characters"),
        (Criterion(text=f"  {patch_of(39).text}  ", points=8), "39 characters"),
        (patch_of(40), None),
        (patch_of(220), None),
        (patch_of(221), "221 characters"),
        (patch_of(points=4), "4 points"),
        (patch_of(points=5), None),
        (patch_of(points=-4.5), "-4.5 points"),
        (patch_of(points=-5), None),
        (patch_of(points=10), None),
        (patch_of(points=11), "11 points"),
        (patch_of(points=-10), None),
        (patch_of(points=-11), "-11 points"),
    ],
)
def test_the_edges_of_a_patch(patch: Criterion, problem: str | None) -> None:
    problems = check_patch(patch, rubric_of(5, 5))
    assert problems == [] if problem is None else one_of(problems, problem)


def test_a_patch_fits_under_the_cap_of_twelve() -> None:
    assert check_patch(patch_of(), rubric_of(*[5] * 11)) == []
    assert one_of(check_patch(patch_of(), rubric_of(*[5] * 12)), "12 criteria")


@pytest.mark.parametrize("points", [8, -8])
def test_a_patch_never_names_an_absence_or_the_grading(points: float) -> None:
    absence = Criterion(text="Fails to name the loading dose of amiodarone", points=points)
    grading = Criterion(text="The response names the loading dose of amiodarone", points=points)
    assert one_of(check_patch(absence, rubric_of(5)), "absence")
    assert one_of(check_patch(grading, rubric_of(5)), "grading")


WARNINGS = [
    "Advises the patient to take paracetamol and avoid ibuprofen",
    "Advises against ibuprofen because the eGFR is 25 ml/min",
]


@pytest.mark.parametrize("text", WARNINGS)
def test_a_positive_patch_may_require_a_warning(text: str) -> None:
    assert check_patch(Criterion(text=text, points=8), rubric_of(5)) == []


def overlapping(shared: int, own: int) -> tuple[str, str]:
    """Two texts of `own` word trigrams each, `shared` of them in common."""
    common = [f"w{i:03}" for i in range(shared + 2)]
    left, right = (" ".join(common + [f"{side}{i:03}" for i in range(own - shared)]) for side in "ab")
    return left, right


@pytest.mark.parametrize(("shared", "own", "kept"), [(17, 29, True), (10, 17, True), (6, 10, False), (18, 29, False)])
def test_a_patch_shares_under_six_tenths_of_trigrams(shared: int, own: int, kept: bool) -> None:
    text, other = overlapping(shared, own)
    assert trigram_overlap(text, other) == shared / own
    rubric = Rubric(criteria=(*rubric_of(5).criteria, Criterion(text=other, points=5)))
    problems = check_patch(Criterion(text=text, points=8), rubric)
    assert problems == [] if kept else one_of(problems, "criterion 2")


WORDS = st.lists(st.sampled_from(["dose", "of", "the", "drug", "Names", "5"]), max_size=9).map(" ".join)


@LIGHT
@given(WORDS, WORDS)
def test_overlap_is_a_symmetric_share_blind_to_case_and_marks(a: str, b: str) -> None:
    overlap = trigram_overlap(a, b)
    assert 0 <= overlap <= 1
    assert trigram_overlap(b, a) == overlap
    assert trigram_overlap(a.upper(), b.replace(" ", ", ") + ".") == overlap


def test_overlap_is_measured_over_the_smaller_set() -> None:
    assert trigram_overlap("names the loading dose", "clearly names the loading dose of the drug today") == 1.0
    assert trigram_overlap("names the dose", "names the drug") == 0.0
    assert trigram_overlap("Names it", "names it!") == 1.0
    assert trigram_overlap("names it", "names it clearly now") == 0.0
