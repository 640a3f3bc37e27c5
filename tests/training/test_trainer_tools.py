"""Searches of the solver: read, bounded, masked in the loss, and in step on ranks that take different turns."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOTrainer  # type: ignore[attr-defined]

from rri.client import ServiceClient
from rri.wire import RunInfo, ToolSettings
from tests.training.bigram import ASK, ASK_ONE, END, TOLD, make_bigram, token_id
from tests.training.fake_service import FakeService
from tests.training.starts import Launch, trainer
from training.peers import Peers
from training.tools import NO_ROOM, NOTHING, SEARCH, TOO_MANY, Call, ToolRollouts, why_no_tools

FOUND = "Rules [p1] ^~^~^~^~"
"""Its signs stand nowhere else, so that a weight of theirs can only be moved by what was found."""

PROMPT = [{"role": "user", "content": "task"}]


@pytest.fixture(scope="module")
def bigram(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bigram(tmp_path_factory.mktemp("bigram"))


def searching(make_info: Callable[..., RunInfo], model: Path, **changes: Any) -> RunInfo:
    tools = ToolSettings(answer_tokens=8, timeout_s=5, **changes.pop("tools", {}))
    solver = {"max_completion_length": 400, "learning_rate": 1e-4}
    return make_info(base_model=str(model), retrieval=True, tools=tools, solver=solver, **changes)


# --- in whole runs -----------------------------------------------------------------------------------------------


def columns(folder: Path) -> dict[str, Any]:
    """Token -> the weights that say what comes after it."""
    weight = AutoModelForCausalLM.from_pretrained(folder).lm_head.weight
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return {token: weight[:, token_id(tokenizer, token)] for token in ("^", "~", ASK, "A")}


def test_queries_are_trained_and_what_they_find_is_not(
    launch: Launch, make_info: Callable[..., RunInfo], bigram: Path, tmp_path: Path
) -> None:
    # One update: after it the model is no table any more, and every weight bears on every token.
    info = searching(make_info, bigram, cycles=1, tasks_per_cycle=4, tasks_per_update=4)
    run = tmp_path / "run"
    with FakeService(info, found=FOUND) as service:
        started = trainer(launch, "cpu.yaml", run, service.url, "--log_completions", "True")
        assert started.wait() == 0, started.output
    before, after = columns(bigram), columns(run / "checkpoints" / "final")
    assert (before["^"] == after["^"]).all() and (before["~"] == after["~"]).all(), "results are masked"
    assert not (before[ASK] == after[ASK]).all(), "queries are trained"
    assert not (before["A"] == after["A"]).all(), "answers are trained"
    assert service.queries and set(service.queries) == {"rule one", "rule two"}
    table = pd.concat(pd.read_parquet(p) for p in sorted((run / "checkpoints" / "completions").glob("*.parquet")))
    wholes = [completion[0]["content"] for completion in table["completion"]]
    assert any(text.count(ASK) > 2 for text in wholes), "some rollout tries a third search"
    assert len(service.queries) == sum(min(2, text.count(ASK)) for text in wholes), "and does not get it"
    assert all((TOO_MANY in text) == (text.count(ASK) > 2) for text in wholes)
    rows = [row for request in service.grades for row in request.rows]
    for row, text in zip(rows, wholes, strict=True):
        ended = text.endswith(TOLD)
        assert row.finished is not ended, "a last turn that asks is no answer"
        assert row.answer == ("" if ended else text.split("assistant\n")[-1])
    log = json.loads((run / "checkpoints" / "final" / "trainer_state.json").read_text())["log_history"]
    assert log[0]["grade/tool_calls"] == pytest.approx(sum(text.count(ASK) for text in wholes) / 16)
    assert log[0]["grade/tool_errors"] == pytest.approx(
        sum(text.count(TOO_MANY) for text in wholes) / sum(text.count("<tool_response>") for text in wholes)
    )


def test_two_zero3_ranks_take_different_numbers_of_turns(
    launch: Launch, make_info: Callable[..., RunInfo], bigram: Path, tmp_path: Path
) -> None:
    """Two answers a rank, half of whose turns search: with TRL's own loop the ranks would part at the first such cycle.

    The rounds of validation between them search as well.
    """
    info = searching(
        make_info, bigram, cycles=4, tasks_per_cycle=1, tasks_per_update=1, save_every_cycles=4, validate_every_cycles=2
    )
    run = tmp_path / "run"
    ops = {"TORCH_EXTENSIONS_DIR": str(tmp_path / "ops")}
    with FakeService(info, found=FOUND, held_out=1) as service:
        started = trainer(launch, "zero3_cpu.yaml", run, service.url, "--log_completions", "True", **ops)
        assert started.wait() == 0, started.output
    turns = []
    for path in sorted((run / "checkpoints" / "completions").glob("*.parquet")):
        asked = [c[0]["content"].count(ASK) for c in pd.read_parquet(path)["completion"]]
        turns.append((max(asked[:2]), max(asked[2:])))
    assert len(turns) == 4
    assert any(left != right for left, right in turns), turns
    log = json.loads((run / "checkpoints" / "final" / "trainer_state.json").read_text())["log_history"]
    assert all(math.isfinite(entry["loss"]) for entry in log if "loss" in entry)
    assert sorted(service.rounds()) == [1, 3]


def test_a_search_that_fails_is_a_result_that_says_so(
    launch: Launch, make_info: Callable[..., RunInfo], bigram: Path, tmp_path: Path
) -> None:
    info = searching(make_info, bigram, cycles=1)
    run = tmp_path / "run"
    with FakeService(info, refuse={"/v1/search": -1}) as service:
        started = trainer(launch, "cpu.yaml", run, service.url, "--log_completions", "True")
        assert started.wait() == 0, started.output
    table = pd.read_parquet(run / "checkpoints" / "completions" / "completions_00001.parquet")
    texts = "".join(completion[0]["content"] for completion in table["completion"])
    assert "Error: the search failed: POST" in texts and "paused" in texts
    log = json.loads((run / "checkpoints" / "final" / "trainer_state.json").read_text())["log_history"]
    assert log[0]["grade/tool_errors"] == 1.0


# --- one rank by itself --------------------------------------------------------------------------------------------


class Scripted:
    """A trainer whose model writes these turns, whatever it reads. What is read is kept."""

    use_vllm = _is_vlm = False
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] = {}

    def __init__(self, model: Path, turns: Sequence[Sequence[str]], limit: int = 400) -> None:
        self.processing_class = self._tokenizer = AutoTokenizer.from_pretrained(model)
        self.eos_token_ids = [token_id(self.processing_class, END)]
        self.max_completion_length = limit
        self.generation_config = SimpleNamespace(max_new_tokens=limit, temperature=1.0)
        text_config = SimpleNamespace(max_position_embeddings=4096)
        self.model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: text_config))
        self.turns = list(turns)
        self.read: list[list[list[int]]] = []
        self.limits: list[int] = []

    def _generate_single_turn(self, prompts: Any, images: Any, fields: Any, number: int) -> tuple[Any, None]:
        self.read.append(prompts)
        self.limits.append(self.generation_config.max_new_tokens)
        texts = self.turns.pop(0)
        assert len(texts) == len(prompts)
        return [self.processing_class.encode(text, add_special_tokens=False) for text in texts], None

    def _get_tool_suffix_ids(self, messages: Any) -> Any:
        return GRPOTrainer._get_tool_suffix_ids(self, messages)


def result(text: str) -> str:
    """A result as the template puts it between two turns."""
    return f"\n<|im_start|>user\n<tool_response>\n{text}\n</tool_response>{END}\n<|im_start|>assistant\n"


def tokens(model: Path, text: str) -> int:
    return len(AutoTokenizer.from_pretrained(model).encode(text, add_special_tokens=False))


ASKED = f"{ASK}{ASK_ONE}{TOLD}{END}"


@pytest.fixture
def service(make_info: Callable[..., RunInfo]) -> FakeService:
    return FakeService(make_info(), found=FOUND)


def rolled(service: FakeService, scripted: Scripted, prompts: int = 1, **settings: Any) -> dict[str, Any]:
    with service:
        client = ServiceClient(service.url)
        rollouts = ToolRollouts(client, ToolSettings(**{"answer_tokens": 8, **settings}), Peers(5))
        try:
            return rollouts([PROMPT] * prompts, scripted)
        finally:
            client.close()


def results(turns: Sequence[Any]) -> list[str]:
    return [message["content"] for message in turns if message["role"] == "tool"]


def test_at_most_two_calls_then_an_error_then_the_last_turn(service: FakeService, bigram: Path) -> None:
    scripted = Scripted(bigram, [[ASKED]] * 4)
    (turns,) = rolled(service, scripted)["turns"]
    assert results(turns) == [FOUND, FOUND, TOO_MANY]
    assert len(service.queries) == 2
    assert scripted.turns == [], "four turns, and no fifth"


def test_calls_count_and_not_turns(service: FakeService, bigram: Path) -> None:
    """Three calls in one turn: two are answered, and the third is told."""
    three = f"{ASK}{ASK_ONE}{TOLD}" * 3 + END
    (turns,) = rolled(service, Scripted(bigram, [[three], [f"B{END}"]]))["turns"]
    assert [text == TOO_MANY for text in results(turns)] == [False, False, True]
    assert (turns[-1]["role"], turns[-1]["content"]) == ("assistant", "B")


def test_the_mask_covers_results_alone(service: FakeService, bigram: Path) -> None:
    scripted = Scripted(bigram, [[ASKED, f"A{END}"], [f"B{END}"]])
    output = rolled(service, scripted, prompts=2)
    tokenizer = scripted.processing_class
    assert output["logprobs"] is None
    for ids, mask in zip(output["completion_ids"], output["env_mask"], strict=True):
        assert len(ids) == len(mask)
    ids, mask = output["completion_ids"][0], output["env_mask"][0]
    written = tokenizer.decode([i for i, m in zip(ids, mask, strict=True) if m])
    given_ = tokenizer.decode([i for i, m in zip(ids, mask, strict=True) if not m])
    assert written == f"{ASKED}B{END}"
    assert given_ == result(FOUND)
    assert output["env_mask"][1] == [1, 1]
    # The next turn reads prompt, call and result, token by token as they are trained.
    assert scripted.read[1] == [output["prompt_ids"][0] + ids[:-2]]


def test_a_result_is_cut_and_one_without_room_is_withheld(service: FakeService, bigram: Path) -> None:
    (turns,) = rolled(service, Scripted(bigram, [[ASKED], [f"B{END}"]]), result_chars=5)["turns"]
    assert results(turns) == ["Rules"]
    least = tokens(bigram, ASKED + result(FOUND)) + 50
    for limit, seen in ((least, FOUND), (least - 1, NO_ROOM)):
        scripted = Scripted(bigram, [[ASKED], [f"B{END}"]], limit=limit)
        (turns,) = rolled(service, scripted, answer_tokens=50)["turns"]
        assert results(turns) == [seen]


def test_the_error_must_fit_as_well(service: FakeService, bigram: Path) -> None:
    least = tokens(bigram, ASKED + result(NO_ROOM)) + 1
    (turns,) = rolled(service, Scripted(bigram, [[ASKED], [END]], limit=least), answer_tokens=300)["turns"]
    assert results(turns) == [NO_ROOM]
    scripted = Scripted(bigram, [[ASKED]], limit=least - 1)
    output = rolled(service, scripted, answer_tokens=300)
    assert results(output["turns"][0]) == []
    assert len(output["completion_ids"][0]) == 4, "nothing was added that no turn follows"


def test_no_answer_is_longer_than_the_limit(service: FakeService, bigram: Path) -> None:
    before = tokens(bigram, ASKED + result(FOUND))
    scripted = Scripted(bigram, [[ASKED], ["A" * 300]], limit=before + 9)
    output = rolled(service, scripted)
    assert len(output["completion_ids"][0]) == len(output["env_mask"][0]) == before + 9
    assert scripted.limits == [before + 9, 9]
    assert scripted.generation_config.max_new_tokens == before + 9, "the trainer's own limit is back"


def test_a_call_in_a_turn_that_was_cut_is_no_call(service: FakeService, bigram: Path) -> None:
    output = rolled(service, Scripted(bigram, [[ASKED.removesuffix(END)]]))
    assert results(output["turns"][0]) == [] and service.queries == []


class Others(Peers):
    """Peers of which another one goes on for `turns` turns."""

    def __init__(self, turns: int) -> None:
        super().__init__(5)
        self.left = turns

    def all(self, own: Any) -> list[Any]:
        self.left -= 1
        return [own, self.left >= 0]


def test_a_rank_without_calls_writes_as_often_as_the_others(service: FakeService, bigram: Path) -> None:
    scripted = Scripted(bigram, [[f"A{END}", f"B{END}"], ["A"], ["A"]])
    with service:
        output = ToolRollouts(ServiceClient(service.url), ToolSettings(), Others(3))([PROMPT, PROMPT], scripted)
    assert scripted.turns == []
    assert scripted.limits == [400, 1, 1]
    assert [len(ids) for ids in output["completion_ids"]] == [2, 2], "what it wrote for that is thrown away"


# --- calls and results ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "query", "problem"),
    [
        ({"type": "function", "function": {"name": SEARCH, "arguments": {"query": " q "}}}, "q", ""),
        ({"name": SEARCH, "arguments": {"query": "q", "extra": 1}}, "q", ""),
        ({"name": "web_search", "arguments": {"query": "q"}}, "", "no tool web_search"),
        ({"name": SEARCH, "arguments": {"query": "  "}}, "", "has no query"),
        ({"name": SEARCH, "arguments": {"query": ["q"]}}, "", "has no query"),
        ({"name": SEARCH, "arguments": "q"}, "", "has no query"),
        ({"name": SEARCH}, "", "has no query"),
        ({"name": SEARCH, "arguments": {"query": "a\ud800b"}}, "a?b", ""),
    ],
)
def test_calls_as_models_write_them(call: dict[str, Any], query: str, problem: str) -> None:
    read = Call.read(call)
    assert read.query == query
    assert problem in read.problem and bool(read.problem) == bool(problem)


def test_a_search_that_finds_nothing_says_so(make_info: Callable[..., RunInfo], bigram: Path) -> None:
    (turns,) = rolled(FakeService(make_info()), Scripted(bigram, [[ASKED], [f"B{END}"]]))["turns"]
    assert results(turns) == [NOTHING]


def test_only_a_template_whose_calls_can_be_read_will_do(bigram: Path, tiny_model: Path) -> None:
    assert why_no_tools(AutoTokenizer.from_pretrained(bigram)) == ""
    assert "renders no tool calls" in why_no_tools(AutoTokenizer.from_pretrained(tiny_model))
    own = AutoTokenizer.from_pretrained(bigram)
    own.chat_template += "{# ours #}"
    assert "none of those whose tool calls TRL reads" in why_no_tools(own)
