"""Writes the reference page of the api from its OpenAPI document."""

HEAD = """# Reference of the api

<!-- Written by `python3 tests/api/document.py write` from docs/openapi.json. -->

Every route, by subject. [openapi.json](openapi.json) has the parameters, the fields of requests and answers, and examples; a running gateway
serves it as `GET /openapi.json`. [http.md](http.md) and [http-operations.md](http-operations.md) are the guides, and
[problems.md](problems.md) says what each error means.

The tables leave out the statuses that all routes share. They are 401 without a valid token, 403 without the scope, 429 over the rate, and 503
if there is no answer now. A request that is wrong gets 400, 404, 408, 413 or 415.
"""
COMMON = {"400", "401", "403", "404", "408", "413", "415", "429", "503"}


def page(document):
    """The page as text."""
    lines = [HEAD]
    for tag in document["tags"]:
        lines += [f"## {tag['name']}", "", tag["description"], "", "| route | effect | scope | answers |", "|---|---|---|---|"]
        lines += [row(path, method, operation) for path, method, operation in of_tag(document, tag["name"])]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def of_tag(document, tag):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield path, method, operation


def row(path, method, operation):
    statuses = ", ".join(status for status in sorted(operation["responses"]) if status not in COMMON)
    return f"| `{method.upper()} {path}` | {operation['summary']} | `{operation['x-scope']}` | {statuses} |"
