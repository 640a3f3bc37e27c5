"""Admission rewriter (METHOD 3)."""

import dspy

from rri.types import Criterion, Message
from signatures.generator import DraftCriterion

__all__ = ["RewriteTask"]


class RewriteTask(dspy.Signature):
    """A rubric was beaten: an empty answer earned as much as an honest one, or the honest one could not be told
    apart by it. Rewrite the task and its rubric together so that knowledge and work are what pays.

    Compare the two answers. Find which criteria paid the empty answer for merely raising a subject, and what the
    honest answer holds that earned nothing. A new criterion with negative points alone does not mend this: the
    criteria with positive points must change.
    - Every criterion with positive points demands something checkable that has to be known or derived: a value,
      a name, a rule, a step, a computed result, a decision for this case.
    - If the question itself can be answered without knowledge, change the question. Keep its setting, its field and
      its difficulty.
    - Keep at least as many criteria as before and add at most three. Positive points lie between 5 and 10, negative
      ones between -10 and -5. Have at least two criteria with positive points, unless `red_team` is true, and at
      most three with negative points.
    - Each criterion can be checked by itself from the answer alone. Never split one fact over two criteria.
    - A criterion with negative points names an error as something an answer does, never as something left out.
    - The task mentions no rubric, no grading and no other answer.

    Your rewrite is attacked and measured again. Only that measurement decides whether it is used.
    """

    conversation: list[Message] = dspy.InputField(desc="the task as it stands; its last message is to be rewritten")
    rubric: list[Criterion] = dspy.InputField(desc="the rubric as it stands")
    exploit: str = dspy.InputField(desc="the empty answer that the rubric paid for")
    honest: str = dspy.InputField(desc="an honest answer, written without sight of the rubric")
    red_team: bool = dspy.InputField(desc="whether the task holds a trap on purpose")
    problems: list[str] | None = dspy.InputField(desc="what was wrong with the rewrite before; avoid all of it")
    task: str = dspy.OutputField(desc="the new last message of the conversation")
    criteria: list[DraftCriterion] = dspy.OutputField(desc="the new rubric", min_length=1, max_length=12)
    exploit_fails: str = dspy.OutputField(desc="why the empty answer earns little now, in a sentence")
    honest_passes: str = dspy.OutputField(desc="why the honest answer earns most of it, in a sentence")
