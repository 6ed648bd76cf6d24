#!/usr/bin/env bash
# CPython 3.14.2 (npm pyodide 314.0.7), the package email: a Message-ID of more than about 65 characters in In-Reply-To or References.
#
# Expected: the id as it is, on a line of its own if need be. RFC 5322 2.2.3 folds at white space, RFC 2047 5 allows no encoded word in place
# of an id, and the header Message-ID of the same package leaves the same id as it is.
# Seen: with the policy SMTP the id becomes encoded words. email itself reads them back, so that a test in Python sees nothing.
#
# So an answer to a message with an id of 84 characters joins its thread only where a reader decodes what must not be encoded. Write messages
# with policy=SMTP.clone(max_line_length=998).
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund pyodide@314.0.7
cat > try.mjs <<'JS'
import { loadPyodide } from 'pyodide'

const python = await loadPyodide()
console.log(python.runPython(`
import email, email.policy, platform
from email.message import EmailMessage

ID = "<0102019a4d4f4a0b-8e1e5fd2-6a7c-4a35-b5d3-9c3f1d0a7d6b-000000@eu-west-1.amazonses.com>"
lines = ["version " + platform.python_version()]
for policy in (email.policy.SMTP, email.policy.SMTP.clone(max_line_length=998)):
    message = EmailMessage(policy=policy)
    for name in ("Message-ID", "In-Reply-To", "References"):
        message[name] = ID
    written = message.as_string()
    read = email.message_from_string(written, policy=policy)
    for name in message:
        header = next(line for line in written.splitlines() if line.startswith(name))
        lines.append(f"{name}: {'=?utf-8?q?' if '=?utf-8?q?' in header else header.count(ID)}, read by email: {read[name] == ID}")
"\\n".join(lines)
`))
JS
seen=$(node try.mjs)
echo "$seen"
[ "$seen" = 'version 3.14.2
Message-ID: 1, read by email: True
In-Reply-To: =?utf-8?q?, read by email: True
References: =?utf-8?q?, read by email: True
Message-ID: 1, read by email: True
In-Reply-To: 1, read by email: True
References: 1, read by email: True' ]
