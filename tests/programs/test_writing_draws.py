"""What each request is to be about: use case, sub-topic, red-team and language, each by its share (METHOD 4.1)."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs.writing import draw_wanted
from rri.config import DomainConfig, list_domains, load_domain

N = 20_000


def domain(**changes: Any) -> DomainConfig:
    data = {
        "name": "rules",
        "description": "questions about rules",
        "expert": "librarian",
        "system_prompt": "",
        "use_cases": [
            {"name": "explain", "weight": 3},
            {"name": "decide", "weight": 1, "description": "choose between two"},
        ],
        "topics": ["dates", "names", "fees", "forms"],
        "red_team_share": 0.15,
    }
    return DomainConfig.model_validate({**data, **changes})


def shares(values: list[Any]) -> dict[Any, float]:
    return {value: count / len(values) for value, count in Counter(values).items()}


def test_use_cases_by_weight_topics_evenly_red_team_by_its_share() -> None:
    drawn = draw_wanted(domain(), N, random.Random(1))
    assert shares([w.use_case for w in drawn]) == pytest.approx({"explain": 0.75, "decide": 0.25}, abs=0.01)
    assert {w.about for w in drawn if w.use_case == "decide"} == {"choose between two"}
    assert shares([w.topic for w in drawn]) == pytest.approx(dict.fromkeys(domain().topics, 0.25), abs=0.01)
    assert shares([w.red_team for w in drawn])[True] == pytest.approx(0.15, abs=0.01)


def test_use_case_topic_and_red_team_are_drawn_independently() -> None:
    drawn = draw_wanted(domain(red_team_share=0.5), N, random.Random(2))
    joint = shares([(w.use_case.split(":")[0], w.topic, w.red_team) for w in drawn])
    for (use_case, _, _), share in joint.items():
        assert share == pytest.approx({"explain": 0.75, "decide": 0.25}[use_case] / 4 / 2, abs=0.01)
    assert len(joint) == 2 * 4 * 2


@pytest.mark.parametrize(("share", "found"), [(0.0, {False}), (1.0, {True})])
def test_a_red_team_share_at_its_bounds_is_exact(share: float, found: set[bool]) -> None:
    assert {w.red_team for w in draw_wanted(domain(red_team_share=share), 500, random.Random(3))} == found


def test_a_domain_without_topics_draws_none() -> None:
    assert {w.topic for w in draw_wanted(domain(topics=[]), 20, random.Random(4))} == {""}


# -- sub-topics of a use case -------------------------------------------------------


def test_a_use_case_draws_its_own_topics_and_falls_back_on_the_domains() -> None:
    use_cases = [{"name": "explain", "weight": 1}, {"name": "decide", "weight": 1, "topics": ["courts", "taxes"]}]
    drawn = draw_wanted(domain(use_cases=use_cases), N, random.Random(5))
    own = shares([w.topic for w in drawn if w.use_case == "decide"])
    assert own == pytest.approx({"courts": 0.5, "taxes": 0.5}, abs=0.02)
    assert shares([w.topic for w in drawn if w.use_case == "explain"]) == pytest.approx(
        dict.fromkeys(domain().topics, 0.25), abs=0.02
    )


def test_own_topics_need_none_of_the_domain() -> None:
    use_cases = [{"name": "explain", "weight": 1}, {"name": "decide", "weight": 1, "topics": ["courts"]}]
    drawn = draw_wanted(domain(use_cases=use_cases, topics=[]), 200, random.Random(6))
    assert {(w.use_case, w.topic) for w in drawn} == {("explain", ""), ("decide", "courts")}


# -- languages ----------------------------------------------------------------------


def test_languages_come_by_their_shares_and_english_takes_the_rest() -> None:
    drawn = draw_wanted(domain(languages={"Spanish": 0.2, "Hindi": 0.05}), N, random.Random(7))
    assert shares([w.language for w in drawn]) == pytest.approx({"": 0.75, "Spanish": 0.2, "Hindi": 0.05}, abs=0.01)


def test_the_language_is_drawn_independently_of_the_rest() -> None:
    drawn = draw_wanted(domain(languages={"Spanish": 0.5}, red_team_share=0.5), N, random.Random(8))
    joint = shares([(w.use_case, w.red_team, w.language) for w in drawn])
    assert len(joint) == 2 * 2 * 2
    for (use_case, _, _), share in joint.items():
        assert share == pytest.approx({"explain": 0.75, "decide": 0.25}[use_case] / 2 / 2, abs=0.01)


def test_shares_that_sum_to_one_leave_no_english() -> None:
    drawn = draw_wanted(domain(languages={"Spanish": 0.7, "Hindi": 0.2, "Thai": 0.1}), 2000, random.Random(9))
    assert {w.language for w in drawn} == {"Spanish", "Hindi", "Thai"}


@given(seed=st.integers(), n=st.integers(1, 12))
def test_an_english_domain_draws_what_it_drew_before_there_were_languages(seed: int, n: int) -> None:
    rng, again = random.Random(seed), random.Random(seed)
    drawn = draw_wanted(domain(), n, rng)
    for wanted in drawn:
        use_case = again.choices(domain().use_cases, [3, 1])[0]
        assert (wanted.use_case, wanted.topic) == (use_case.name, again.choice(domain().topics))
        assert wanted.red_team == (again.random() < 0.15)
        assert wanted.language == ""
    assert rng.random() == again.random(), "nothing else was drawn"


# -- the domains that ship ----------------------------------------------------------


@pytest.mark.parametrize("name", list_domains())
def test_a_shipped_domain_is_drawn_as_it_says(name: str) -> None:
    shipped = load_domain(name)
    drawn = draw_wanted(shipped, N, random.Random(10))
    total = sum(u.weight for u in shipped.use_cases)
    assert shares([w.use_case for w in drawn]) == pytest.approx(
        {u.name: u.weight / total for u in shipped.use_cases}, abs=0.015
    )
    assert shares([w.red_team for w in drawn])[True] == pytest.approx(shipped.red_team_share, abs=0.015)
    assert shares([bool(w.language) for w in drawn]).get(True, 0.0) == pytest.approx(
        sum(shipped.languages.values()), abs=0.01
    )
    for use_case in shipped.use_cases:
        topics = {w.topic for w in drawn if w.use_case == use_case.name}
        assert topics == set(shipped.topics_of(use_case)), "every sub-topic comes up"
        assert {w.about for w in drawn if w.use_case == use_case.name} == {use_case.description}
