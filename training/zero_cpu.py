"""What ZeRO-3 on CPU ranks needs beyond its launch file."""

import deepspeed  # type: ignore[import-untyped]

__all__ = ["skip_compiled_ops"]


def skip_compiled_ops() -> None:
    """Have DeepSpeed use plain gloo instead of compiling its shared-memory collectives.

    Otherwise the first start needs a C++ compiler and several minutes of it. The table that says which ops
    may be built is read when the process group is set up, so this must come before.
    """
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
