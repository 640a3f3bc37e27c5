"""A scripted, misbehaving OpenAI-compatible server: for tests, benchmarks and the known-truth world."""

from rri.testing.faults import Fault, FaultMix, empty, garbage, hang, other_json, reset, status, truncated
from rri.testing.roles import role_models
from rri.testing.server import ChatRequest, Reply, ScriptedServer

__all__ = [
    "ChatRequest",
    "Fault",
    "FaultMix",
    "Reply",
    "ScriptedServer",
    "empty",
    "garbage",
    "hang",
    "other_json",
    "reset",
    "role_models",
    "status",
    "truncated",
]
