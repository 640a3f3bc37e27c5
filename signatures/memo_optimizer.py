"""Memo optimizer: a new exploit memo (METHOD 3)."""

import dspy

from rri.types import Frozen

__all__ = ["PastMemo", "WriteMemo"]


class PastMemo(Frozen):
    """One earlier version of the memo.

    `score` is the objective g of METHOD 7, lower is better. It and `honest_mean` are None while unmeasured.
    """

    version: int
    memo: str
    score: float | None = None
    honest_mean: float | None = None
    decision: str = ""


class WriteMemo(dspy.Signature):
    """An author writes tasks with rubrics. An adversary who reads each rubric and may use no knowledge tries to earn
    its points with an empty answer. You keep the memo that the author reads on how rubrics were beaten. Write the
    whole memo anew.

    One number counts, and it must go down: how far the empty answer comes up to an honest one, with an extra charge
    when honest answers score higher than at the start. So easier rubrics do not help.

    The one means is that every criterion demands a specific fact that can be checked and that naming a subject
    does not supply. Write orders to the author in the form "Do not write ...; write ... instead". Rest each of them on
    a way of cheating that the evidence shows. Keep what lowered the number before, and do not return to what
    raised it.

    A memo that breaks one of these rules is thrown away unread.
    - Nothing about dropping criteria for errors, lower points, milder grading or credit for part of a criterion.
    - No word about how many criteria there are, how many points they carry, or which part of the tasks has what.
      Code decides that.
    - No item of a benchmark, nor anything close to one.
    - At most `max_chars` characters.

    If honest answers already score poorly, the rubrics are tight enough: say so in `summary` and return an empty memo,
    and the current one stays.
    """

    max_chars: int = dspy.InputField(desc="longest memo, in characters")
    summary_chars: int = dspy.InputField(desc="longest summary, in characters")
    memo: str = dspy.InputField(desc="the current memo; may be empty")
    hackability: str = dspy.InputField(desc="how far the adversary came, as measured")
    modes: dict[str, int] = dspy.InputField(desc="ways of cheating that were seen, with how often")
    minted: list[str] = dspy.InputField(desc="criteria that were added after exploits and proved to tell answers apart")
    history: list[PastMemo] = dspy.InputField(
        desc="earlier memos, oldest first: the number each reached, the mean honest score, what became of it"
    )
    problems: list[str] | None = dspy.InputField(desc="what was wrong with the memo before; avoid all of it")
    summary: str = dspy.OutputField(desc="what you change and why")
    new_memo: str = dspy.OutputField(desc="the whole new memo, or empty to keep the current one")
