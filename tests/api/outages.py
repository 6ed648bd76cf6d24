"""Outages of the store and of Temporal while events are posted: each answer is a success or a 503, and what was acknowledged is there at the end."""

import itertools
import json
import random
import threading
import time

# The tenant of the events. Commands of the explorer reach another one.
TENANT = "zeta"
USERS = 20
# What Temporal has to take after the last outage.
DRAINED_SECONDS = 240


class Outages:
    """A thread that posts events, and one that breaks and repairs one part at a time. Both end with the block."""

    def __init__(self, tidings, seed):
        self.tidings, self.random = tidings, random.Random(seed)
        self.token, self.over = tidings.token(TENANT), threading.Event()
        self.acknowledged, self.statuses, self.count, self.faults = set(), {}, 0, []
        self.threads = [threading.Thread(target=self.watched, args=[run]) for run in (self.post, self.interrupt)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def watched(self, run):
        try:
            run()
        except Exception as error:  # A thread that ends early would hide what it did not see.
            self.faults.append(f"{run.__name__}: {error!r}")

    def post(self):
        for number in itertools.count():
            if self.over.is_set():
                return
            event = {
                "event_id": f"e{number}", "digest": "activity", "user": f"user-{number % USERS}", "category": "comment",
                "occurred_at": "2026-01-31T08:00:00Z",
            }
            status, answer = self.tidings.send(self.token, "POST", "/v1/events", event)
            self.statuses[status] = self.statuses.get(status, 0) + 1
            if status == 202:
                self.acknowledged.add(event["event_id"])
            elif status != 503:
                self.faults.append(f"POST /v1/events: {status} {answer}")

    def interrupt(self):
        while not self.over.wait(self.random.uniform(3, 8)):
            store = self.tidings.store
            outages = [self.tidings.without_temporal, *(outage.__get__(store) for outage in store.outages)]
            with self.random.choice(outages)():
                self.count += 1
                self.over.wait(self.random.uniform(1, 12))

    def verdict(self):
        """A sentence for each fault, once everything runs again."""
        self.tidings.retry(self.tidings.is_ready)
        stored = {json.loads(text)["event_id"] for text in self.tidings.store.events(TENANT)}
        lost = sorted(self.acknowledged - stored)
        faults = list(self.faults)
        if lost:
            faults.append(f"{len(lost)} acknowledged events are lost: {lost[:10]}")
        if not self.count or not self.acknowledged or 503 not in self.statuses:
            faults.append("no outage was felt")
        faults += [f"{name} ended by itself" for name in self.tidings.ended()]
        if not self.drained():
            faults.append("the inbox does not drain")
        return faults

    def drained(self):
        """Waits until Temporal has taken every event."""
        deadline = time.monotonic() + DRAINED_SECONDS
        token = self.tidings.token("*")
        while time.monotonic() < deadline:
            status, stats = self.tidings.send(token, "GET", "/v1/stats")
            if status == 200 and stats["inbox"]["events"] == 0:
                return True
            time.sleep(1)
        return False

    def summary(self):
        answers = ", ".join(f"{number} times {status}" for status, number in sorted(self.statuses.items()))
        return f"{self.count} outages; events were answered {answers}; {len(self.acknowledged)} acknowledged"
