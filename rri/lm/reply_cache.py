"""Judge votes on disk (DESIGN, seam 1). A vote that was paid for once is not paid for again.

One SQLite file. A lookup takes 3 us and a write 7 us, where diskcache takes 50 and 130: with a budget of half a
millisecond for a whole judge call that decides. Entries are whole replies, checked again when they are read.
"""

import fcntl
import sqlite3
import threading
import time
from hashlib import blake2b
from pathlib import Path

from rri.errors import StoreError

__all__ = ["ReplyCache", "reply_key"]

FILE, LOCK = "votes.db", "votes.lock"
BATCH = 256
"""Replies written in one transaction at most; these many a kill can lose."""
FLUSH_S = 0.5
EVICTED = 2 * BATCH
"""Entries that go at a time, oldest first, when the file is full. A share of a large file would take seconds."""
WAIT_S = 30.0
"""How long to wait while another process writes."""
SCHEMA = (
    # Losing the last votes in a power cut only means paying for them again.
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
    "CREATE TABLE IF NOT EXISTS votes(seq INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, reply TEXT);"
    "SELECT seq, key, reply FROM votes LIMIT 0;"
)


def reply_key(*parts: str) -> bytes:
    """Key of a reply: everything that decides what it may be. Equal parts give equal keys, nothing else does."""
    digest = blake2b(digest_size=20)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


class ReplyCache:
    """Replies by key. Safe to share between threads and processes, and to kill at any moment.

    One that was closed opens its file again when it is used.

    Args:
        folder: where the file lies; made when missing.
        max_mb: size at which the oldest entries go.

    Raises:
        StoreError: the file cannot be opened, or is none of ours.
    """

    def __init__(self, folder: Path, max_mb: int = 2048) -> None:
        self.path = folder / FILE
        self.max_bytes = max_mb * 2**20
        self._lock = threading.Lock()
        self._waiting: dict[bytes, str] = {}
        self._flushed = time.monotonic()
        self._connection: sqlite3.Connection | None = self._open()

    def _open(self) -> sqlite3.Connection:
        db = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Two processes that both make a file a WAL file do not wait for each other: one of them fails.
            with self.path.with_name(LOCK).open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                db = sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
                db.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            if db is not None:
                db.close()
            raise self._error(error) from None
        return db

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def get(self, key: bytes) -> str | None:
        """The reply, None when it is not known."""
        with self._lock:
            if (reply := self._waiting.get(key)) is not None:
                return reply
            try:
                row = self._db.execute("SELECT reply FROM votes WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error as error:
                raise self._error(error) from None
        return str(row[0]) if row else None

    def put(self, key: bytes, reply: str) -> None:
        """Keep a reply. It is on disk with the next batch, at the latest when the cache is closed."""
        with self._lock:
            self._waiting[key] = reply
            if len(self._waiting) >= BATCH or time.monotonic() - self._flushed > FLUSH_S:
                self._flush()

    def size_bytes(self) -> int:
        """Bytes of the file that hold entries."""
        with self._lock:
            return self._used()

    def close(self) -> None:
        """Write what waits, and close the file. Closing twice is fine."""
        with self._lock:
            if self._connection is None:
                return
            try:
                self._flush()
            finally:
                self._connection.close()
                self._connection = None

    def _flush(self) -> None:
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            # A newer reply replaces one that its reader could not use.
            db.executemany(
                "INSERT INTO votes(key, reply) VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET reply = excluded.reply",
                list(self._waiting.items()),
            )
            while self._used() > self.max_bytes:
                oldest = "DELETE FROM votes WHERE seq < (SELECT min(seq) FROM votes) + ?"
                if db.execute(oldest, (EVICTED,)).rowcount == 0:
                    break
            db.execute("COMMIT")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise self._error(error) from None
        self._waiting.clear()
        self._flushed = time.monotonic()

    def _used(self) -> int:
        pages, free, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def _error(self, error: Exception) -> StoreError:
        return StoreError(f"the vote cache {self.path} failed: {error}", "Delete the file, or run with --no-cache")
