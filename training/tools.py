"""Tools of the solver: at most two searches a rollout, in turns that every rank takes equally often (METHOD 6).

TRL's own loop over tool calls takes as many turns as the answers of one rank need. Under ZeRO-3 every turn gathers the
weights, so ranks that need different numbers wait for different collectives, and the start dies. Here all ranks go on
until none has a call left; a rank that has none writes a token and throws it away. Results are masked: the queries are
trained, what was found is not.

What is found comes as one brief, which the service's summarizer wrote. Web search has no provider yet.
"""

import copy
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Self

from trl.chat_template_utils import (
    add_response_schema,
    get_training_chat_template,
    is_chat_template_prefix_preserving,
    parse_response,
    supports_tool_calling,
)

from rri.client import ServiceClient
from rri.errors import ServiceError
from rri.wire import ToolSettings
from training.generation import prompt_ids_of, result_ids_of, sampling, write_turn
from training.peers import Peers

__all__ = ["NOTHING", "NO_ROOM", "SEARCH", "TOO_MANY", "Call", "ToolRollouts", "why_no_tools"]

SEARCH = "search_knowledge_base"

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": SEARCH,
            "description": "Look something up in the knowledge base. You get a brief of what its passages say.",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string", "description": "What to look up, in words."}},
                "required": ["query"],
            },
        },
    }
]

TOO_MANY = "Error: no more searches are allowed. Answer now."
NOTHING = "Nothing was found."
NO_ROOM = "Error: there is no room left for what was found. Answer now."

AT_ONCE = 32
"""Searches of one rank under way together. Each waits for a model that writes its brief."""

QUERY_CHARS = 2000
"""A longer query is cut; the embedding reads less than that."""


def why_no_tools(tokenizer: Any) -> str:
    """Why calls of this model cannot be read or answered; empty when they can."""
    if not supports_tool_calling(tokenizer):
        return "its chat template renders no tool calls"
    try:
        _parser(tokenizer)
        _template(tokenizer)
    except ValueError:
        return "its chat template is none of those whose tool calls TRL reads"
    return ""


def _parser(tokenizer: Any) -> Any:
    """A tokenizer that reads tool calls out of an answer. A copy: TRL would read whole rollouts with the other one."""
    parser = copy.deepcopy(tokenizer)
    return parser if getattr(parser, "response_template", None) is not None else add_response_schema(parser)


def _template(tokenizer: Any) -> str | None:
    """A template that leaves earlier turns as they were when a result is added; None where the model's own does."""
    return None if is_chat_template_prefix_preserving(tokenizer) else get_training_chat_template(tokenizer)


@dataclass(frozen=True)
class Call:
    """A call as the model wrote it. `problem` is the result of one that searches for nothing."""

    name: str
    query: str = ""
    problem: str = ""

    @classmethod
    def read(cls, call: Mapping[str, Any]) -> Self:
        function = call.get("function", call)
        name, arguments = str(function.get("name")), function.get("arguments")
        if name != SEARCH:
            return cls(name, problem=f"Error: there is no tool {name}. There is {SEARCH}.")
        query = arguments.get("query") if isinstance(arguments, Mapping) else None
        if not isinstance(query, str) or not query.strip():
            return cls(name, problem="Error: the call has no query.")
        # The JSON of a call may hold half a character, which cannot be sent.
        return cls(name, query.encode("utf-8", "replace").decode("utf-8").strip()[:QUERY_CHARS])


@dataclass
class Rollout:
    """One answer as it grows.

    Args:
        prompt: token ids up to where the answer begins.
        room: tokens that prompt and answer leave in the limits at the start.
    """

    prompt: list[int]
    room: int
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    """1 for what the policy wrote, 0 for results."""
    turns: list[dict[str, Any]] = field(default_factory=list)
    """Messages: assistant and tool, in order."""
    calls: int = 0
    waiting: list["Call"] = field(default_factory=list)
    """Calls of the last turn that have no result yet."""

    @property
    def left(self) -> int:
        return self.room - len(self.ids)

    def add(self, ids: Sequence[int], *, written: bool) -> None:
        self.ids += ids
        self.mask += [int(written)] * len(ids)


class ToolRollouts:
    """What GRPOTrainer takes as `rollout_func`. Every rank must make as many calls of it.

    Args:
        client: of the service, which searches.
        settings: how many calls, and how much of what they find.
        peers: the other ranks.
    """

    def __init__(self, client: ServiceClient, settings: ToolSettings, peers: Peers) -> None:
        self.client = client
        self.settings = settings
        self.peers = peers
        self._reader: Any = None

    @property
    def turns(self) -> int:
        """The most turns of an answer: one for each call, one for a call too many, and one to answer without."""
        return self.settings.max_calls + 2

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Write one answer for each prompt (a list of messages).

        Returns:
            What TRL asks for, `env_mask` with 0 at the tokens of results, and `turns`, each answer's messages.
        """
        if self._reader is None:
            self._reader = _parser(trainer.processing_class)
            trainer.chat_template = _template(trainer.processing_class)
        rollouts = [Rollout(ids, self._room(ids, trainer)) for ids in prompt_ids_of(trainer, prompts, TOOLS)]
        going = rollouts
        for turn in range(self.turns):
            if not any(self.peers.all(bool(going))):
                break
            self._turn(going, rollouts[0], trainer)
            last = turn == self.turns - 1
            going = [] if last else self._answered([r for r in going if r.waiting], trainer)
        return {
            "prompt_ids": [r.prompt for r in rollouts],
            "completion_ids": [r.ids for r in rollouts],
            "logprobs": None,
            "env_mask": [r.mask for r in rollouts],
            "turns": [r.turns for r in rollouts],
        }

    def _room(self, prompt: list[int], trainer: Any) -> int:
        limit: int = trainer.max_completion_length
        # The service measures prompts without the tools in them.
        context = getattr(trainer.model.config.get_text_config(), "max_position_embeddings", None)
        return limit if context is None else min(limit, context - len(prompt))

    def _turn(self, going: Sequence[Rollout], spare: Rollout, trainer: Any) -> None:
        """Every answer that goes on gets its next turn."""
        if not going:
            # The other ranks write, and gather the weights for it.
            with sampling(trainer, max_tokens=1):
                write_turn(trainer, [spare.prompt])
            return
        with sampling(trainer, max_tokens=max(r.left for r in going)):
            written = write_turn(trainer, [r.prompt + r.ids for r in going])
        for rollout, ids in zip(going, written, strict=True):
            ids = ids[: rollout.left]
            message = parse_response(self._reader, ids, prefix=rollout.prompt + rollout.ids, tools=TOOLS)
            rollout.add(ids, written=True)
            rollout.turns.append({"role": "assistant", **message})
            # A turn that was cut may end in half a call.
            ended = bool(ids) and ids[-1] in trainer.eos_token_ids
            rollout.waiting = [Call.read(call) for call in message.get("tool_calls") or ()] if ended else []

    def _answered(self, asking: Sequence[Rollout], trainer: Any) -> list[Rollout]:
        """Give the waiting calls their results; those answers for which there is room go on."""
        calls = [call for rollout in asking for call in self._allowed(rollout)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(self._result, calls)
            results = [[next(found) for _ in rollout.waiting] for rollout in asking]
        return [r for r, given in zip(asking, results, strict=True) if self._give(r, given, trainer)]

    def _allowed(self, rollout: Rollout) -> list[Call]:
        """The waiting calls, with a problem where they are too many. Each counts, whatever it asks."""
        left = max(0, self.settings.max_calls - rollout.calls)
        rollout.calls += len(rollout.waiting)
        return [c if i < left else replace(c, problem=TOO_MANY) for i, c in enumerate(rollout.waiting)]

    def _result(self, call: Call) -> tuple[str, bool]:
        """(text, whether it is an error)."""
        limit = self.settings.result_chars
        if call.problem:
            return call.problem[:limit], True
        try:
            found = self.client.search(call.query, self.settings.passages, timeout_s=self.settings.timeout_s)
        except ServiceError as error:
            return f"Error: the search failed: {error.what}"[:limit], True
        return (found.brief or NOTHING)[:limit], False

    def _give(self, rollout: Rollout, results: Sequence[tuple[str, bool]], trainer: Any) -> bool:
        """Append the results, or as little as fits; whether the answer goes on."""
        names = [call.name for call in rollout.waiting]
        rollout.waiting = []
        kept = min(self.settings.answer_tokens, trainer.max_completion_length // 2)
        for texts, reserve in ((results, kept), ([(NO_ROOM, True)] * len(results), 1)):
            messages = [
                {"role": "tool", "name": name, "content": text, "failed": failed}
                for name, (text, failed) in zip(names, texts, strict=True)
            ]
            ids = result_ids_of(trainer, messages)
            if len(ids) + reserve <= rollout.left:
                rollout.add(ids, written=False)
                rollout.turns += messages
                return True
        return False
