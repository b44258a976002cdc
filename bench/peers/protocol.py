"""JSON lines over stdin and stdout between bench/run.ts and one contender.

The driver sends {"command": "run", "steps": n} and {"command": "stop"}; a contender answers each with one line.
"""

import json
import os
import resource
import sys
import time
from typing import Callable

_TAG = "@bench "


def open_channel() -> Callable[[dict], None]:
    """Keeps stdout for answers alone: whatever a library prints goes to stderr."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return lambda message: out.write(_TAG + json.dumps(message) + "\n")


def peak_bytes() -> int:
    """Peak resident memory of this process. VmHWM, since ru_maxrss is inherited from the parent on Linux."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def serve(send: Callable[[dict], None], ready: dict, step: Callable[[], float]) -> None:
    """Announces itself, then runs and times steps on demand. `step` returns the loss as a Python number."""
    started = time.perf_counter()
    loss = step()
    first = (time.perf_counter() - started) * 1000
    send({"event": "ready", "firstStep": first, "loss": loss, **ready})
    for line in sys.stdin:
        message = json.loads(line)
        if message["command"] == "stop":
            send({"event": "stopped", "peakBytes": peak_bytes()})
            return
        milliseconds, losses = [], []
        for _ in range(message["steps"]):
            started = time.perf_counter()
            losses.append(step())
            milliseconds.append((time.perf_counter() - started) * 1000)
        send({"event": "ran", "milliseconds": milliseconds, "losses": losses})
