"""What a run will cost before any call: a range for calls, tokens, money and time, disk, and what the budget allows.

Everything is counted three times (`programs.spending`): with all assumptions at their cheap end, as expected, and at
their dear end. What is unknown stays None: money without prices, time without a speed.

A limit of the budget is reached in the first cycle at whose end spending is over it. Until then admission is as far
ahead of the trainer as pool.ahead lets it, training costs the same in every cycle, and a round of evolution or
validation is paid when it is due.
"""

import difflib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Self, get_args

from pydantic import ValidationError

from programs.spending import Ledger, Spent, Unit, disk_bytes, priced, rates, spend, summed, unpriced
from rri.assumptions import CASES, Assumptions, Case
from rri.config import EMBEDDED, Role, RunConfig
from rri.errors import ConfigError
from rri.estimate import HeldOutSize, Stage, admitted_by, validation_rollouts, validation_rounds
from rri.types import Frozen, Reference

__all__ = ["Bounds", "BudgetEstimate", "Driver", "RoleEstimate", "RunEstimate", "StageEstimate", "estimate_run"]

DRIVER_LEAST = 0.02
"""Change of the total, relative, from which an assumption is worth a line."""


class Bounds(Frozen):
    """A figure with all assumptions at their cheap end, as expected, and at their dear end."""

    low: float
    expected: float
    high: float

    @classmethod
    def of(cls, values: Mapping[Case, float]) -> Self:
        """One assumption may spare calls of a role that another adds, so the ends are sorted."""
        return cls(low=min(values.values()), expected=values["expected"], high=max(values.values()))


class RoleEstimate(Frozen):
    """A role's share. `money` and `seconds` (of one endpoint, calls one after the other) are None while unknown."""

    role: Role
    endpoint: str
    model: str
    calls: Bounds
    tokens_in: Bounds
    tokens_out: Bounds
    money: Bounds | None
    seconds: Bounds | None


class StageEstimate(Frozen):
    """A stage's share, or the whole run's. `money` is of the roles with known prices, None where there are none."""

    name: str
    calls: Bounds
    tokens_in: Bounds
    tokens_out: Bounds
    money: Bounds | None
    seconds: Bounds | None


class BudgetEstimate(Frozen):
    """What one limit allows. `cycle` is the one in which it is reached, 0 before training; None: it is not."""

    name: str
    limit: float
    use: Bounds | None
    cycle: dict[Case, int | None]
    says: str


class Driver(Frozen):
    """An assumption that moves the total: relative change of `unit` with it alone at its cheap and its dear end."""

    name: str
    low: float
    expected: float
    high: float
    down: float
    up: float
    unit: Unit
    source: str


class RunEstimate(Frozen):
    """A run's expected cost.

    `hours`: of the busiest endpoint with every slot in use, the least that model calls take; None while unknown.
    `disk_bytes`: of the database. Checkpoints, index and logs are not in it.
    `validation_rollouts`: answers to validation tasks, in `validation_rounds` rounds, beside the `rollouts`.
    """

    arm: str
    tasks: int
    cycles: int
    rollouts: int
    validation_rounds: int
    validation_rollouts: int
    roles: tuple[RoleEstimate, ...]
    stages: tuple[StageEstimate, ...]
    total: StageEstimate
    hours: Bounds | None
    disk_bytes: Bounds
    budget: tuple[BudgetEstimate, ...]
    drivers: tuple[Driver, ...]
    given: dict[str, float]
    notes: tuple[str, ...]


def estimate_run(
    config: RunConfig,
    given: Mapping[str, float] | None = None,
    passages: Sequence[Reference] | None = None,
    held_out: HeldOutSize | None = None,
) -> RunEstimate:
    """What a fresh run of `config` is expected to cost. Asks no model.

    Args:
        config: the run's config.
        given: assumptions whose value is known, by name; they are the same at every end.
        passages: the run's corpus; None where it is not at hand.
        held_out: its validation file; None where there is none, or it is not at hand.

    Raises:
        ConfigError: no such assumption, or a value that it cannot have.
    """
    given = dict(given or {})
    assumed = {case: _assumptions(case, given) for case in CASES}
    ledgers = {case: spend(config, a, passages, held_out) for case, a in assumed.items()}
    solver = config.solver
    roles = tuple(_role(config, role, ledgers, assumed["expected"]) for role in config.roles_used)
    total = _stage("all", config, ledgers, assumed["expected"], None)
    hours = Bounds.of({c: _least_hours(config, ledger) for c, ledger in ledgers.items()}) if total.seconds else None
    return RunEstimate(
        arm=config.arm,
        tasks=config.generation.tasks,
        cycles=solver.cycles,
        rollouts=solver.cycles * solver.tasks_per_cycle * solver.rollouts_per_task,
        validation_rounds=validation_rounds(config, solver.cycles) if held_out else 0,
        validation_rollouts=validation_rollouts(config, held_out) if held_out else 0,
        roles=tuple(r for r in roles if r.calls.high > 0),
        stages=tuple(_stage(name, config, ledgers, assumed["expected"], name) for name in get_args(Stage)),
        total=total,
        hours=hours,
        disk_bytes=Bounds.of({c: disk_bytes(config, a, ledgers[c], passages, held_out) for c, a in assumed.items()}),
        budget=tuple(_budget(config, ledgers, hours)),
        drivers=tuple(
            _drivers(config, given, passages, held_out, "money" if total.money and total.money.expected else "tokens")
        ),
        given=given,
        notes=tuple(_notes(config, assumed["expected"], ledgers["expected"], passages, held_out)),
    )


def _assumptions(case: Case, given: Mapping[str, float], only: str = "") -> Assumptions:
    for name in given:
        if name not in Assumptions.model_fields:
            near = difflib.get_close_matches(name, Assumptions.model_fields, 1)
            known = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(Assumptions.model_fields)}"
            raise ConfigError(f"no assumption {name!r}", known)
    try:
        return Assumptions.case(case, given, only=only)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}: " for part in first["loc"])
        raise ConfigError(
            f"assumption {where}{str(first['msg']).removeprefix('Value error, ')}", "Give another value"
        ) from None


# -- sums ------------------------------------------------------------------------------------------


def _bounds(sums: Mapping[Case, Spent], name: str) -> Bounds:
    return Bounds.of({case: getattr(spent, name) for case, spent in sums.items()})


def _role(config: RunConfig, role: Role, ledgers: Mapping[Case, Ledger], a: Assumptions) -> RoleEstimate:
    sums = {case: summed(ledger, role=role) for case, ledger in ledgers.items()}
    route = config.roles[role]
    return RoleEstimate(
        role=role,
        endpoint=route.endpoint,
        model=route.model or config.endpoints[route.endpoint].model or EMBEDDED,
        calls=_bounds(sums, "calls"),
        tokens_in=_bounds(sums, "tokens_in"),
        tokens_out=_bounds(sums, "tokens_out"),
        money=_bounds(sums, "money") if priced(config, role) else None,
        seconds=_bounds(sums, "seconds") if rates(config, role, a) else None,
    )


def _stage(
    name: str, config: RunConfig, ledgers: Mapping[Case, Ledger], a: Assumptions, stage: Stage | None
) -> StageEstimate:
    sums = {case: summed(ledger, stage) for case, ledger in ledgers.items()}
    roles = {role for ledger in ledgers.values() for s, role in ledger if stage in (None, s)}
    money = _bounds(sums, "money")
    known = all(priced(config, role) for role in roles) or money.high > 0
    timed = all(rates(config, role, a) for role in roles)
    return StageEstimate(
        name=name,
        calls=_bounds(sums, "calls"),
        tokens_in=_bounds(sums, "tokens_in"),
        tokens_out=_bounds(sums, "tokens_out"),
        money=money if known else None,
        seconds=_bounds(sums, "seconds") if timed else None,
    )


# -- budget ----------------------------------------------------------------------------------------


def _budget(config: RunConfig, ledgers: Mapping[Case, Ledger], hours: Bounds | None) -> list[BudgetEstimate]:
    budget = config.budget
    limits: list[tuple[Unit, float | None]] = [
        ("calls", budget.calls),
        ("tokens", budget.tokens),
        ("money", budget.money),
    ]
    found = [_limit(config, ledgers, unit, limit) for unit, limit in limits if limit is not None]
    return [*found, _hours(budget.hours, hours)] if budget.hours is not None else found


def _limit(config: RunConfig, ledgers: Mapping[Case, Ledger], unit: Unit, limit: float) -> BudgetEstimate:
    use = Bounds.of({case: summed(ledger).of(unit) for case, ledger in ledgers.items()})
    cycle = {case: _reached(config, ledger, unit, limit) for case, ledger in ledgers.items()}
    name = f"budget.{unit} {_amount(unit, limit)}"
    if use.high == 0:
        free = f"{', '.join(unpriced(config))} has no prices" if unpriced(config) else "the embedded model costs none"
        says = f"{name} will not stop this run: {free}"
    elif (at := cycle["expected"]) is None:
        says = f"{name} is not reached: {_amount(unit, use.expected)} expected, {use.expected / limit:.0%} of it"
        if cycle["high"] is not None:
            says += f"; at the dear end it is reached {_place(config, ledgers['high'], unit, limit, cycle['high'])}"
    else:
        place = _place(config, ledgers["expected"], unit, limit, at)
        says = f"{name} is reached {place}; the run needs {_amount(unit, use.expected)}"
    if unit == "money" and use.high > 0 and (left := unpriced(config)):
        says += f" (calls to {', '.join(left)} not counted: no prices)"
    return BudgetEstimate(name=unit, limit=limit, use=use if use.high else None, cycle=cycle, says=says)


def _amount(unit: Unit, value: float) -> str:
    return f"{value:,.2f}" if unit == "money" else f"{value:,.0f}"


def _spending(config: RunConfig, ledger: Ledger, unit: Unit, cycle: int) -> float:
    """What is spent when `cycle` cycles are done."""
    solver, evolution = config.solver, config.evolution
    rounds = solver.cycles // evolution.every_cycles
    admitted = admitted_by(config, cycle) / config.generation.tasks
    trained = cycle / solver.cycles if solver.cycles else 0.0
    evolved = cycle // evolution.every_cycles / rounds if rounds else 0.0
    all_validated = validation_rounds(config, solver.cycles)
    validated = validation_rounds(config, cycle) / all_validated if all_validated else 0.0
    return (
        admitted * summed(ledger, "admission").of(unit)
        + trained * summed(ledger, "training").of(unit)
        + validated * summed(ledger, "validation").of(unit)
        + evolved * summed(ledger, "evolution").of(unit)
    )


def _reached(config: RunConfig, ledger: Ledger, unit: Unit, limit: float) -> int | None:
    """The cycle in which the limit is reached, cycles + 1 for what is admitted after training; None: it is not."""
    for cycle in range(config.solver.cycles + 1):
        if _spending(config, ledger, unit, cycle) >= limit:
            return cycle
    return config.solver.cycles + 1 if summed(ledger).of(unit) >= limit else None


def _place(config: RunConfig, ledger: Ledger, unit: Unit, limit: float, cycle: int) -> str:
    """Where a limit is reached, in words."""
    cycles, tasks = config.solver.cycles, config.generation.tasks
    if 0 < cycle <= cycles:
        return f"in about cycle {cycle} of {cycles}"
    before = cycle == 0
    spent = 0.0 if before else _spending(config, ledger, unit, cycles)
    admitted = 0 if before else admitted_by(config, cycles)
    done = admitted + (limit - spent) / (summed(ledger, "admission").of(unit) / tasks)
    when = f"{'before' if before else 'after'} training, " if cycles else ""
    return f"{when}after about {done:,.0f} of {tasks:,} tasks"


def _hours(limit: float, use: Bounds | None) -> BudgetEstimate:
    name = f"budget.hours {limit:g}"
    if use is None:
        says = f"{name}: unknown, as the speed of the endpoints and of training is"
    else:
        verdict = "is not enough" if use.expected > limit else "may be enough"
        says = f"{name} {verdict}: model calls alone take about {use.expected:.3g} hours, training comes on top"
    return BudgetEstimate(name="hours", limit=limit, use=use, cycle=dict.fromkeys(CASES), says=says)


def _least_hours(config: RunConfig, ledger: Ledger) -> float:
    """Hours of the busiest endpoint with all its slots in use; the embedded model's slots share two cores."""
    busy: dict[str, float] = defaultdict(float)
    for (_, role), spent in ledger.items():
        endpoint = config.roles[role].endpoint
        settings = config.endpoints[endpoint]
        busy[endpoint] += spent.seconds / (1 if settings.url == EMBEDDED else settings.concurrency)
    return max(busy.values(), default=0.0) / 3600


# -- what decides it -------------------------------------------------------------------------------


def _drivers(
    config: RunConfig,
    given: Mapping[str, float],
    passages: Sequence[Reference] | None,
    held_out: HeldOutSize | None,
    unit: Unit,
) -> list[Driver]:
    expected = _assumptions("expected", given)
    base = summed(spend(config, expected, passages, held_out)).of(unit)
    found = []
    for name in Assumptions.model_fields:
        low, high = Assumptions.end(name, "low"), Assumptions.end(name, "high")
        if name in given or low == high or low is None or high is None:
            continue
        ends = [_assumptions(case, given, only=name) for case in CASES if case != "expected"]
        changes = sorted(summed(spend(config, a, passages, held_out)).of(unit) / base - 1 for a in ends)
        if max(map(abs, changes)) >= DRIVER_LEAST:
            found.append(
                Driver(
                    name=name,
                    low=low,
                    expected=getattr(expected, name),
                    high=high,
                    down=changes[0],
                    up=changes[1],
                    unit=unit,
                    source=Assumptions.model_fields[name].description or "",
                )
            )
    return sorted(found, key=lambda d: d.up - d.down, reverse=True)


def _notes(
    config: RunConfig,
    a: Assumptions,
    ledger: Ledger,
    passages: Sequence[Reference] | None,
    held_out: HeldOutSize | None,
) -> list[str]:
    """What is unknown or left out, in sentences."""
    solver, notes = config.solver, []
    if endpoints := unpriced(config):
        notes.append(f"no prices configured for {', '.join(endpoints)}: money unknown there")
    if untimed := sorted({config.roles[r].endpoint for r in config.roles_used if not rates(config, r, a)}):
        notes.append(f"speed of {', '.join(untimed)} unknown: give prompt_rate and reply_rate to get times")
    if passages is None:
        notes.append(f"the corpus is not at hand: its passages are taken to have {a.passage_chars:g} characters")
    if config.validation.file and held_out is None:
        notes.append(f"validation is not counted: {config.validation.file} was not read")
    notes.append(
        "replies are counted without reasoning; if every one ran to its role's max_tokens, "
        f"{summed(ledger).most_out:,.0f} tokens would come out"
    )
    if solver.cycles:
        rollouts = solver.cycles * solver.tasks_per_cycle * solver.rollouts_per_task
        rollouts += validation_rollouts(config, held_out) if held_out else 0
        tokens = rollouts * min(a.answer_chars / a.chars_per_token, solver.max_completion_tokens)
        notes.append(f"the solver's own work is not counted: {rollouts:,} rollouts, about {tokens:,.0f} tokens")
    if fallbacks := sorted({f for role in config.roles_used if (f := config.roles[role].fallback)}):
        notes.append(f"calls that fall back to {', '.join(fallbacks)} are counted at the first endpoint")
    return notes
