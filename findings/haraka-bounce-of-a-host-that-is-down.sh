#!/usr/bin/env bash
# Haraka 3.3.4: the Status in its bounces after temporary failures, when the retries have ended.
#
# Expected: a class 4 or X.4.x for a host that refused connections all the time (RFC 3463 3.5: X.4.1 is "no answer from host", X.4.7
# "delivery time expired"), and 4.2.2 for a mailbox that said "452 4.2.2" all the time: by RFC 3463 2 class 4 is also for a temporary
# condition that lasted until the message was given up.
# Seen: 5.1.2 without Diagnostic-Code for the host; RFC 3463 3.2 has this code for an address whose domain does not exist or takes no mail.
# 5.2.2 for the mailbox, above a Diagnostic-Code of "452 4.2.2".
#
# So an outage of a provider for longer than the retries (three days by default) reads as if all its addresses were wrong for good, and
# nothing in the report tells it from a misspelt domain. A 5.1.2 without a server's reply should suppress nobody.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund Haraka@3.3.4
node_modules/.bin/haraka -i relay > log 2>&1
echo to_the_test > relay/config/plugins
echo temp_fail_intervals=5s > relay/config/outbound.ini
echo relay.example > relay/config/me
cat > relay/plugins/to_the_test.js <<'JS'
exports.hook_mail = (next, connection) => {
  connection.relaying = true
  next(OK)
}
exports.hook_rcpt = (next) => next(OK)
exports.hook_get_mx = (next, hmail, domain) =>
  next(OK, { priority: 0, exchange: '127.0.0.1', port: domain === 'down.example' ? process.env.DOWN : process.env.NEXT })
JS
python3 - <<'PY'
import json, os, re, smtplib, socket, socketserver, subprocess, sys, threading, time

bounces = []


class Server(socketserver.StreamRequestHandler):
    """The next server, and the mailbox of the bounces."""

    def handle(self):
        self.wfile.write(b"220 next.example ESMTP\r\n")
        for line in self.rfile:
            if line.startswith(b"DATA"):
                self.wfile.write(b"354 Go ahead\r\n")
                bounces.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
            self.wfile.write(b"452 4.2.2 mailbox is full\r\n" if line.startswith(b"RCPT TO:<full@") else b"250 2.0.0 Ok\r\n")


def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Server)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
port = unused_port()
with open("relay/config/smtp.ini", "w") as config:
    config.write(f"listen=127.0.0.1:{port}\n")
environment = os.environ | {"DOWN": str(unused_port()), "NEXT": str(server.server_address[1])}
with open("log", "a") as log:
    haraka = subprocess.Popen(["node", "node_modules/Haraka/bin/haraka", "-c", "relay"], env=environment, stdout=log, stderr=log)
try:
    deadline = time.monotonic() + 60
    while True:
        try:
            client = smtplib.SMTP("127.0.0.1", port, timeout=30)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    for recipient in ("ann@down.example", "full@next.example"):
        client.sendmail("sender@news.example", [recipient], "Subject: digest\r\n\r\nHello\r\n")
    while len(bounces) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
finally:
    haraka.terminate()
    haraka.wait()
version = json.load(open("node_modules/Haraka/package.json"))["version"]
fields = [tuple(re.findall(r"^(?:Final-Recipient|Action|Status|Diagnostic-Code): *(.*?) *\r?$", bounce, re.M)) for bounce in bounces]
print(f"version {version}", *sorted(fields), sep="\n")
sys.exit((version, sorted(fields)) != ("3.3.4", [
    ("rfc822;ann@down.example", "failed", "5.1.2 (550 Tried all MXs down.example)"),
    ("rfc822;full@next.example", "failed", "5.2.2", "smtp;452 4.2.2 mailbox is full")]))
PY
