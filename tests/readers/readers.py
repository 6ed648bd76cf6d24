#!/usr/bin/env python3
"""Sends alerts and digests with Tidings, and checks what mail programs show as threads.

usage: readers.py TIDINGS TEMPORAL_CLI PACKAGES

TIDINGS is the program, TEMPORAL_CLI the program `temporal`. PACKAGES is a folder with the unpacked packages of each mail program
(packages.txt). All run on loopback and in a folder of their own. The exit code is 1 if a check fails.
"""

import email
import email.policy
import json
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "servers"))

from programs import PROGRAMS, Failure
from smoke import Relay, Server, eventually

CONFIG = """
database_url = "sqlite://tidings.db"
smtp_url = "smtp://127.0.0.1:{relay}"
[mail]
from = "Tidings <digest@tidings.example>"
[digest.alerts]
cadence = "instant"
template = "default"
[digest.activity]
cadence = "after 1s"
template = "default"
"""
ANN = "ann@example.test"


class Run(Server):
    def emit_all(self, digest, *events):
        """Emits events, and waits for their email."""
        count = len(self.relay.messages)
        lines = []
        for title, entity in events:
            self.ids += 1
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            lines.append({
                "tenant": "acme", "user": "ann", "digest": digest, "event_id": str(self.ids), "category": "outage", "occurred_at": at,
                "entity_type": "check", "entity_id": entity, "payload": {"title": title},
            })
        path = self.folder / "events.ndjson"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.says(f"emit {', '.join(title for title, _ in events)}", "emit", "events.ndjson")
        self.check("the email comes", eventually(lambda: len(self.relay.messages) > count), self.log())
        return email.message_from_bytes(self.relay.messages[-1], policy=email.policy.default)["Message-ID"].strip().strip("<>")

    def send(self):
        """Sends emails, and answers with those that are a thread and with those that are none."""
        alerts = [("db1 is down", "db1"), ("db1 is still down", "db1"), ("db1 is up again", "db1")]
        thread = {self.emit_all("alerts", alert) for alert in alerts}
        other = self.emit_all("alerts", ("db2 is down", "db2"))
        digests = [self.emit_all("activity", ("A title", "d1"), ("Another title", "d2")) for _ in range(2)]
        return thread, [other, *digests]

    def read(self, packages):
        with self.server():
            ready = eventually(lambda: self.run("migrate").returncode == 0)
            self.check("migrate", ready, self.run("migrate").stderr)
            if not ready:
                return
            (self.folder / "people.csv").write_text(f"tenant,user,address\nacme,ann,{ANN}\n")
            self.says("recipients import", "recipients", "import", "people.csv")
            with self.worker():
                thread, alone = self.send()
        if self.failed:
            return
        expected = sorted(map(sorted, [thread, *({one} for one in alone)]))
        for name, program in PROGRAMS.items():
            folder = self.folder / name
            reader = program(packages / name, folder, maildir(folder, self.relay.messages))
            try:
                shown = sorted(map(sorted, reader.threads()))
                self.check(f"{name} shows the alerts about one entity as a thread, and nothing else", shown == expected, shown)
                if name == "dovecot":
                    by_subject = next(ids for ids in reader.by_subject() if alone[1] in ids)
                    self.check("by THREAD=REFERENCES, digests with equal subjects are one thread", by_subject == set(alone[1:]), by_subject)
            except Failure as failure:
                self.check(f"{name} reads the emails", False, failure)


def maildir(folder, messages):
    """A Maildir of its own, because programs write into theirs."""
    path = folder / "maildir"
    for name in ("cur", "new", "tmp"):
        (path / name).mkdir(parents=True)
    for number, message in enumerate(messages):
        (path / "cur" / f"{number}.tidings:2,").write_bytes(message)
    return path


def main(tidings, cli, packages):
    with tempfile.TemporaryDirectory(prefix="tidings.") as folder, Relay() as relay:
        run = Run(tidings, cli, folder, relay, CONFIG)
        run.read(packages)
        relay.shutdown()
    for what in run.failed:
        print(f"FAILED {what}")
    sys.exit(bool(run.failed))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(str(pathlib.Path(sys.argv[1]).resolve()), str(pathlib.Path(sys.argv[2]).resolve()), pathlib.Path(sys.argv[3]).resolve())
