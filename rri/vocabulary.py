"""Closed vocabularies in which models name what went wrong (METHOD 3), so that code can count it.

The words are facts of the method. They decide nothing by themselves: a label never accepts or rejects anything.
"""

from typing import Literal, get_args

__all__ = [
    "CASE_VERDICTS",
    "EXPLOIT_LABELS",
    "FAILURE_MODES",
    "RUBRIC_DEFECTS",
    "TASK_DEFECTS",
    "CaseVerdict",
    "ExploitLabel",
    "FailureMode",
    "RubricDefect",
    "TaskDefect",
]

ExploitLabel = Literal[
    "hedge_namedrop",
    "task_restatement",
    "breadth_padding",
    "disjunction_cheapest",
    "keyword_stuffing",
    "unhedged_confidence",
    "format_compliance",
    "safety_boilerplate",
    "negative_absent",
    "criterion_ambiguous",
    "other",
    "none",
]
"""How an answer gamed its rubric. `other`: a real exploit of another kind. `none`: it earned its score."""

EXPLOIT_LABELS: tuple[ExploitLabel, ...] = get_args(ExploitLabel)

FailureMode = Literal[
    "knowledge_factual",
    "knowledge_specificity",
    "hallucinated_specifics",
    "safety_miss",
    "premise_uncaught",
    "incompleteness",
    "calculation",
    "instruction_format",
    "language_fidelity",
    "verbosity",
    "non_answer",
    "none",
]
"""What an answer of the solver chiefly lacked."""

FAILURE_MODES: tuple[FailureMode, ...] = get_args(FailureMode)

RubricDefect = Literal[
    "none",
    "gameable_restates_task",
    "untestable_vague",
    "conjunctive_overloaded",
    "off_domain",
    "targets_format_not_substance",
    "missing_safety_negative",
    "mis_scaled_points",
]
"""What is wrong with a rubric."""

RUBRIC_DEFECTS: tuple[RubricDefect, ...] = get_args(RubricDefect)

TaskDefect = Literal[
    "none",
    "unrealistic",
    "ambiguous_underspecified",
    "template_generic",
    "reveals_rubric",
    "too_easy",
    "wrong_use_case",
]
"""What is wrong with a task."""

TASK_DEFECTS: tuple[TaskDefect, ...] = get_args(TaskDefect)

CaseVerdict = Literal["model_failed_fair_task", "generator_at_fault", "model_succeeded"]
"""Whom a graded case speaks about. Only the first calls for more such tasks."""

CASE_VERDICTS: tuple[CaseVerdict, ...] = get_args(CaseVerdict)
