"""The invariants of the recursive loop, walked again from what a run has kept (METHOD 4, 5 and 7)."""

import json
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from programs.patching import patched
from rri.cases import Check, Patch
from rri.evidence import Admission
from rri.pool import out_of_band
from rri.types import Criterion
from tests.programs.loop_runs import Ran, block, kept_rows, shown_conversation

__all__ = [
    "admission_stays_within_reach",
    "adopted_rewrites_lower_delta",
    "criteria_stay_within_their_caps",
    "graded_as_served",
    "guidance_changes_in_rounds_alone",
    "negatives_spare_the_honest_answer",
    "nothing_changes_in_place",
    "patched_tasks_come_back_first",
    "patches_raise_the_lead",
    "rollbacks_restore_the_text",
    "versions_count_up",
]

NOISE = 1e-9
PER_TASK, PER_RUBRIC = 6, 12
GUIDANCE, MEMO = "Guidance for this stage of training:\n", "Memo on known exploits:\n"


# -- 1 --------------------------------------------------------------------------------------------------


def adopted_rewrites_lower_delta(ran: Ran) -> Counter[str]:
    """Every adopted rewrite was measured below the version that it replaced; outcomes of the admissions."""
    outcomes: Counter[str] = Counter()
    for admission in ran.store.admissions():
        outcomes[admission.outcome] += 1
        if admission.task.version > admission.original.version:
            _check_adopted(ran, admission)
        else:
            assert admission.task == admission.original
    return outcomes


def _check_adopted(ran: Ran, admission: Admission) -> None:
    accepted = [r for r in admission.rewrites if r.outcome == "accepted"]
    chain = accepted or [r for r in admission.rewrites if r.task == admission.task]
    assert admission.probe is not None and admission.probe.delta is not None
    deltas = [admission.probe.delta]
    assert deltas[0] == pytest.approx(
        ran.world.delta(admission.probe.exploit, admission.probe.honest, admission.original.rubric)
    )
    for rewrite in chain:
        probe = rewrite.probes[-1]
        assert probe.delta is not None and rewrite.task is not None
        assert probe.delta == pytest.approx(ran.world.delta(probe.exploit, probe.honest, rewrite.task.rubric))
        deltas.append(probe.delta)
    assert all(after < before - NOISE for before, after in pairwise(deltas)), deltas
    assert chain[-1].task == admission.task
    assert (admission.delta_before, admission.delta_after) == (deltas[0], deltas[-1])


# -- 2, 3, 4 --------------------------------------------------------------------------------------------


def patches_raise_the_lead(ran: Ran) -> Counter[str]:
    """The better answer leads the exploit of its pair by more after a patch than before, in every round of it."""
    outcomes: Counter[str] = Counter()
    for patch in ran.store.all_patches():
        outcomes[patch.outcome] += 1
        if patch.outcome == "patched":
            _check_lead(ran, patch)
    return outcomes


def _check_lead(ran: Ran, patch: Patch) -> None:
    case = ran.store.case(patch.case)
    assert case is not None
    criteria = case.task.rubric.criteria
    exploit, better = case.exploit.answer, case.better.answer

    def lead(rubric: tuple[Criterion, ...], over: str) -> float:
        return ran.world.raw(better, rubric) - ran.world.raw(over, rubric)

    assert patch.lead_before == pytest.approx(-case.gap) == pytest.approx(lead(criteria, exploit))
    whole = patch.task.rubric.criteria
    assert lead(whole, exploit) > lead(criteria, exploit) + NOISE
    if not any(c.case_exploit is not None and c.case_exploit.outcome == "unknown" for c in patch.accepted):
        assert patch.lead_after == pytest.approx(lead(whole, exploit))
    for done in patch.rounds:
        before, criteria = criteria, (*criteria, *(c.criterion for c in done.accepted))
        if done.accepted:
            assert lead(criteria, done.exploit) > lead(before, done.exploit) + NOISE
        for check in done.accepted:
            met = [ran.world.meets(answer, check.criterion.text) for answer in (done.exploit, better)]
            assert met == ([False, True] if check.criterion.points > 0 else [True, False]), "it separates the pair"
    assert patch.task == patched(case.task, [c.criterion for c in patch.accepted])


def negatives_spare_the_honest_answer(ran: Ran) -> Counter[str]:
    """No accepted negative is met by the honest answer of its task; outcomes of all checks of negatives."""
    outcomes: Counter[str] = Counter()
    for patch in ran.store.all_patches():
        checks: list[Check] = [c for r in patch.rounds for c in r.checks if c.criterion.points < 0]
        outcomes.update(c.outcome for c in checks)
        for check in checks:
            if check.outcome == "accepted":
                assert check.honest is not None and check.honest.outcome == "unmet"
                assert patch.honest == ran.store.honest_answer(patch.task.conversation)
                assert not ran.world.meets(patch.honest, check.criterion.text)
    return outcomes


def criteria_stay_within_their_caps(ran: Ran) -> Counter[str]:
    """Task -> criteria that patches have added."""
    added: Counter[str] = Counter()
    for patch in ran.store.all_patches():
        added[patch.task.task_id] += len(patch.accepted)
        assert len(patch.accepted) == len(patch.task.rubric.criteria) - len(patch.before.rubric.criteria)
    assert all(n <= PER_TASK for n in added.values()), added
    for task_id in ran.store.task_ids():
        assert all(len(task.rubric.criteria) <= PER_RUBRIC for task in ran.store.versions(task_id))
    return added


# -- 5, 6 -----------------------------------------------------------------------------------------------


def rollbacks_restore_the_text(ran: Ran) -> int:
    """A rolled-back memo is an earlier one to the letter, and what the generator was told is the memo in force."""
    versions = {memo.version: memo for memo in ran.store.memo_versions()}
    back = [memo for memo in versions.values() if memo.decision == "rolled_back"]
    for memo in back:
        assert memo.of is not None and memo.of < memo.version
        assert memo.memo == versions[memo.of].memo
        assert memo.memo != versions[memo.version - 1].memo
    for task_id, (_, memo_version) in _origins(ran).items():
        text = _generator_prompt(ran, task_id)
        told = text.partition(MEMO)[2]
        assert told.startswith(versions[memo_version].memo) and bool(told) == bool(versions[memo_version].memo)
    return len(back)


def guidance_changes_in_rounds_alone(ran: Ran) -> int:
    """Every guidance belongs to one evolution round, and prompts hold the one that is in force; how many there are."""
    versions = ran.store.guidance_versions()
    assert [g.version for g in versions] == list(range(len(versions)))
    done = [row for row in ran.store.rounds("evolution") if row.outcome == "done"]
    made = [(row.data["guidance"], row.cycle) for row in done if row.data["guidance"] is not None]
    assert made == [(g.version, g.cycle) for g in versions[1:]]
    begun = {v: float(at) for v, at in ran.rows("SELECT version, at FROM guidance")}
    for role, texts in (
        ("proposer", [g.guidance_a for g in versions]),
        ("generator", [g.guidance_b for g in versions]),
    ):
        for call in ran.calls(role):
            told = call.record.messages[0]["content"].partition(GUIDANCE)[2]
            assert bool(told) == any(told.startswith(text) for text in texts if text)
            held = max((v for v, text in enumerate(texts) if text and told.startswith(text)), default=0)
            assert begun[held] <= call.at
    for task_id, (guidance, _) in _origins(ran).items():
        told = _generator_prompt(ran, task_id).partition(GUIDANCE)[2]
        assert told.startswith(versions[guidance].guidance_b) and bool(told) == bool(versions[guidance].guidance_b)
    return len(versions)


def _origins(ran: Ran) -> dict[str, tuple[int, int]]:
    return {task_id: (g, m) for task_id, g, m in ran.rows("SELECT task_id, guidance, memo FROM origins")}


def _generator_prompt(ran: Ran, task_id: str) -> str:
    """The system message of the call that the task came from."""
    sample = f"write-{int(task_id.partition('-')[0])}"
    calls = [c for c in ran.calls("generator") if c.record.tag.sample == sample and not c.record.error]
    assert calls, task_id
    return calls[-1].record.messages[0]["content"]


# -- 7, 8 -----------------------------------------------------------------------------------------------


def nothing_changes_in_place(ran: Ran) -> None:
    """Whatever was there after a cycle is there at the end, word for word."""
    snapshots = [*ran.snapshots, kept_rows(ran.folder)]
    for number, (before, after) in enumerate(pairwise(snapshots)):
        for table, rows in before.items():
            assert rows <= after[table], f"{table} changed after cycle {number}"
    served = {row.position: row for row in ran.store.served()}
    for position, task in ran.trainer.served.items():
        assert (task.task_id, task.version) == (served[position].task_id, served[position].version)


def versions_count_up(ran: Ran) -> None:
    """A task's versions have no hole, and each but the first is the work of its admission or of one patch."""
    patches = [(p.task_id, p.version) for p in ran.store.patches(patched=True)]
    assert len(set(patches)) == len(patches)
    assert len({p.case for p in ran.store.patches()}) == len(ran.store.patches())
    for task_id in ran.store.task_ids():
        versions = [task.version for task in ran.store.versions(task_id)]
        assert versions == list(range(1, len(versions) + 1))
        admission = ran.store.admission(task_id)
        admitted = admission.task.version if admission else 1
        assert [v for i, v in patches if i == task_id] == versions[admitted:]


def graded_as_served(ran: Ran) -> int:
    """Prompt, judged conversation, ranked conversation and grading rubric are of one version; rows that were judged."""
    asked = defaultdict(set)
    for call in ran.calls("judge"):
        messages, tag = call.record.messages, call.record.tag
        if tag.sample.startswith("cycle-"):
            seen = (block(messages, "criterion"), json.dumps(shown_conversation(messages)))
            asked[tag.task_id, tag.sample, block(messages, "answer")].add(seen)
    judged = 0
    for _, _, cycle, position, row, task_id, version, answer, _, _, _, verdicts in kept_rows(ran.folder)["grades"]:
        told = ran.trainer.served[position]
        task = ran.store.task(task_id, version)
        assert task is not None and (told.task_id, told.version) == (task_id, version)
        conversation = ran.conversation(task_id, version)
        assert [m.model_dump() for m in told.prompt[1:]] == conversation
        if not json.loads(verdicts):
            continue  # cut at the token limit
        judged += 1
        found = asked[task_id, f"cycle-{cycle}-position-{position}-row-{row}", answer]
        assert found == {(c.text, json.dumps(conversation)) for c in task.rubric.criteria}
    for call in ran.calls("referee"):
        position = int(call.record.tag.sample.split("-")[2])
        told = ran.trainer.served[position]
        assert call.record.tag.task_id == told.task_id
        assert shown_conversation(call.record.messages) == ran.conversation(told.task_id, told.version)
    return judged


# -- 10 -------------------------------------------------------------------------------------------------


def patched_tasks_come_back_first(ran: Ran) -> Counter[str]:
    """Walk the serving order again: a patched task is served by replay before anything fresh, with a new window.

    Holds where no position is decided while the loop works (`loop.max_backlog` 0). Returns the sources.
    """
    patches = ran.rows("SELECT at, task_id, version FROM patches WHERE outcome = 'patched' ORDER BY seq")
    pending: dict[str, int] = {}
    evicted: set[tuple[str, int]] = set()
    evictions = ran.rows("SELECT at, task_id, version FROM evictions ORDER BY seq")
    sources: Counter[str] = Counter()
    for at, task_id, version, source in ran.rows("SELECT at, task_id, version, source FROM served ORDER BY position"):
        while patches and patches[0][0] < at:
            _, patched_id, new = patches.pop(0)
            pending.pop(patched_id, None)  # of two patches the later one is served, in its own turn
            pending[patched_id] = new
        while evictions and evictions[0][0] < at:
            evicted.add(evictions.pop(0)[1:])
        if pending:
            assert (source, task_id, version) == ("replay", *next(iter(pending.items())))
            del pending[task_id]
        assert ((task_id, version) in evicted) == (source == "evicted")
        sources[source] += 1
        sources["back"] += source == "replay" and (task_id, version - 1) in evicted
    _check_evictions(ran)
    return sources


def _check_evictions(ran: Ran) -> None:
    """A version leaves by its own scores alone, and stays while they lie in the band."""
    config = ran.config.pool
    scores: dict[tuple[str, int], list[float]] = defaultdict(list)
    query = "SELECT task_id, version, score FROM grades WHERE split = 'train' AND score IS NOT NULL"
    for task_id, version, score in ran.rows(query):
        scores[task_id, version].append(score)
    gone = {(e.task_id, e.version): e for e in ran.store.evictions()}
    assert config.evict or not gone
    for entry, eviction in gone.items():
        assert config.band_rollouts <= eviction.rollouts <= len(scores[entry])
        inside = config.band_low <= eviction.mean <= config.band_high
        assert not inside or eviction.variance < config.band_variance
    for entry in scores.keys() - gone.keys():
        assert not config.evict or out_of_band(scores[entry][-config.band_window :], config) is None


# -- 11 -------------------------------------------------------------------------------------------------


def admission_stays_within_reach(ran: Ran) -> int:
    """At no time were more than `pool.ahead` tasks written that nobody had asked for; the most that were."""
    written = [float(at) for (at,) in ran.rows("SELECT at FROM origins ORDER BY seq")]
    gone = [float(at) for (at,) in ran.rows("SELECT at FROM served WHERE source = 'fresh'")]
    gone += [float(at) for (at,) in ran.rows("SELECT at FROM admissions WHERE outcome = 'refused'")]
    most = max(number - sum(other <= at for other in gone) for number, at in enumerate(written, 1))
    assert most <= ran.config.pool.ahead
    return most
