"""The Tidings under test: two workers and a gateway on the cluster, a relay that keeps every email, and the commands of operators."""

import http.client
import itertools
import json
import os
import random
import socketserver
import subprocess
import threading
import urllib.error
import urllib.request
from typing import NamedTuple

from processes import GRPC_PORTS, Failure, Process
from running import free_ports

NAMESPACE = "tidings"
# Two frontends have this name.
NAME = "temporal.test"
WORKERS = 2
# The longest call of a command or of the api. After it, the caller tries again.
CALL_SECONDS = 60
# Operators disturb the first tenant, and the relay defers some of its emails. The second one shows how late digests are.
BUSY, CALM = TENANTS = ("acme", "calm")
USERS = [f"user-{number}" for number in range(60)]
# Digests of the type `fast` are due this long after their first event.
FAST_SECONDS = 3
DEFERRED = 0.02
# A worker that freezes between the final dot and the record of the reply delays its message for this long, unless it wakes up before.
REPLY_SECONDS = 60
CONFIG = """
link_keys_file = "keys"
[mail]
from = "Tidings <digest@tidings.example>"
[relay.sink]
url = "smtp://127.0.0.1:{relay}"
reply_timeout = "{reply}s"
[stream.bulk]
relays = ["sink"]
retry_delays = {delays}
[stream.transactional]
relays = ["sink"]
retry_delays = {delays}
[gateway]
public_url = "http://localhost:{public}"
listen = "127.0.0.1:{public}"
api_listen = "127.0.0.1:{api}"
[digest.fast]
cadence = "after {fast}s"
template = "default"
[digest.sliding]
cadence = "sliding 3s max 15s"
template = "default"
[digest.daily]
cadence = "daily 08:00"
template = "default"
"""
RETRY_DELAYS = ["2s", "4s", "8s", "16s"] + 6 * ["30s"]


class Relay(socketserver.ThreadingTCPServer):
    """Takes messages by SMTP, each into a file, and defers a few."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, folder, seed):
        super().__init__(("127.0.0.1", 0), Session)
        self.folder, self.random, self.numbers = folder, random.Random(seed), itertools.count()
        self.folder.mkdir()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]

    def take(self, recipient, content):
        if BUSY in recipient and self.random.random() < DEFERRED:
            return "451 4.3.0 try later"
        (self.folder / f"{next(self.numbers):06}.eml").write_bytes(content)
        return "250 2.0.0 ok"


class Session(socketserver.StreamRequestHandler):
    def reply(self, line):
        self.wfile.write(line.encode() + b"\r\n")

    def handle(self):
        try:
            self.talk()
        except ConnectionError:
            pass  # A killed worker.

    def talk(self):
        recipient = ""
        self.reply("220 relay ESMTP")
        for line in self.rfile:
            verb = line[:4].upper()
            if verb == b"DATA":
                self.reply("354 go on")
                content = self.content()
                if content is None:
                    return
                self.reply(self.server.take(recipient, content))
                continue
            if verb == b"RCPT":
                recipient = line.decode()
            self.reply("221 bye" if verb == b"QUIT" else "250 ok")

    def content(self):
        """The message without its dots. None: the connection ended before the last one."""
        lines = []
        for line in self.rfile:
            if line == b".\r\n":
                return b"".join(lines)
            lines.append(line.removeprefix(b"."))
        return None


class Gateway(Process):
    def __init__(self, url, *arguments):
        super().__init__("gateway", "gateway", *arguments)
        self.url = url

    def answers(self):
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False


class Outcome(NamedTuple):
    """What a command printed, and the reason if it failed."""

    output: str
    failure: str | None


class Tidings:
    """The processes, which end with the block."""

    def __init__(self, program, folder, cluster, relay):
        self.program, self.folder = program, folder
        self.database, self.database_name = cluster.database, "tidings"
        public, api = free_ports(2)
        self.api = f"http://127.0.0.1:{api}"
        others = {name: value for name, value in os.environ.items() if not name.startswith(("TIDINGS_", "TEMPORAL_"))}
        self.environment = {
            **others,
            "USER": "storm",
            "TEMPORAL_ADDRESS": f"{NAME}:{GRPC_PORTS['frontend']}",
            "TEMPORAL_NAMESPACE": NAMESPACE,
            "TIDINGS_DATABASE_URL": self.database.url_of(self.database_name),
        }
        ports = {"relay": relay.port, "public": public, "api": api}
        config = CONFIG.format(**ports, delays=json.dumps(RETRY_DELAYS), fast=FAST_SECONDS, reply=REPLY_SECONDS)
        (folder / "tidings.toml").write_text(config)
        (folder / "keys").touch(mode=0o600)
        (folder / "keys").write_text("A" * 43)
        hosts = "".join(f"{host.address} {NAME}\n" for host in cluster.frontends)
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        self.workers = [Process("Tidings worker", f"tidings-worker{number}", *self.process("worker")) for number in range(1, WORKERS + 1)]
        self.gateway = Gateway(self.api, *self.process("gateway"))
        self.token, self.commands = None, set()

    @property
    def processes(self):
        return [*self.workers, self.gateway]

    def command(self, *arguments):
        """A command that finds both frontends by their name: it has a file of hosts of its own."""
        mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
        own_hosts = ["sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(self.folder / "hosts")]
        return ["unshare", *mapped, "--mount", *own_hosts, self.program, "--log", "warn", *arguments]

    def process(self, *arguments):
        return self.command(*arguments), self.folder, self.environment

    def __enter__(self):
        self.database.query("postgres", f"CREATE DATABASE {self.database_name}")
        self.must("migrate")
        people = [f"{tenant},{user},{user}@{tenant}.example" for tenant in TENANTS for user in USERS]
        (self.folder / "people.csv").write_text("\n".join(["tenant,user,address", *people]))
        self.must("recipients", "import", "people.csv")
        self.token = self.must("tokens", "create", "--tenant", "*", "--scope", "events:write").split()[-1]
        try:
            for process in self.processes:
                process.start()
            for process in self.processes:
                process.wait_until_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.is_running():
                process.kill()
        for command in list(self.commands):
            command.kill()

    def run(self, *arguments):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(self.command(*arguments), cwd=self.folder, env=self.environment, text=True, **pipes)
        self.commands.add(process)
        try:
            output, errors = process.communicate(timeout=CALL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Outcome("", f"no answer in {CALL_SECONDS} s")
        finally:
            self.commands.discard(process)
        return Outcome(output, f"exit code {process.returncode}: {errors or output}" if process.returncode else None)

    def must(self, *arguments):
        done = self.run(*arguments)
        if done.failure:
            raise Failure(f"tidings {' '.join(arguments)}: {done.failure}")
        return done.output

    def post(self, events):
        """Posts events to the api. Returns None if they were acknowledged, and otherwise the reason."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.api}/v1/events", json.dumps({"events": events}).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
                return None if answer.status == 202 else f"status {answer.status}"
        except urllib.error.HTTPError as error:
            return f"status {error.code}: {error.read()[:300]!r}"
        except (OSError, http.client.HTTPException) as error:
            return repr(error)

    def open_work(self):
        """What is not at its end yet, in words. Empty: everything is."""
        done = self.run("stats", "--json")
        if done.failure:
            return f"no stats: {done.failure}"
        stats = json.loads(done.output)
        unfinished = """SELECT (SELECT count(*) FROM digests WHERE state <> 'closed'),
                               (SELECT count(*) FROM messages WHERE closed_at IS NULL)"""
        digests, messages = self.database.query(self.database_name, unfinished)[0]
        counts = {
            "open windows": stats["openDigestCount"], "events in the inbox": stats["inbox"]["events"],
            "digests without an end": int(digests), "messages without an end": int(messages),
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)
