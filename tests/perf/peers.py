"""Grading libraries, each through its own public API: `python -m tests.perf.peers NAME URL ANSWERS`.

Runs in the library's environment, where this project is not installed. The last line is the JSON of `Meter.report`.
Every library keeps its own defaults for faults, said beside it; what is set is the server, concurrency and sampling.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.perf.judge_work import (
    CONCURRENCY,
    CRITERIA,
    POINTS,
    QUESTION,
    VOTES,
    Judged,
    Meter,
    answer,
    by_criterion,
)

__all__ = ["RUNNERS"]


def run_autorubric(url: str, answers: int, meter: Meter) -> list[Judged]:
    """Three judges of one model, majority, through its batch runner, which keeps results on disk as it goes.

    Its defaults: three attempts for 429, lost connections and timeouts with pauses of 1 to 60 s, two retries more by
    the HTTP client below each, 60 s a call; a vote that failed is CANNOT_ASSESS.
    """
    from autorubric import CriterionVerdict, DataItem, LLMConfig, Rubric, RubricDataset
    from autorubric.eval import evaluate
    from autorubric.graders import CriterionGrader, JudgeSpec

    outcomes = {CriterionVerdict.MET: True, CriterionVerdict.UNMET: False, CriterionVerdict.CANNOT_ASSESS: None}
    model = LLMConfig(
        model="openai/judge",
        api_base=url,
        api_key="x",
        temperature=0.6,
        max_tokens=512,
        max_parallel_requests=CONCURRENCY,
    )
    grader = CriterionGrader(judges=[JudgeSpec(model, f"vote-{number}") for number in range(VOTES)])
    dataset = RubricDataset(
        prompt=QUESTION,
        rubric=Rubric.from_dict([{"weight": POINTS, "requirement": text} for text in CRITERIA]),
        items=[DataItem(submission=answer(a), description=f"answer {a}") for a in range(answers)],
    )

    async def work() -> list[Judged]:
        with tempfile.TemporaryDirectory() as folder, meter:
            result = await evaluate(dataset, grader, show_progress=False, experiments_dir=folder)
        judged = []
        for item in result.item_results:
            meter.took(item.duration_seconds)
            if item.error is not None:
                meter.exceptions[item.error.split(":")[0]] += 1
            reports = item.report.report or []
            judged += [Judged(outcomes[r.final_verdict], [outcomes[v.verdict] for v in r.votes]) for r in reports]
        return [*judged, *[Judged(None, [None] * VOTES)] * (answers * len(CRITERIA) - len(judged))]

    return asyncio.run(work())


def run_rubric(url: str, answers: int, meter: Meter) -> list[Judged]:
    """A call for each criterion; it knows no votes, so every answer is graded three times.

    It leaves calling the model, retries included, to its user. This is the function that its manual shows, with one
    client shared by all calls instead of one opened for each (which takes 20 ms of CPU). Retries are the openai
    client's: two, and a call may take 600 s. One failed criterion fails the grading.
    """
    from openai import AsyncOpenAI
    from rubric import PerCriterionOutput, Rubric
    from rubric.autograders import PerCriterionGrader

    schema = {"name": "criterion_output", "schema": PerCriterionOutput.model_json_schema()}
    rubric = Rubric.from_dict([{"weight": POINTS, "requirement": text} for text in CRITERIA])

    async def work() -> list[Judged]:
        async with AsyncOpenAI(base_url=url, api_key="x") as client:

            async def generate(system_prompt: str, user_prompt: str) -> PerCriterionOutput:
                reply = await client.chat.completions.create(
                    model="judge",
                    messages=[{"role": "system", "content": system_prompt}, {"role": "user", "content": user_prompt}],
                    response_format={"type": "json_schema", "json_schema": schema},
                    max_tokens=512,
                    temperature=0.6,
                )
                return PerCriterionOutput.model_validate_json(reply.choices[0].message.content or "{}")

            grader = PerCriterionGrader(generate_fn=generate)

            async def grade(text: str) -> list[bool | None]:
                report = await rubric.grade(text, autograder=grader, query=QUESTION)
                return [criterion.verdict == "MET" for criterion in report.report or []]

            calls = [partial(grade, answer(a)) for a in range(answers) for _ in range(VOTES)]
            with meter:
                gradings = await meter.spread(calls, CONCURRENCY // len(CRITERIA))
        return by_criterion(gradings)

    return asyncio.run(work())


def run_inspect(url: str, answers: int, meter: Meter) -> list[Judged]:
    """`eval` with `model_graded_qa` and a panel of three, majority; a sample for each criterion, its log on disk.

    Its defaults: retries for ever, with pauses of 3 s to 30 minutes, above two quick ones by the HTTP client; a call
    may take 600 s; a reply without a grade is an unscored vote.
    """
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import GenerateConfig, ModelOutput, get_model
    from inspect_ai.scorer import model_graded_qa
    from inspect_ai.solver import Generate, Solver, TaskState, solver

    sampling = GenerateConfig(max_connections=CONCURRENCY, temperature=0.6, max_tokens=512)
    judge = get_model("openai-api/local/judge", base_url=url, api_key="x", config=sampling)

    @solver
    def written_before() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            state.output = ModelOutput.from_content("solver", state.metadata["answer"])
            return state

        return solve

    samples = [
        Sample(id=f"{a}-{c}", input=QUESTION, target=text, metadata={"answer": answer(a)})
        for a in range(answers)
        for c, text in enumerate(CRITERIA)
    ]
    task = Task(dataset=samples, solver=written_before(), scorer=model_graded_qa(model=[judge] * VOTES))
    grades, judged = {"C": True, "I": False}, []
    with tempfile.TemporaryDirectory() as folder:
        with meter:
            # The solver calls no model, so this one is never asked.
            log = eval(task, model="mockllm/model", max_samples=CONCURRENCY // VOTES, log_dir=folder, display="none")[0]
        for sample in log.samples or []:
            meter.took(sample.total_time or 0.0)
            if sample.error is not None:
                meter.exceptions[sample.error.message.split("(")[0]] += 1
            for score in (sample.scores or {}).values():
                votes = [grades.get(vote) for vote in (score.metadata or {})["panel"]["votes"]]
                judged.append(Judged(grades.get(score.value), votes))
    return [*judged, *[Judged(None, [None] * VOTES)] * (len(samples) - len(judged))]


def run_verifiers(url: str, answers: int, meter: Meter) -> list[Judged]:
    """Its rubric judge with one call for each criterion; it knows no votes, so every answer is graded three times.

    Its defaults: no retry, and no limit on how long a reply may take. One failed criterion fails the grading. It opens
    an HTTP client for every call.
    """
    import verifiers.v1 as vf

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rubric.json"
        criteria = [{"name": f"c{c}", "text": text, "weight": POINTS} for c, text in enumerate(CRITERIA)]
        path.write_text(json.dumps({"criteria": criteria}), encoding="utf-8")
        judge = vf.RubricJudge(
            vf.RubricJudgeConfig(
                path=path,
                base_url=url,
                api_key_var="LOCAL_JUDGE_KEY",
                model="judge",
                sampling=vf.SamplingConfig(temperature=0.6, max_tokens=512),
                view="last_reply",
                max_criteria=1,
            )
        )

        async def grade(text: str) -> list[bool | None]:
            data = vf.TaskData(prompt=QUESTION)
            agent = vf.AgentInfo(config=vf.AgentConfig())
            trace = vf.Trace(task=vf.TraceTask(type="Task", data=data), agent=agent, root_reply=text)
            await judge.score(data, trace)
            return [trace.metrics[f"{judge.reward_name}/{criterion['name']}"] == 1.0 for criterion in criteria]

        async def work() -> list[Judged]:
            calls = [partial(grade, answer(a)) for a in range(answers) for _ in range(VOTES)]
            with meter:
                gradings = await meter.spread(calls, CONCURRENCY // len(CRITERIA))
            return by_criterion(gradings)

        return asyncio.run(work())


RUNNERS: dict[str, Callable[[str, int, Meter], list[Judged]]] = {
    "autorubric": run_autorubric,
    "rubric": run_rubric,
    "inspect-ai": run_inspect,
    "verifiers": run_verifiers,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=RUNNERS)
    parser.add_argument("url")
    parser.add_argument("answers", type=int)
    options = parser.parse_args()
    meter = Meter()
    print(meter.report(RUNNERS[options.client](options.url, options.answers, meter)))


if __name__ == "__main__":
    main()
