#!/usr/bin/env bash
# CPython's asyncio (seen with 3.11 and whatever python3 is here): a time limit that passes while the process stands still.
#
# Expected: a process that is stopped for seven seconds (SIGSTOP, a frozen container) and reads with a limit of five gives the line that
# has been in its socket since the first second, as a blocking socket with settimeout(5) does.
# Seen: asyncio.wait_for and asyncio.timeout both raise TimeoutError. The loop sees the data and the limit in one turn, and the limit cancels
# the reader before the reader's task runs. After wait_for the whole line lies in the buffer of the stream that has just timed out.
#
# So a client that was frozen past the dot takes a message that the server accepted for one without an answer, and sends it again. Read
# what is there before giving up.
# Ends with 0 while this is so.
set -euo pipefail
python3 - <<'PY'
import asyncio, os, signal, socket, subprocess, sys, time

READERS = {
    "wait_for": """
async def read(port):
    reader, _ = await asyncio.open_connection("127.0.0.1", port)
    print("connected", flush=True)
    try:
        return await asyncio.wait_for(reader.readline(), 5)
    except asyncio.TimeoutError:
        return "timeout, in the buffer: %r" % bytes(reader._buffer)
print(asyncio.run(read(PORT)))
""",
    "blocking": """
client = socket.create_connection(("127.0.0.1", PORT))
print("connected", flush=True)
client.settimeout(5)
print(client.recv(100))
""",
}


def answer_of(program):
    """What the program prints that stands still from before the line comes until its limit has passed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = "import asyncio, socket\n" + program.replace("PORT", str(listener.getsockname()[1]))
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        connection, _ = listener.accept()
        child.stdout.readline()
        time.sleep(0.5)
        os.kill(child.pid, signal.SIGSTOP)
        time.sleep(0.5)
        connection.sendall(b"250 ok\r\n")
        time.sleep(6.5)
        os.kill(child.pid, signal.SIGCONT)
        return child.communicate()[0].strip()


seen = {name: answer_of(program) for name, program in READERS.items()}
print(sys.version.split()[0], seen)
line = repr(b"250 ok\r\n")
sys.exit(seen != {"wait_for": f"timeout, in the buffer: {line}", "blocking": line})
PY
