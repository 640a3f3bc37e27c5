"""The run's database: what was made, attacked, served, graded, repaired, and what it cost."""

from rri.store.call_rows import CallRows
from rri.store.grade_rows import GradeRows
from rri.store.loop_rows import LoopRows
from rri.store.task_rows import TaskRows
from rri.store.validation_rows import ValidationRows

__all__ = ["Store"]


class Store(TaskRows, GradeRows, CallRows, LoopRows, ValidationRows):
    """One run's database: all its tables behind one writer.

    Raises:
        StoreError: the database cannot be opened or a row cannot be kept.
    """
