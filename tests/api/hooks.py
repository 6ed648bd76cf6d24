"""What schemathesis cannot do by itself: it sends lines of NDJSON as the text that the document's schema makes."""

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(_, value):
    return {"data": value.encode("utf-8", "surrogatepass") if isinstance(value, str) else str(value).encode()}
