"""The auxiliary roles of the known-truth world, each a function of its prompt, its draws and the constants."""

from eval.world.roles.answering import answer, farm
from eval.world.roles.call import Call, Role
from eval.world.roles.evolving import diagnose, guide, remember
from eval.world.roles.judging import judge, rank
from eval.world.roles.orders import value_demand
from eval.world.roles.repairing import mint, rewrite
from eval.world.roles.writing import generate, propose

__all__ = [
    "Call",
    "Role",
    "answer",
    "diagnose",
    "farm",
    "generate",
    "guide",
    "judge",
    "mint",
    "propose",
    "rank",
    "remember",
    "rewrite",
    "value_demand",
]
