"""What `rri run --dry-run` says about a run: its arm, switches, intervals, limits, and where each role's calls go."""

import os
from collections.abc import Iterator

from rri.config import EMBEDDED, RunConfig

__all__ = ["plan_lines", "why_refused"]


def why_refused(config: RunConfig) -> str:
    """Why this version cannot start such a run, and what to do; empty when it can."""
    solver = config.solver
    if solver.retrieval and solver.generation != "transformers":
        return (
            f"solver.retrieval is true and solver.generation is {solver.generation}: search tools were never run with "
            "vLLM on a GPU; set solver.generation to transformers, or solver.retrieval to false"
        )
    return ""


def plan_lines(config: RunConfig) -> list[str]:
    """The plan as YAML comments, one fact a line. Reads the config and the environment, nothing else."""
    facts = [
        ("arm", config.arm),
        ("domain", _domain(config)),
        ("requests", _requests(config)),
        ("switches", _switches(config)),
        ("solver", _solver(config)),
        ("intervals", _intervals(config)),
        ("budget", _budget(config)),
        *_routing(config),
        *_warnings(config),
    ]
    width = max(len(name) for name, _ in facts)
    # One line each: a name in the config may hold a line break, which would end the comment.
    return [f"# {name:<{width}}  {' '.join(text.split())}" for name, text in facts]


def _domain(config: RunConfig) -> str:
    return f"{config.domain.name}, passages {config.corpus}, score rule {config.domain.score_rule}"


def _requests(config: RunConfig) -> str:
    domain = config.domain
    total = sum(u.weight for u in domain.use_cases)
    mix = ", ".join(f"{u.name} {u.weight / total:.2f}" for u in domain.use_cases)
    english = max(0.0, 1 - sum(domain.languages.values()))
    languages = ", ".join(f"{name} {share:g}" for name, share in {"English": english, **domain.languages}.items())
    return f"{mix}; red-team {domain.red_team_share:.2f}; {languages}"


def _switches(config: RunConfig) -> str:
    switches = {
        "admission": config.admission.enabled,
        "exploits": config.exploits.enabled,
        "patches": config.patches.enabled,
        "evolution": config.evolution.enabled,
        "memo": config.memo.enabled,
        "retrieval": config.solver.retrieval,
    }
    return ", ".join(f"{name} {'on' if on else 'off'}" for name, on in switches.items())


def _solver(config: RunConfig) -> str:
    solver = config.solver
    return (
        f"{solver.base_model}, launch {solver.launch}, cycles {solver.cycles}, tasks a cycle {solver.tasks_per_cycle}, "
        f"answers a task {solver.rollouts_per_task}, updates a cycle "
        f"{solver.tasks_per_cycle // solver.tasks_per_update}; tasks to admit {config.generation.tasks}"
    )


def _intervals(config: RunConfig) -> str:
    cycles = {"checkpoint": config.solver.save_every_cycles}
    if config.evolution.enabled:
        what = "evolution and memo" if config.memo.enabled else "evolution"
        cycles = {what: config.evolution.every_cycles, **cycles}
    if config.validation.file:
        cycles = {"validation": config.validation.every_cycles, **cycles}
    return ", ".join(f"{what} every {f'{n} cycles' if n > 1 else 'cycle'}" for what, n in cycles.items())


def _budget(config: RunConfig) -> str:
    limits = config.budget.model_dump(exclude_none=True)
    return ", ".join(f"{name} {value:g}" for name, value in limits.items()) or "no limit"


def _routing(config: RunConfig) -> Iterator[tuple[str, str]]:
    for role in config.roles_used:
        route = config.roles[role]
        heat = "no temperature sent" if route.temperature is None else f"temperature {route.temperature:g}"
        fallback = f"fallback {_at(config, route.fallback, '')}" if route.fallback else "no fallback"
        yield role, f"{_at(config, route.endpoint, route.model)}, {heat}, {fallback}"
    if unused := [role for role in config.roles if role not in config.roles_used]:
        yield "not called", ", ".join(unused)


def _at(config: RunConfig, endpoint: str, model: str) -> str:
    return f"{endpoint} ({_model(config, endpoint, model) or 'no model named'})"


def _model(config: RunConfig, endpoint: str, model: str) -> str:
    configured = config.endpoints[endpoint]
    return model or configured.model or (EMBEDDED if configured.url == EMBEDDED else "")


def _warnings(config: RunConfig) -> Iterator[tuple[str, str]]:
    """What a start with this config, from here, would refuse."""
    if why := why_refused(config):
        yield "refused", why
    # A start resolves routes of roles that it does not call, too.
    routed = [(role, config.roles[role]) for role in config.roles_routed]
    routes = [(role, route.endpoint, route.model) for role, route in routed]
    routes += [(role, route.fallback, "") for role, route in routed if route.fallback]
    reported: set[str] = set()
    for role, name, model in routes:
        if name not in reported and not _model(config, name, model):
            reported.add(name)
            yield "missing", f"endpoint {name} names no model, which role {role} needs; set endpoints.{name}.model"
    for name in dict.fromkeys(name for _, name, _ in routes):
        key = config.endpoints[name].api_key_env
        if key and not os.environ.get(key):
            yield "missing", f"environment variable {key} is unset, which endpoint {name} needs"
