"""What no config says about a run: shares, lengths and rates, each with its source and its two ends."""

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from pydantic import Field, model_validator

from rri.types import Frozen

__all__ = ["CASES", "Assumptions", "Case"]

Case = Literal["low", "expected", "high"]
"""Every assumption at its cheap end, as expected, or at its dear end."""
CASES: tuple[Case, ...] = get_args(Case)

FIRST_PROBE = ("first_probe_passes", "first_probe_discarded", "probe_ungraded")
"""Shares of one whole; what they leave goes to repair."""


def _assume(low: float | None, expected: float | None, high: float | None, why: str, **bounds: Any) -> Any:
    return Field(default=expected, description=why, json_schema_extra={"low": low, "high": high}, **bounds)


def _share(low: float, expected: float, high: float, why: str) -> Any:
    return _assume(low, expected, high, why, ge=0, le=1, allow_inf_nan=False)


def _size(low: float, expected: float, high: float, why: str) -> Any:
    return _assume(low, expected, high, why, ge=0, allow_inf_nan=False)


def _rate(value: float | None, why: str) -> Any:
    return _assume(value, value, value, why, gt=0, allow_inf_nan=False)


class Assumptions(Frozen):
    """What no config says, as expected; `case` gives the cheap and the dear end. Each field names its source.

    Shares lie in [0, 1]. Lengths are in characters.
    """

    # -- replies
    rule_breaks: float = _assume(
        0.0, 0.1, 0.3, "share of replies that break a rule and are asked for again (docs/performance.md: 0.14 at 135M)",
        ge=0, le=0.95, allow_inf_nan=False,
    )  # fmt: skip
    unusable_replies: float = _share(
        0.0, 0.01, 0.05, "share of replies that are empty, cut or of another shape (docs/performance.md: 0.10 at 135M)"
    )
    vote_flips: float = _share(
        0.0, 0.027, 0.5, "share of single votes that are flipped (METHOD 11; 0.5 is a judge no better than chance)"
    )
    # -- shares of admission
    usable_requests: float = _assume(
        1.0,
        0.95,
        0.8,
        "share of proposed requests that are new and long enough (ours)",
        gt=0,
        le=1,
        allow_inf_nan=False,
    )
    first_probe_passes: float = _share(
        0.4, 0.05, 0.0, "share of new tasks that hold (METHOD 7: the honest answer leads in 0.1% before repair)"
    )
    first_probe_discarded: float = _share(0.1, 0.03, 0.0, "share of first probes whose exploit scores nothing (ours)")
    probe_ungraded: float = _share(0.05, 0.01, 0.0, "share of probes with an answer that is too short or failed (ours)")
    rewrite_passes: float = _share(
        0.4, 0.12, 0.0, "share of repair rounds after which the rubric holds (METHOD 7: 22% after two rounds)"
    )
    fresh_probe_discarded: float = _share(0.0, 0.05, 0.15, "share of fresh probes that are tried once more (ours)")
    rewrite_stands: float = _share(0.5, 0.8, 1.0, "share of repair rounds whose rewrite is kept (ours)")
    added_criteria: float = _size(0.0, 1.0, 3.0, "criteria that a rewrite adds (METHOD 3: up to three)")
    # -- shares of training
    truncated_answers: float = _share(0.2, 0.05, 0.0, "share of rollouts that are cut at the token limit (ours)")
    ranked_groups: float = _share(
        0.5, 0.8, 1.0, "share of groups with enough answers and scores far enough apart to be ranked (ours)"
    )
    exploit_cases: float = _share(
        0.05, 0.3, 0.5, "share of ranked groups with an exploit case (the paper: 2,076 cases in one run)"
    )
    flipped_pairs: float = _share(
        0.0,
        0.15,
        0.25,
        "share of pairs that the second order does not confirm (the authors' development code: <= 0.25)",
    )
    patch_accepted: float = _share(1.0, 0.85, 0.6, "share of minter calls that bring an accepted criterion (ours)")
    reattack_wins: float = _share(0.5, 0.84, 1.0, "share of patched rubrics beaten again (METHOD 7: 247 of 293)")
    minted_criteria: float = _size(3.0, 4.0, 5.0, "criteria that one minter call proposes (METHOD 3: 1 to 5)")
    minted_checked: float = _share(
        0.8, 0.9, 1.0, "share of minted criteria that pass the checks without a model (ours)"
    )
    minted_separates: float = _share(
        0.4, 0.75, 1.0, "share of tested criteria that are kept (the paper: 1,451 accepted in 540 rounds)"
    )
    minted_negative: float = _share(0.2, 0.2, 0.2, "share of minted criteria that are negative (METHOD 7: 1/5)")
    honest_missing: float = _share(
        0.0, 0.1, 1.0, "share of cases whose honest answer is not kept; all where admission is off (ours)"
    )
    memo_proposed: float = _share(
        0.3, 0.7, 1.0, "share of memo rounds that ask for a new one instead of waiting or rolling back (ours)"
    )
    searches: float = _share(
        0.1, 0.5, 1.0, "share of the searches allowed that a rollout makes, where the solver retrieves (ours)"
    )
    # -- lengths
    request_chars: float = _size(150, 250, 500, "a proposed request (ours)")
    task_chars: float = _size(400, 800, 1600, "a task (ours)")
    criterion_chars: float = _size(110, 135, 160, "a criterion (the authors' development code: mean 135)")
    passage_chars: float = _size(
        600, 1200, 1600, "a passage, where the corpus is not at hand (the authors' development code)"
    )
    exploit_share: float = _share(0.4, 0.6, 1.0, "length of an exploit over admission.max_exploit_chars (ours)")
    answer_chars: float = _size(
        1200, 2000, 4000, "an honest answer and a rollout (METHOD 2: the length term's centre), within the token limits"
    )
    reason_share: float = _share(0.4, 0.6, 1.0, "words of a reason over the most that are asked for (ours)")
    evidence_chars: float = _size(1000, 2500, 12000, "each report that the optimizers read (ours; 12,000 is the most)")
    guidance_share: float = _share(0.5, 0.8, 1.0, "length of guidance, memo and brief over what is asked for (ours)")
    # -- tokens, prices, time
    chars_per_token: float = _assume(4.5, 4.0, 3.3, "characters of a token (ours; English)", gt=0, allow_inf_nan=False)
    judge_cached: float = _share(
        0.7,
        0.35,
        0.0,
        "share of the judge's prompt tokens that a server has cached (ours; docs/performance.md: 0.7 embedded)",
    )
    embedded_cached: float = _share(
        0.63, 0.63, 0.63, "share of all prompt tokens that the embedded model has cached (docs/performance.md)"
    )
    embedded_prompt_rate: float = _rate(176.0, "prompt tokens a second of the embedded model (docs/performance.md)")
    embedded_reply_rate: float = _rate(60.0, "reply tokens a second of the embedded model (docs/performance.md)")
    prompt_rate: float | None = _rate(None, "prompt tokens a second of one request elsewhere; unknown unless given")
    reply_rate: float | None = _rate(None, "reply tokens a second of one request elsewhere; unknown unless given")

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        total = self.first_probe_passes + self.first_probe_discarded + self.probe_ungraded
        if total > 1 + 1e-9:
            raise ValueError(
                f"first_probe_passes {self.first_probe_passes:g}, first_probe_discarded {self.first_probe_discarded:g} "
                f"and probe_ungraded {self.probe_ungraded:g} sum to {total:g}, more than 1"
            )
        return self

    @classmethod
    def case(cls, case: Case, given: Mapping[str, float] | None = None, *, only: str = "") -> Self:
        """All assumptions at one end, or with `only` that one, the others as expected.

        `given` are known figures, the same at every end. Where they leave too little room for the other shares of
        the first probe, these shrink.

        Raises:
            ValidationError: an unknown name, or values outside their bounds.
        """
        known = dict(given or {})
        values = {name: cls.end(name, case if only in ("", name) else "expected") for name in cls.model_fields}
        values |= known
        room = 1 - sum(known[name] for name in FIRST_PROBE if name in known)
        free = {name: values[name] or 0.0 for name in FIRST_PROBE if name not in known}
        if (wanted := sum(free.values())) > room >= 0:
            values |= {name: share * room / wanted for name, share in free.items()}
        return cls.model_validate(values)

    @classmethod
    def end(cls, name: str, case: Case) -> float | None:
        """The value of one assumption at one end."""
        field = cls.model_fields[name]
        ends = field.json_schema_extra
        assert isinstance(ends, dict)
        value: Any = field.default if case == "expected" else ends[case]
        return None if value is None else float(value)
