"""The gateway: every model call of the system passes here. See `rri.lm.gateway`.

In a notebook::

    import dspy
    from rri.lm import open_gateway, role_lm, RriAdapter

    gateway = open_gateway(load_config("smoke"))
    dspy.configure(lm=role_lm("farmer", gateway), adapter=RriAdapter(), disable_history=True)
"""

from rri.lm.adapter import RriAdapter, output_spec, render
from rri.lm.calls import CallRecord, CallSink, Ledger, RecentCalls, Totals, tagged
from rri.lm.engine import model_errors, role_lm, use_gateway
from rri.lm.gateway import Gateway, ModelRequest
from rri.lm.opening import open_gateway
from rri.lm.preflight import check_endpoints
from rri.lm.replies import Reply
from rri.lm.reply_cache import ReplyCache
from rri.lm.routes import Route, resolve_routes

__all__ = [
    "CallRecord",
    "CallSink",
    "Gateway",
    "Ledger",
    "ModelRequest",
    "RecentCalls",
    "Reply",
    "ReplyCache",
    "Route",
    "RriAdapter",
    "Totals",
    "check_endpoints",
    "model_errors",
    "open_gateway",
    "output_spec",
    "render",
    "resolve_routes",
    "role_lm",
    "tagged",
    "use_gateway",
]
