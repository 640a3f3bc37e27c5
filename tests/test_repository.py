"""The shape of the repository: short files and functions, mirrored tests, packaged data, honest `__all__`."""

import ast
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("rri", "signatures", "programs", "training", "eval")
LINES, FUNCTION_LINES = 400, 60
"""Files and functions stay below these (DESIGN, habits)."""
NO_MIRROR = {"perf"}
"""Folders of tests that measure the whole instead of testing a package."""


def library() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


# --- size ----------------------------------------------------------------------------------------------


def test_every_file_is_short() -> None:
    files = [*library(), *sorted((ROOT / "tests").rglob("*.py"))]
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: length for name, length in lengths.items() if length >= LINES} == {}


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name_of(path)}: {node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_every_function_is_short() -> None:
    found = [pair for path in library() for pair in functions(path)]
    assert len(found) > 200
    assert [pair for pair in found if pair[1] >= FUNCTION_LINES] == []


def test_there_is_no_drawer_for_everything() -> None:
    assert [name_of(path) for path in library() if path.stem in ("utils", "util", "helpers", "misc", "common")] == []


# --- folders -------------------------------------------------------------------------------------------


def test_every_folder_of_tests_mirrors_a_package() -> None:
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("*.py")}
    strays = [str(f) for f in folders if f.parts and f.parts[0] not in NO_MIRROR and not (ROOT / f).is_dir()]
    assert strays == []


def test_every_package_is_listed_and_every_folder_with_code_is_a_package() -> None:
    patterns = project()["tool"]["setuptools"]["packages"]["find"]["include"]
    for package in PACKAGES:
        assert any(fnmatch(package, pattern) for pattern in patterns)
    for path in library():
        assert (path.parent / "__init__.py").is_file(), f"{name_of(path.parent)} has no __init__.py"


# --- data ----------------------------------------------------------------------------------------------


def listed_data() -> dict[Path, str]:
    """File -> the pattern of pyproject.toml that packs it."""
    return {
        path: pattern
        for package, patterns in project()["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package).glob(pattern)
    }


def test_every_data_file_of_a_package_is_packed() -> None:
    data = [
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]
    assert [name_of(path) for path in data if path not in listed_data()] == []


def test_every_pattern_of_package_data_packs_something() -> None:
    packed = set(listed_data().values())
    patterns = [p for patterns in project()["tool"]["setuptools"]["package-data"].values() for p in patterns]
    assert [pattern for pattern in patterns if pattern not in packed] == []


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("rri.presets", "smoke.yaml"),
        ("rri.presets", "default.yaml"),
        ("rri.knowledge", "corpora/starter.jsonl"),
        ("rri", "py.typed"),
        ("training", "cpu.yaml"),
        ("training", "zero3.yaml"),
    ],
)
def test_data_is_found_where_the_code_looks_for_it(package: str, name: str) -> None:
    assert resources.files(package).joinpath(name).is_file()


# --- __all__ -------------------------------------------------------------------------------------------


def bound(body: list[ast.stmt]) -> Iterator[str]:
    """Names that the statements of a module bind."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            assigned = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (n.id for target in assigned for n in ast.walk(target) if isinstance(n, ast.Name))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.If | ast.Try):
            yield from bound([*node.body, *node.orelse])


def exported(path: Path) -> list[str] | None:
    for node in tree_of(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def test_all_names_only_what_exists_and_each_once() -> None:
    wrong = {}
    for path in library():
        names = exported(path) or []
        missing = [name for name in names if name not in set(bound(tree_of(path).body))]
        twice = [name for name in names if names.count(name) > 1]
        if missing or twice:
            wrong[name_of(path)] = missing + twice
    assert wrong == {}


def test_every_module_with_something_public_says_what_it_exports() -> None:
    """Programs that are started, not imported, have nothing to export."""
    silent = [
        name_of(path)
        for path in library()
        if exported(path) is None
        and any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in tree_of(path).body)
        and not any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree_of(path).body)
    ]
    assert silent == []


def test_what_a_module_takes_from_another_of_ours_exists_there() -> None:
    """Also for names that only a heavy import would find missing."""
    missing = []
    for path in library():
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] not in PACKAGES:
                continue
            base = ROOT / (node.module or "").replace(".", "/")
            source = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
            known = set(bound(tree_of(source).body)) if source.is_file() else set()
            for alias in node.names:
                if alias.name not in known and not (base / f"{alias.name}.py").is_file():
                    missing.append(f"{name_of(path)}: {node.module}.{alias.name}")
    assert missing == []
