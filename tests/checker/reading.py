"""What the checker reads: what producers know, the mails of the sink, the ledger in SQLite or PostgreSQL.

Shares no code with the product, on purpose.
"""

import csv
import hashlib
import io
import json
import sqlite3
import subprocess
from collections import Counter, defaultdict
from contextlib import closing
from email import message_from_bytes, policy
from pathlib import Path
from typing import NamedTuple

DIGEST_HEADER = "X-Tidings-Message"
COUNT_HEADER = "X-Tidings-Events"
# The class of an attempt of which nobody knows whether the relay took the mail.
AMBIGUOUS = "ambiguous"


class Digest(NamedTuple):
    state: str
    outcome: str  # empty while there is none
    events_returned: bool
    why: str


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


class Attempt(NamedTuple):
    message: str  # a digest's has the digest's id
    number: int
    begun_at: int  # milliseconds, as all times
    kind: str  # its class; empty while it is under way
    fenced_at: int  # 0: never


class Entry(NamedTuple):
    digest_id: str
    action: str  # close or reopen
    acted_at: int


class Choice(NamedTuple):
    actor: str
    action: str
    acted_at: int


class Ledger(NamedTuple):
    digests: dict  # digest_id -> Digest
    events: list  # of Event
    singles: dict  # id -> state, of messages without a digest
    attempts: list  # of Attempt
    audit: list  # of Entry, in the order of writing
    addresses: dict  # (tenant, address) -> the tables that have it
    reports: list  # (message, status) of each email that came back
    webhooks: list  # (message, event id) of each event that a provider told
    choices: dict  # digest_id -> Choices for its key, in the order of writing

    @property
    def ambiguous(self):
        """Message -> attempts of which nobody knows whether the relay took the mail."""
        return Counter(attempt.message for attempt in self.attempts if attempt.kind == AMBIGUOUS)


class Mail(NamedTuple):
    name: str
    digest_id: str  # or the id of a single message; empty when it carries none
    count: object  # events as the mail says; None when it does not say
    message_id: str
    sha256: str


class Window(NamedTuple):
    """What a key said of itself when it was asked. Times may be None."""

    key: tuple
    asked_at: int
    state: str
    due_at: object
    next_attempt_at: object
    held: bool
    said: str


class Told(NamedTuple):
    """What the producers and the operator know."""

    acknowledged: list  # (tenant, digest type, user, event_id), in order
    retracted: list  # the same, of events that were taken back before they were handed over
    sent: list  # ids of single messages
    open: list  # of Window, when nothing was broken any more
    returned: list  # (message, status) of reports that were read, each perhaps more than once
    reported: list  # (message, event id) of webhooks that were answered
    clicked: list  # (digest_id, time of the answer) of each click that was answered
    erased: list  # (tenant, address) of people who were erased, and of whom nothing came since
    lost: list  # the same as acknowledged, of events that only Temporal had when it lost its data


def lines(path):
    """The objects of an NDJSON file; none without a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path else []


def read_identities(path, renamed):
    """(tenant, digest type, user, event_id) of each line, in order. `renamed` has the one name of a digest type with several."""
    return [(event["tenant"], renamed.get(event["digest"], event["digest"]), event["user"], event["event_id"]) for event in lines(path)]


def read_windows(path):
    return [
        Window(
            (window["tenant"], window["digest"], window["user"]),
            window["asked_at"],
            window["state"],
            window["due_at"],
            window["next_attempt_at"],
            window["hold"],
            json.dumps(window),
        )
        for window in lines(path)
    ]


def read_mails(folder):
    """The mails of a folder of .eml files."""
    return [read_mail(path) for path in sorted(folder.glob("*.eml"))]


def read_mail(path):
    content = path.read_bytes()
    message = message_from_bytes(content, policy=policy.default)
    count = message[COUNT_HEADER]
    return Mail(
        path.name,
        (message[DIGEST_HEADER] or "").strip(),
        None if count is None else int(count),
        (message["Message-ID"] or "").strip(),
        hashlib.sha256(content).hexdigest(),
    )


# An erasure takes the reason of these two outcomes: the words of a relay, which may name the person.
DIGESTS = """SELECT digest_id, state, COALESCE(outcome, ''), returned_at IS NOT NULL,
             CASE WHEN erased_at IS NOT NULL AND outcome IN ('failed', 'ambiguous') THEN 'erased' ELSE COALESCE(why, '') END
             FROM digests"""
EVENTS = "SELECT tenant, digest_type, user_id, event_id, digest_id, returned_at IS NOT NULL FROM events"
SINGLES = "SELECT id, state FROM messages WHERE digest_id IS NULL"
ATTEMPTS = """SELECT message, number, begun_at, COALESCE(class, ''), COALESCE(fenced_at, 0)
              FROM attempts ORDER BY message, number"""
AUDIT = """SELECT digest_id, action, acted_at FROM audit
           WHERE digest_id IS NOT NULL AND action IN ('close', 'reopen') ORDER BY audit_id"""

ADDRESSES = """SELECT tenant, LOWER(address), 'recipients' FROM recipients
               UNION SELECT tenant, address_lower, 'suppressions' FROM suppressions
               UNION SELECT tenant, LOWER(envelope_to), 'messages' FROM messages
               UNION SELECT tenant, address_lower, 'delivery_events' FROM delivery_events"""
REPORTS = "SELECT message, status FROM delivery_events WHERE kind = 'bounced' AND status IS NOT NULL"

WEBHOOKS = "SELECT message, event_id FROM delivery_events WHERE event_id IS NOT NULL"
KEYS = "SELECT digest_id, tenant, digest_type, user_id FROM digests"
CHOICES = """SELECT tenant, digest_type, user_id, actor, action, acted_at FROM audit
             WHERE actor = 'recipient' OR action IN ('withdraw consent', 'grant consent') ORDER BY audit_id"""


def read_ledger(place, renamed):
    """The ledger in an SQLite file, or in a PostgreSQL database by psql."""
    if place.startswith(("postgres://", "postgresql://")):
        return ledger_of(lambda query: psql(place, query), renamed)
    with closing(sqlite3.connect(f"{Path(place).resolve().as_uri()}?mode=ro", uri=True)) as database:
        return ledger_of(lambda query: database.execute(query).fetchall(), renamed)


def psql(url, query):
    command = ["psql", "--no-psqlrc", "--csv", "--tuples-only", "--set=ON_ERROR_STOP=1", "--dbname", url, "--command", query]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(csv.reader(io.StringIO(output)))


def ledger_of(rows, renamed):
    true = (1, True, "t")

    def key(tenant, digest_type, user):
        return tenant, renamed.get(digest_type, digest_type), user

    of_key = defaultdict(list)
    for row in rows(CHOICES):
        of_key[key(*row[:3])].append(Choice(row[3], row[4], int(row[5])))
    choices = defaultdict(list, {row[0]: of_key[key(*row[1:])] for row in rows(KEYS)})
    return Ledger(
        digests={row[0]: Digest(row[1], row[2], row[3] in true, row[4]) for row in rows(DIGESTS)},
        events=[Event(*key(*row[:3]), *row[3:5], row[5] in true) for row in rows(EVENTS)],
        singles=dict(rows(SINGLES)),
        attempts=[Attempt(row[0], int(row[1]), int(row[2]), row[3], int(row[4])) for row in rows(ATTEMPTS)],
        audit=[Entry(row[0], row[1], int(row[2])) for row in rows(AUDIT)],
        addresses=tables(rows(ADDRESSES)),
        reports=[tuple(row) for row in rows(REPORTS)],
        webhooks=[tuple(row) for row in rows(WEBHOOKS)],
        choices=choices,
    )


def tables(rows):
    """(tenant, address) -> the tables that have it."""
    found = {}
    for tenant, address, table in rows:
        found.setdefault((tenant, address), []).append(table)
    return found
