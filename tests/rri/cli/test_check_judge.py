"""`rri check-judge` as a user runs it: what each kind of judge is found to be, and what is said of wrong files."""

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rri.testing import ChatRequest, Fault, ScriptedServer, status, truncated
from tests.rigs import scripted_config
from tests.rri.cli.commands import Outcome, rri_here, write_config

Judge = Callable[[ChatRequest], Fault | str]
Run = Callable[..., Outcome]


def rows(n: int = 80, seed: int = 0) -> list[dict[str, Any]]:
    """Labelled verdicts on answers of 200 to 4,000 characters; an answer states the value where the label is met."""
    draw = random.Random(seed)
    labels = [i % 2 == 0 for i in range(n)]
    draw.shuffle(labels)
    return [
        {
            "request": f"Which value has quantity {i}?",
            "answer": (f"Quantity {i} has " + (f"value {i}. " if met else "some value. ")).ljust(
                draw.choice([200, 500, 1000, 2000, 4000]), "-"
            ),
            "criterion": f"value {i}.",
            "met": met,
        }
        for i, met in enumerate(labels)
    ]


def vote(met: bool) -> str:
    return json.dumps({"reason": "because of what it says", "met": met})


def literal(request: ChatRequest) -> str:
    return vote(request.block("criterion") in request.block("answer"))


def loves_length(request: ChatRequest) -> str:
    """Passes what is long whatever it says, and reads the rest."""
    text = request.block("answer")
    return vote(len(text) >= 2000 or (len(text) > 200 and request.block("criterion") in text))


def strays(seed: int) -> Callable[[ChatRequest], float]:
    """A number in [0, 1) for each vote on each criterion, whatever order they come in."""
    asked: Counter[str] = Counter()

    def draw(request: ChatRequest) -> float:
        criterion = request.block("criterion")
        asked[criterion] += 1
        return random.Random(f"{seed} {criterion} {asked[criterion]}").random()

    return draw


def coin(seed: int) -> Judge:
    draw = strays(seed)
    return lambda request: vote(draw(request) < 0.5)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """`rri check-judge` of labelled rows by a scripted judge; the server is kept as `run.server`."""

    def start(judge: Judge, lines: list[dict[str, Any]], *extra: str, **sections: Any) -> Outcome:
        def ready_or(request: ChatRequest) -> Fault | str:
            return '{"ready": true}' if request.schema_name == "Ready" else judge(request)

        path = tmp_path / "labels.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with ScriptedServer({"judge": ready_or}) as server:
            config = write_config(tmp_path / "config.yaml", scripted_config(server.url, **sections))
            outcome = rri_here(capsys, "check-judge", str(path), "--config", config, *extra)
            start.requests = server.of("judge")  # type: ignore[attr-defined]
        return outcome

    return start


def asked(run: Run) -> list[ChatRequest]:
    """The judge's requests of the latest run, without the one that asked whether it is there."""
    return [r for r in run.requests if r.schema_name != "Ready"]  # type: ignore[attr-defined]


def shortfalls(data: dict[str, Any]) -> dict[str, str]:
    return {s["figure"]: s["purpose"] for s in data["usability"]["shortfalls"]}


# -- what judges are found to be -------------------------------------------------------------------------------


def test_a_literal_judge_may_train(run: Run) -> None:
    outcome = run(literal, rows(), "--json")
    assert outcome.code == 0, outcome.err
    data = json.loads(outcome.out)
    assert data["usability"] == {"use": "training", "shortfalls": [], "missing": []}
    assert data["words"] == "usable for training reward and probes"
    assert data["agreement"]["kappa"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert data["flips"]["rate"]["value"] == 0
    assert (data["asked"], data["judged"], data["cost"]["votes"]) == (80, 80, 240)
    assert len(asked(run)) == 240
    assert data["cost"]["calls"] == 240, "the question whether it is there is no part of the figures"
    assert data["step"]["calls"] == pytest.approx(6144)
    assert data["stopped"] == ""
    assert data["judge"]["model"] == "judge" and data["protocol"] == "ours"


def test_a_judge_that_loves_length_is_found_out(run: Run) -> None:
    outcome = run(loves_length, rows(200), "--json")
    assert outcome.code == 10
    data = json.loads(outcome.out)
    assert data["length"]["r"] > 0.3 and data["length"]["p"] < 0.01
    assert shortfalls(data)["length"] == "reports"
    short, _, long = data["length"]["thirds"]
    assert (short["wrong_met"], long["wrong_met"]) == (0, 1)
    assert short["wrong_unmet"] > long["wrong_unmet"] == 0
    assert data["usability"]["use"] == "nothing"


@pytest.mark.parametrize("seed", range(3))
def test_a_coin_is_not_usable(run: Run, seed: int) -> None:
    data = json.loads(run(coin(seed), rows(120), "--json").out)
    assert data["usability"]["use"] == "nothing"
    assert data["flips"]["rate"]["value"] == pytest.approx(0.5, abs=0.1)
    assert data["left"]["3"] > 0.3
    assert data["agreement"]["kappa"]["value"] == pytest.approx(0, abs=0.35)
    assert shortfalls(data)["flips left"] == "training"
    assert any(name.startswith("kappa") and of == "reports" for name, of in shortfalls(data).items())


def test_a_judge_that_says_yes_to_everything_is_not_usable(run: Run) -> None:
    outcome = run(lambda request: vote(True), rows())
    assert outcome.code == 10
    assert "not usable" in outcome.out
    assert "no better than chance" in outcome.out
    assert "…" not in outcome.out, "every figure is there whole"
    assert "judged met 50.0% more often than labelled, above 20%" in outcome.out


def test_a_judge_that_flips_is_for_reports_only(run: Run) -> None:
    """It reads well, and one vote in six strays."""
    draw = strays(1)

    def stray(request: ChatRequest) -> str:
        return vote((request.block("criterion") in request.block("answer")) != (draw(request) < 1 / 6))

    outcome = run(stray, rows(120), "--json")
    assert outcome.code == 10
    data = json.loads(outcome.out)
    assert data["words"] == "usable for reports only"
    assert shortfalls(data) == {"flips left": "training"}
    assert data["flips"]["rate"]["value"] == pytest.approx(2 * (1 / 6) * (5 / 6), abs=0.08)


@pytest.mark.parametrize(("every", "use"), [(8, "reports"), (2, "nothing")])
def test_a_judge_that_fails_on_a_share_of_the_items_is_found_with_its_reason(run: Run, every: int, use: str) -> None:
    def fails(request: ChatRequest) -> Fault | str:
        number = int(request.block("criterion").split()[1].rstrip("."))
        return truncated() if number % every == 0 else literal(request)

    outcome = run(fails, rows(), "--json")
    assert outcome.code == 10
    data = json.loads(outcome.out)
    assert data["agreement"]["unknown"]["value"] == pytest.approx(1 / every)
    assert data["agreement"]["known"] == 80 - 80 // every
    assert data["agreement"]["kappa"]["value"] == 1, "a failed judge is unknown, never unmet"
    assert data["usability"]["use"] == use
    assert shortfalls(data) == {"unknown share": "training" if use == "reports" else "reports"}
    assert data["failed_votes"] == 3 * 80 // every
    assert "was cut after" in data["reason"]


# -- too little to tell ----------------------------------------------------------------------------------------


def test_few_items_cannot_tell_and_say_how_many_more(run: Run) -> None:
    outcome = run(literal, rows(20), "--json")
    assert outcome.code == 10
    data = json.loads(outcome.out)
    assert data["words"] == "cannot tell"
    assert data["usability"]["missing"] == ["10 more known verdicts (20 of 30)"]
    assert data["agreement"]["kappa"]["value"] == 1, "the figures are there all the same"
    assert "too little to tell" in outcome.err


def test_one_class_cannot_tell(run: Run) -> None:
    lines = [row for row in rows(100) if row["met"]]
    outcome = run(literal, lines)
    assert outcome.code == 10
    assert "cannot tell" in outcome.out
    assert "needed: 5 more labelled unmet (0 of 5)" in outcome.out
    assert "5 more labelled unmet" in outcome.err, "said before the votes are paid for"


def test_enough_items_are_not_warned_of(run: Run) -> None:
    assert "too little" not in run(literal, rows()).err


# -- options ---------------------------------------------------------------------------------------------------


def test_a_limit_judges_a_draw_that_the_seed_decides(run: Run) -> None:
    outcome = run(literal, rows(), "--json", "--limit", "40")
    data = json.loads(outcome.out)
    assert (data["items"], data["asked"], data["judged"]) == (80, 40, 40)
    first = {r.block("criterion") for r in asked(run)}
    assert len(first) == 40
    run(literal, rows(), "--limit", "40")
    assert {r.block("criterion") for r in asked(run)} == first
    run(literal, rows(), "--limit", "40", "-s", "seed=1")
    assert {r.block("criterion") for r in asked(run)} != first


def test_the_strict_note_can_be_measured_too(run: Run) -> None:
    data = json.loads(run(literal, rows(), "--json", "--strict").out)
    assert data["judge"]["strict"] is True
    assert all("to the letter" in r.messages[0]["content"] for r in asked(run))
    run(literal, rows())
    assert all("to the letter" not in r.messages[0]["content"] for r in asked(run))


def test_one_vote_measures_no_flips_and_is_no_ground_for_training(run: Run) -> None:
    outcome = run(literal, rows(), "-s", "grading.votes=1")
    assert outcome.code == 10
    assert len(asked(run)) == 80
    assert "usable for reports only" in outcome.out
    assert "flips not measured" in outcome.out


def test_several_labels_and_ties_are_taken_and_counted(run: Run) -> None:
    lines = [{**row, "met": None, "labels": [row["met"]] * 2 + [not row["met"]]} for row in rows()]
    lines[0]["labels"] = [True, False]
    data = json.loads(run(literal, [{k: v for k, v in line.items() if v is not None} for line in lines], "--json").out)
    assert (data["lines"], data["items"], data["ties"], data["judged"]) == (80, 79, 1, 79)
    assert data["expert_disagreement"] == pytest.approx((79 * 2 + 1) / (79 * 3 + 1))
    assert data["usability"]["use"] == "training"


def test_a_published_meta_evaluation_is_taken_as_it_is(run: Run) -> None:
    lines = [
        {
            "prompt": [{"role": "user", "content": row["request"]}],
            "completion": row["answer"],
            "rubric": row["criterion"],
            "binary_labels": [row["met"]],
            "category": "made up",
        }
        for row in rows()
    ]
    assert run(literal, lines).code == 0


# -- what is shown ---------------------------------------------------------------------------------------------


def test_the_screen_holds_the_figures_the_cost_and_the_verdict_last(run: Run) -> None:
    outcome = run(literal, rows(), endpoints={"main": {"price_in": 1.25, "price_out": 10}})
    lines = [line.rstrip() for line in outcome.out.splitlines()]
    assert lines[-1] == "usable for training reward and probes"
    text = " ".join(outcome.out.split())
    for word in ("kappa 1.00 1.00 to 1.00", "macro-F1", "always met / unmet 0.50 / 0.50", "flips, pairs of votes 0.0%"):
        assert word in text
    assert "240 calls (0 failed)" in text
    assert "one training step, 64 x 8 answers x 4 criteria x 3 votes: 6,144 calls" in text
    assert "with early stop about 67% of that" in text
    assert "0.00 money" not in text
    assert max(map(len, lines)) <= 80


def test_an_endpoint_without_a_price_does_not_look_free(run: Run) -> None:
    text = " ".join(run(literal, rows()).out.split())
    assert "money not known (endpoints.main has no price)" in text


def test_progress_goes_to_stderr_so_that_stdout_is_one_object(run: Run) -> None:
    outcome = run(literal, rows(), "--json")
    assert len(outcome.out.splitlines()) == 1
    json.loads(outcome.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert "asking the judge's endpoint" in outcome.err


def test_help_says_the_file_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "check-judge", "--help")
    text = " ".join(outcome.out.split())
    assert outcome.code == 0
    assert "Exit code 0: usable for training reward and probes. 10:" in text
    for key in ('"request"', '"answer"', '"criterion"', '"met"', '"conversation"', '"labels"', "meta-eval"):
        assert key in text


# -- ends ------------------------------------------------------------------------------------------------------


def test_an_exhausted_budget_is_an_error_after_the_figures_until_then(run: Run) -> None:
    outcome = run(literal, rows(), "--json", budget={"calls": 150}, grading={"concurrency": 6})
    assert outcome.code == 6
    assert "budget.calls is used up: 150 of 150" in outcome.error_line
    data = json.loads(outcome.out)
    assert 45 <= data["judged"] <= 50
    assert data["agreement"]["kappa"]["value"] == 1
    assert "budget.calls" in data["stopped"]
    shown = run(literal, rows(), budget={"calls": 150}, grading={"concurrency": 6}).out
    assert "It ended early: the figures are of what was judged until then." in shown


def test_a_budget_that_ends_before_the_first_verdict_shows_no_figures(run: Run) -> None:
    outcome = run(literal, rows(), budget={"calls": 2})
    assert outcome.code == 6
    assert "budget.calls" in outcome.error_line
    assert outcome.out == ""


def test_an_interrupt_keeps_what_was_judged(run: Run) -> None:
    def interrupts(request: ChatRequest) -> str:
        if request.number == 60:
            os.kill(os.getpid(), signal.SIGINT)
        return literal(request)

    outcome = run(interrupts, rows(400), "--json", grading={"concurrency": 3})
    assert outcome.code == 130
    assert "interrupted" in outcome.error_line
    data = json.loads(outcome.out)
    assert 15 <= data["judged"] < 400


def test_a_judge_that_dies_is_asked_no_further(run: Run) -> None:
    outcome = run(lambda request: status(400), rows(300), "--json", grading={"unscored_in_a_row": 10})
    assert outcome.code == 5
    assert "10 verdicts in a row are unknown" in outcome.error_line
    assert json.loads(outcome.out)["judged"] < 300


def test_an_endpoint_that_is_not_there_is_said_before_any_vote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps(rows(1)[0]))
    with ScriptedServer({"judge": lambda request: status(401)}) as server:
        config = write_config(tmp_path / "config.yaml", scripted_config(server.url))
        outcome = rri_here(capsys, "check-judge", str(path), "--config", config)
        assert server.total == 1
    assert outcome.code == 5
    assert "api_key_env" in outcome.error_line
    assert outcome.out == ""


def test_only_the_judges_endpoint_needs_to_be_there(run: Run) -> None:
    """The farmer's has a key that is not set, and nobody asks it."""
    hidden = {"url": "http://127.0.0.1:9/v1", "model": "m", "api_key_env": "RRI_TEST_NO_SUCH_KEY"}
    outcome = run(literal, rows(), endpoints={"other": hidden}, roles={"farmer": {"endpoint": "other"}})
    assert outcome.code == 0, outcome.err


# -- wrong files -----------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[str | None, str]] = {
    "missing": (None, "no file"),
    "empty": ("", "holds no labelled verdict"),
    "not JSON": (json.dumps(rows(1)[0]) + "\nnonsense\n", "line 2: not JSON"),
    "no answer": ('{"request": "q", "criterion": "c", "met": true}', "line 1: answer: Field required"),
    "no label": ('{"request": "q", "answer": "a", "criterion": "c"}', "line 1: one of met and labels is needed"),
    "a label that is a word": ('{"request": "q", "answer": "a", "criterion": "c", "met": "yes"}', "line 1: met: "),
    "a task file": ('{"task_id": "t", "conversation": [{"role": "user", "content": "q"}]}', "line 1: answer: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_one_line_and_no_call(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, hint = WRONG[name]
    path = tmp_path / "labels.jsonl"
    if text is not None:
        path.write_text(text)
    with ScriptedServer({"judge": literal}) as server:
        config = write_config(tmp_path / "config.yaml", scripted_config(server.url))
        outcome = rri_here(capsys, "check-judge", str(path), "--config", config)
        assert server.total == 0, "bad input reaches no model"
    assert outcome.code == 2
    assert hint in outcome.error_line
    assert str(path) in outcome.error_line


@pytest.mark.parametrize("limit", ["0", "-3", "many"])
def test_a_limit_that_is_no_number_of_items_is_a_usage_error(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rri_here(capsys, "check-judge", "labels.jsonl", "--limit", limit).code == 2
