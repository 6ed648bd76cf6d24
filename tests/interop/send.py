"""Sends one event and one retract in every way that Python has, each to a key of its own, and prints the users of these
keys.

usage: send.py ADDRESS PROTO_FOLDER    (needs temporalio and grpcio-tools)
"""

import asyncio
import importlib
import os
import sys
import tempfile
from pathlib import Path

import grpc_tools
from google.protobuf import json_format
from grpc_tools import protoc
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.converter import BinaryProtoPayloadConverter, CompositePayloadConverter, DataConverter

EVENT = {
    "tenant": "acme",
    "digest": "activity",
    "event_id": "event-1",
    "category": "comment",
    "entity_type": "document",
    "entity_id": "42",
    "actor": "Ann",
    "occurred_at": "2026-01-31T08:00:00.5Z",
    "counts": {"critical": 2},
    "urgent": True,
    "payload": {"title": "Plan <1>", "url": "https://example.com/42", "rank": 3},
}

RETRACT = {
    "category": "comment",
    "entity_type": "document",
    "entity_id": "42",
    "occurred_at": "2026-01-31T08:00:00.5Z",
}


class BinaryOnly(CompositePayloadConverter):
    def __init__(self):
        super().__init__(BinaryProtoPayloadConverter())


def messages(folder):
    with tempfile.TemporaryDirectory() as out:
        well_known = Path(grpc_tools.__file__).parent / "_proto"
        status = protoc.main(["", f"-I{folder}", f"-I{well_known}", f"--python_out={out}", "tidings/v1/event.proto"])
        assert status == 0, "protoc failed"
        sys.path.insert(0, out)
        return importlib.import_module("tidings.v1.event_pb2")


async def send(client, user, content):
    await client.start_workflow(
        "digest",
        id=f"digest/acme/activity/{user}",
        task_queue="tidings",
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal="events",
        start_signal_args=[content],
    )
    print(user)


async def main(address, folder):
    pb = messages(folder)
    client = await Client.connect(address)
    binary = await Client.connect(address, data_converter=DataConverter(payload_converter_class=BinaryOnly))

    def plain(user):
        return {**EVENT, "user": user}

    def message(user):
        return json_format.ParseDict(plain(user), pb.Event())

    retract = json_format.ParseDict(RETRACT, pb.Retract())

    await send(client, "plain-event", plain("plain-event"))
    await send(client, "plain-list", [plain("plain-list")])
    await send(client, "plain-batch", {"events": [plain("plain-batch")]})
    await send(client, "plain-without-key", {k: v for k, v in EVENT.items() if k not in ("tenant", "digest")})
    await send(client, "json-event", message("json-event"))
    await send(client, "json-batch", pb.EventBatch(events=[message("json-batch")]))
    await send(binary, "binary-event", message("binary-event"))
    await send(binary, "binary-batch", pb.EventBatch(events=[message("binary-batch")]))

    await send(client, "retract-plain", {"retracts": [RETRACT]})
    await send(client, "retract-json", retract)
    await send(client, "retract-json-batch", pb.EventBatch(retracts=[retract]))
    await send(binary, "retract-binary", retract)
    await send(binary, "retract-binary-batch", pb.EventBatch(retracts=[retract]))


asyncio.run(main(*sys.argv[1:]))
# temporalio's native threads may still run when the interpreter ends, and one run in ten crashes then.
sys.stdout.flush()
os._exit(0)
