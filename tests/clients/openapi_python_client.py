"""Uses the client that openapi-python-client made."""

import os
import sys

from tidings_client import AuthenticatedClient
from tidings_client.api.events import post_events
from tidings_client.api.messages import list_messages, post_message
from tidings_client.models import EventsBody, MessagePost

EVENT = {"digest": "activity", "user": "ann", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"}
MAIL = {"to": {"address": "ann@example.net"}, "subject": "Invoice", "text": "12 euros."}

client = AuthenticatedClient(base_url=os.environ["TIDINGS_URL"], token=os.environ["TIDINGS_TOKEN"])


def post(*events):
    body = EventsBody.from_dict({"events": [{**EVENT, **event} for event in events]})
    return post_events.sync(client=client, body=body)


name = sys.argv[1]
results = post({"event_id": name}, {"event_id": name}, {"event_id": "wrong", "user": ""}).results
print("events", *(f"{result.event_id.replace(name, 'e')}:{result.status.value}" for result in results))
refused = post({"event_id": "wrong", "user": ""})
print("problem", refused.status, refused.type_)
message = post_message.sync(client=client, body=MessagePost.from_dict({"key": name, **MAIL}))
print("message", message.message.single.key.replace(name, "m"))
again = post_message.sync(client=client, body=MessagePost.from_dict({"key": name, **MAIL, "text": "13 euros."}))
print("problem", again.status, again.type_)
rows = list_messages.sync(client=client).messages
print("listed", *(row.single.key.replace(name, "m") for row in rows if row.single and row.single.key == name))
