#!/usr/bin/env bash
# Nodemailer 10.6.1 (npm), seen with Node.js 20.20.2: a process that stands still past the final dot.
#
# Expected: a process that is stopped for seven seconds (SIGSTOP, a frozen container) with socketTimeout 5000 resolves with the server's 250,
# which came after half a second and lies in the socket when the process goes on. socketTimeout is documented as the inactivity to allow.
# Seen: ETIMEDOUT. The timers of Node's loop run before it reads its sockets, so that the timeout destroys a connection with the answer in it.
# The same process without the stop resolves. aiosmtplib 5.1.3 resolves in both cases.
#
# So a program that sends again after an error sends a message twice which the server accepted in time.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder" --silent --ignore-scripts --no-audit --no-fund nodemailer@10.6.1
python3 - "$folder" <<'PY'
import os, signal, socket, subprocess, sys, time

CLIENT = """
const nodemailer = require("nodemailer");
const transport = nodemailer.createTransport({host: "127.0.0.1", port: PORT, secure: false, ignoreTLS: true, socketTimeout: 5000});
transport
    .sendMail({from: "a@a.example", to: "b@b.example", subject: "x", text: "x"})
    .then((sent) => console.log(sent.response), (error) => console.log(error.code))
    .finally(() => process.exit());
"""


def serve(connection, client, stands_still):
    """Accepts one message. A client that stands still does so from the dot on until its timeout has passed."""
    stream = connection.makefile("rwb")

    def say(reply):
        stream.write(reply + b"\r\n")
        stream.flush()

    say(b"220 ready")
    while line := stream.readline():
        if line.strip() != b"DATA":
            say(b"250 ok")
            continue
        say(b"354 go on")
        while stream.readline().strip() != b".":
            pass
        if stands_still:
            os.kill(client.pid, signal.SIGSTOP)
        time.sleep(0.5)
        say(b"250 2.0.0 accepted")
        if stands_still:
            time.sleep(6.5)
            os.kill(client.pid, signal.SIGCONT)


def result_of(stands_still):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program = CLIENT.replace("PORT", str(listener.getsockname()[1]))
        client = subprocess.Popen(["node", "-e", program], cwd=sys.argv[1], stdout=subprocess.PIPE, text=True)
        connection, _ = listener.accept()
        try:
            serve(connection, client, stands_still)
        except OSError:
            pass  # The client has hung up.
        return client.communicate(timeout=30)[0].strip()


seen = result_of(False), result_of(True)
print(seen)
sys.exit(seen != ("250 2.0.0 accepted", "ETIMEDOUT"))
PY
