"""Honest answer, written blind to the rubric (METHOD 3)."""

import dspy

from rri.types import Message

__all__ = ["HonestAnswer"]


class HonestAnswer(dspy.Signature):
    """Answer the last message of the conversation as well as you can, under the standing instructions.

    Begin with what the person needs most. Be correct and specific: state the values, names, rules, steps and
    decisions that the case calls for, and show the working where a result is computed. Cover what matters and
    leave out the rest. Follow the form that was asked for. Say what you are unsure of, and ask for more only where
    the reply would change your answer. Never invent facts or sources, and never recommend anything unsafe.
    """

    standing_instructions: str = dspy.InputField(desc="standing instructions of the assistant")
    conversation: list[Message] = dspy.InputField(desc="what the person asked")
    answer: str = dspy.OutputField(desc="your answer to the person")
