"""The auxiliary models of the known-truth world, one name a role, asked by their rendered prompts alone."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from eval.world.constants import WorldConstants
from eval.world.facts import World
from eval.world.prompts import Prompt
from eval.world.roles import Call, Role, answer, diagnose, farm, generate, guide, judge, mint, propose, rank, remember
from eval.world.roles import rewrite as rewrite_task
from rri.errors import InputError

__all__ = ["MODELS", "WorldModels"]

MODELS: Mapping[str, Role] = MappingProxyType(
    {
        "proposer": propose,
        "generator": generate,
        "farmer": farm,
        "honest": answer,
        "judge": judge,
        "rewriter": rewrite_task,
        "minter": mint,
        "referee": rank,
        "analyst": diagnose,
        "meta_optimizer": guide,
        "memo_optimizer": remember,
    }
)
"""Role by the name under which it is served, which is the role's name in the config."""

_READY = "Ready"
"""Schema of the question that a run asks every endpoint first."""


class WorldModels:
    """Answers prompts as the roles would.

    A reply follows from the world's seed, the role, the prompt, and how often this very prompt was asked before. So
    votes on one prompt are independent draws, and a rerun gives the same replies in whatever order prompts of
    different text come in. No model knows the arm, and of the facts only what its prompt states.

    Args:
        world: its seed and its words; the facts stay out of the roles' sight.
        constants: how the roles behave; the fair world by default.
        draws: names a series of draws of its own. Models that start anew, or measure what others decided, would repeat
            the first series draw by draw.
    """

    def __init__(self, world: World, constants: WorldConstants | None = None, draws: str = "") -> None:
        self.constants = constants or WorldConstants()
        self._draws = f" {draws}" if draws else ""
        self._seed = world.seed
        self._values = world.values
        self._asked: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def reply(self, prompt: Prompt) -> str:
        """The text of the next reply to `prompt`.

        Raises:
            InputError: there is no such model, or the prompt does not hold what the role needs.
        """
        role = MODELS.get(prompt.model)
        if role is None:
            raise InputError(f"no model {prompt.model!r}", f"Models are: {', '.join(MODELS)}")
        self.calls[prompt.model] += 1
        if prompt.schema == _READY:
            return '{"ready": true}'
        identity = self._identity(prompt)
        number = self._asked[identity]
        self._asked[identity] += 1
        return role(Call(prompt, self._seed, identity, number, self.constants, self._values))

    def _identity(self, prompt: Prompt) -> str:
        digest = hashlib.blake2b(f"{self._seed} {prompt.model}{self._draws}".encode(), digest_size=16)
        for message in prompt.messages:
            digest.update(f"\0{message['role']}\0{message['content']}".encode())
        return digest.hexdigest()
