"""What a storm does, and what its logs and its lateness mean. Nothing here acts."""

import re
from typing import NamedTuple

# How long a killed process stays away and a frozen one stays frozen, in seconds.
SPANS = {"kill": (3, 15), "freeze": (12, 45)}
# Between two strikes, in seconds. Temporal needs about 10 s to give the shards of a dead host to another one.
REST = (12, 22)
# The words of a fault of the SDK for Rust, from which a run recovers with its next task.
STRAY_RESULT = "Missing associated machine for LocalActivity"
# The words after a workflow task whose answer Temporal did not take, because another host had completed the run meanwhile.
NOT_TAKEN = "Task not found when completing"


class Strike(NamedTuple):
    service: str
    kind: str
    target: int  # which process of the service, counted from 0
    span: int
    rest: int


def plan(services, random):
    """Strikes without an end: each round kills and freezes one process of every service, in another order. `services` has the
    number of processes of each."""
    while True:
        strikes = [
            Strike(service, kind, random.randrange(number), random.randint(*SPANS[kind]), random.randint(*REST))
            for service, number in services.items()
            for kind in SPANS
        ]
        random.shuffle(strikes)
        yield from strikes


def missing(services, struck):
    """What a storm has to do and did not: words for each service that was never killed, or never frozen. `struck` has pairs."""
    verbs = {"kill": "killed", "freeze": "frozen"}
    return [f"{service} was never {verbs[kind]}" for service in services for kind in SPANS if (service, kind) not in struck]


def lateness(begins, sent, due_after):
    """The longest lateness of the digests of each strike. `begins` are the strikes' begins, in order; `sent` has pairs of an event's
    acknowledgement and the sending of its digest, which is due `due_after` later. All in seconds. A digest that was waiting when a
    strike began counts for this strike."""
    worst = [0.0] * len(begins)
    for acknowledged_at, sent_at in sent:
        due_at = acknowledged_at + due_after
        current = max((number for number, begin in enumerate(begins) if begin <= due_at), default=None)
        if current is not None:
            worst[current] = max(worst[current], sent_at - due_at)
    return worst


def bugs(lines):
    """The lines of a log that report a bug of Tidings: a panic, and a changed decision in a workflow task that still mattered."""
    for number, line in enumerate(lines):
        if "panicked at" in line or ("Nondeterminism" in line and STRAY_RESULT not in line and not was_over(line, lines[number + 1 :])):
            yield line


def was_over(line, later):
    """The next report about the line's run says that Temporal did not take the answer."""
    run = run_id(line)
    reports = (other for other in later if ("workflow task" in other or NOT_TAKEN in other) and run_id(other) == run)
    return run is not None and NOT_TAKEN in next(reports, "")


def run_id(line):
    found = re.search(r'run_id="?([^" },]+)', line)
    return found and found[1]
