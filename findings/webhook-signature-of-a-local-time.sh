#!/usr/bin/env bash
# standardwebhooks 1.1.0 and svix 2.9.1 (PyPI): sign() with an aware datetime that is not in UTC.
#
# Expected: one signature for one instant. By the Standard Webhooks specification ("Signature scheme") the signed content has the seconds
# since the epoch, and datetime.timestamp() of an aware datetime gives them whatever its zone is, as Python's documentation of it says.
# Seen: the hour on the clock is signed as if it were UTC, so that 12:00+02:00 and 10:00Z have two signatures. The libraries' own verify()
# refuses the one of the local time if the header has the right seconds.
#
# So a test that signs with datetime.now().astimezone() passes on a machine in UTC and fails on all others, and it looks as if the receiver
# verified wrongly. Give sign() datetimes of timezone.utc.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check standardwebhooks==1.1.0 svix==2.9.1
"$folder/venv/bin/python" - <<'PY'
import importlib.metadata, sys
from datetime import datetime, timedelta, timezone
import standardwebhooks, svix.webhooks

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
utc = datetime.now(timezone.utc).replace(microsecond=0)
local = utc.astimezone(timezone(timedelta(hours=2)))
assert utc == local and utc.timestamp() == local.timestamp()


def accepted(library, time):
    """Whether verify() takes the signature of sign() for this time."""
    webhook = library.Webhook(SECRET)
    headers = {"webhook-id": "m1", "webhook-timestamp": f"{time.timestamp():.0f}", "webhook-signature": webhook.sign("m1", time, "{}")}
    try:
        webhook.verify("{}", headers)
        return "accepted"
    except library.WebhookVerificationError as error:
        return f"refused: {error}"


seen = [
    (name, importlib.metadata.version(name), accepted(library, utc), accepted(library, local))
    for name, library in (("standardwebhooks", standardwebhooks), ("svix", svix.webhooks))
]
print(*("{} {}\n  10:00Z: {}\n  12:00+02:00: {}".format(*line) for line in seen), sep="\n")
refused = "refused: No matching signature found"
sys.exit(seen != [("standardwebhooks", "1.1.0", "accepted", refused), ("svix", "2.9.1", "accepted", refused)])
PY
