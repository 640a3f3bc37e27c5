"""The direction of dependence: every import of the project is read, also those inside functions."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("rri", "signatures", "programs", "training", "eval")
ROOTS = ("rri.service", "rri.cli")
"""Composition roots: nobody imports them."""

# rri (without its composition roots) <- signatures <- programs <- eval <- rri.service, rri.cli
MAY_IMPORT: dict[str, set[str]] = {
    "rri": {"rri"},
    "signatures": {"rri", "signatures"},
    "programs": {"rri", "signatures", "programs"},
    "eval": {"rri", "signatures", "programs", "eval"},
    "rri.service": {"rri", "signatures", "programs", "eval", "rri.service"},
    "rri.cli": {"rri", "signatures", "programs", "eval", "rri.service", "rri.cli"},
    "training": {"training"},
}
TRAINING_MAY_IMPORT = {"rri.client", "rri.wire", "rri.types", "rri.errors", "rri.lifetime"}

# Heavy or optional libraries, and the only modules that may name them.
OWNERS: dict[str, set[str]] = {
    "accelerate": set(),
    "aiohttp": {"rri.lm.transport", "rri.testing.server"},
    "chromadb": {"rri.knowledge.index"},
    "datasets": {"training.stream"},
    "deepspeed": {"training.zero_cpu"},
    "dspy": {"rri.lm.adapter", "rri.lm.engine", "programs.role", "signatures"},
    "fastapi": {"rri.service.app"},
    "gguf": {"training.base_model"},
    "matplotlib": {"eval.world.pictures"},
    "peft": {"training.export", "training.lora"},
    "prometheus_client": {"rri.service.metrics"},
    "sentence_transformers": {"rri.knowledge.index"},
    "sklearn": {"eval.agreement"},
    "sqlalchemy": {"rri.store"},
    "tokenizers": {"eval.world.tokens"},
    "torch": {
        "training.base_model",
        "training.grpo",
        "training.options",
        "training.peers",
        "training.preflight",
        "eval.world.heldout",
        "eval.world.pretraining",
    },
    "transformers": {
        "rri.tokens",
        "rri.knowledge.index",
        "training.base_model",
        "training.export",
        "training.preflight",
        "training.reporting",
        "training.seeding",
        "training.validation",
        "eval.world.heldout",
        "eval.world.pretraining",
        "eval.world.tokens",
    },
    "trl": {"training.grpo", "training.options", "training.tools"},
    "uvicorn": {"rri.service.host"},
    "vllm": set(),
    "xllamacpp": {"rri.lm.llama_child"},
}
LATE = {"chromadb", "matplotlib", "sentence_transformers", "tokenizers", "torch", "transformers"}
"""Slow to import: outside training only inside the function that needs them."""

DYNAMIC = ("importlib.import_module", "import_module", "__import__")

LIGHT = ("rri.types", "rri.errors", "rri.lifetime", "rri.config", "rri.client", "rri.cli.main")
"""Modules that a trainer or `rri --help` imports."""


@dataclass(frozen=True)
class Import:
    """One import: who, what, where, and whether it stands inside a function."""

    module: str
    target: str
    line: int
    inner: bool

    def __str__(self) -> str:
        return f"{self.module} line {self.line} imports {self.target}"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    return {module_name(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}


def below(name: str, parent: str) -> bool:
    return f"{name}.".startswith(f"{parent}.")


def targets(module: str, node: ast.AST) -> Iterator[str]:
    """Modules that one statement imports, `from package import module` resolved to the module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            yield whole if whole in modules() else base
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in DYNAMIC:
        yield from (str(name.value) for name in node.args[:1] if isinstance(name, ast.Constant))


def walk(module: str, node: ast.AST, inner: bool = False) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        for target in targets(module, child):
            yield Import(module, target, getattr(child, "lineno", 0), inner)
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from walk(module, child, inner or function)


@cache
def imports() -> tuple[Import, ...]:
    return tuple(i for name, path in modules().items() for i in walk(name, ast.parse(path.read_text(encoding="utf-8"))))


def ours() -> list[Import]:
    return [i for i in imports() if i.target.split(".")[0] in PACKAGES]


def layer(module: str) -> str:
    return next((root for root in ROOTS if below(module, root)), module.split(".")[0])


def wrong_arrows(found: list[Import]) -> list[str]:
    wrong = []
    for i in found:
        allowed = layer(i.target) in MAY_IMPORT[layer(i.module)]
        if layer(i.module) == "training":
            allowed = allowed or i.target in TRAINING_MAY_IMPORT
        if not allowed:
            wrong.append(str(i))
    return wrong


# --- direction -----------------------------------------------------------------------------------------


def test_there_is_no_arrow_against_the_direction() -> None:
    assert wrong_arrows(ours()) == []


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("rri.pool", "programs.grader"),
        ("rri.lm.gateway", "rri.service.app"),
        ("signatures.judge", "programs.judge"),
        ("programs.roles", "eval.statistics"),
        ("programs.roles", "rri.cli.main"),
        ("eval.report", "rri.service.run"),
        ("eval.report", "training.grpo"),
        ("training.grpo", "eval.report"),
        ("training.grpo", "rri.config"),
        ("training.grpo", "rri"),
        ("training.grpo", "programs.judge"),
        ("rri.service.run", "training.grpo"),
        ("rri.service.run", "rri.cli.main"),
        ("rri.cli.run", "training.grpo"),
    ],
)
def test_a_wrong_arrow_would_be_seen(module: str, target: str) -> None:
    assert wrong_arrows([Import(module, target, 1, False)]) == [f"{module} line 1 imports {target}"]


def test_imports_are_found_however_they_are_written() -> None:
    code = (
        "import rri.client, torch as t\n"
        "from rri import types\n"
        "from .engine import role_lm\n"
        "from . import calls\n"
        "def f():\n"
        "    from rri.lm.gateway import Gateway\n"
        "    if True:\n"
        "        importlib.import_module('dspy')\n"
    )
    found = [(i.target, i.inner) for i in walk("rri.lm.adapter", ast.parse(code))]
    assert found == [
        ("rri.client", False),
        ("torch", False),
        ("rri.types", False),
        ("rri.lm.engine", False),
        ("rri.lm.calls", False),
        ("rri.lm.gateway", True),
        ("dspy", True),
    ]
    assert len(ours()) > 100


def test_no_import_inside_a_function_hides_an_arrow() -> None:
    """Commands load what they need when they are called; everywhere else imports of ours stand at the top."""
    lazy = ("rri.cli.commands", "rri.cli.questions")
    assert [str(i) for i in ours() if i.inner and i.module not in lazy] == []


def test_eval_is_never_imported_whole() -> None:
    """It would shadow the builtin."""
    assert [str(i) for i in imports() if i.target == "eval"] == []


# --- heavy libraries -----------------------------------------------------------------------------------


@pytest.mark.parametrize("library", OWNERS)
def test_a_heavy_library_is_imported_only_by_the_modules_that_own_it(library: str) -> None:
    users = [i for i in imports() if below(i.target, library)]
    assert [str(i) for i in users if not any(below(i.module, owner) for owner in OWNERS[library])] == []


def test_slow_libraries_are_imported_where_they_are_needed() -> None:
    slow = [i for i in imports() if i.target.split(".")[0] in LATE and layer(i.module) != "training"]
    assert slow
    assert [str(i) for i in slow if not i.inner] == []


def reachable(start: str) -> dict[str, str]:
    """Everything that importing `start` imports, with the module that asks for it; our packages count whole."""
    asked: dict[str, str] = {start: ""}
    todo = [start]
    while todo:
        module = todo.pop()
        for i in imports():
            if i.module != module or i.inner:
                continue
            parts = i.target.split(".")
            for name in (".".join(parts[: n + 1]) for n in range(len(parts))):
                if name not in asked:
                    asked[name] = module
                    todo.append(name)
    return asked


@pytest.mark.parametrize("module", [name for name in modules() if name.startswith("training")])
def test_the_trainer_reaches_nothing_that_only_the_service_has(module: str) -> None:
    """Its environment has the extra `train`: no dspy, no database, no server."""
    service = {"aiohttp", "chromadb", "dspy", "fastapi", "optuna", "sentence_transformers", "sqlalchemy", "uvicorn"}
    found = {name: by for name, by in reachable(module).items() if name in service | {"xllamacpp"}}
    assert found == {}


def loaded_by(code: str) -> set[str]:
    """Heavy libraries that are loaded in a fresh process after `code`."""
    probe = f"{code}\nimport sys\nprint('\\n' + ' '.join(n for n in {sorted(OWNERS)} if n in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("module", LIGHT)
def test_a_light_module_loads_no_heavy_library(module: str) -> None:
    assert loaded_by(f"import {module}") == set()


def test_help_loads_no_heavy_library() -> None:
    ask = "try:\n    app(['run', '--help'])\nexcept SystemExit as end:\n    assert not end.code"
    assert loaded_by(f"from rri.cli.main import app\n{ask}") == set()
