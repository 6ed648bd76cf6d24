"""A running Tidings with an api: a Temporal server, a store, a worker and a gateway, as processes in a folder of their own."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request

READY_SECONDS = 120
CONFIG = """
database_url = "{database}"
smtp_url = "smtp://127.0.0.1:9"
link_keys_file = "keys"
[mail]
from = "Tidings <digest@tidings.example>"
[gateway]
public_url = "http://localhost:{public}"
listen = "127.0.0.1:{public}"
api_listen = "127.0.0.1:{api}"
[digest.activity]
cadence = "after 1h"
choices = ["daily 08:00", "weekly mon 08:00"]
"""


def free_ports(number):
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Postgres:
    """A cluster of `./dev`: a folder with `data` and the script `start`."""

    def __init__(self, cluster, url):
        self.cluster, self.url = pathlib.Path(cluster), url

    def pids(self):
        """The postmaster and its children. The postmaster comes first, because a paused one starts no children."""
        postmaster = (self.cluster / "data/postmaster.pid").read_text().split()[0]
        children = subprocess.run(["pgrep", "-P", postmaster], capture_output=True, text=True).stdout.split()
        return [int(pid) for pid in [postmaster, *children]]

    def signal(self, sent):
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sent)

    @contextlib.contextmanager
    def frozen(self):
        """Connections stay open, and nothing answers."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    @contextlib.contextmanager
    def crashed(self):
        """The server ends at once, and recovers when it starts again."""
        postmaster = self.pids()[0]
        os.kill(postmaster, signal.SIGQUIT)
        while pathlib.Path(f"/proc/{postmaster}").exists():
            time.sleep(0.1)
        try:
            yield
        finally:
            # It refuses to start while a child of the dead server still holds the shared memory.
            while subprocess.run([self.cluster / "start"], capture_output=True).returncode != 0:
                time.sleep(0.5)

    outages = (frozen, crashed)

    def events(self, tenant):
        """The JSON of each event of a tenant that the inbox has or had."""
        query = f"SELECT json FROM inbox WHERE tenant = '{tenant}'"
        command = ["psql", self.url, "--no-align", "--tuples-only", "--command", query]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


class Sqlite:
    """A file."""

    def __init__(self, file):
        self.file, self.url = file, f"sqlite://{file}"

    @contextlib.contextmanager
    def locked(self):
        """Nobody else can write."""
        with contextlib.closing(sqlite3.connect(self.file, timeout=60, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield

    outages = (locked,)

    def events(self, tenant):
        """The JSON of each event of a tenant that the inbox has or had."""
        with contextlib.closing(sqlite3.connect(self.file)) as connection:
            return [json for (json,) in connection.execute("SELECT json FROM inbox WHERE tenant = ?", [tenant])]


class Tidings:
    """The processes, which end with the block."""

    def __init__(self, program, folder, store):
        self.program, self.folder, self.store = program, pathlib.Path(folder), store
        self.temporal, public, api = free_ports(3)
        self.url = f"http://127.0.0.1:{api}"
        self.environment = {**os.environ, "TEMPORAL_ADDRESS": f"http://127.0.0.1:{self.temporal}"}
        (self.folder / "tidings.toml").write_text(CONFIG.format(database=store.url, public=public, api=api))
        (self.folder / "keys").write_text("A" * 43)
        self.processes = {}

    def __enter__(self):
        self.start_temporal()
        self.retry(lambda: self.run("migrate") is not None)
        for command in ("worker", "gateway"):
            self.start(command, [self.program, command])
        self.retry(self.is_ready)
        return self

    def __exit__(self, *_):
        for name in reversed(list(self.processes)):
            self.kill(name)

    def start_temporal(self):
        command = [os.environ.get("TEMPORAL_CLI", "temporal"), "server", "start-dev", "--headless", "--log-level", "error"]
        file = str(self.folder / "temporal.db")
        self.start("temporal", [*command, "--ip", "127.0.0.1", "--port", str(self.temporal), "--db-filename", file])

    @contextlib.contextmanager
    def without_temporal(self):
        """Temporal's server is killed, and started again with its database."""
        self.kill("temporal")
        try:
            yield
        finally:
            self.start_temporal()

    def start(self, name, command):
        with open(self.folder / f"{name}.log", "ab") as log:
            started = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        self.processes[name] = started

    def kill(self, name):
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def ended(self):
        """The names of processes that ended by themselves."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def run(self, *arguments):
        """The output of a command. None: it failed."""
        ended = subprocess.run([self.program, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True)
        return ended.stdout.strip() if ended.returncode == 0 else None

    def retry(self, is_done):
        deadline = time.monotonic() + READY_SECONDS
        while not is_done():
            if time.monotonic() > deadline:
                sys.exit(f"tidings does not answer:\n{self.log()}")
            time.sleep(0.2)

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def token(self, tenant):
        """A token with every scope that the document names."""
        with urllib.request.urlopen(f"{self.url}/openapi.json") as answer:
            paths = json.load(answer)["paths"]
        scopes = {operation["x-scope"] for methods in paths.values() for operation in methods.values()}
        return self.run("tokens", "create", "--tenant", tenant, *(word for scope in sorted(scopes) for word in ("--scope", scope)))

    def send(self, token, method, path, body=None):
        """Sends a request with JSON. Returns the status and the answer."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def log(self):
        """The ends of the logs."""
        logs = {file.name: file.read_text(errors="replace")[-4000:] for file in sorted(self.folder.glob("*.log"))}
        return "\n".join(f"--- {name}\n{text}" for name, text in logs.items())
