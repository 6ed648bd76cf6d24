"""Uses the client that openapi-generator made for Python."""

import os
import sys

import tidings_client as made

EVENT = {"digest": "activity", "user": "ann", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"}
MAIL = {"to": {"address": "ann@example.net"}, "subject": "Invoice", "text": "12 euros."}

name = sys.argv[1]
configuration = made.Configuration(host=os.environ["TIDINGS_URL"], access_token=os.environ["TIDINGS_TOKEN"])
client = made.ApiClient(configuration)
events, messages = made.EventsApi(client), made.MessagesApi(client)


def post(*items):
    return events.post_events(made.EventsBody.from_dict({"events": [{**EVENT, **item} for item in items]}))


def send(**changed):
    return messages.post_message(made.MessagePost.from_dict({"key": name, **MAIL, **changed}))


def problem(call, *items, **changed):
    try:
        call(*items, **changed)
    except made.ApiException as error:
        print("problem", error.data.status, error.data.type)


results = post({"event_id": name}, {"event_id": name}, {"event_id": "wrong", "user": ""}).results
print("events", *(f"{result.event_id.replace(name, 'e')}:{result.status.value}" for result in results))
problem(post, {"event_id": "wrong", "user": ""})
print("message", send().message.single.key.replace(name, "m"))
problem(send, text="13 euros.")
rows = messages.list_messages().messages
print("listed", *(row.single.key.replace(name, "m") for row in rows if row.single and row.single.key == name))
