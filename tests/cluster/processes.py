"""The processes of a run: Temporal's hosts, PostgreSQL, and those of Tidings. Each one can be killed and frozen."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).parent.parent / "api"))

from running import Postgres

UP_SECONDS = 90
# Each service has the same ports on all of its hosts, and each host has an address of its own.
GRPC_PORTS = {"frontend": 7233, "history": 7234, "matching": 7235, "worker": 7239}
MEMBERSHIP_PORTS = {"frontend": 6933, "history": 6934, "matching": 6935, "worker": 6939}
HOSTS_EACH = 2
# PostgreSQL of `./dev` allows 300 connections. Eight hosts with the pools of Temporal's own examples would take 320.
CONNECTIONS = {"temporal": 12, "temporal_visibility": 6}
SCHEMAS = {"temporal": "temporal", "temporal_visibility": "visibility"}


class Failure(Exception):
    """The run cannot go on, for a reason that is not a violation."""


class Process:
    """A process of a service, in a session of its own, so that Ctrl-C only reaches this program."""

    def __init__(self, service, name, command, folder, environment=None):
        self.service, self.name, self.command, self.environment = service, name, command, environment
        self.folder, self.log = folder, folder / f"{name}.log"
        self.process = None

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def answers(self):
        """A process without a port answers as long as it runs."""
        return self.is_running()

    def wait_until_up(self):
        deadline = time.monotonic() + UP_SECONDS
        while not self.answers():
            if not self.is_running():
                raise Failure(f"{self.name} ended with {self.process.poll()} at its start; the end of its log:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} does not answer after {UP_SECONDS} s; the end of its log:\n{self.tail()}")
            time.sleep(0.1)

    def tail(self):
        return "\n".join(line[:400] for line in self.log.read_text(errors="replace").splitlines()[-12:])

    @contextlib.contextmanager
    def killed(self):
        self.kill()
        yield
        self.start()
        self.wait_until_up()

    @contextlib.contextmanager
    def frozen(self):
        """Its connections stay open, and nothing answers."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()


def address(network, service, number):
    return f"{network}.{10 * (1 + list(GRPC_PORTS).index(service)) + number}"


class Host(Process):
    """One host of a service of Temporal."""

    def __init__(self, service, number, program, folder, database):
        self.address = address(database.network, service, number)
        name = f"{service}{number}"
        config = folder / f"{name}.yaml"
        # JSON is YAML, too.
        config.write_text(json.dumps(self.configuration(database), indent=2))
        command = [program, "--config-file", str(config), "--allow-no-auth", "start", "--service", service]
        super().__init__(service, name, command, folder)

    def configuration(self, database):
        rpc = {
            service: {"rpc": {"grpcPort": GRPC_PORTS[service], "membershipPort": MEMBERSHIP_PORTS[service], "bindOnIP": self.address}}
            for service in GRPC_PORTS
        }
        # The same for all: a host that starts with another address writes it to the database, and of two that do so at once one ends.
        frontend = f"{address(database.network, 'frontend', 1)}:{GRPC_PORTS['frontend']}"
        cluster = {"enabled": True, "initialFailoverVersion": 1, "rpcName": "frontend", "rpcAddress": frontend}
        return {
            "log": {"stdout": True, "level": "warn"},
            "persistence": {
                "defaultStore": "temporal",
                "visibilityStore": "temporal_visibility",
                "numHistoryShards": 16,
                "datastores": {name: {"sql": database.pool(name, most)} for name, most in CONNECTIONS.items()},
            },
            "global": {"membership": {"maxJoinDuration": "30s", "broadcastAddress": self.address}},
            "services": rpc,
            "clusterMetadata": {
                "failoverVersionIncrement": 10,
                "masterClusterName": "active",
                "currentClusterName": "active",
                "clusterInformation": {"active": cluster},
            },
            "dcRedirectionPolicy": {"policy": "noop"},
        }

    def answers(self):
        with socket.socket() as connection:
            connection.settimeout(1)
            return connection.connect_ex((self.address, GRPC_PORTS[self.service])) == 0


class Database(Postgres):
    """PostgreSQL with the databases of Temporal and of Tidings."""

    service = name = "PostgreSQL"
    killed = Postgres.crashed

    def __init__(self, cluster, url):
        super().__init__(cluster, url)
        login, self.endpoint = url.removeprefix("postgres://").split("/")[0].split("@")
        self.user, self.password = login.split(":")
        # Two runs at the same time must not share addresses.
        self.network = f"127.{10 + os.getpid() // 240 % 240}.{10 + os.getpid() % 240}"

    def url_of(self, database):
        return f"{self.url.rsplit('/', 1)[0]}/{database}"

    def pool(self, database, most):
        return {
            "pluginName": "postgres12", "databaseName": database, "connectAddr": self.endpoint, "connectProtocol": "tcp",
            "user": self.user, "password": self.password, "maxConns": most, "maxIdleConns": most, "maxConnLifetime": "1h",
        }

    def query(self, database, statement):
        command = ["psql", "--no-psqlrc", "--no-align", "--tuples-only", "--field-separator", "\t", "--set", "ON_ERROR_STOP=1"]
        done = subprocess.run([*command, "--command", statement, self.url_of(database)], capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"psql: {done.stderr.strip()}")
        return [line.split("\t") for line in done.stdout.splitlines()]

    def make_schemas(self, tool):
        """Makes Temporal's two databases with the tool of its server."""
        host, port = self.endpoint.split(":")
        login = {"SQL_PLUGIN": "postgres12", "SQL_HOST": host, "SQL_PORT": port, "SQL_USER": self.user, "SQL_PASSWORD": self.password}
        for database, schema in SCHEMAS.items():
            for step in (
                ["create-database"], ["setup-schema", "--version", "0.0"],
                ["update-schema", "--schema-name", f"postgresql/v12/{schema}"],
            ):
                environment = {**os.environ, **login, "SQL_DATABASE": database}
                done = subprocess.run([tool, *step], env=environment, capture_output=True, text=True)
                if done.returncode:
                    raise Failure(f"{tool} {' '.join(step)} of {database}: {(done.stdout + done.stderr)[-2000:]}")


class Cluster:
    """The hosts of Temporal, which end with the block."""

    def __init__(self, programs, folder, database):
        self.tool, self.database = str(programs / "sql"), database
        program = str(programs / "server")
        self.hosts = [
            Host(service, number, program, folder, database) for service in GRPC_PORTS for number in range(1, HOSTS_EACH + 1)
        ]

    def __enter__(self):
        self.database.make_schemas(self.tool)
        first, *others = self.hosts
        try:
            # Hosts that start at once on an empty database race for its first row, and the losers end.
            first.start()
            first.wait_until_up()
            for host in others:
                host.start()
            for host in others:
                host.wait_until_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            if host.is_running():
                host.kill()

    @property
    def frontends(self):
        return [host for host in self.hosts if host.service == "frontend"]

    def add_namespace(self, cli, name):
        """Waits until the hosts have found each other, so that one of them can take the namespace."""
        address = f"{self.frontends[0].address}:{GRPC_PORTS['frontend']}"
        command = [cli, "operator", "namespace", "create", "--namespace", name, "--retention", "72h", "--address", address]
        deadline = time.monotonic() + UP_SECONDS
        while True:
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0 or "already" in done.stderr:
                return
            if time.monotonic() > deadline:
                raise Failure(f"the namespace cannot be created: {done.stderr.strip()}")
            time.sleep(0.5)
