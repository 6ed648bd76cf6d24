#!/usr/bin/env python3
"""Runs Tidings on a Temporal cluster of eight processes with PostgreSQL, and kills and freezes each service under load.

usage: storm.py TIDINGS TEMPORAL_CLI SERVER_FOLDER POSTGRES_FOLDER POSTGRES_URL [--minutes N] [--seed S] [--keep FOLDER] [--frontends]

TIDINGS is the program, TEMPORAL_CLI the program `temporal`. SERVER_FOLDER has the programs `server` and `sql` of Temporal.
POSTGRES_FOLDER has a cluster as `./dev` makes it. The exit code is 0 if the checker finds nothing and every service was killed and
frozen.
"""

import argparse
import collections
import contextlib
import itertools
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from load import Load
from processes import Cluster, Database, Failure
from strikes import Strike, bugs, lateness, missing, plan
from tidings import CALM, FAST_SECONDS, NAMESPACE, TENANTS, Relay, Tidings

CHECKER = pathlib.Path(__file__).parent.parent / "checker/check.py"
SETTLE_SECONDS = 300
# The latest digest while one of two frontends is frozen, and for how long it is.
MOST_LATE_SECONDS, FRONTEND_SECONDS = 15, 45
# What the load needs before the first strike.
FIRST_SECONDS = 10
# The most violations of one kind that are shown.
SHOWN = 10


class Screen:
    """Lines with the time of the run, and below them a bar if somebody looks."""

    def __init__(self, seconds):
        self.seconds, self.begun, self.is_watched = seconds, time.monotonic(), sys.stdout.isatty()

    @property
    def elapsed(self):
        return time.monotonic() - self.begun

    def say(self, line):
        print(f"{self.cleared}{self.elapsed:6.0f} s  {line}", flush=True)

    def show(self):
        if self.is_watched and self.elapsed < self.seconds:
            done = int(30 * self.elapsed / self.seconds)
            bar = f"[{'#' * done}{'.' * (30 - done)}] {self.elapsed / 60:.1f} of {self.seconds / 60:.0f} min"
            print(self.cleared + bar, end="", flush=True)

    @property
    def cleared(self):
        return "\r\033[K" if self.is_watched else ""


class Run:
    """The processes of a run, its strikes, and what was wrong."""

    def __init__(self, cluster, tidings, screen):
        self.cluster, self.tidings, self.screen = cluster, tidings, screen
        self.strikes = []  # each with its begin
        self.violations, self.missing = [], []

    def processes(self):
        """The processes of each service."""
        services = collections.defaultdict(list)
        for process in [*self.cluster.hosts, self.cluster.database, *self.tidings.processes]:
            services[process.service].append(process)
        return services

    def wait(self, seconds):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.screen.show()
            time.sleep(min(left, 0.5))

    def strike(self, strike):
        process = self.processes()[strike.service][strike.target]
        self.strikes.append((strike, time.time()))
        self.screen.say(f"{strike.kind} {process.name} for {strike.span} s")
        over_at = time.monotonic() + strike.span
        with process.killed() if strike.kind == "kill" else process.frozen():
            self.wait(strike.span)
        late = time.monotonic() - over_at
        if late > 5:
            self.screen.say(f"{process.name} was back {late:.0f} s later")
        self.wait(strike.rest)
        self.supervise()

    def supervise(self):
        """Starts what ended by itself. Nothing of Tidings may."""
        for process in [*self.cluster.hosts, *self.tidings.processes]:
            if not process.is_running():
                self.screen.say(f"{process.name} ended by itself with {process.process.returncode}")
                if process in self.tidings.processes:
                    self.violations.append(f"{process.name} ended by itself; the end of its log:\n{process.tail()}")
                process.start()
                process.wait_until_up()

    def settle(self):
        """Releases and flushes until every window and message has an end."""
        self.screen.say("the storm is over; everything is flushed")
        deadline, work = time.monotonic() + SETTLE_SECONDS, "it was not looked at"
        while time.monotonic() < deadline:
            for order, tenant in itertools.product(("release", "flush"), TENANTS):
                self.tidings.run("digest", order, "--filter", f"tenant={tenant}", "--rate", "100", "--why", "the end")
            work = self.tidings.open_work()
            if not work:
                return
            self.wait(3)
        self.violations.append(f"{SETTLE_SECONDS} s after the storm there are {work}")

    def judge(self, load):
        """What the checker finds in the acknowledged ids, the emails and the ledger."""
        folder = self.tidings.folder
        names = ("tenant", "digest", "user", "event_id")
        write(folder / "acknowledged.ndjson", (dict(zip(names, identity)) for identity in load.acknowledged))
        write(folder / "sent.ndjson", ({"id": message} for message in load.messages))
        files = {"--acknowledged": folder / "acknowledged.ndjson", "--sent": folder / "sent.ndjson", "--mails": folder / "mails"}
        arguments = [str(word) for pair in files.items() for word in pair]
        ledger = self.tidings.environment["TIDINGS_DATABASE_URL"]
        done = subprocess.run([sys.executable, CHECKER, *arguments, "--ledger", ledger, "--json"], capture_output=True, text=True)
        if not done.stdout:
            raise Failure(f"the checker failed: {done.stderr}")
        verdict = json.loads(done.stdout)
        self.violations += [f"{violation['rule']}: {violation['detail']}" for violation in verdict["violations"]]
        for process in self.tidings.processes:
            found = list(bugs(process.log.read_text(errors="replace").splitlines()))
            self.violations += [f"{process.name} logged: {line}" for line in found[:SHOWN]]
        self.violations += load.faults
        return verdict

    def lateness(self, load):
        """The longest lateness of each strike: of digests that no operator and no deferral delayed."""
        statement = f"""SELECT e.tenant, e.digest_type, e.user_id, e.event_id, d.sent_at
                        FROM events e JOIN digests d ON d.digest_id = e.digest_id
                        WHERE d.tenant = '{CALM}' AND d.digest_type = 'fast' AND d.sent_at IS NOT NULL"""
        rows = self.tidings.database.query(self.tidings.database_name, statement)
        known = [(load.acknowledged.get(tuple(identity)), int(sent_at) / 1000) for *identity, sent_at in rows]
        return lateness([begin for _, begin in self.strikes], [pair for pair in known if pair[0]], FAST_SECONDS)


def write(path, objects):
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))


def storm(run, options):
    """Strikes until the time is up."""
    services = {service: len(processes) for service, processes in run.processes().items()}
    strikes = plan(services, random.Random(options.seed))
    with Load(run.tidings, options.seed) as load:
        run.wait(FIRST_SECONDS)
        while run.screen.elapsed < options.minutes * 60:
            run.strike(next(strikes))
    run.settle()
    verdict, late = run.judge(load), run.lateness(load)
    table(run.strikes, services, late)
    report(verdict, load)
    run.missing = missing(services, {(strike.service, strike.kind) for strike, _ in run.strikes})


def frontends(run, options):
    """Freezes one frontend after the other. The second one has all connections that moved away from the first."""
    with Load(run.tidings, options.seed) as load:
        run.wait(FIRST_SECONDS)
        for target in range(len(run.cluster.frontends)):
            run.strike(Strike("frontend", "freeze", target, FRONTEND_SECONDS, FIRST_SECONDS))
    run.settle()
    verdict, late = run.judge(load), run.lateness(load)
    table(run.strikes, ["frontend"], late)
    report(verdict, load)
    run.violations += [f"a call failed, though one frontend was well: {failure}" for failure in load.failures[:SHOWN]]
    run.violations += [f"a digest was {worst:.1f} s late, though one frontend was well" for worst in late if worst > MOST_LATE_SECONDS]


def table(strikes, services, late):
    print(f"\n{'service':<16} {'kills':>6} {'late at most':>13} {'freezes':>8} {'late at most':>13}")
    for service in services:
        cells = []
        for kind in ("kill", "freeze"):
            own = [worst for (strike, _), worst in zip(strikes, late) if (strike.service, strike.kind) == (service, kind)]
            cells += [len(own), f"{max(own):.1f} s" if own else "-"]
        print(f"{service:<16} {cells[0]:>6} {cells[1]:>13} {cells[2]:>8} {cells[3]:>13}")


def report(verdict, load):
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in verdict["outcomes"].items())
    print(f"\ncalls            {load.calls}, the slowest {load.slowest:.1f} s; {len(load.failures)} failed")
    print(f"events           {verdict['acknowledged']} acknowledged, {verdict['events']} in the ledger")
    print(f"digests          {verdict['digests']} ({outcomes}), single messages {verdict['singles']}")
    print(f"emails           {verdict['mails']}, of them second ones {verdict['second_mails']}")
    print(f"attempts         {verdict['ambiguous_attempts']} ambiguous")


def main():
    parser = argparse.ArgumentParser(prog="./dev cluster", description="A storm on a Temporal cluster of eight processes.")
    for name in ("tidings", "temporal_cli", "server_folder", "postgres_folder", "postgres_url"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=30, metavar="N", help="about 10 are needed to reach every service (default: 30)")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000), metavar="S", help="decides the strikes and the load")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="leaves logs, emails and the ledger in a new folder")
    parser.add_argument("--frontends", action="store_true", help="only freezes one frontend after the other, for 45 seconds each")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.keep:
        options.keep.mkdir(mode=0o700, parents=True)
    folder = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="tidings-cluster."))
    try:
        run = carry_out(options, folder.resolve())
    except Failure as failure:
        print(f"error: {failure}\nthe logs are in {folder}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, SystemExit):
        if not options.keep:
            shutil.rmtree(folder)
        raise
    for violation in run.violations:
        print(f"VIOLATION {violation}")
    for what in run.missing:
        print(f"TOO SHORT {what}")
    print(f"{len(run.violations)} violations")
    if run.violations or options.keep:
        print(f"logs, emails and the ledger are in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if run.violations or run.missing else 0


def carry_out(options, folder):
    print(f"seed {options.seed}", flush=True)
    database = Database(options.postgres_folder, options.postgres_url)
    screen = Screen(2 * FRONTEND_SECONDS + 60 if options.frontends else options.minutes * 60)
    with contextlib.ExitStack() as stack:
        relay = stack.enter_context(Relay(folder / "mails", options.seed))
        stack.callback(relay.shutdown)
        cluster = stack.enter_context(Cluster(pathlib.Path(options.server_folder).resolve(), folder, database))
        cluster.add_namespace(options.temporal_cli, NAMESPACE)
        tidings = stack.enter_context(Tidings(str(pathlib.Path(options.tidings).resolve()), folder, cluster, relay))
        screen.say(f"{len(cluster.hosts)} hosts of Temporal, PostgreSQL, {len(tidings.workers)} workers and a gateway are up")
        run = Run(cluster, tidings, screen)
        (frontends if options.frontends else storm)(run, options)
        if run.violations or options.keep:
            subprocess.run(["pg_dump", "--file", folder / "ledger.sql", tidings.environment["TIDINGS_DATABASE_URL"]], check=True)
        return run


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
