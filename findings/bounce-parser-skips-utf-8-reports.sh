#!/usr/bin/env bash
# flufl.bounce 6.0.0, the bounce parser of Mailman: reports with an address of the type utf-8 (RFC 6533).
#
# Expected: the failed recipient, as with the type rfc822. The grammar of RFC 6533 3 lets the type utf-8 carry an ASCII address, too, and
# its section 4 defines the part message/global-delivery-status, which has the fields of message/delivery-status.
# Seen: nobody, neither as temporary nor as permanent, both for message/global-delivery-status and for the type utf-8 within
# message/delivery-status. No error.
#
# Servers with SMTPUTF8 send such reports: Debian's chasquid 1.11 for each address, where only its X-Failed-Recipients saves the day. From
# a server without that header no bounce counts, and an address that is gone gets mail for ever.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check flufl.bounce==6.0.0
"$folder/venv/bin/python" - <<'PY'
import email, importlib.metadata, sys
from flufl.bounce import all_failures

REPORT = """From: MAILER-DAEMON@mx.example.org
To: bounces@news.example
Subject: Undelivered mail
Date: Sat, 28 Nov 2026 10:00:00 +0000
Message-ID: <1@mx.example.org>
MIME-Version: 1.0
Content-Type: multipart/report; report-type={part}; boundary=b

--b
Content-Type: text/plain

Your message was not delivered.

--b
Content-Type: message/{part}

Reporting-MTA: dns; mx.example.org

Final-Recipient: {kind}; ann@example.org
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 no such user

--b--
"""


def failures(part, kind):
    """The temporary and the permanent failures of a report."""
    temporary, permanent = all_failures(email.message_from_string(REPORT.format(part=part, kind=kind)))
    return sorted(temporary), sorted(permanent)


version = importlib.metadata.version("flufl.bounce")
seen = {
    (part, kind): failures(part, kind)
    for part, kind in (("delivery-status", "rfc822"), ("delivery-status", "utf-8"), ("global-delivery-status", "utf-8"))
}
print(f"version {version}", *("{}, type {}: temporary {}, permanent {}".format(*key, *value) for key, value in seen.items()), sep="\n")
nobody = [], []
sys.exit((version, *seen.values()) != ("6.0.0", ([], [b"ann@example.org"]), nobody, nobody))
PY
