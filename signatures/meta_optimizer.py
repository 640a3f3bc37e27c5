"""Meta-optimizer: new guidance for the two generation prompts (METHOD 3)."""

import dspy

from rri.types import Frozen

__all__ = ["PastGuidance", "WriteGuidance"]


class PastGuidance(Frozen):
    """One earlier version of the guidance. `train_mean` is None where nothing was graded under it."""

    version: int
    summary: str
    guidance_a: str
    guidance_b: str
    train_mean: float | None = None


class WriteGuidance(dspy.Signature):
    """You steer two writers whose tasks train an assistant: one proposes requests, the other turns each request into
    a task with a rubric. Both read your guidance after their own instructions. Write it anew from the evidence, as
    plain orders to them: `new_guidance_a` for requests, `new_guidance_b` for tasks and rubrics.

    How to weigh the evidence.
    1. The mean training score measures difficulty and is never a goal: whoever makes tasks easier raises it. The
       range that is right stands in `statistics`. Near 0.9 the tasks are too easy, near 0.1 too hard.
    2. Figures on distribution and diversity are arithmetic. Where one has drifted from its reference, mend that first
       and give the number to reach.
    3. Of the counted diagnoses, only `model_failed_fair_task` calls for more tasks of that kind. `generator_at_fault`
       calls for better orders to the writers.
    4. Hackability is measured by a fixed adversary. It gives no leave to relax: vague criteria raise it.

    The new guidance must do all of this at once.
    - It brings the distribution to its reference.
    - It widens variety by naming axes to vary, never by listing topics.
    - Its criteria can be checked from the answer, and repeating the request does not meet them.
    - Its tasks train the concrete gaps.
    Keep what works and change what does not. Where the history shows two alternatives tried in turn, take a third way.

    Hard limits, whatever the evidence says.
    - Never aim at the assistant's private reasoning, at word caps for answers, or at echoing exact headers.
    - Never make rubrics easier, more open about themselves or more lenient, and never derive them one to one from what
      the request asks for. Difficulty rises through the task.
    - One to five short criteria, one fact each, of 5 to 10 points, mostly 8, with no total to reach.
    - Negative points where a real trap exists, on roughly one task in three. Code draws the exact share.
    - Name no item of a benchmark, nor anything close to one.
    """

    domain: str | None = dspy.InputField(desc="what the tasks are to be about")
    score_formula: str = dspy.InputField(desc="how an answer's score is computed")
    max_words: int = dspy.InputField(desc="longest guidance, in words, for each of the two")
    guidance_a: str = dspy.InputField(desc="current guidance for requests; may be empty")
    guidance_b: str = dspy.InputField(desc="current guidance for tasks and rubrics; may be empty")
    statistics: str = dspy.InputField(desc="figures of the latest tasks beside their references")
    diagnoses: str = dspy.InputField(desc="counted diagnoses of graded cases")
    gaps: list[str] = dspy.InputField(desc="what the assistant lacked, case by case")
    exploits: str = dspy.InputField(desc="confirmed exploits, accepted repairs, measured hackability")
    history: list[PastGuidance] = dspy.InputField(desc="earlier versions, oldest first, with the mean score under each")
    problems: list[str] | None = dspy.InputField(desc="what was wrong with the guidance before; avoid all of it")
    summary: str = dspy.OutputField(
        desc="what the evidence shows and what you change for it, in two or three sentences"
    )
    new_guidance_a: str = dspy.OutputField(desc="the whole new guidance for requests")
    new_guidance_b: str = dspy.OutputField(desc="the whole new guidance for tasks and rubrics")
