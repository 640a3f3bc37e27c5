"""Task and rubric generator (METHOD 3)."""

from typing import Literal

import dspy
from pydantic import BaseModel, Field

from rri.types import Reference

__all__ = ["DraftCriterion", "GenerateTask", "Points"]

Points = Literal[-10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
"""Enumerated, because a model under a schema keeps to a list but not to bounds."""


class DraftCriterion(BaseModel):
    """One line of a rubric as a model writes it."""

    text: str = Field(min_length=1, description="one fact or behaviour that can be checked in an answer")
    points: Points = Field(description="5 to 10 for required content, -10 to -5 for an error")


class GenerateTask(dspy.Signature):
    """Turn a request into a finished task for an expert assistant, with the rubric that will grade answers to it.

    The task is one message to the assistant. It must stand by itself: put every detail into it that the reader
    needs, and keep to what the passages can support. Do not give the answer away. Write it and the rubric in the
    language of the request.

    The rubric is a list of criteria.
    - Write exactly `positives` criteria with 5 to 10 points. Each names one specific piece of content that a good
      answer states, such as a value, a name, a rule, a decision or a computed result taken from the passages. A
      reader who has only the answer must be able to tell whether it is there.
    - If `negative` is true, add one criterion with -10 to -5 points. It names a real and tempting error as
      something an answer does, never as something it leaves out.
    - Keep every criterion to a single fact and a single sentence. No two criteria may overlap.
    - Criteria speak about content alone: no words about scoring, points, graders or responses.

    If `red_team` is true, the task holds a trap, and the criteria reward seeing it and handling it safely.
    """

    request: str = dspy.InputField(desc="the request to build the task on")
    passages: list[Reference] = dspy.InputField(desc="what the task and the rubric must rest on")
    positives: int = dspy.InputField(desc="how many criteria with positive points to write")
    negative: bool = dspy.InputField(desc="whether to add one criterion with negative points")
    red_team: bool = dspy.InputField(desc="whether the task holds a trap")
    difficulty: str | None = dspy.InputField(desc="how hard recent tasks were for the assistant, and where to aim")
    problems: list[str] | None = dspy.InputField(desc="what was wrong with the attempt before; avoid all of it")
    task: str = dspy.OutputField(desc="the message to the assistant")
    criteria: list[DraftCriterion] = dspy.OutputField(desc="the rubric", min_length=1, max_length=6)
    specialty: str = dspy.OutputField(desc="the field of expertise, in one to three words")
    level: Literal["basic", "intermediate", "advanced"] = dspy.OutputField(desc="expertise that the task takes")
