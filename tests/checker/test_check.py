"""The checker finds what it is there to find. Small fabricated inputs, each wrong in one way."""

import contextlib
import io
import json
import sqlite3
import tempfile
import unittest
from pathlib import Path

import check

# The part of the ledger that the checker reads, without the keys that would keep a wrong ledger from being made.
SCHEMA = """
CREATE TABLE digests (digest_id TEXT, state TEXT, outcome TEXT, returned_at INTEGER, why TEXT, tenant TEXT, digest_type TEXT,
                      user_id TEXT, erased_at INTEGER);
CREATE TABLE events (tenant TEXT, digest_type TEXT, user_id TEXT, event_id TEXT, digest_id TEXT, returned_at INTEGER);
CREATE TABLE messages (id TEXT, digest_id TEXT, state TEXT, tenant TEXT, envelope_to TEXT);
CREATE TABLE attempts (message TEXT, class TEXT, begun_at INTEGER, fenced_at INTEGER, number INTEGER);
CREATE TABLE recipients (tenant TEXT, address TEXT);
CREATE TABLE suppressions (tenant TEXT, address_lower TEXT);
CREATE TABLE delivery_events (message TEXT, tenant TEXT, address_lower TEXT, kind TEXT, status TEXT,
                              event_id TEXT);
CREATE TABLE audit (audit_id INTEGER PRIMARY KEY, digest_id TEXT, action TEXT, acted_at INTEGER, tenant TEXT, digest_type TEXT,
                    user_id TEXT, actor TEXT);
"""
# A row with an address.
WITH_ADDRESS = {
    "recipients": "INSERT INTO recipients VALUES ('acme', ?)",
    "suppressions": "INSERT INTO suppressions VALUES ('acme', ?)",
    "messages": "INSERT INTO messages VALUES ('d1', 'd1', 'sent', 'acme', ?)",
    "delivery_events": "INSERT INTO delivery_events VALUES ('d1', 'acme', ?, 'delivered', NULL, NULL)",
}
# When the keys were asked what is open.
ASKED_AT = 1_000_000


class Case:
    """Two digests of acme/activity, as all should be: d1 for ann with e1 and e2, d2 for bob with e3."""

    def __init__(self):
        self.acknowledged = [("ann", "e1"), ("ann", "e2"), ("bob", "e3")]
        self.digests = {"d1": ("closed", "sent", None), "d2": ("closed", "sent", None)}
        self.events = [("ann", "e1", "d1", None), ("ann", "e2", "d1", None), ("bob", "e3", "d2", None)]
        self.attempts = [("d1", "sent"), ("d2", "sent")]
        self.mails = [("d1", 2), ("d2", 1)]
        self.reasons = {"d1": "", "d2": "because"}
        self.erasures = {}  # digest_id -> time
        self.singles = {}
        self.audit = []  # (digest_id, action, acted_at)
        self.retracted = []
        self.sent = []
        self.open = []
        self.returned = []  # (message, status)
        self.reported = []  # (message, event_id)
        self.clicked = []  # digest_id; each answered at 100
        self.erased = []  # addresses
        self.lost = []  # (user, event_id) that only Temporal had
        self.webhooks = []  # (message, event_id) of the ledger
        self.choices = []  # (user,) of the audit trail; each digest here is of the user with its id
        self.consents = []  # (action, time, user) of the audit trail, by an operator
        self.reports = []  # (message, status) of the ledger
        self.addresses = {}  # table -> address
        self.extra = {}  # number of the mail -> more text
        self.message_ids = {}  # digest_id -> another one than its own
        self.renamed = {}  # digest_id -> the digest type under which the ledger has it and its events
        self.options = []

    def run(self):
        """The exit code, and the rules that were broken."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.write(folder)
            output = io.StringIO()
            options = ["--acknowledged", str(folder / "ids"), "--mails", name, "--ledger", str(folder / "db"), "--json"]
            for kind in ("retracted", "sent", "open", "returned", "reported", "clicked", "erased", "lost"):
                options += [f"--{kind}", str(folder / kind)]
            options += self.options
            with contextlib.redirect_stdout(output):
                code = check.main(options)
            return code, [violation["rule"] for violation in json.loads(output.getvalue())["violations"]]

    def write(self, folder):
        fields = ("tenant", "digest", "user", "event_id")

        def identities(rows):
            return [dict(zip(fields, ("acme", "activity", *row))) for row in rows]

        files = {
            "ids": identities(self.acknowledged),
            "retracted": identities(self.retracted),
            "lost": identities(self.lost),
            "sent": [{"id": message} for message in self.sent],
            "open": self.open,
            "returned": [{"id": message, "status": status} for message, status in self.returned],
            "reported": [{"id": message, "event_id": event} for message, event in self.reported],
            "clicked": [{"id": digest_id, "answered_at": 100} for digest_id in self.clicked],
            "erased": [{"tenant": "acme", "address": address} for address in self.erased],
        }
        for name, rows in files.items():
            (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        for number, (digest_id, count) in enumerate(self.mails):
            headers = {
                "Subject": "x",
                "Message-ID": self.message_ids.get(digest_id, f"<{digest_id}@tidings.example>"),
                "X-Tidings-Message": digest_id,
                "X-Tidings-Events": count,
            }
            text = "".join(f"{key}: {value}\r\n" for key, value in headers.items() if value is not None)
            (folder / f"{number}.eml").write_bytes(f"{text}\r\nText.\r\n{self.extra.get(number, '')}".encode())
        with contextlib.closing(sqlite3.connect(folder / "db")) as database, database:
            database.executescript(SCHEMA)
            digests = [
                (digest_id, *digest, self.reasons.get(digest_id), digest_id, self.erasures.get(digest_id))
                for digest_id, digest in self.digests.items()
            ]
            database.executemany("INSERT INTO digests VALUES (?, ?, ?, ?, ?, 'acme', 'activity', ?, ?)", digests)
            database.executemany("INSERT INTO events VALUES ('acme', 'activity', ?, ?, ?, ?)", self.events)
            # Of an attempt the times may be left out.
            attempts = [(*attempt, 100, 0)[:4] + (number,) for number, attempt in enumerate(self.attempts)]
            database.executemany("INSERT INTO attempts VALUES (?, ?, ?, ?, ?)", attempts)
            database.executemany("INSERT INTO messages VALUES (?, NULL, ?, 'acme', '')", self.singles.items())
            reports = "INSERT INTO delivery_events VALUES (?, 'acme', '', 'bounced', ?, NULL)"
            database.executemany(reports, self.reports)
            webhooks = "INSERT INTO delivery_events VALUES (?, 'acme', '', 'opened', NULL, ?)"
            database.executemany(webhooks, self.webhooks)
            choices = "INSERT INTO audit VALUES (NULL, NULL, 'withdraw', 1, 'acme', 'activity', ?, 'recipient')"
            database.executemany(choices, self.choices)
            consents = "INSERT INTO audit VALUES (NULL, NULL, ?, ?, 'acme', 'activity', ?, 'ops')"
            database.executemany(consents, self.consents)
            for digest_id, name in self.renamed.items():
                for table in ("digests", "events"):
                    database.execute(f"UPDATE {table} SET digest_type = ? WHERE digest_id = ?", [name, digest_id])
            for table, address in self.addresses.items():
                database.execute(WITH_ADDRESS[table], [address])
            database.executemany("INSERT INTO audit (digest_id, action, acted_at) VALUES (?, ?, ?)", self.audit)


class Checker(unittest.TestCase):
    def setUp(self):
        self.case = Case()

    def fails_with(self, *rules):
        self.assertEqual(self.case.run(), (1, list(rules)))

    def passes(self):
        self.assertEqual(self.case.run(), (0, []))

    def test_nothing_is_wrong_with_a_right_ledger(self):
        self.passes()

    def test_only_an_event_that_temporal_alone_had_may_be_lost(self):
        self.case.acknowledged += [("ann", "e8"), ("ann", "e9")]
        self.case.lost = [("ann", "e8")]
        self.fails_with("acknowledged event is not in the ledger")
        # One may have come again since.
        self.case.lost += [("ann", "e9"), ("ann", "e1")]
        self.passes()

    def test_an_id_acknowledged_twice_counts_once(self):
        self.case.acknowledged.append(("ann", "e1"))
        self.passes()

    def test_a_missing_event(self):
        self.case.acknowledged.append(("ann", "e9"))
        self.fails_with("acknowledged event is not in the ledger")

    def test_equal_ids_of_two_users_are_two_events(self):
        self.case.acknowledged.append(("bob", "e1"))
        self.fails_with("acknowledged event is not in the ledger")

    def test_an_event_in_two_digests(self):
        self.case.events.append(("ann", "e1", "d2", None))
        self.case.mails[1] = ("d2", 2)
        self.fails_with("event is in more than one digest")

    def test_an_event_in_a_digest_that_does_not_exist(self):
        self.case.events[2] = ("bob", "e3", "d9", None)
        self.case.mails[1] = ("d2", 0)
        self.fails_with("event is in a digest that does not exist")

    def test_an_outcome_that_is_not_recorded(self):
        self.case.digests["d2"] = ("rendered", None, None)
        del self.case.mails[1]
        self.fails_with("digest has no recorded outcome")

    def test_an_event_under_an_end_that_is_not_about_it(self):
        self.case.digests["d2"] = ("closed", "skipped", None)
        self.case.reasons["d2"] = "every event was in an earlier digest"
        del self.case.mails[1]
        self.fails_with("event is in a digest that ended because it had none")

    def test_an_event_that_was_taken_back(self):
        self.case.digests["d2"] = ("closed", "skipped", None)
        self.case.reasons["d2"] = "retracted"
        del self.case.mails[1]
        self.passes()

    def test_an_event_that_a_failed_digest_gave_back_and_none_took(self):
        self.case.digests["d2"] = ("closed", "failed", 1)
        self.case.events[2] = ("bob", "e3", "d2", 1)
        del self.case.mails[1]
        self.fails_with("event was given back and is in no later digest")

    def test_an_event_that_a_later_digest_took_over(self):
        self.case.digests.update({"d2": ("closed", "failed", 1), "d3": ("closed", "sent", None)})
        self.case.events[2] = ("bob", "e3", "d3", None)
        self.case.mails[1] = ("d3", 1)
        self.passes()

    def test_a_sent_digest_without_a_mail(self):
        del self.case.mails[1]
        self.fails_with("sent digest has no mail")

    def test_a_second_mail_without_an_ambiguous_attempt(self):
        self.case.mails.append(("d2", 1))
        self.fails_with("digest has a mail too many")

    def test_a_second_mail_after_an_ambiguous_attempt(self):
        self.case.mails.append(("d2", 1))
        self.case.attempts.append(("d2", "ambiguous"))
        self.passes()

    def test_a_third_mail_after_one_ambiguous_attempt(self):
        self.case.mails += [("d2", 1), ("d2", 1)]
        self.case.attempts.append(("d2", "ambiguous"))
        self.fails_with("digest has a mail too many")

    def test_an_ambiguous_digest_with_and_without_a_mail(self):
        self.case.digests["d2"] = ("closed", "ambiguous", None)
        self.case.attempts[1] = ("d2", "ambiguous")
        self.passes()
        del self.case.mails[1]
        self.passes()

    def test_a_digest_that_needs_no_mail(self):
        self.case.digests["d2"] = ("closed", "suppressed", None)
        self.case.mails = self.case.mails[:1]
        self.passes()

    def test_a_mail_of_a_digest_that_was_not_sent(self):
        self.case.digests["d2"] = ("closed", "dropped", None)
        self.fails_with("mail of a digest that was not sent")

    def test_a_mail_without_a_digest(self):
        self.case.mails.append(("d9", 1))
        self.fails_with("mail belongs to no digest")

    def test_a_mail_without_the_header(self):
        self.case.mails.append((None, 1))
        self.fails_with("mail belongs to no digest")

    def test_a_mail_with_another_count(self):
        self.case.mails[0] = ("d1", 3)
        self.fails_with("mail says another number of events than the ledger")

    def test_a_digest_that_was_not_sent_and_does_not_say_why(self):
        self.case.digests["d2"] = ("closed", "dropped", None)
        self.case.mails = self.case.mails[:1]
        self.passes()
        self.case.reasons["d2"] = ""
        self.fails_with("digest that was not sent has no reason")
        self.case.erasures["d2"] = 1
        self.fails_with("digest that was not sent has no reason")
        self.case.digests["d2"] = ("closed", "failed", None)
        self.passes()

    def test_a_mail_too_many_of_a_digest_that_failed(self):
        self.case.digests["d2"] = ("closed", "failed", None)
        self.case.attempts[1] = ("d2", "ambiguous")
        self.passes()
        self.case.mails.append(("d2", 1))
        self.fails_with("digest has a mail too many")

    def test_a_retract_that_came_first_and_was_not_heeded(self):
        self.case.retracted = [("bob", "e3")]
        self.fails_with("retracted event is in a digest that was sent")
        self.case.digests["d2"] = ("closed", "skipped", None)
        del self.case.mails[1]
        self.passes()

    def test_a_retract_of_what_never_came(self):
        self.case.retracted = [("bob", "e9")]
        self.passes()

    def test_a_second_mail_with_another_message_id(self):
        self.case.mails.append(("d2", 1))
        self.case.attempts.append(("d2", "ambiguous"))
        self.passes()
        self.case.extra[2] = "More."
        self.fails_with("mails of one digest differ")

    def test_two_digests_with_one_message_id(self):
        self.case.message_ids["d2"] = "<d1@tidings.example>"
        self.fails_with("mails of two digests have one Message-ID")

    def dropped(self, *attempts):
        """d2 is dropped at 200."""
        self.case.digests["d2"] = ("closed", "dropped", None)
        self.case.mails = self.case.mails[:1]
        self.case.attempts[1:] = [("d2", *attempt) for attempt in attempts]
        self.case.audit = [("d2", "close", 200)]

    def test_an_attempt_before_a_drop(self):
        self.dropped(("deferred", 150))
        self.passes()

    def test_an_attempt_after_a_drop(self):
        self.dropped(("deferred", 201))
        self.fails_with("attempt began after a drop or cancel")

    def test_an_attempt_that_the_drop_stopped(self):
        self.dropped(("fenced", 201, 200))
        self.passes()
        self.dropped(("fenced", 201, 300))
        self.fails_with("attempt began after a drop or cancel")

    def test_an_attempt_after_a_reopen(self):
        self.dropped(("deferred", 350))
        self.case.audit.append(("d2", "reopen", 300))
        self.passes()
        self.case.audit.append(("d2", "close", 340))
        self.fails_with("attempt began after a drop or cancel")

    def test_a_clock_that_is_ahead_by_less_than_the_skew(self):
        self.dropped(("deferred", 240))
        self.case.options = ["--skew", "40"]
        self.passes()
        self.case.options = ["--skew", "39"]
        self.fails_with("attempt began after a drop or cancel")

    def test_an_event_under_both_names_of_its_digest_type(self):
        self.case.renamed = {"d1": "news"}
        self.fails_with(*["acknowledged event is not in the ledger"] * 2)
        self.case.options = ["--renamed", "news=activity"]
        self.passes()
        # A second digest, under the other name.
        self.case.events.append(("ann", "e1", "d2", None))
        self.case.mails[1] = ("d2", 2)
        self.fails_with("event is in more than one digest")

    def test_a_click_on_a_link_of_the_earlier_name(self):
        self.case.clicked, self.case.choices = ["d1"], [("d1",)]
        self.case.renamed = {"d1": "news"}
        self.case.options = ["--renamed", "news=activity"]
        self.passes()

    def test_an_attempt_that_goes_on_after_the_end(self):
        self.dropped((None, 150))
        self.fails_with("attempt goes on after the end")

    def single(self, state, attempts=(), mails=0):
        """One single message beside the digests."""
        self.case.singles = {"m1": state}
        self.case.attempts += [("m1", attempt) for attempt in attempts]
        self.case.mails += [("m1", None)] * mails

    def test_a_single_message(self):
        self.case.sent = ["m1"]
        self.fails_with("single message is not in the outbox")
        self.single("sent", ["deferred", "sent"], 1)
        self.passes()

    def test_a_single_message_without_an_end(self):
        self.single("deferred", ["deferred"])
        self.fails_with("single message has no end")

    def test_a_single_message_without_its_mail(self):
        self.single("sent", ["sent"])
        self.fails_with("sent message has no mail")

    def test_a_single_message_with_a_mail_too_many(self):
        self.single("sent", ["ambiguous", "sent"], 2)
        self.passes()
        self.case.mails.append(("m1", None))
        self.fails_with("single message has a mail too many")

    def window(self, **fields):
        """What a key said that is open."""
        window = {"tenant": "acme", "digest": "activity", "user": "ann", "asked_at": ASKED_AT, "state": "collecting"}
        self.case.open = [{**window, "due_at": None, "next_attempt_at": None, "hold": False, **fields}]

    def test_windows_that_wait_for_something(self):
        for fields in (
            {"due_at": ASKED_AT + 1},
            {"state": "held", "hold": True, "due_at": 1},
            {"state": "retrying", "next_attempt_at": ASKED_AT + 1},
            {"state": "idle"},
        ):
            self.window(**fields)
            self.passes()

    def test_windows_that_wait_for_nothing(self):
        for fields in (
            {"due_at": ASKED_AT - check.OVERDUE - 1},
            {},
            {"state": "held", "due_at": 1},
            {"state": "retrying"},
            {"state": "planning"},
            {"state": "sending"},
        ):
            self.window(**fields)
            self.fails_with("window is overdue without a reason")

    def test_a_report_that_was_read(self):
        self.case.returned = [("d1", "5.1.1"), ("d1", "5.1.1")]
        self.fails_with("report is not in the ledger once")
        self.case.reports = [("d1", "5.1.1")]
        self.passes()
        self.case.reports *= 2
        self.fails_with("report is not in the ledger once")

    def test_a_webhook_that_was_answered(self):
        self.case.reported = [("d1", "7-opened"), ("d1", "7-opened")]
        self.fails_with("webhook is not in the ledger once")
        self.case.webhooks = [("d1", "7-opened")]
        self.passes()
        self.case.webhooks *= 2
        self.fails_with("webhook is not in the ledger once")

    def test_a_click_that_was_answered(self):
        self.case.clicked, self.case.choices = ["d1"], [("d2",)]
        self.fails_with("click is not in the audit trail")
        self.case.choices = [("d1",)]
        self.passes()

    def test_a_click_after_an_operator_withdrew_the_consent(self):
        self.case.clicked, withdrawn = ["d1"], [("withdraw consent", 50, "d1")]
        self.case.consents = withdrawn
        self.passes()
        self.case.consents = [*withdrawn, ("grant consent", 60, "d1")]
        self.fails_with("click is not in the audit trail")
        self.case.consents = [("withdraw consent", 150, "d1")]
        self.fails_with("click is not in the audit trail")

    def test_an_address_of_an_erased_person(self):
        self.case.erased = ["Ann@acme.test"]
        self.passes()
        for table in ("recipients", "suppressions", "messages", "delivery_events"):
            self.case.addresses = {table: "ann@acme.test"}
            self.fails_with("address of an erased person is in the ledger")

    def test_a_mail_without_a_count(self):
        self.case.mails[0] = ("d1", None)
        self.fails_with("mail does not say its number of events")


if __name__ == "__main__":
    unittest.main()
