#!/usr/bin/env python3
"""Runs Tidings on several majors of PostgreSQL, and takes it from the first to the last one by logical replication. At last the
synchronous standby goes away.

usage: majors.py TIDINGS CLI (CLUSTER URL)...

TIDINGS is the program, CLI the program `temporal`. Each cluster is one of `./dev`, and its URL is that of a superuser. psql and pg_dump
must be on the PATH. Every run has a server of Temporal, a worker, a gateway, a relay and a receiver of webhooks of its own on loopback. The
exit code is 1 if a check fails.
"""

import base64
import collections
import contextlib
import datetime
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

for neighbour in ("cluster", "servers"):
    sys.path.append(str(pathlib.Path(__file__).parent.parent / neighbour))

from processes import Database
from smoke import Relay, Server, eventually

import running

USERS = ("ann", "bob", "cy", "dan", "eve")
# The role that owns the tables. It is no superuser, so that a right that is missing shows.
OWNER, PASSWORD = "owner", "s3cret"
# After a move the worker waits for a minute, in case that of the old database is still there.
MOVE_SECONDS = 150
CONFIG = """
[retention]
events = "1d"
messages = "1d"
delivery_events = "1d"
[[subscribe]]
name = "crm"
url = "http://127.0.0.1:{receiver}/notices"
events = ["digest.sent"]
secret_env = "CRM"
[gateway]
public_url = "http://localhost:{public}"
listen = "127.0.0.1:{public}"
api_listen = "127.0.0.1:{api}"
"""
SCOPES = (
    "events:write", "messages:write", "messages:read", "recipients:read", "preferences:read", "digests:read", "suppressions:read",
    "stats:read", "audit:read",
)
READING = (
    "stats", "report", "report --by day", "digest list", "digest list --overdue", "recipients list", "recipients show acme/ann",
    "recipients export acme/ann", "preferences get acme/soon/ann", "suppressions list", "audit", "pause list --all", "tokens list",
    "dead-letters list", "messages list", "relays list", "subscriptions list", "runs list",
)
# The relay of both streams, questions before the gateway is ready, and a machine whose zone data is old.
EXPECTED = ("is not safe", 'route="/readyz"', "zone data needs care")
TROUBLE = ("WARNING", "ERROR", "FATAL", "PANIC")
PATHS = ("digests", "recipients", "suppressions", "audit", "messages", "stats", "report")


class Receiver(http.server.ThreadingHTTPServer):
    """Takes webhooks, and keeps their ids."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Request)
        self.ids = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Request(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.ids.append(self.headers["webhook-id"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Cluster(Database):
    """A cluster of `./dev`."""

    def __init__(self, cluster, url):
        super().__init__(cluster, url)
        ((version,),) = self.query("postgres", "SELECT split_part(current_setting('server_version'), ' ', 1)")
        self.version = version
        self.query("postgres", f"CREATE ROLE {OWNER} LOGIN PASSWORD '{PASSWORD}'")

    def add(self, database):
        self.query("postgres", f"CREATE DATABASE {database} OWNER {OWNER}")
        return f"postgres://{OWNER}:{PASSWORD}@{self.endpoint}/{database}"

    @contextlib.contextmanager
    def waiting(self):
        """Commits wait for a standby that nobody runs."""
        try:
            for statement in ("ALTER SYSTEM SET synchronous_standby_names = 'away'", "SELECT pg_reload_conf()"):
                self.query("postgres", statement)
            yield
        finally:
            for statement in ("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"):
                self.query("postgres", statement)

    def log(self):
        return (self.cluster / "data/log").read_text(errors="replace").splitlines()


class Installation(Server):
    """A Tidings in a database of its own."""

    is_ready, send = running.Tidings.is_ready, running.Tidings.send

    def __init__(self, tidings, cli, folder, relay, receiver, cluster, database):
        super().__init__(tidings, cli, folder, relay)
        self.receiver, self.cluster, self.database, self.checks, self.acknowledged = receiver, cluster, database, 0, set()
        public, api = running.free_ports(2)
        self.url, self.token = f"http://127.0.0.1:{api}", None
        with (self.folder / "tidings.toml").open("a") as config:
            config.write(CONFIG.format(receiver=receiver.server_address[1], public=public, api=api))
        self.environment |= {
            "TIDINGS_DATABASE_URL": cluster.add(database),
            "TIDINGS_LINK_KEYS": "A" * 43,
            "CRM": "whsec_" + base64.b64encode(b"x" * 24).decode(),
        }

    def check(self, what, holds, detail=""):
        self.checks += 1
        super().check(what, holds, detail)

    def eventually(self, what, holds, detail=lambda: ""):
        self.check(what, eventually(holds), detail())

    @contextlib.contextmanager
    def at_work(self):
        """The worker and the gateway."""
        with self.worker(), self.running("gateway", self.tidings, "--log", "warn", "gateway"):
            self.check("the gateway is ready", eventually(self.is_ready), self.logs())
            yield

    def begin(self):
        """Makes the tables and the people."""
        if not eventually(lambda: self.run("migrate").returncode == 0):
            self.check("migrate", False, self.run("migrate").stderr)
            return False
        self.says("migrate, a second time", "migrate", words="is up to date")
        people = "".join(f"acme,{user},{user}@example.test\n" for user in USERS)
        (self.folder / "people.csv").write_text("tenant,user,address\n" + people)
        self.says("recipients import", "recipients", "import", "people.csv")
        scopes = [word for scope in SCOPES for word in ("--scope", scope)]
        self.token = self.run("tokens", "create", "--tenant", "acme", *scopes).stdout.strip()
        return True

    def query(self, statement):
        return self.cluster.query(self.database, statement)

    def count(self, rows):
        return int(self.query(f"SELECT count(*) FROM {rows}")[0][0])

    def event(self, user, digest):
        self.ids += 1
        now = datetime.datetime.now(datetime.UTC).isoformat()
        event = {"event_id": f"e{self.ids}", "digest": digest, "user": user, "category": "comment", "occurred_at": now}
        return {**event, "payload": {"title": f"Title {self.ids}"}}

    def post(self, *events):
        """The status of the answer."""
        status, _ = self.send(self.token, "POST", "/v1/events", events)
        if status == 202:
            self.acknowledged |= {event["event_id"] for event in events}
        return status

    def accepted(self, *users, digest="soon", times=1):
        statuses = {self.post(*(self.event(user, digest) for user in users)) for _ in range(times)}
        self.check(f"events for {', '.join(users)} by the api", statuses == {202}, statuses)

    def mailed(self, what, user, number):
        self.eventually(what, lambda: self.mails(user) == number, lambda: f"{self.mails(user)} mails\n{self.logs()}")

    def sent(self):
        """Users with their numbers of sent digests, by the ledger."""
        rows = self.query("SELECT user_id, count(*) FROM digests WHERE sent_at IS NOT NULL GROUP BY user_id")
        return {f"{user}@example.test": int(number) for user, number in rows}

    def a_digest_for_each(self):
        self.accepted(*USERS)
        for user in USERS:
            self.mailed(f"a digest for {user}", user, 1)

    def every_mail_came_once(self):
        mails = collections.Counter(self.relay.recipients)
        self.check("every mail came once", mails == self.sent(), (mails, self.sent()))

    def each_event_is_in_one_digest(self):
        closed = "events JOIN digests USING (digest_id) WHERE state = 'closed'"
        ids = lambda: [row[0] for row in self.query(f"SELECT event_id FROM {closed}")]
        self.eventually("each event is in one closed digest", lambda: sorted(ids()) == sorted(self.acknowledged), ids)

    def each_notice_came_once(self):
        every = lambda: len(self.receiver.ids) == len(set(self.receiver.ids)) == sum(self.sent().values())
        self.eventually("each sent digest is reported once", every, lambda: (self.receiver.ids, self.sent()))

    def major(self):
        """What the docs say to operators and to services."""
        with self.server():
            if not self.begin():
                return
            # The first look into an empty database is an error to the server.
            before = len(self.cluster.log())
            with self.at_work():
                self.events()
                self.commands()
                self.stops()
                self.goodbyes()
        warned = [line for line in self.logs().splitlines() if not any(word in line for word in EXPECTED)]
        self.check("the worker and the gateway have nothing to warn of", not warned, "\n".join(warned))
        warned = [line for line in self.cluster.log()[before:] if any(word in line for word in TROUBLE)]
        self.check("PostgreSQL has nothing to warn of", not warned, "\n".join(warned))

    def events(self):
        self.a_digest_for_each()
        self.each_event_is_in_one_digest()
        self.each_notice_came_once()
        message = {"key": "invoice-1", "to": {"user": "eve"}, "subject": "Invoice", "text": "1 EUR"}
        status, answer = self.send(self.token, "POST", "/v1/messages", message)
        self.check("a single message by the api", status == 201, answer)
        self.mailed("it is sent", "eve", 2)
        status, _ = self.send(self.token, "POST", "/v1/messages", message)
        self.check("the same message again", status == 200, status)

    def commands(self):
        for command in READING:
            self.says(command, *command.split())
        for path in PATHS:
            status, answer = self.send(self.token, "GET", f"/v1/{path}")
            self.check(f"GET /v1/{path}", status == 200, answer)

    def stops(self):
        """What stops a mail, and what lets it go on."""
        self.accepted("ann", digest="daily")
        self.eventually("hold", lambda: "on hold" in self.run("digest", "hold", "acme/daily/ann", "--why", "test").stdout)
        self.says("release", "digest", "release", "acme/daily/ann", "--why", "test", words="released")
        self.says("flush", "flush", "acme/daily/ann")
        self.mailed("the flushed digest is sent", "ann", 2)

        everything = ("--filter", "tenant=acme and digest_type=soon", "--why", "test")
        self.says("pause", "pause", *everything)
        self.says("a recipient's own pause", "preferences", "set", "acme/soon/bob", "--pause-until", "1d")
        self.says("suppressions add", "suppressions", "add", "cy@example.test", "--tenant", "acme", "--reason", "complaint", "--why", "test")
        self.says("consent withdraw", "consent", "withdraw", "acme/soon/dan", "--why", "test")
        self.accepted("ann", "bob", "cy", "dan")
        unwanted = lambda: sorted(
            row[0] for row in self.query("SELECT user_id FROM digests WHERE state = 'closed' AND sent_at IS NULL AND digest_type = 'soon'")
        )
        self.eventually("without consent and with a suppression nothing is sent", lambda: unwanted() == ["cy", "dan"], unwanted)
        self.check("nor during a pause", (self.mails("ann"), self.mails("bob")) == (2, 1), self.relay.recipients)
        self.says("resume", "resume", *everything)
        self.says("the end of the recipient's own pause", "preferences", "set", "acme/soon/bob", "--resume")
        self.mailed("what was paused is sent", "ann", 3)
        self.mailed("what the recipient had paused is sent", "bob", 2)
        self.says("suppressions lift", "suppressions", "lift", "acme", "cy@example.test", "--why", "test")
        self.says("consent grant", "consent", "grant", "acme/soon/dan")
        self.accepted("cy", "dan")
        self.mailed("after the lift a digest is sent", "cy", 2)
        self.mailed("after the grant a digest is sent", "dan", 2)
        self.each_event_is_in_one_digest()

    def goodbyes(self):
        """Erasure and retention, which leave nothing."""
        self.says("recipients erase", "recipients", "erase", "acme/eve", "--yes", "--why", "test")
        left = self.count("recipients WHERE user_id = 'eve'") + self.count("messages WHERE envelope_to LIKE 'eve@%'")
        self.check("nothing has the address", left == 0, left)
        mails, expected = collections.Counter(self.relay.recipients), collections.Counter(self.sent())
        expected["eve@example.test"] += 1  # the single message
        self.check("every mail came once", mails == expected, (mails, expected))
        for table in ("digests", "messages"):
            self.query(f"UPDATE {table} SET closed_at = closed_at - 3 * 86400000 WHERE closed_at IS NOT NULL")
        self.says("the nightly run", "retention", "run")
        left = {table: self.count(table) for table in ("events", "messages")}
        self.check("it deletes what is too old", set(left.values()) == {0}, left)

    def move(self, newer):
        """Logical replication to another cluster, as managed services upgrade."""
        with self.server():
            if not self.begin():
                return
            with self.at_work():
                self.a_digest_for_each()
                self.subscribe(newer)
                self.accepted("ann", "bob", times=5)
                self.accepted("cy", digest="daily")
                self.mailed("they are sent", "bob", 2)
                self.mailed("all of them", "ann", 2)
            self.switch(newer)
            with self.at_work():
                self.accepted("dan", "eve", times=5)
                self.says("suppressions add", "suppressions", "add", "x@example.test", "--tenant", "acme", "--reason", "complaint", "--why", "test")
                eventually(lambda: self.mails("dan") == self.mails("eve") == 2, MOVE_SECONDS)
                self.mailed("a digest for dan", "dan", 2)
                self.mailed("a digest for eve", "eve", 2)
                self.says("flush of a window of before", "flush", "acme/daily/cy")
                self.mailed("it is sent", "cy", 2)
                self.each_event_is_in_one_digest()
                self.each_notice_came_once()
                self.every_mail_came_once()

    def subscribe(self, newer):
        """Copies the tables, then their rows, and follows the changes."""
        url = newer.add(self.database)
        dump = ["pg_dump", "--schema-only", "--no-owner", "--no-privileges", self.environment["TIDINGS_DATABASE_URL"]]
        tables = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
        restore = ["psql", "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", url]
        subprocess.run(restore, input=tables, check=True, stdout=subprocess.DEVNULL, text=True)
        self.query("CREATE PUBLICATION moving FOR ALL TABLES")
        host, port = self.cluster.endpoint.split(":")
        source = f"host={host} port={port} user={self.cluster.user} password={self.cluster.password} dbname={self.database}"
        newer.query(self.database, f"CREATE SUBSCRIPTION moving CONNECTION '{source}' PUBLICATION moving")
        copied = lambda: newer.query(self.database, "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'") == [["0"]]
        self.eventually("the rows are copied", copied, lambda: newer.log()[-3:])

    def switch(self, newer):
        """Ends the replication when all has arrived, and turns to the newer cluster."""
        followed = "SELECT bool_and(confirmed_flush_lsn >= pg_current_wal_lsn()) FROM pg_replication_slots"
        self.eventually("the newer cluster has every change", lambda: self.query(followed) == [["t"]])
        newer.query(self.database, "DROP SUBSCRIPTION moving")
        names = [row[0] for row in self.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        before = {name: self.count(name) for name in names}
        self.cluster = newer
        self.environment["TIDINGS_DATABASE_URL"] = f"postgres://{OWNER}:{PASSWORD}@{newer.endpoint}/{self.database}"
        after = {name: self.count(name) for name in names}
        self.check("every row is there", before == after, (before, after))
        behind = "SELECT count(*) FILTER (WHERE last_value IS NULL), count(*) FROM pg_sequences"
        ((fresh, sequences),) = self.query(behind)
        self.check("but each sequence is at its start", fresh == sequences, self.query(behind))
        # For a minute the worker of the old database may still be there.
        self.check("migrate", eventually(lambda: self.run("migrate").returncode == 0, MOVE_SECONDS), self.run("migrate").stderr)
        self.check("it sets the sequences", self.query(behind) == [["0", sequences]], self.query(behind))

    def without_a_standby(self):
        """The synchronous standby goes away, so that each commit waits until it is back."""
        with self.server():
            if not self.begin():
                return
            with self.at_work():
                self.a_digest_for_each()
                event = self.event("ann", "soon")
                with self.cluster.waiting():
                    self.check("an event is not acknowledged", self.post(event) == 503)
                    self.check("the worker and the gateway stay", self.send(self.token, "GET", "/v1/stats")[0] == 200, self.logs())
                self.eventually("the same event is acknowledged when the standby is back", lambda: self.post(event) == 202)
                self.mailed("it is sent", "ann", 2)
                self.accepted("bob")
                self.mailed("a digest for bob", "bob", 2)
                self.each_event_is_in_one_digest()
                self.each_notice_came_once()
                self.every_mail_came_once()

    def logs(self):
        texts = ((self.folder / f"{name}.log") for name in ("worker", "gateway"))
        return "".join(text.read_text(errors="replace")[-1500:] for text in texts if text.exists())


@contextlib.contextmanager
def installation(tidings, cli, cluster, database):
    with tempfile.TemporaryDirectory(prefix="tidings.") as folder, Relay() as relay, Receiver() as receiver:
        yield Installation(tidings, cli, folder, relay, receiver, cluster, database)
        relay.shutdown()
        receiver.shutdown()


def main(tidings, cli, clusters):
    began, checks, failed = time.monotonic(), 0, []
    oldest, newest = clusters[0], clusters[-1]
    runs = [(f"PostgreSQL {cluster.version}", "tidings", cluster, Installation.major) for cluster in clusters]
    from_to = f"PostgreSQL {oldest.version} to {newest.version} by logical replication"
    runs.append((from_to, "moved", oldest, lambda moved: moved.move(newest)))
    runs.append((f"PostgreSQL {newest.version} without its synchronous standby", "waited", newest, Installation.without_a_standby))
    oldest.query("postgres", "ALTER SYSTEM SET wal_level = 'logical'")
    with oldest.crashed():
        pass
    for name, database, cluster, run in runs:
        print(name, flush=True)
        with installation(tidings, cli, cluster, database) as one:
            run(one)
        checks += one.checks
        failed += [f"{name}: {what}" for what in one.failed]
    for what in failed:
        print(f"FAILED {what}")
    print(f"{checks} checks, {len(failed)} failed, {time.monotonic() - began:.0f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    if len(sys.argv) < 7 or len(sys.argv) % 2 == 0:
        sys.exit(__doc__)
    tidings, cli, *rest = sys.argv[1:]
    pairs = zip(rest[::2], rest[1::2])
    main(str(pathlib.Path(tidings).resolve()), str(pathlib.Path(cli).resolve()), [Cluster(folder, url) for folder, url in pairs])
