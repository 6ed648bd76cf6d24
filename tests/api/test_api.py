"""Tests of the check for breaking changes, and of the reference page."""

import copy
import unittest

from breaking import breaks
from reference import page

DOCUMENT = {
    "tags": [{"name": "Things", "description": "Things."}],
    "paths": {
        "/v1/things": {
            "post": {
                "operationId": "postThing",
                "tags": ["Things"],
                "summary": "Adds a thing",
                "x-scope": "things:write",
                "parameters": [{"$ref": "#/components/parameters/Kind"}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
                "responses": {
                    "201": {
                        "headers": {"Location": {}},
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}},
                    },
                    "409": {"$ref": "#/components/responses/Conflict"},
                },
            }
        }
    },
    "components": {
        "parameters": {"Kind": {"name": "kind", "in": "query", "schema": {"type": "string", "enum": ["a", "b"]}}},
        "responses": {"Conflict": {"description": "A problem."}},
        "schemas": {
            "Thing": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "parts": {"type": "array", "items": {"type": "string"}}},
            }
        },
    },
}


def changed(change):
    """The breaks of a change."""
    new = copy.deepcopy(DOCUMENT)
    change(new, new["paths"]["/v1/things"]["post"], new["components"]["schemas"]["Thing"])
    return breaks(DOCUMENT, new)


class Breaking(unittest.TestCase):
    def test_additions_break_nothing(self):
        def add(document, operation, thing):
            document["paths"]["/v1/others"] = {"get": operation}
            thing["properties"]["more"] = {"type": "string"}
            operation["parameters"].append({"name": "x", "in": "query", "schema": {"type": "string"}})
            operation["responses"]["200"] = {}
            document["components"]["parameters"]["Kind"]["schema"]["enum"].append("c")

        self.assertEqual(changed(lambda *_: None), [])
        self.assertEqual(changed(add), [])

    def test_a_scope_in_the_security_requirement_is_the_same_scope(self):
        old = copy.deepcopy(DOCUMENT)
        post = old["paths"]["/v1/things"]["post"]
        del post["x-scope"]
        post["security"] = [{"token": ["things:write"]}]
        self.assertEqual(breaks(old, DOCUMENT), [])
        post["security"] = [{"token": ["things:read"]}]
        self.assertEqual(breaks(old, DOCUMENT), ["POST /v1/things needs another scope"])

    def test_each_kind_of_break_is_found(self):
        def kind(document):
            return document["components"]["parameters"]["Kind"]

        post = "POST /v1/things"
        for change, expected in [
            (lambda document, *_: document["paths"].clear(), [f"{post} is gone"]),
            (lambda _, operation, __: operation.update({"x-scope": "things:read"}), [f"{post} needs another scope"]),
            (lambda _, operation, __: operation["parameters"].clear(), [f"{post} has no parameter kind"]),
            (lambda document, *_: kind(document).update(required=True), [f"{post} needs the parameter kind"]),
            (lambda document, *_: kind(document)["schema"]["enum"].remove("a"), [f"{post} kind has no value a"]),
            (lambda _, operation, __: operation["responses"].pop("201"), [f"{post} no longer answers 201"]),
            (lambda _, operation, __: operation["responses"]["201"].pop("headers"), [f"{post} 201 has no header Location"]),
            (
                lambda *parts: parts[2]["required"].append("parts"),
                [f"{post}: Thing needs the field parts"],
            ),
            (lambda *parts: parts[2]["required"].clear(), [f"{post} 201: Thing may lack the field name"]),
            (
                lambda *parts: parts[2]["properties"].pop("parts"),
                [f"{post}: Thing has no field parts", f"{post} 201: Thing has no field parts"],
            ),
            (
                lambda *parts: parts[2]["properties"]["parts"]["items"].update(type="integer"),
                [
                    f"{post}: Thing.parts[] is integer and was string",
                    f"{post} 201: Thing.parts[] is integer and was string",
                ],
            ),
            (
                lambda *parts: parts[2]["properties"]["name"].update(type=["string", "null"]),
                [f"{post} 201: Thing.name is null or string and was string"],
            ),
        ]:
            self.assertEqual(changed(change), expected)


class Reference(unittest.TestCase):
    def test_a_route_is_a_row_of_its_subject(self):
        row = "| `POST /v1/things` | Adds a thing | `things:write` | 201, 409 |"
        self.assertIn(f"## Things\n\nThings.\n\n| route | effect | scope | answers |\n|---|---|---|---|\n{row}\n", page(DOCUMENT))


if __name__ == "__main__":
    unittest.main()
