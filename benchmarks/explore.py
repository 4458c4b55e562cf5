"""The explorer under ten users at once: a minute of sliders,
in a process of its own whose memory is watched.

    python benchmarks/explore.py --users 10 --seconds 60

Every user has a page of its own, moves a slider several times a second, sometimes a control that
changes the structure of the program, and looks at the other tabs. Superseded answers (409) are
what sliders make; anything but 200 and 409 is an error. Before that, one user alone: how long an
answer takes where the structure is unchanged.
"""

import argparse
import dataclasses
import random
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

LAW = ("preview", "exact", "limit", "more")
STRUCTURES: tuple[dict[str, object], ...] = (
    {},
    {"tokens": 3, "token": 2},
    {"heads": 4},
    {"tokens": 8, "token": 7, "mask": "causal"},
    {"phi": "relu"},
)
PAUSE = 0.3  # seconds between movements of a user


@dataclasses.dataclass
class Seen:
    """What the users saw: seconds of every answer by kind and status, and what went wrong."""

    seconds: dict[tuple[str, int], list[float]] = dataclasses.field(default_factory=dict)
    wrong: list[str] = dataclasses.field(default_factory=list)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def add(self, kind: str, status: int, seconds: float, text: str) -> None:
        """One answer."""
        with self.lock:
            self.seconds.setdefault((kind, status), []).append(seconds)
            if status not in (200, 409):
                self.wrong.append(f"{kind}: {status} {text[:100]}")


def ask(address: str, kind: str, settings: dict[str, object], seen: Seen) -> float:
    """One question; its seconds."""
    url = f"{address}api/{kind}?{urllib.parse.urlencode(settings)}"
    start, status, text = time.perf_counter(), 0, ""
    try:
        with urllib.request.urlopen(url, timeout=200) as response:
            response.read()
            status = response.status
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    except OSError as error:
        text = str(error)
    took = time.perf_counter() - start
    seen.add(kind, status, took, text)
    return took


def user(i: int, address: str, end: float, seen: Seen) -> None:
    """Moves sliders until the end; a new movement does not wait for the answers to
    the last one.
    """
    rng = random.Random(i)
    page, settings = f"user{i}", dict(rng.choice(STRUCTURES))
    while time.monotonic() < end:
        if rng.random() < 0.05:
            settings = dict(rng.choice(STRUCTURES))
        settings |= {
            "scale": rng.randint(10, 60) / 10,
            "correlation": rng.randint(0, 9) / 10,
            "page": page,
        }
        kinds = LAW if rng.random() < 0.9 else ("program",)
        threads = [
            threading.Thread(target=ask, args=(address, kind, dict(settings), seen))
            for kind in kinds
        ]
        for thread in threads:
            thread.start()
        time.sleep(PAUSE * rng.uniform(0.5, 1.5))
        if rng.random() < 0.3:
            for thread in threads:
                thread.join()


def memory(pid: int) -> float:
    """MiB that a process holds."""
    (line,) = [
        x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS")
    ]
    return int(line.split()[1]) / 1024


def alone(address: str, seen: Seen) -> None:
    """One user, structure by structure: compiled first, then timed."""
    for settings in STRUCTURES:
        for correlation in (0, 0.5):  # independent tokens are a program of their own
            for kind in LAW:
                ask(address, kind, {**settings, "correlation": correlation}, seen)
        times: dict[str, list[float]] = {kind: [] for kind in LAW}
        for j in range(9):
            for kind in LAW:
                times[kind].append(ask(address, kind, {**settings, "scale": 1.03 + j / 5}, seen))
        shown = "  ".join(
            f"{kind} {1e3 * statistics.median(t):5.0f} ms" for kind, t in times.items()
        )
        print(f"alone {settings!s:50s} {shown}", flush=True)


def report(seen: Seen) -> None:
    """Requests, errors, latencies."""
    for (kind, status), seconds in sorted(seen.seconds.items()):
        ordered = sorted(seconds)
        high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        print(
            f"{kind:8s} {status}: {len(ordered):5d}, median {statistics.median(ordered):6.3f} s, "
            f"95 % {high:6.3f} s"
        )
    print(f"errors: {len(seen.wrong)} {seen.wrong[:3]}")


def main() -> None:
    """Start a server, measure it, and end it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    command = [sys.executable, "-m", "limitlaw", "explore", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[2]
            alone(address, Seen())
            before, seen, most = memory(server.pid), Seen(), 0.0
            end = time.monotonic() + chosen.seconds
            users = [
                threading.Thread(target=user, args=(i, address, end, seen))
                for i in range(chosen.users)
            ]
            for thread in users:
                thread.start()
            while any(thread.is_alive() for thread in users):
                most = max(most, memory(server.pid))
                time.sleep(0.5)
            time.sleep(5)  # the last answers
            report(seen)
            print(
                f"memory: {before:.0f} MiB before, {most:.0f} at most, {memory(server.pid):.0f} "
                "after"
            )
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
