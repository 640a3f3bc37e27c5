"""The run's counters in the text format of Prometheus."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["CONTENT_TYPE", "metrics_text"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

GAUGES = {
    "rri_tasks_target": ("admission", "target", "Tasks that the run is to admit"),
    "rri_admission_delta_before": ("admission", "delta_before", "Mean delta of first probes"),
    "rri_admission_delta_after": ("admission", "delta_after", "Mean delta of the versions admitted"),
    "rri_pool_tasks": ("pool", "size", "Tasks that may be served"),
    "rri_pool_unserved": ("pool", "unserved", "Tasks that were never served"),
    "rri_pool_replay": ("pool", "replay", "Patched tasks that wait for their turn"),
    "rri_pool_evicted": ("pool", "evicted", "Tasks outside the difficulty band"),
    "rri_train_score_mean": ("grading", "mean_score", "Mean training score"),
    "rri_loop_backlog": ("loop", "backlog", "Finished cycles that wait for the loop"),
    "rri_guidance_version": ("loop", "guidance", "Guidance in force"),
    "rri_memo_version": ("loop", "memo", "Memo in force"),
    "rri_validation_score": ("validation", "score", "Mean score of the latest validation"),
    "rri_negative_rate": ("shape", "negative_rate", "Rate at which a negative criterion is asked for"),
}
COUNTERS = {
    "rri_tasks_admitted": ("admission", "admitted", "Tasks admitted"),
    "rri_admission_failures": ("admission", "failures", "Failures of background admission"),
    "rri_positions": ("pool", "positions", "Positions served"),
    "rri_rollouts": ("grading", "rollouts", "Rollouts graded"),
    "rri_rollouts_unscored": ("grading", "unscored", "Rollouts without a score"),
    "rri_loop_failures": ("loop", "failures", "Failed rounds of the loop"),
    "rri_criteria_accepted": ("loop", "accepted", "Criteria that patches have added"),
    "rri_validations": ("validation", "rounds", "Complete validation rounds"),
    "rri_searches": ("search", "searches", "Searches of the solver, of this start"),
    "rri_searches_failed": ("search", "failures", "Searches that failed, of this start"),
    "rri_evolutions": ("loop", "evolutions", "Evolution rounds that are over"),
}
LABELLED = {
    "rri_admissions": ("admission", "outcomes", "outcome", "Admissions by outcome"),
    "rri_rankings": ("loop", "rankings", "outcome", "Groups ranked by outcome"),
    "rri_patches": ("loop", "patches", "outcome", "Exploit cases repaired by outcome"),
}
CALLS = {
    "calls": "Model calls",
    "failed": "Model calls that failed",
    "reused": "Votes taken from the cache",
    "tokens_in": "Prompt tokens",
    "tokens_out": "Completion tokens",
    "cached": "Prompt tokens that a server had cached",
    "seconds": "Seconds spent in model calls",
    "money": "Money spent",
}


class _Stats(Collector):
    def __init__(self, stats: Mapping[str, Any]) -> None:
        self.stats = stats

    def collect(self) -> Iterator[Metric]:
        for name, (section, key, text) in GAUGES.items():
            if (value := self.stats[section][key]) is not None:
                yield GaugeMetricFamily(name, text, value)
        for name, (section, key, text) in COUNTERS.items():
            yield CounterMetricFamily(name, text, self.stats[section][key])
        for name, (section, key, label, text) in LABELLED.items():
            family = CounterMetricFamily(name, text, labels=[label])
            for value, count in self.stats[section][key].items():
                family.add_metric([value], count)
            yield family
        for key, text in CALLS.items():
            family = CounterMetricFamily(f"rri_model_{key}", text, labels=["role"])
            for role, totals in self.stats["calls"].items():
                family.add_metric([role], totals[key])
            yield family
        alarm = bool(self.stats["validation"]["alarm"])
        yield GaugeMetricFamily("rri_validation_alarm", "1 while training and validation part ways", alarm)
        health = self.stats["health"]["status"]
        state = GaugeMetricFamily("rri_health", "1 for the state that the run is in", labels=["status"])
        state.add_metric([health], 1)
        yield state


def metrics_text(stats: Mapping[str, Any]) -> bytes:
    """`OpenRun.stats` as a scrape."""
    registry = CollectorRegistry()
    registry.register(_Stats(stats))
    return generate_latest(registry)
