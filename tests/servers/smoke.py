#!/usr/bin/env python3
"""Runs Tidings on the Temporal dev servers of several CLIs and checks what depends on the server.

usage: smoke.py TIDINGS CLI...

TIDINGS is the program, each CLI a program `temporal`. Every server gets a folder, a worker and a relay of its own on loopback. The exit code is 1 if a
check fails.
"""

import contextlib
import itertools
import json
import os
import pathlib
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time

SECONDS = 60
CONFIG = """
database_url = "sqlite://tidings.db"
smtp_url = "smtp://127.0.0.1:{relay}"
[mail]
from = "Tidings <digest@tidings.example>"
[digest.soon]
cadence = "after 2s"
template = "default"
[digest.daily]
cadence = "daily 03:00"
template = "default"
"""


class Relay(socketserver.ThreadingTCPServer):
    """Accepts every message and keeps it with its recipients."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Session)
        self.recipients, self.messages = [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]


class Session(socketserver.StreamRequestHandler):
    def reply(self, line):
        self.wfile.write(line.encode() + b"\r\n")

    def handle(self):
        recipients = []
        self.reply("220 relay ESMTP")
        for line in self.rfile:
            verb = line.split(b" ")[0].strip().upper()
            if verb == b"RCPT":
                recipients.append(line.split(b"<")[1].split(b">")[0].decode())
            if verb == b"DATA":
                self.reply("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.messages.append(b"".join(line.removeprefix(b".") for line in itertools.takewhile(bool, lines)))
                self.server.recipients += recipients
                recipients = []
            self.reply("221 bye" if verb == b"QUIT" else "250 ok")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def eventually(holds, seconds=SECONDS):
    """True as soon as `holds` does, False if it does not in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.2)
    return False


class Server:
    """A Temporal server of one version, and a Tidings on it."""

    def __init__(self, tidings, cli, folder, relay, config=CONFIG):
        self.tidings, self.cli, self.folder, self.relay = tidings, cli, pathlib.Path(folder), relay
        self.port, self.ids, self.failed = free_port(), 0, []
        others = {name: value for name, value in os.environ.items() if not name.startswith(("TIDINGS_", "TEMPORAL_"))}
        self.environment = {**others, "TEMPORAL_ADDRESS": f"127.0.0.1:{self.port}", "USER": "smoke"}
        (self.folder / "tidings.toml").write_text(config.format(relay=relay.port))

    @contextlib.contextmanager
    def running(self, name, *command):
        """The process of a command, which ends with the block."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait()

    def server(self):
        quiet = ("--headless", "--log-level", "error", "--ip", "127.0.0.1", "--db-filename", "temporal.db")
        return self.running("temporal", self.cli, "server", "start-dev", *quiet, "--port", str(self.port))

    def worker(self):
        return self.running("worker", self.tidings, "--log", "warn", "worker")

    def run(self, *arguments):
        command = [self.tidings, *arguments]
        return subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def check(self, what, holds, detail=""):
        print(f"    {'ok    ' if holds else 'FAILED'} {what}", flush=True)
        if not holds:
            self.failed.append(what)
            print(f"           {str(detail)[:1500]}")

    def says(self, what, *arguments, words=""):
        """Checks that a command succeeds and says these words."""
        done = self.run(*arguments)
        self.check(what, done.returncode == 0 and words in done.stdout, f"exit code {done.returncode}: {done.stdout}{done.stderr}")

    def emit(self, user, digest):
        self.ids += 1
        key = ("--tenant", "acme", "--user", user, "--digest", digest)
        return self.run("emit", *key, "--category", "comment", "--title", f"Title {self.ids}")

    def mails(self, user):
        return self.relay.recipients.count(f"{user}@example.test")

    def queue(self):
        """The task queue of digests in the answer of `tidings stats`."""
        stats = self.run("stats", "--json")
        queues = json.loads(stats.stdout)["task_queues"] if stats.returncode == 0 else []
        return next((queue for queue in queues if (queue["name"], queue["kind"]) == ("tidings", "workflow")), {})

    def smoke(self):
        with self.server():
            ready = eventually(lambda: self.run("migrate").returncode == 0)
            self.check("migrate", ready, self.run("migrate").stderr)
            if not ready:
                return
            users = "".join(f"acme,{user},{user}@example.test\n" for user in ("ann", "bob", "cy", "dan"))
            (self.folder / "people.csv").write_text("tenant,user,address\n" + users)
            self.says("recipients import", "recipients", "import", "people.csv")
            with self.worker():
                self.with_a_worker()
            self.without_a_worker()
            with self.worker():
                self.check("the window that was late is sent", eventually(lambda: self.mails("dan") == 1), self.log())
            self.check("every mail came once", all(self.mails(user) == 1 for user in ("ann", "bob", "cy", "dan")), self.relay.recipients)

    def with_a_worker(self):
        emitted = self.emit("ann", "soon")
        self.check("emit", emitted.returncode == 0, emitted.stderr)
        self.check("a digest is sent", eventually(lambda: self.mails("ann") == 1), self.log())
        self.emit("bob", "daily")
        self.emit("cy", "daily")
        self.says("hold", "digest", "hold", "acme/daily/bob", "--why", "smoke", words="on hold")
        self.says("release", "digest", "release", "acme/daily/bob", "--why", "smoke", words="released")
        self.says("hold --filter", "digest", "hold", "--filter", "tenant=acme and user=cy", "--why", "smoke", words="1 done")
        self.says("release --filter", "digest", "release", "--filter", "tenant=acme and user=cy", "--why", "smoke", words="1 done")
        for user in ("bob", "cy"):
            self.says(f"flush of {user}", "flush", f"acme/daily/{user}")
            self.check("the flushed digest is sent", eventually(lambda: self.mails(user) == 1), self.log())
        self.check("stats sees the worker", eventually(lambda: self.queue().get("pollers", 0) > 0), self.queue())
        self.says("nothing is late", "stats", "--overdue-after", "1m")
        self.says("the nightly run", "retention", "run")

    def without_a_worker(self):
        self.emit("dan", "soon")
        self.check("stats sees what waits for a worker", eventually(lambda: self.queue().get("backlog") == 1), self.queue())
        late = eventually(lambda: self.run("stats", "--overdue-after", "2s").returncode == 3)
        self.check("stats --overdue-after exits with 3", late, self.run("stats").stdout)

    def log(self):
        return (self.folder / "worker.log").read_text()[-1500:]


def main(tidings, clis):
    failed = []
    for cli in map(lambda cli: str(pathlib.Path(cli).resolve()), clis):
        version = subprocess.run([cli, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        print(version, flush=True)
        with tempfile.TemporaryDirectory(prefix="tidings.") as folder, Relay() as relay:
            server = Server(tidings, cli, folder, relay)
            server.smoke()
            relay.shutdown()
        failed += [f"{version}: {what}" for what in server.failed]
    for what in failed:
        print(f"FAILED {what}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:])
