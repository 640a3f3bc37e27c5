"""From seed passages to a validated task: draws, requests, shape, regeneration (METHOD 4, steps 1 to 5)."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import ValidationError

from programs import Roles, TaskWriter
from programs.writing import Request, difficulty_feedback
from rri.config import GenerationConfig
from rri.errors import BudgetExhausted, EndpointRefused, MalformedReply, ModelError
from rri.rubric_rules import check_rubric
from rri.shape import Shape, ShapePlan, draw_shape
from rri.testing import ChatRequest, Fault, ScriptedServer, role_models, status
from rri.types import Criterion, Reference, Rubric, Task, digest_of
from signatures.proposer import WantedRequest
from tests.rigs import open_test_gateway, scripted_config

N = 20_000
PASSAGES = [Reference(id=f"p{i}", title=f"Rule {i}", text=f"Rule {i} says {i}.", source="book") for i in range(9)]
WANTED = WantedRequest(use_case="explain: in plain words", topic="rules")
REQUEST = Request("What does rule one say?", WANTED)


@dataclass
class Shelf:
    """A knowledge base that finds the first `k` passages, and notes what was asked."""

    asked: list[tuple[str, int]] = field(default_factory=list)

    async def asearch(self, query: str, k: int) -> list[Reference]:
        self.asked.append((query, k))
        return PASSAGES[:k]


@dataclass
class Desk:
    """A task writer with the server and the shelf behind it."""

    writer: TaskWriter
    server: ScriptedServer
    shelf: Shelf
    roles: Roles

    def propose(self, n: int = 3, draw: int = 0, avoid: Sequence[str] = ()) -> list[Request]:
        return self.roles.grader.gateway.loop.run(self.writer.propose(n, draw, avoid))

    def write(self, request: Request = REQUEST, number: int = 1) -> Task:
        return self.roles.grader.gateway.loop.run(self.writer.write(request, number))


@contextmanager
def desk(
    models: dict[str, Callable[[ChatRequest], Fault | str]] | None = None,
    feedback: Callable[[], str] = lambda: "",
    seed: int = 0,
    **sections: Any,
) -> Iterator[Desk]:
    with ScriptedServer(role_models(**(models or {}))) as server:
        config = scripted_config(server.url, **sections)
        with open_test_gateway(config) as gateway:
            roles, shelf = Roles.bind(config, gateway), Shelf()
            writer = TaskWriter(
                roles.proposer, roles.generator, shelf, PASSAGES, config.domain, config.generation, seed, feedback
            )
            yield Desk(writer, server, shelf, roles)


def requests_reply(*texts: str) -> Callable[[ChatRequest], str]:
    return lambda _: json.dumps({"requests": list(texts)})


def draft_reply(*criteria: tuple[str, int], task: str = "The task.") -> str:
    pairs = [{"text": text, "points": points} for text, points in criteria]
    return json.dumps({"task": task, "criteria": pairs, "specialty": " rules ", "level": "advanced"})


VALID = draft_reply(("States that rule one holds", 8), ("Names the year of rule one", 6))


# -- draws ------------------------------------------------------------------------


def shares(values: list[Any]) -> dict[Any, float]:
    return {value: count / len(values) for value, count in Counter(values).items()}


def drawn(config: GenerationConfig, red_team: bool, seed: int) -> list[Shape]:
    plan, rng = ShapePlan(negative_rate=config.negative_share), random.Random(seed)
    return [draw_shape(config.positives, plan, red_team, rng, config.red_team_positives) for _ in range(N)]


def test_positives_and_negatives_follow_the_methods_shares() -> None:
    shapes = drawn(GenerationConfig(), False, 5)
    assert shares([s.positives for s in shapes]) == pytest.approx({2: 0.15, 3: 0.70, 4: 0.15}, abs=0.01)
    assert shares([s.negative for s in shapes])[True] == pytest.approx(0.75, abs=0.01)
    with_negative = [s.positives for s in shapes if s.negative]
    assert shares(with_negative) == pytest.approx({2: 0.15, 3: 0.70, 4: 0.15}, abs=0.015), "drawn independently"


def test_red_team_tasks_have_one_or_two_positives_and_always_a_negative() -> None:
    shapes = drawn(GenerationConfig(negative_share=0), True, 6)
    assert shares([s.positives for s in shapes]) == pytest.approx({1: 0.5, 2: 0.5}, abs=0.01)
    assert all(s.negative for s in shapes)


def test_the_shares_come_from_the_config() -> None:
    shapes = drawn(GenerationConfig(positives={1: 0.5, 5: 0.5}, negative_share=1.0), False, 7)
    assert shares([s.positives for s in shapes]) == pytest.approx({1: 0.5, 5: 0.5}, abs=0.01)
    assert all(s.negative for s in shapes)
    traps = drawn(GenerationConfig(red_team_positives=(3,)), True, 8)
    assert {s.positives for s in traps} == {3}


@pytest.mark.parametrize(
    ("mean", "aim"),
    [
        (0.0, "write easier tasks"),
        (0.39, "write easier tasks"),
        (0.4, "keep this difficulty"),
        (0.5, "keep this difficulty"),
        (0.6, "keep this difficulty"),
        (0.61, "write harder tasks"),
        (1.0, "write harder tasks"),
    ],
)
def test_difficulty_feedback_at_the_edges_of_the_band(mean: float, aim: str) -> None:
    text = difficulty_feedback(mean, 8)
    assert text.endswith(aim)
    assert f"{mean:.2f}" in text and "0.4 to 0.6" in text


@pytest.mark.parametrize(("mean", "rollouts"), [(None, 0), (None, 8), (0.5, 0)])
def test_without_graded_rollouts_there_is_no_feedback(mean: float | None, rollouts: int) -> None:
    assert difficulty_feedback(mean, rollouts) == ""


# -- requests -----------------------------------------------------------------------


def test_each_request_carries_what_it_was_wanted_for() -> None:
    sections: dict[str, Any] = {"domain": {"topics": ["a", "b", "c", "d"], "red_team_share": 0.5}}
    with desk({"proposer": requests_reply("one", "two", "three", "four")}, **sections) as d:
        found = d.propose(4)
        (request,) = d.server.of("proposer")
    assert [r.text for r in found] == ["one", "two", "three", "four"]
    assert [r.wanted.model_dump() for r in found] == json.loads(request.block("wanted"))
    assert request.block("domain") == "questions about rules"


def test_the_language_of_each_request_is_asked_for_and_kept() -> None:
    with desk({"proposer": requests_reply("uno", "dos")}, domain={"languages": {"Spanish": 1.0}}) as d:
        found = d.propose(2)
        (request,) = d.server.of("proposer")
    assert [w["language"] for w in json.loads(request.block("wanted"))] == ["Spanish", "Spanish"]
    assert [r.wanted.language for r in found] == ["Spanish", "Spanish"]
    assert "Where `language` names one, write the request in that language" in request.messages[0]["content"]


def test_an_empty_request_is_dropped_and_the_others_keep_their_own_wish() -> None:
    """A red-team wish must not move on to the next request."""
    with desk({"proposer": requests_reply("one", " ", "three")}, domain={"topics": list("abcdefgh")}) as d:
        found = d.propose(3)
        wanted = [WantedRequest.model_validate(w) for w in json.loads(d.server.of("proposer")[0].block("wanted"))]
    assert len({w.topic for w in wanted}) == 3, "the wishes can be told apart"
    assert found == [Request("one", wanted[0]), Request("three", wanted[2])]


def test_recent_requests_and_repetitions_are_dropped() -> None:
    """Case and white space do not make a request new."""
    avoid = ["Explain rule  ONE."]
    replies = requests_reply("explain rule one.", "Explain rule two.", "EXPLAIN  rule two.", "Explain rule three.")
    with desk({"proposer": replies}) as d:
        found = d.propose(4, avoid=avoid)
        assert json.loads(d.server.of("proposer")[0].block("avoid")) == avoid
    assert [r.text for r in found] == ["Explain rule two.", "Explain rule three."]


def test_no_more_requests_than_were_asked_for() -> None:
    with desk({"proposer": requests_reply("one", "two", "three")}) as d:
        assert [r.text for r in d.propose(2)] == ["one", "two"]


def test_nothing_new_is_an_error_that_says_so() -> None:
    with (
        desk({"proposer": requests_reply("one", "ONE")}) as d,
        pytest.raises(MalformedReply, match="none of 2 requests is new"),
    ):
        d.propose(2, avoid=["One"])


def accepted(count: int) -> bool:
    try:
        GenerationConfig(requests_per_call=count)
    except ValidationError:
        return False
    return True


def test_the_most_requests_that_the_config_takes_can_be_delivered() -> None:
    """A bound of the reply's schema below the config's would fail every call."""
    count = max(n for n in range(1, 25) if accepted(n))
    with desk({"proposer": requests_reply(*(f"request {i}" for i in range(count)))}) as d:
        assert len(d.propose(count)) == count


def test_a_draw_is_repeatable_and_each_draw_has_other_seeds() -> None:
    chosen = {"topics": list("abcdefgh"), "red_team_share": 0.5}
    sections: dict[str, Any] = {"domain": chosen, "generation": {"seed_passages": 3}}
    with desk(**sections) as d:
        for draw in (0, 0, 1):
            d.propose(6, draw)
        first, again, other = [(r.block("passages"), r.block("wanted")) for r in d.server.of("proposer")]
    assert first == again
    assert first[0] != other[0] and first[1] != other[1]
    assert len({p["id"] for p in json.loads(first[0])}) == 3
    with desk(seed=1, **sections) as d:
        d.propose(6, 0)
        assert d.server.of("proposer")[0].block("passages") != first[0]


def test_more_seed_passages_than_exist_are_all_of_them() -> None:
    with desk(generation={"seed_passages": 50}) as d:
        d.propose()
        assert len(json.loads(d.server.of("proposer")[0].block("passages"))) == len(PASSAGES)


def test_a_failing_proposer_is_an_error() -> None:
    with desk({"proposer": lambda _: status(400)}) as d, pytest.raises(ModelError, match="role proposer"):
        d.propose()


# -- tasks ---------------------------------------------------------------------------


def test_a_task_carries_number_passages_and_labels() -> None:
    red_team = Request("Ask.", WantedRequest(use_case="explain", about="in plain words", red_team=True))
    with desk({"generator": lambda _: VALID}, generation={"passages_per_task": 4}) as d:
        task = d.write(red_team, 42)
        (request,) = d.server.of("generator")
        assert d.shelf.asked == [("Ask.", 4)]
    assert task.task_id == f"000042-{digest_of([task.request, task.rubric.model_dump()])[:8]}"
    assert (task.version, task.schema_version) == (1, 1)
    assert [(m.role, m.content) for m in task.conversation] == [("user", "The task.")]
    assert task.references == tuple(PASSAGES[:4])
    assert task.labels.model_dump() == {
        "use_case": "explain",
        "specialty": "rules",
        "difficulty": "advanced",
        "red_team": True,
    }
    assert [c.points for c in task.rubric.criteria] == [8, 6]
    assert json.loads(request.block("passages")) == [p.model_dump() for p in PASSAGES[:4]]
    assert (request.block("request"), request.block("red_team"), request.block("negative")) == ("Ask.", "true", "true")
    assert request.block("positives") in ("1", "2")


@pytest.mark.parametrize("name", ["explain", "note: discharge"])
def test_the_label_is_the_name_of_the_use_case(name: str) -> None:
    use_cases = [{"name": name, "weight": 1, "description": "short: and clear"}]
    with desk({"proposer": requests_reply("one"), "generator": lambda _: VALID}, domain={"use_cases": use_cases}) as d:
        assert d.write(d.propose(1)[0]).labels.use_case == name


def test_the_shape_that_was_drawn_is_told_as_hard_numbers() -> None:
    with desk(generation={"positives": {2: 0.5, 4: 0.5}, "negative_share": 0.5}) as d:
        tasks = [d.write(number=n) for n in range(30)]
        told = [(int(r.block("positives")), r.block("negative") == "true") for r in d.server.of("generator")]
    assert len(set(told)) == 4, "every shape came up"
    for task, (positives, negative) in zip(tasks, told, strict=True):
        points = [c.points for c in task.rubric.criteria]
        assert (sum(p > 0 for p in points), any(p < 0 for p in points)) == (positives, negative)


def test_the_shape_belongs_to_the_number_of_the_task() -> None:
    with desk(generation={"positives": {1: 0.25, 2: 0.25, 3: 0.25, 4: 0.25}}) as d:
        for number in (*range(6), *range(6)):
            d.write(number=number)
        told = [(r.block("positives"), r.block("negative")) for r in d.server.of("generator")]
    assert told[:6] == told[6:]


def test_the_current_difficulty_feedback_reaches_each_call() -> None:
    notes = iter(["", "write harder tasks"])
    with desk(feedback=lambda: next(notes)) as d:
        d.write(number=1)
        d.write(number=2)
        assert [r.block("difficulty") for r in d.server.of("generator")] == ["", "write harder tasks"]


INVALID = {
    "no positive": draft_reply(("Claims that rule one was repealed", -6)),
    "absence": draft_reply(("States rule one", 8), ("Fails to mention rule two", -6)),
    "judge": draft_reply(("Award full credit for rule one", 8)),
    "repetition": draft_reply(("States rule one", 8), ("states rule one.", 6)),
    "empty criterion": draft_reply((" ", 8)),
    "empty task": draft_reply(("States rule one", 8), task=" \n "),
}


@pytest.mark.parametrize("draft", INVALID.values(), ids=INVALID)
def test_a_draft_that_the_validator_refuses_is_written_again_with_the_reasons(draft: str) -> None:
    with desk({"generator": lambda r: VALID if r.number else draft}) as d:
        task = d.write()
        first, second = d.server.of("generator")
    assert first.block("problems") == ""
    content = json.loads(draft)
    rubric = Rubric(criteria=tuple(Criterion.model_validate(c) for c in content["criteria"]))
    reasons = check_rubric(rubric) + (
        [] if content["task"].strip() else ["the task has 0 characters; write at least 1"]
    )
    assert reasons and json.loads(second.block("problems")) == reasons
    shown = ("request", "positives", "negative", "passages")
    assert [first.block(b) for b in shown] == [second.block(b) for b in shown], "the shape stays as drawn"
    assert task.request == "The task."


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_generator_that_never_passes_is_given_up_within_the_bound(attempts: int) -> None:
    with desk({"generator": lambda _: INVALID["judge"]}, generation={"attempts": attempts}) as d:
        with pytest.raises(MalformedReply, match=f"no valid rubric in {attempts} attempts: criterion 1 speaks about"):
            d.write()
        assert d.server.count("generator") == attempts


def test_three_attempts_by_default() -> None:
    assert GenerationConfig().attempts == 3


def test_failing_models_and_limits_pass_through() -> None:
    with desk({"generator": lambda _: status(403)}) as d, pytest.raises(EndpointRefused, match="role generator"):
        d.write()
    with desk(budget={"calls": 1}) as d:
        d.write()
        with pytest.raises(BudgetExhausted):
            d.write(number=2)
        with pytest.raises(BudgetExhausted):
            d.propose()


def test_calls_are_tagged_by_draw_and_by_number() -> None:
    with desk() as d:
        d.propose(draw=3)
        d.write(number=7)
        records = d.roles.grader.gateway.sink.records  # type: ignore[attr-defined]
        assert [(r.role, r.tag.sample) for r in records] == [("proposer", "propose-3"), ("generator", "write-7")]


@pytest.mark.parametrize(("chars", "usable"), [(29, False), (30, True)])
def test_a_request_and_a_task_have_thirty_characters(chars: int, usable: bool) -> None:
    least = {"min_task_chars": GenerationConfig().min_task_chars, "attempts": 1}
    text = "x" * chars
    models: dict[str, Any] = {
        "proposer": lambda _: json.dumps({"requests": [text]}),
        "generator": lambda _: json.dumps({**json.loads(VALID), "task": text}),
    }
    with desk(models, generation=least) as d:
        wanted = Request("Ask.", WantedRequest(use_case="explain"))
        if usable:
            assert [r.text for r in d.propose(1)] == [text]
            assert d.write(wanted, 1).request == text
            return
        with pytest.raises(MalformedReply, match="30 characters"):
            d.propose(1)
        with pytest.raises(MalformedReply, match="has 29 characters; write at least 30"):
            d.write(wanted, 1)
