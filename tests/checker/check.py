"""Checks that Tidings kept its word: every acknowledged event is accounted for, and no mail is one too many.

Reads the ids that the producer got acknowledged, the mails that the sink received, and the ledger, and compares them.
Shares no code with the product, on purpose.

    python3 tests/checker/check.py --acknowledged ids.ndjson --mails FOLDER --ledger FILE|postgres://...
"""

import argparse
import csv
import io
import json
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import closing
from email import message_from_bytes, policy
from pathlib import Path
from typing import NamedTuple

DIGEST_HEADER = "X-Tidings-Message"
COUNT_HEADER = "X-Tidings-Events"
# Ends with a mail at the relay: certainly, or perhaps.
CERTAIN, PERHAPS = "sent", "ambiguous"


class Digest(NamedTuple):
    state: str
    outcome: str  # empty while there is none
    events_returned: bool


class Event(NamedTuple):
    tenant: str
    digest_type: str
    user: str
    event_id: str
    digest_id: str
    returned: bool  # waits for the key's next digest

    @property
    def identity(self):
        return (self.tenant, self.digest_type, self.user, self.event_id)


class Ledger(NamedTuple):
    digests: dict  # digest_id -> Digest
    events: list  # of Event
    ambiguous: Counter  # digest_id -> attempts of which nobody knows whether the relay took the mail


class Mail(NamedTuple):
    name: str
    digest_id: str  # empty when it carries none
    count: object  # events as the mail says; None when it does not say


# --- reading -------------------------------------------------------------------------------------------------------


def read_acknowledged(path):
    """(tenant, digest type, user, event_id) of each line, in order."""
    identities = []
    for line in path.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        identities.append((event["tenant"], event["digest"], event["user"], event["event_id"]))
    return identities


def read_mails(folder):
    """The mails of a folder of .eml files."""
    return [read_mail(path) for path in sorted(folder.glob("*.eml"))]


def read_mail(path):
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    count = message[COUNT_HEADER]
    return Mail(path.name, (message[DIGEST_HEADER] or "").strip(), None if count is None else int(count))


DIGESTS = "SELECT digest_id, state, COALESCE(outcome, ''), returned_at IS NOT NULL FROM digests"
EVENTS = "SELECT tenant, digest_type, user_id, event_id, digest_id, returned_at IS NOT NULL FROM events"
AMBIGUOUS = "SELECT message FROM attempts WHERE class = 'ambiguous'"


def read_ledger(place):
    """The ledger in an SQLite file, or in a PostgreSQL database by psql."""
    if place.startswith(("postgres://", "postgresql://")):
        return ledger_of(lambda query: psql(place, query))
    with closing(sqlite3.connect(f"{Path(place).resolve().as_uri()}?mode=ro", uri=True)) as database:
        return ledger_of(lambda query: database.execute(query).fetchall())


def psql(url, query):
    command = ["psql", "--no-psqlrc", "--csv", "--tuples-only", "--set=ON_ERROR_STOP=1", "--dbname", url, "--command", query]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(csv.reader(io.StringIO(output)))


def ledger_of(rows):
    true = (1, True, "t")
    digests = {row[0]: Digest(row[1], row[2], row[3] in true) for row in rows(DIGESTS)}
    events = [Event(*row[:5], row[5] in true) for row in rows(EVENTS)]
    return Ledger(digests, events, Counter(row[0] for row in rows(AMBIGUOUS)))


# --- judging -------------------------------------------------------------------------------------------------------


def violations(acknowledged, mails, ledger):
    """(rule, what broke it) of each violation."""
    yield from judge_acknowledged(acknowledged, ledger)
    yield from judge_events(ledger)
    yield from judge_digests(mails, ledger)
    yield from judge_mails(mails, ledger)


def judge_acknowledged(acknowledged, ledger):
    """Every acknowledged event is in the ledger."""
    known = {event.identity for event in ledger.events}
    for identity in dict.fromkeys(acknowledged):
        if identity not in known:
            yield "acknowledged event is not in the ledger", "/".join(identity)


def judge_events(ledger):
    """Every event is in exactly one digest, which has a recorded end and did not give it back."""
    places = defaultdict(list)
    for event in ledger.events:
        places[event.identity].append(event)
    for identity, rows in places.items():
        name = "/".join(identity)
        if len(rows) > 1:
            yield "event is in more than one digest", f"{name}: {', '.join(row.digest_id for row in rows)}"
        for event in rows:
            digest = ledger.digests.get(event.digest_id)
            if digest is None:
                yield "event is in a digest that does not exist", f"{name}: {event.digest_id}"
            elif not digest.outcome:
                yield "digest has no recorded outcome", f"{event.digest_id} ({digest.state}) with {name}"
            elif event.returned:
                yield "event was given back and is in no later digest", f"{name}: {event.digest_id}"


def judge_digests(mails, ledger):
    """A sent digest has one mail, and another only for an attempt that was ambiguous."""
    received = Counter(mail.digest_id for mail in mails)
    for digest_id, digest in ledger.digests.items():
        count, ambiguous = received[digest_id], ledger.ambiguous[digest_id]
        if digest.outcome == CERTAIN and count == 0:
            yield "sent digest has no mail", digest_id
        # The attempt that was sent, and those of which nobody knows. Without a sent one, only those.
        most = ambiguous + (digest.outcome == CERTAIN)
        if digest.outcome in (CERTAIN, PERHAPS) and count > max(most, 1):
            yield "digest has a mail too many", f"{digest_id}: {count} mails, {ambiguous} ambiguous attempts"


def judge_mails(mails, ledger):
    """A mail belongs to a digest whose outcome allows one, and says its number of events."""
    events = Counter(event.digest_id for event in ledger.events)
    for mail in mails:
        digest = ledger.digests.get(mail.digest_id)
        if digest is None:
            yield "mail belongs to no digest", f"{mail.name} ({mail.digest_id or 'no ' + DIGEST_HEADER})"
            continue
        maybe = digest.outcome == PERHAPS or ledger.ambiguous[mail.digest_id] > 0
        if digest.outcome != CERTAIN and not maybe:
            yield "mail of a digest that was not sent", f"{mail.name} ({mail.digest_id} is {digest.outcome or 'open'})"
        if mail.count is None:
            yield "mail does not say its number of events", f"{mail.name} has no {COUNT_HEADER}"
        elif mail.count != events[mail.digest_id] and not digest.events_returned:
            yield "mail says another number of events than the ledger", (
                f"{mail.name} ({mail.digest_id}): {mail.count}, the ledger {events[mail.digest_id]}"
            )


# --- telling -------------------------------------------------------------------------------------------------------


def report(acknowledged, mails, ledger):
    """What was looked at, and what was found."""
    found = [{"rule": rule, "detail": detail} for rule, detail in violations(acknowledged, mails, ledger)]
    return {
        "acknowledged": len(set(acknowledged)),
        "events": len(ledger.events),
        "digests": len(ledger.digests),
        "outcomes": dict(sorted(Counter(digest.outcome or "none" for digest in ledger.digests.values()).items())),
        "mails": len(mails),
        "second_mails": len(mails) - len({mail.digest_id for mail in mails}),
        "ambiguous_attempts": sum(ledger.ambiguous.values()),
        "violations": found,
    }


def tell(result):
    outcomes = ", ".join(f"{count} {name}" for name, count in result["outcomes"].items()) or "none"
    print(f"acknowledged {result['acknowledged']}, in the ledger {result['events']}")
    print(f"digests      {result['digests']} ({outcomes})")
    print(f"mails        {result['mails']}, of them second ones {result['second_mails']}")
    print(f"ambiguous    {result['ambiguous_attempts']} attempts")
    for violation in result["violations"]:
        print(f"VIOLATION {violation['rule']}: {violation['detail']}")
    print(f"{len(result['violations'])} violations")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Compares acknowledged events, received mails and the ledger.")
    parser.add_argument("--acknowledged", type=Path, required=True, metavar="FILE", help="NDJSON: tenant, user, digest, event_id")
    parser.add_argument("--mails", type=Path, required=True, metavar="FOLDER", help="the sink's *.eml files")
    parser.add_argument("--ledger", required=True, metavar="FILE|URL", help="SQLite file, or postgres:// URL (needs psql)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    result = report(read_acknowledged(options.acknowledged), read_mails(options.mails), read_ledger(options.ledger))
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        tell(result)
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
