"""A small world and how its base model is made in some seconds."""

from eval.world.facts import World
from eval.world.pretraining import Pretraining

__all__ = ["HASTY", "SETTINGS", "SMALL"]

SMALL = World.make(100, entities=12, relations=4, values=5)

SETTINGS = Pretraining(
    hidden=64, layers=2, heads=4, feed_forward=96, spread=0.1,
    reading=150, steps=50, batch=16, learning_rate=6e-3, warmup=20, least_copying=0.6,
)  # fmt: skip
"""Reads most values right; by chance it would be one in five."""

HASTY = Pretraining(
    hidden=16, layers=1, heads=2, feed_forward=16, reading=2, steps=2, batch=2, warmup=1, least_copying=0.0
)
"""Learns nothing, at once."""
