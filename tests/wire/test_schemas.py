"""Foreign schemas become such as every provider takes, and mean the same (R26)."""

import pytest

from harness_nb.providers.schemas import accepted

NONE = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "schema", [{"type": "object"}, {}, {"type": "object", "properties": None}, {"type": ["null", "object"]}]
)
def test_an_object_without_properties_gets_none(schema):
    assert accepted(schema) == NONE


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": ["string", "null"]}, "x", None, True, 3])
def test_what_is_no_object_is_not_accepted(schema):
    assert accepted(schema) is None


def prop(schema, **more):
    return accepted({"type": "object", "properties": {"x": schema}, **more})["properties"]["x"]


def test_references_stay_where_there_is_something_to_point_to():
    assert prop({"$ref": "#/$defs/F"}, **{"$defs": {"F": {"type": "string"}}}) == {"$ref": "#/$defs/F"}
    assert prop({"$ref": "#/properties/x"}) == {"$ref": "#/properties/x"}
    assert prop({"$ref": "#/$defs/F", "description": "d"}) == {"description": "d"}
    assert prop({"$ref": "https://example.org/x.json"}) == {}


def test_arrays_say_what_they_hold():
    assert prop({"type": "array"}) == {"type": "array", "items": {}}
    assert prop({"type": ["array", "null"]})["items"] == {}
    assert prop({"type": "array", "items": {"type": "array"}})["items"]["items"] == {}
    assert prop({"anyOf": [{"type": "array"}]})["anyOf"][0]["items"] == {}


def test_the_rest_stays_as_it_is():
    kept = {"enum": [1, 2], "x-order": 3, "const": 1, "type": ["null", "integer"], "format": "int64"}
    assert prop(kept) == kept


def test_parameters_may_be_called_like_keywords():
    named = {
        "type": "object",
        "properties": {"$ref": {"type": "string"}, "items": {"type": "array"}, "anyOf": {}},
    }
    assert accepted(named)["properties"] == {**named["properties"], "items": {"type": "array", "items": {}}}


def test_a_choice_at_the_top_becomes_one_object():
    one, two = (
        {"type": "object", "properties": {k: {"type": "string"}, "both": {}}, "required": [k, "both"]}
        for k in "ab"
    )
    for key in ("anyOf", "oneOf"):
        made = accepted({"type": "object", key: [one, {"$ref": "#/$defs/two"}], "$defs": {"two": two}})
        assert set(made["properties"]) == {"a", "b", "both"}
        assert made["required"] == ["both"]
        assert key not in made
    assert set(accepted({"allOf": [one, two]})["required"]) == {"a", "b", "both"}


def test_a_choice_of_types_for_one_name_stays_a_choice():
    made = accepted({"anyOf": [{"properties": {"x": {"type": t}}} for t in ("string", "integer")]})
    assert made["properties"]["x"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}


def test_a_schema_made_of_itself_ends():
    assert accepted({"$ref": "#"})["type"] == "object"
    assert accepted({"allOf": [{"$ref": "#"}], "properties": {"x": {}}})["properties"] == {"x": {}}
