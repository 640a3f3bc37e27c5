"""One case for each role, and a server that answers every role with its case: shared by the tests of the roles."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from programs import (
    Analyst,
    Diagnosis,
    Draft,
    Farmer,
    Generator,
    Honest,
    Judge,
    MemoOptimizer,
    MetaOptimizer,
    MintedCriterion,
    Minter,
    Minting,
    NewGuidance,
    NewMemo,
    Proposal,
    Proposer,
    Referee,
    Rewriter,
    Summarizer,
    Tiers,
)
from programs.role import RoleModule
from rri.config import ROLES, Role, RunConfig
from rri.lm import Gateway
from rri.testing import ChatRequest, Fault, ScriptedServer
from rri.types import Criterion, Grade, Outcome, Reference, Rubric, Verdict, Vote
from signatures import PastGuidance, PastMemo
from signatures.proposer import WantedRequest
from tests.rigs import make_task, open_test_gateway, scripted_config

__all__ = ["CASES", "PASSAGE", "TASK", "Case", "grade_of", "serving"]


def grade_of(*outcomes: Outcome, score: float | None = 0.5) -> Grade:
    """A grade with these verdicts."""
    return Grade(verdicts=tuple(Verdict(outcome=o) for o in outcomes), score=score, raw=score)


TASK = make_task(8, 8, -6)
PASSAGE = Reference(id="p1", title="Rule one", text="Rule one says one.", source="book")
DRAFT = {
    "task": " The task. ",
    "criteria": [{"text": " States rule one ", "points": 8}],
    "specialty": " law ",
    "level": "basic",
}
REWRITE = {
    "task": " New. ",
    "criteria": [{"text": "States rule one", "points": 8}, {"text": "Claims the opposite", "points": -6}],
    "exploit_fails": " It fails. ",
    "honest_passes": " It passes. ",
}
MINTING = {
    "criteria": [
        {"why": " B states it. ", "text": " States rule one ", "points": 8},
        {"why": "A claims it.", "text": "Claims the opposite", "points": -6},
    ],
    "label": "keyword_stuffing",
}
DIAGNOSIS = {
    "gap": " the fee of rule two ",
    "failure_mode": "calculation",
    "rubric_defect": "off_domain",
    "task_defect": "too_easy",
    "verdict": "generator_at_fault",
}
RUBRIC = Rubric(criteria=(Criterion(text="States rule one", points=8),))


@dataclass(frozen=True)
class Case:
    """One role: how it is made and asked, what its model says, and what the caller gets."""

    make: Callable[[], RoleModule[Any]]
    arguments: Mapping[str, Any]
    reply: str
    result: Any
    shown: Mapping[str, str]


CASES: dict[Role, Case] = {
    "proposer": Case(
        Proposer,
        {"domain": "rules", "passages": [PASSAGE], "wanted": [WantedRequest(use_case="explain")], "avoid": ["Old."]},
        json.dumps({"requests": [" New. "]}),
        ["New."],
        {"domain": "rules", "avoid": '["Old."]', "passages": json.dumps([PASSAGE.model_dump()])},
    ),
    "generator": Case(
        Generator,
        {"request": "Ask.", "passages": [PASSAGE], "positives": 1, "negative": False},
        json.dumps(DRAFT),
        Draft(task="The task.", rubric=RUBRIC, specialty="law", level="basic"),
        {"request": "Ask.", "positives": "1", "negative": "false", "red_team": "false", "difficulty": ""},
    ),
    "farmer": Case(Farmer, {"task": TASK}, " Empty. \n", "Empty.", {"max_chars": "2500"}),
    "honest": Case(
        partial(Honest, "Be brief."), {"task": TASK}, "Answer.", "Answer.", {"standing_instructions": "Be brief."}
    ),
    "judge": Case(
        Judge,
        {"task": TASK, "answer": "Answer.", "criterion": "States rule one"},
        json.dumps({"reason": "It does.", "met": True}),
        Vote(outcome="met", reason="It does."),
        {"answer": "Answer.", "criterion": "States rule one", "reason_words": "60"},
    ),
    "rewriter": Case(
        Rewriter,
        {"task": TASK, "exploit": "Empty.", "honest": "Full."},
        json.dumps(REWRITE),
        Proposal(
            task="New.",
            rubric=Rubric(criteria=(*RUBRIC.criteria, Criterion(text="Claims the opposite", points=-6))),
            explanation="It fails. It passes.",
        ),
        {"exploit": "Empty.", "honest": "Full.", "red_team": "false", "problems": ""},
    ),
    "minter": Case(
        Minter,
        {
            "task": TASK,
            "exploit": "Empty.",
            "better": "Full.",
            "exploit_grade": grade_of("met", "met", "unmet"),
            "better_grade": grade_of("met", "unknown", "unmet"),
        },
        json.dumps(MINTING),
        Minting(
            criteria=(
                MintedCriterion(text="States rule one", points=8, why="B states it."),
                MintedCriterion(text="Claims the opposite", points=-6, why="A claims it."),
            ),
            label="keyword_stuffing",
        ),
        {"why_words": "30", "answer_a": "Empty.", "answer_b": "Full.", "problems": ""},
    ),
    "referee": Case(
        partial(Referee, "librarian"),
        {"task": TASK, "answers": ["one", "two", "three"], "order": [2, 0, 1]},
        json.dumps({"notes": " The best is right. ", "tiers": [["C"], ["B", "A"]]}),
        Tiers(tiers=((1,), (0, 2)), notes="The best is right."),
        {
            "expert": "librarian",
            "notes_words": "40",
            "answers": json.dumps(
                [{"letter": x, "text": t} for x, t in zip("ABC", ("three", "one", "two"), strict=True)]
            ),
            "problems": "",
        },
    ),
    "analyst": Case(
        partial(Analyst, "rules"),
        {"task": TASK, "answer": "Answer.", "grade": grade_of("met", "unknown", "unmet", score=0.51239)},
        json.dumps(DIAGNOSIS),
        Diagnosis(
            failure_mode="calculation",
            gap="the fee of rule two",
            rubric_defect="off_domain",
            task_defect="too_easy",
            verdict="generator_at_fault",
        ),
        {
            "domain": "rules",
            "use_case": "explain",
            "red_team": "false",
            "gap_words": "15",
            "score": "0.512",
            "answer": "Answer.",
        },
    ),
    "meta_optimizer": Case(
        partial(MetaOptimizer, "rules"),
        {
            "score_formula": "met points over positive points",
            "guidance_a": "Vary.",
            "guidance_b": "",
            "statistics": "negatives 0.20, reference 0.36",
            "diagnoses": "model_failed_fair_task: 3",
            "gaps": ["the fee of rule two"],
            "exploits": "none",
            "history": [PastGuidance(version=1, summary="First.", guidance_a="a", guidance_b="b", train_mean=0.5)],
        },
        json.dumps({"summary": " More fees. ", "new_guidance_a": " Ask for fees. ", "new_guidance_b": " State fees. "}),
        NewGuidance(guidance_a="Ask for fees.", guidance_b="State fees.", summary="More fees."),
        {
            "domain": "rules",
            "score_formula": "met points over positive points",
            "max_words": "300",
            "guidance_a": "Vary.",
            "guidance_b": "",
            "statistics": "negatives 0.20, reference 0.36",
            "gaps": '["the fee of rule two"]',
            "history": '[{"version": 1, "summary": "First.", "guidance_a": "a", "guidance_b": "b", "train_mean": 0.5}]',
        },
    ),
    "memo_optimizer": Case(
        MemoOptimizer,
        {
            "memo": "Old.",
            "hackability": "mean delta 0.40",
            "modes": {"other": 1, "breadth_padding": 3, "hedge_namedrop": 1},
            "minted": ["States the fee of rule two"],
            "history": [PastMemo(version=1, memo="Old.", score=0.4, honest_mean=0.6, decision="new")],
        },
        json.dumps({"summary": " Fees. ", "new_memo": " Ask for the fee. "}),
        NewMemo(memo="Ask for the fee.", summary="Fees."),
        {
            "max_chars": "1500",
            "summary_chars": "200",
            "memo": "Old.",
            "hackability": "mean delta 0.40",
            "modes": '{"breadth_padding": 3, "hedge_namedrop": 1, "other": 1}',
            "minted": '["States the fee of rule two"]',
            "history": '[{"version": 1, "memo": "Old.", "score": 0.4, "honest_mean": 0.6, "decision": "new"}]',
        },
    ),
    "summarizer": Case(
        Summarizer,
        {"query": "the value of rule one", "passages": [PASSAGE]},
        " One. [p1, Rule one] \n",
        "One. [p1, Rule one]",
        {
            "max_words": "400",
            "query": "the value of rule one",
            "passages": json.dumps([PASSAGE.model_dump()]),
        },
    ),
}


@contextmanager
def serving(
    reply: Callable[[ChatRequest], Fault | str] | None = None, **sections: Any
) -> Iterator[tuple[RunConfig, Gateway, ScriptedServer]]:
    def case_reply(request: ChatRequest) -> str:
        return CASES[request.model].reply  # type: ignore[index]

    with ScriptedServer({role: reply or case_reply for role in ROLES}) as server:
        # Only where the solver retrieves has every role a route.
        config = scripted_config(server.url, **{"solver": {"retrieval": True}, **sections})
        with open_test_gateway(config) as gateway:
            yield config, gateway, server
