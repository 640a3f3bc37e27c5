"""YAML files of configs: aliases become values of their own, and shipped files say what they are for."""

from pathlib import Path

import pytest

from rri.config import load_config, set_dotted
from rri.config.files import about_line, read_mapping, shipped_names
from rri.errors import ConfigError

PRESETS = "rri.presets"


def read(path: Path, text: str) -> dict[str, object]:
    path.write_text(text, encoding="utf-8")
    return read_mapping(str(path), PRESETS, "preset")


def test_a_change_of_one_alias_leaves_the_others(tmp_path: Path) -> None:
    data = read(tmp_path / "a.yaml", "x: &here {n: 1, inner: {m: [1]}}\ny: *here\nz: [*here]\n")
    set_dotted(data, "y.n", 2)
    set_dotted(data, "y.inner.m", 2)
    assert data == {"x": {"n": 1, "inner": {"m": [1]}}, "y": {"n": 2, "inner": {"m": 2}}, "z": [data["x"]]}


def test_an_option_for_one_role_of_the_teacher_reaches_no_other() -> None:
    """The preset names the route once and repeats it by alias."""
    config = load_config("paper-9b", {"roles.judge.temperature": 0.3})
    assert {role for role, route in config.roles.items() if route.temperature is not None} == {"judge"}


def test_an_alias_of_what_it_is_part_of_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds an alias of what it is part of"):
        read(tmp_path / "a.yaml", "x: &here {inner: *here}\n")


def test_a_shipped_name_comes_before_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smoke").write_text("seed: 77\n")
    assert "seed" not in read_mapping("smoke", PRESETS, "preset")
    assert read_mapping("./smoke", PRESETS, "preset") == {"seed": 77}


@pytest.mark.parametrize("package", [PRESETS, "rri.domains"])
def test_every_shipped_file_opens_with_one_sentence(package: str) -> None:
    for name in shipped_names(package):
        line = about_line(package, name)
        assert 20 < len(line) < 120
        assert not line.endswith((".", ":"))


def test_a_missing_file_takes_the_hint_before_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="Look elsewhere"):
        read_mapping("smok", PRESETS, "preset", hint="Look elsewhere")
    with pytest.raises(ConfigError, match="Did you mean the preset 'smoke'"):
        read_mapping("smok", PRESETS, "preset")
