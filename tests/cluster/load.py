"""The load of a storm: producers at the api and at the command line, who try again until their events are acknowledged, and an operator."""

import itertools
import json
import random
import threading
import time
from datetime import datetime, timezone

from tidings import BUSY, CALM, TENANTS, USERS

DIGEST_TYPES = ("fast", "fast", "sliding", "daily")
PAUSE_SECONDS = 1
# The keys of commands that change many at once.
BUSY_SLIDING, BUSY_DAILY = f"tenant={BUSY} and digest_type=sliding", f"tenant={BUSY} and digest_type=daily"


class Load:
    """Threads that end with the block. Each one has numbers of its own, so that the seed decides what it does."""

    def __init__(self, tidings, seed):
        self.tidings, self.over, self.lock = tidings, threading.Event(), threading.Lock()
        self.acknowledged = {}  # (tenant, digest type, user, event_id) -> the time
        self.messages, self.calls, self.slowest, self.failures, self.faults = [], 0, 0.0, [], []
        works = {"api": self.post, "emit": self.emit, "operator": self.operate}
        self.threads = [
            threading.Thread(target=self.watched, args=[name, work, random.Random(f"{seed} {name}")], daemon=True)
            for name, work in works.items()
        ]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, failure, *_):
        self.over.set()
        # After Ctrl-C nobody waits for calls that may take a minute.
        for thread in self.threads if failure is None else []:
            thread.join()

    def watched(self, name, work, drawn):
        try:
            work(name, drawn)
        except Exception as error:  # A thread that ends early would leave a storm without a load.
            self.faults.append(f"the load of {name} ended: {error!r}")

    def events(self, name, drawn, number):
        return [
            {
                "tenant": drawn.choice(TENANTS), "digest": drawn.choice(DIGEST_TYPES), "user": drawn.choice(USERS),
                "event_id": f"{name}-{number}-{part}", "category": "comment", "entity_type": "doc", "entity_id": str(number % 7),
                "occurred_at": datetime.now(timezone.utc).isoformat(), "payload": {"title": f"Event {number} of {name}"},
            }
            for part in range(2)
        ]

    def acknowledge(self, events):
        now = time.time()
        with self.lock:
            for event in events:
                self.acknowledged.setdefault((event["tenant"], event["digest"], event["user"], event["event_id"]), now)

    def call(self, what, call):
        """Makes a call that returns the reason of its failure, or None. Returns True if it went well."""
        began = time.monotonic()
        failure = call()
        with self.lock:
            self.calls, self.slowest = self.calls + 1, max(self.slowest, time.monotonic() - began)
            if failure:
                self.failures.append(f"{what}: {failure}")
        return not failure

    def until_done(self, what, call):
        """Tries until it goes well, or the storm is over."""
        while not self.call(what, call) and not self.over.wait(PAUSE_SECONDS):
            pass

    def post(self, name, drawn):
        for number in itertools.count():
            events = self.events(name, drawn, number)

            def call():
                failure = self.tidings.post(events)
                self.acknowledge([] if failure else events)
                return failure

            self.until_done("POST /v1/events", call)
            if self.over.wait(drawn.uniform(0.3, 1)):
                return

    def emit(self, name, drawn):
        file, written = self.tidings.folder / "emit.ndjson", self.tidings.folder / "emitted.ndjson"
        for number in itertools.count():
            file.write_text("".join(json.dumps(event) + "\n" for event in self.events(name, drawn, number)))

            def call():
                written.unlink(missing_ok=True)
                done = self.tidings.run("emit", str(file), "--acknowledged", str(written))
                # A batch that failed may have been acknowledged in part, and the last line may be half a line.
                lines = written.read_text().splitlines(keepends=True) if written.exists() else []
                self.acknowledge(json.loads(line) for line in lines if line.endswith("\n"))
                return done.failure

            self.until_done("emit", call)
            if self.over.wait(drawn.uniform(0.5, 2)):
                return

    def operate(self, _, drawn):
        why = ("--why", "storm")
        for number in itertools.count():
            user = drawn.choice(USERS)
            daily, fast = f"{BUSY}/daily/{user}", f"{BUSY}/fast/{user}"
            orders = [
                ("flush", daily), ("digest", "hold", fast, "--until", "5s", *why), ("digest", "retime", daily, "--at", "5s", *why),
                ("digest", "hold", "--filter", BUSY_SLIDING, "--until", "4s", *why), ("digest", "flush", "--filter", BUSY_DAILY, *why),
                ("pause", "--filter", BUSY_SLIDING, "--until", "6s", *why), ("status", f"{CALM}/daily/{user}"), ("stats", "--json"), None,
            ]
            order = drawn.choice(orders)
            if order:
                self.call(" ".join(order), lambda: self.tidings.run(*order).failure)
            else:
                self.until_done("send", lambda: self.send(number, user))
            if self.over.wait(drawn.uniform(1, 5)):
                return

    def send(self, number, user):
        text = self.tidings.folder / "text.txt"
        text.write_text("One message.\n")
        whom = ("--tenant", BUSY, "--to", user, "--key", f"message-{number}")
        done = self.tidings.run("send", *whom, "--subject", f"Message {number}", "--text", str(text), "--json")
        if not done.failure:
            self.messages.append(json.loads(done.output)["id"])
        return done.failure
