"""The Tidings under test: Temporal's dev server, a worker on SQLite, and what its ledger says."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import time

TEMPORAL_PORT = 7233
CONFIG = """
database_url = "sqlite://tidings.db"
link_keys_file = "keys"
[mail]
from = "Tidings <digest@acme.example>"
dkim = {{ selector = "t1", key_file = "dkim.pem" }}
[relay.welcome]
url = "{welcome}"
[relay.stranger]
url = "{stranger}"
[relay.sender]
url = "{welcome}"
[stream.bulk]
relays = ["welcome"]
return_path = "bounce@bounce.acme.example"
retry_delays = ["2s", "4s", "8s", "16s", "30s"]
[stream.transactional]
relays = ["welcome"]
return_path = "bounce@bounce.acme.example"
retry_delays = ["2s", "4s", "8s", "16s", "30s"]
[gateway]
public_url = "https://mail.acme.example"
[digest.soon]
cadence = "after 1s"
template = "default"
[tenant.strange.stream.bulk]
relays = ["stranger"]
[tenant.missing.stream.bulk]
relays = ["sender"]
return_path = "bounce@{missing}"
"""


class Failure(Exception):
    """Tidings cannot be started."""


class Tidings:
    """The processes, which end with the block."""

    def __init__(self, program, cli, folder, **config):
        self.program, self.cli, self.folder = program, cli, folder
        others = {name: value for name, value in os.environ.items() if not name.startswith(("TIDINGS_", "TEMPORAL_"))}
        self.environment = {**others, "TEMPORAL_ADDRESS": f"127.0.0.1:{TEMPORAL_PORT}", "USER": "relays"}
        self.processes = contextlib.ExitStack()
        (folder / "tidings.toml").write_text(CONFIG.format(**config))
        for name in ("keys", "dkim.pem"):
            (folder / name).touch(mode=0o600)
        (folder / "keys").write_text("A" * 43)
        subprocess.run(
            ["openssl", "genpkey", "-algorithm", "rsa", "-pkeyopt", "rsa_keygen_bits:2048", "-out", folder / "dkim.pem"], check=True,
            capture_output=True,
        )

    def __enter__(self):
        quiet = ("--headless", "--log-level", "error", "--ip", "127.0.0.1", "--db-filename", "temporal.db")
        try:
            self.start("temporal", self.cli, "server", "start-dev", *quiet, "--port", str(TEMPORAL_PORT))
            if not eventually(lambda: self.run("migrate").returncode == 0, 60):
                raise Failure(f"tidings migrate: {self.run('migrate').stderr}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.processes.close()

    def start(self, name, *command):
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )
        self.processes.callback(process.wait)
        self.processes.callback(process.terminate)

    def start_worker(self):
        self.start("worker", self.program, "--log", "info", "worker")

    def run(self, *arguments):
        command = [self.program, "--log", "warn", *arguments]
        return subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def must(self, *arguments):
        done = self.run(*arguments)
        if done.returncode:
            raise Failure(f"tidings {' '.join(arguments)}: exit code {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def dkim_record(self):
        dns = json.loads(self.must("config", "check", "--json"))["mail"]["dkim"]["dns"]
        return dns["name"], dns["value"]

    def read_bounces(self, maildir):
        return self.run("bounces", "read", "--maildir", str(maildir))

    def log(self, words):
        """The lines of the worker's log with these words."""
        log = re.sub(r"\x1b\[[\d;]*m", "", (self.folder / "worker.log").read_text(errors="replace"))
        return "\n".join(line[:600] for line in log.splitlines() if words in line)

    def rows(self, statement, *parameters):
        """Rows of the ledger. While somebody writes, it is asked again."""
        with contextlib.closing(sqlite3.connect(self.folder / "tidings.db", timeout=30)) as ledger:
            return ledger.execute(statement, parameters).fetchall()

    def story(self, address):
        """What became of the messages to an address, as evidence: attempts, reports, suppressions."""
        ids = [row[0] for row in self.rows("SELECT id FROM messages WHERE envelope_to = ?", address)]
        told = self.rows("SELECT state, why FROM messages WHERE envelope_to = ?", address)
        for one in ids:
            told += self.rows("SELECT number, relay, phase, class, reply, relay_id FROM attempts WHERE message = ?", one)
            told += self.rows("SELECT kind, bounce, status, diagnostic FROM delivery_events WHERE message = ?", one)
        return told + self.rows("SELECT reason, detail FROM suppressions WHERE address_lower = ?", address)


def eventually(holds, seconds):
    """True as soon as `holds` does, False if it does not in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.5)
    return False
