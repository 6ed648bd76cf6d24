#!/usr/bin/env python3
"""Explores the api with schemathesis: random requests by the OpenAPI document, alone and in sequences.

usage: explore.py [--outages] TIDINGS PACKAGES SECONDS [CLUSTER DATABASE_URL]

Runs the program TIDINGS as a worker and a gateway with a Temporal server (TEMPORAL_CLI) in a folder of its own. The store is an empty database of
PostgreSQL at DATABASE_URL, whose CLUSTER `./dev` made, or else SQLite. No relay answers. PACKAGES is the folder of schemathesis. With --outages the
store and Temporal go away and come back every few seconds, and 503 is an answer. The exit code is 1 if a check fails.
"""

import os
import pathlib
import secrets
import subprocess
import sys
import tempfile

from outages import Outages
from running import Postgres, Sqlite, Tidings

HERE = pathlib.Path(__file__).parent
# While parts are away, a 503 is right, also for a token that cannot be looked up, and before a method or a missing header is judged.
# Any other 5xx is not in the document. A thing that was made may be out of reach.
NOT_IN_OUTAGES = (
    "not_a_server_error,use_after_free,ensure_resource_availability,ignored_auth,missing_required_header,unsupported_method"
)


def explore(tidings, packages, seconds, *options):
    """The exit code of schemathesis."""
    command = [sys.executable, f"{packages}/bin/st", "--config-file", str(HERE / "schemathesis.toml")]
    command += ["run", f"{tidings.url}/openapi.json", "--url", tidings.url, "--max-time", seconds, "--continue-on-failure"]
    # The gateway answers within 14 seconds.
    command += ["--request-timeout", "30"]
    command += ["--header", f"Authorization: Bearer {tidings.token('acme')}", *options]
    environment = {**os.environ, "PYTHONPATH": packages, "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py")}
    return subprocess.run(command, cwd=tidings.folder, env=environment, check=False).returncode


def with_outages(tidings, packages, seconds):
    seed = secrets.randbits(32)
    print(f"seed of the outages: {seed}")
    outages = Outages(tidings, seed)
    with outages:
        code = explore(tidings, packages, seconds, "--exclude-checks", NOT_IN_OUTAGES)
    faults = outages.verdict()
    print("\n".join([outages.summary(), *faults]))
    return code or bool(faults)


def main(program, packages, seconds, cluster=None, url=None, with_them=False):
    program, packages = str(pathlib.Path(program).resolve()), str(pathlib.Path(packages).resolve())
    with tempfile.TemporaryDirectory(prefix="tidings.") as folder:
        store = Postgres(cluster, url) if cluster else Sqlite(pathlib.Path(folder) / "tidings.db")
        with Tidings(program, folder, store) as tidings:
            code = (with_outages if with_them else explore)(tidings, packages, seconds)
            if code:
                print(tidings.log())
    sys.exit(bool(code))


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--outages"]
    if len(arguments) not in (3, 5):
        sys.exit(__doc__)
    main(*arguments, with_them="--outages" in sys.argv)
