"""Domains by name, by path and started from another one, and what a run makes of them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rri.config import (
    DomainConfig,
    RunConfig,
    apply_overrides,
    list_domains,
    load_config,
    load_domain,
    parse_config,
)
from rri.config.domains import PACKAGE
from rri.config.files import about_line
from rri.errors import ConfigError
from rri.scoring import answer_score, training_score
from rri.types import Criterion

OWN: dict[str, Any] = {
    "name": "icu",
    "description": "questions from an intensive care unit",
    "expert": "intensivist",
    "system_prompt": "Answer briefly.",
    "use_cases": [{"name": "ask", "weight": 1}],
    "corpus": "icu.jsonl",
}


def write(path: Path, data: object) -> str:
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return str(path)


def parse(domain: object, **changes: Any) -> RunConfig:
    return parse_config({"domain": domain, "endpoints": {"main": {"url": "embedded"}}, **changes}, where="test")


def refusal(domain: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(domain)
    assert "\n" not in str(caught.value)
    return caught.value


# --- the ones that ship --------------------------------------------------------------------------------


def test_the_four_domains_ship() -> None:
    assert list_domains() == ["clinical", "finance", "legal", "science"]


@pytest.mark.parametrize("name", list_domains())
def test_a_shipped_domain_is_whole_and_says_what_it_is_for(name: str) -> None:
    domain = load_domain(name)
    assert domain.name == name
    assert about_line(PACKAGE, name)
    assert len(domain.description) > 300
    assert len(domain.system_prompt) > 100
    assert sum(u.weight for u in domain.use_cases) == pytest.approx(1)
    assert domain.corpus == "starter"
    for use_case in domain.use_cases:
        topics = domain.topics_of(use_case)
        assert use_case.description
        assert 12 <= len(topics) <= 20
        assert len(set(topics)) == len(topics)


PUBLISHED = {
    # Red-team shares and mixes as the method ran them; the rules of the benchmarks (METHOD 2).
    "clinical": ({"consult": 0.45, "writing": 0.27, "research": 0.28}, 0.33, "healthbench-professional"),
    "science": (dict.fromkeys(("physics", "chemistry", "finance", "consulting"), 0.25), 0.10, "profbench"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_domain_of_the_paper_has_its_mix_red_team_share_and_rule(name: str) -> None:
    mix, red_team, rule = PUBLISHED[name]
    domain = load_domain(name)
    assert {u.name: u.weight for u in domain.use_cases} == mix
    assert (domain.red_team_share, domain.score_rule) == (red_team, rule)


def test_a_tenth_of_the_clinical_requests_comes_in_other_languages() -> None:
    languages = load_domain("clinical").languages
    assert sum(languages.values()) == pytest.approx(0.10)
    assert len(languages) == 13
    assert all(not load_domain(name).languages for name in list_domains() if name != "clinical")


def test_the_reference_holds_published_figures_alone() -> None:
    """236 consult, 142 writing and 147 research tasks of 525 are printed in the paper."""
    reference = load_domain("clinical").reference
    assert reference is not None
    assert reference.model_dump(exclude_none=True) == {
        "use_cases": {name: round(n / 525, 2) for name, n in {"consult": 236, "writing": 142, "research": 147}.items()}
    }
    assert all(load_domain(name).reference is None for name in list_domains() if name != "clinical")


@pytest.mark.parametrize("name", list_domains())
def test_the_rule_of_a_shipped_domain_scores_a_generated_rubric(name: str) -> None:
    """Its points are 5 to 10, with a negative, and carry no weight class or level."""
    rule = load_domain(name).score_rule
    criteria = [Criterion(text="a", points=8), Criterion(text="b", points=5), Criterion(text="c", points=-7)]
    for score in (answer_score, training_score):
        assert score(rule, criteria, ["met", "unmet", "unmet"], 2000) == pytest.approx(8 / 13)
        assert score(rule, criteria, ["unmet", "unmet", "met"], 2000) == pytest.approx(-7 / 13)


# --- by name, by path, from another one ----------------------------------------------------------------


@pytest.mark.parametrize("name", list_domains())
def test_a_name_a_base_and_the_mapping_itself_are_the_same(name: str) -> None:
    whole = load_domain(name)
    assert parse(name).domain == parse({"base": name}).domain == parse(whole.model_dump(mode="json")).domain == whole
    assert parse(whole).domain is whole


def test_a_path_is_read_and_may_itself_start_from_a_shipped_one(tmp_path: Path) -> None:
    own = write(tmp_path / "icu.yaml", OWN)
    assert parse(own).domain == load_domain(Path(own)) == DomainConfig.model_validate(OWN)
    stricter = write(tmp_path / "stricter.yaml", {"base": own, "red_team_share": 0.5})
    assert load_domain(stricter) == DomainConfig.model_validate({**OWN, "red_team_share": 0.5})
    assert load_domain({"base": stricter, "name": "other"}).red_team_share == 0.5


def test_a_base_keeps_what_is_not_named() -> None:
    clinical = load_domain("clinical")
    changed = parse({"base": "clinical", "red_team_share": 0.2}).domain
    assert changed == clinical.model_copy(update={"red_team_share": 0.2})


@pytest.mark.parametrize("languages", [{}, {"Thai": 0.5}])
def test_languages_are_replaced_and_never_mixed(languages: dict[str, float]) -> None:
    assert load_domain({"base": "clinical", "languages": languages}).languages == languages


def test_other_use_cases_need_another_reference() -> None:
    other = {"base": "clinical", "use_cases": [{"name": "ask", "weight": 1}]}
    assert "consult, research, writing" in refusal(other).what
    assert parse({**other, "reference": None}).domain.use_cases[0].name == "ask"


SLIPS: list[tuple[object, str, str]] = [
    ("clincal", "no file and no domain 'clincal'", "Did you mean the domain 'clinical'?"),
    ("/nowhere/at-all.yaml", "no domain '/nowhere/at-all.yaml'", "Domains are: clinical, finance, legal, science"),
    ({"base": "scince"}, "no domain 'scince'", "Did you mean the domain 'science'?"),
    ({"base": 3}, "domain.base must be the name of a domain or a path, got 3", "Domains are: clinical"),
    ({"base": None}, "domain.base must be", "Domains are: clinical"),
    (None, "domain must be a mapping, the name of a domain, or a path, got None", "Domains are: clinical"),
    (["legal"], "got ['legal']", "Domains are: clinical"),
    ({"base": "legal", "red_team": 0.2}, "unknown key 'domain.red_team', did you mean 'domain.red_team_share'?", ""),
    ({"base": "legal", "languages": {"English": 1}}, "domain: languages names 'English'", ""),
    (
        {"base": "clinical", "reference": {"criteria_men": 3}},
        "unknown key 'domain.reference.criteria_men', did you mean 'domain.reference.criteria_mean'?",
        "",
    ),
]


@pytest.mark.parametrize(("domain", "what", "fix"), SLIPS, ids=[str(s[0])[:30] for s in SLIPS])
def test_a_slip_is_one_clear_line(domain: object, what: str, fix: str) -> None:
    error = refusal(domain)
    assert what in error.what
    assert fix in error.fix


def test_a_bad_domain_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "icu.yaml", {**OWN, "expret": "x"})
    with pytest.raises(ConfigError, match=r"icu\.yaml: unknown key 'expret', did you mean 'expert'\?"):
        load_domain(path)
    (tmp_path / "list.yaml").write_text("- a\n")
    assert "list.yaml must hold a mapping, got list" in refusal(str(tmp_path / "list.yaml")).what
    (tmp_path / "empty.yaml").write_text("")
    assert "domain.description: Field required" in refusal(str(tmp_path / "empty.yaml")).what


def test_domains_that_start_from_each_other_are_refused_with_the_circle(tmp_path: Path) -> None:
    a, b = tmp_path / "a.yaml", tmp_path / "b.yaml"
    write(a, {"base": str(b)})
    write(b, {"base": str(a)})
    assert f"circle: {a} -> {b} -> {a}" in refusal(str(a)).what


# --- in layers and options -----------------------------------------------------------------------------


def load(folder: Path, text: str, **overrides: Any) -> RunConfig:
    (folder / "mine.yaml").write_text(text)
    return load_config(folder / "mine.yaml", overrides)


def test_a_part_of_a_domain_changes_the_one_below(tmp_path: Path) -> None:
    config = load(tmp_path, "preset: default\ndomain: {red_team_share: 0.2, languages: {Thai: 0.3}}\n")
    assert config.domain == load_domain({"base": "clinical", "red_team_share": 0.2, "languages": {"Thai": 0.3}})


@pytest.mark.parametrize("domain", ["legal", "{base: legal}"])
def test_another_domain_replaces_the_one_below(tmp_path: Path, domain: str) -> None:
    """Nothing of the clinical one may shine through, its languages for one."""
    assert load(tmp_path, f"preset: default\ndomain: {domain}\n").domain == load_domain("legal")


def test_a_domain_with_a_name_of_its_own_is_another_domain(tmp_path: Path) -> None:
    text = yaml.safe_dump({"preset": "default", "domain": OWN})
    assert load(tmp_path, text).domain == DomainConfig.model_validate(OWN)
    with pytest.raises(ConfigError, match=r"domain\.description: Field required"):
        load(tmp_path, "preset: default\ndomain: {name: icu}\n")


def test_options_name_a_domain_or_change_a_part_of_it() -> None:
    assert load_config("default", {"domain": "legal"}).domain == load_domain("legal")
    assert load_config("default", {"domain.base": "legal"}).domain == load_domain("legal")
    changed = load_config("default", {"domain": "legal", "domain.red_team_share": 0.4})
    assert changed.domain == load_domain({"base": "legal", "red_team_share": 0.4})
    assert load_config("default", {"domain": {"red_team_share": 0.4}}).domain.name == "clinical"


def test_options_over_a_saved_config_replace_its_domain() -> None:
    saved = load_config("default").model_dump(mode="json")
    apply_overrides(saved, {"domain": "legal"})
    assert parse_config(saved, where="run.yaml").domain == load_domain("legal")


# --- the knowledge base --------------------------------------------------------------------------------


def test_the_passages_are_the_domains_unless_the_run_names_its_own(tmp_path: Path) -> None:
    own = write(tmp_path / "icu.yaml", OWN)
    assert parse(own).corpus == "icu.jsonl"
    assert parse(own, corpus="").corpus == "icu.jsonl"
    assert parse(own, corpus="mine.jsonl").corpus == "mine.jsonl"
    assert parse("clinical").corpus == "starter"


def test_a_saved_config_holds_the_passages_that_the_run_uses() -> None:
    config = parse(OWN)
    saved = yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json")))
    assert saved["corpus"] == "icu.jsonl"
    assert parse_config(saved, where="run.yaml") == config
