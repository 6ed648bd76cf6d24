"""Finds changes of an OpenAPI document that break callers."""

METHODS = ("get", "put", "post", "delete", "patch")


def resolved(document, value):
    """The value, or the part of the document that it refers to."""
    while "$ref" in value:
        part = document
        for name in value["$ref"].removeprefix("#/").split("/"):
            part = part[name]
        value = part
    return value


def types(schema):
    """The types of a schema as a set; an empty one takes any."""
    named = schema.get("type", [])
    return {named} if isinstance(named, str) else set(named)


def scope(operation):
    """The scope that a route needs. A document before x-scope has it in the security requirement alone."""
    return operation["x-scope"] if "x-scope" in operation else operation["security"][0]["token"][0]


class Comparison:
    """Two documents, and the schemas that were compared."""

    def __init__(self, old, new):
        self.old, self.new, self.seen = old, new, set()

    def all(self):
        """A sentence for each break."""
        for path, methods in self.old["paths"].items():
            for method in METHODS:
                if method not in methods:
                    continue
                where = f"{method.upper()} {path}"
                if method not in self.new["paths"].get(path, {}):
                    yield f"{where} is gone"
                else:
                    yield from self.operation(where, methods[method], self.new["paths"][path][method])

    def operation(self, where, old, new):
        if scope(old) != scope(new):
            yield f"{where} needs another scope"
        if old["operationId"] != new["operationId"]:
            yield f"{where} has another operationId"
        yield from self.parameters(where, old, new)
        yield from self.contents(where, old.get("requestBody", {}), new.get("requestBody", {}), True)
        if "requestBody" in new and "requestBody" not in old:
            yield f"{where} needs a body"
        for status, answer in old["responses"].items():
            if status not in new["responses"]:
                if status < "300":
                    yield f"{where} no longer answers {status}"
                continue
            answers = resolved(self.old, answer), resolved(self.new, new["responses"][status])
            for header in answers[0].get("headers", {}):
                if header not in answers[1].get("headers", {}):
                    yield f"{where} {status} has no header {header}"
            yield from self.contents(f"{where} {status}", *answers, False)

    def parameters(self, where, old, new):
        def by_name(document, operation):
            every = (resolved(document, parameter) for parameter in operation.get("parameters", []))
            return {(parameter["in"], parameter["name"]): parameter for parameter in every}

        before, after = by_name(self.old, old), by_name(self.new, new)
        for key, parameter in before.items():
            if key not in after:
                yield f"{where} has no parameter {key[1]}"
                continue
            yield from self.schema(f"{where} {key[1]}", parameter["schema"], after[key]["schema"], True)
        for key, parameter in after.items():
            if parameter.get("required") and not before.get(key, {}).get("required"):
                yield f"{where} needs the parameter {key[1]}"

    def contents(self, where, old, new, is_request):
        for kind, content in old.get("content", {}).items():
            if kind not in new.get("content", {}):
                yield f"{where} has no {kind}"
            else:
                yield from self.schema(where, content["schema"], new["content"][kind]["schema"], is_request)

    def schema(self, where, old, new, is_request):
        if "$ref" in old and "$ref" in new:
            pair = old["$ref"], new["$ref"], is_request
            if pair in self.seen:
                return
            self.seen.add(pair)
            where = f"{where}: {old['$ref'].rsplit('/', 1)[1]}"
        old, new = resolved(self.old, old), resolved(self.new, new)
        before, after = types(old), types(new)
        sent, taken = (before, after) if is_request else (after, before)
        if taken and (not sent or not sent <= taken):
            yield f"{where} is {' or '.join(sorted(after)) or 'anything'} and was {' or '.join(sorted(before)) or 'anything'}"
        for value in old.get("enum", []):
            if "enum" in new and value not in new["enum"]:
                yield f"{where} has no value {value}"
        if is_request and "enum" in new and "enum" not in old:
            yield f"{where} takes only some values"
        yield from self.fields(where, old, new, is_request)
        for name in ("items", "additionalProperties"):
            if isinstance(old.get(name), dict) and isinstance(new.get(name), dict):
                yield from self.schema(f"{where}[]", old[name], new[name], is_request)
        for name in ("oneOf", "anyOf", "allOf"):
            if name in old:
                if len(new.get(name, [])) < len(old[name]):
                    yield f"{where} has fewer shapes"
                for part, other in zip(old[name], new.get(name, [])):
                    yield from self.schema(where, part, other, is_request)

    def fields(self, where, old, new, is_request):
        before, after = old.get("properties", {}), new.get("properties", {})
        for field, schema in before.items():
            if field not in after:
                yield f"{where} has no field {field}"
            else:
                yield from self.schema(f"{where}.{field}", schema, after[field], is_request)
        required, required_now = set(old.get("required", [])), set(new.get("required", []))
        changed = required_now - required if is_request else required - required_now
        for field in sorted(changed & (set(after) if is_request else set(before) & set(after))):
            yield f"{where} {'needs' if is_request else 'may lack'} the field {field}"


def breaks(old, new):
    """The changes from one document to another that break callers, each as a sentence."""
    return list(dict.fromkeys(Comparison(old, new).all()))
