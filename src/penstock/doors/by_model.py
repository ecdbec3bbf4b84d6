"""Describes a body that names its model, for the document at /openapi.json: models that are asked in the same way
share a schema. Doors for other servers' clients call it when they describe themselves."""

from collections.abc import Callable, Sequence

from penstock.doors.openapi_parts import Offer, Part, object_of

# Returns the properties that a body has besides `model`, and the names of those that it must have. It is given the
# kind of input that a model takes, and the names of its parameters: none if empty, any if None.
Describe = Callable[[str, Sequence[str] | None], tuple[Part, Sequence[str]]]


def body_by_model(offer: Offer, describe: Describe) -> Part:
    alike: dict[tuple[str, Sequence[str] | None], list[str]] = {}
    for name, kind in sorted(offer.models.items(), key=lambda item: item[1]):
        taken = offer.parameters.get(name)
        alike.setdefault((kind, None if taken is None else tuple(taken)), []).append(name)
    bodies = [_body(offer, names, *describe(kind, taken)) for (kind, taken), names in alike.items()]
    return bodies[0] if len(bodies) == 1 else {"anyOf": bodies}


def _body(offer: Offer, names: list[str], properties: Part, needed: Sequence[str]) -> Part:
    required = offer.default not in names
    model: Part = {"description": "Which model.", "enum": names if required else [*names, None]}
    always = {*needed, "model"} if required else {*needed}
    whole = {**properties, "model": model}
    return object_of(whole, optional=[name for name in whole if name not in always])
