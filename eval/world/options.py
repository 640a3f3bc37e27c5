"""Which world a command is about: its sizes as options."""

import argparse

from eval.world.facts import World

__all__ = ["add_sizes", "world_of"]


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Options --entities, --relations and --values, with the sizes of the proving ground as defaults."""
    parser.add_argument("--entities", type=int, default=40)
    parser.add_argument("--relations", type=int, default=8)
    parser.add_argument("--values", type=int, default=16)


def world_of(options: argparse.Namespace) -> World:
    """The world of `options.seed` and of the sizes.

    Raises:
        InputError: there are not so many words.
    """
    return World.make(options.seed, options.entities, options.relations, options.values)
