"""Types of filters and attributes, for the OpenAPI document; `retrieval` checks their values."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from proxy.api.knowledge.declarations import Closed, must, named

AttributeTexts = Annotated[list[str], Meta(max_length=64), named("AttributeTexts")]
AttributeValue = Annotated[Any, named("AttributeValue", one_of=(str, float, bool, AttributeTexts))]
Attributes = Annotated[
    dict[str, AttributeValue],
    Meta(max_length=16),
    named("Attributes", propertyNames={"pattern": "^[A-Za-z_][A-Za-z0-9_-]{0,63}$"}),
    must('an object of at most 16 names and values, such as {"year": 2024}'),
]
Groups = Annotated[
    list[Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]],
    Meta(max_length=32),
    named("Groups"),
    must(
        "a list of at most 32 names of letters, digits, '.', '_', '@' and '-', "
        "each of at most 64 characters, beginning with a letter or digit"
    ),
]
ComparedTexts = Annotated[list[str], Meta(min_length=1, max_length=100), named("ComparedTexts")]
ComparedNumbers = Annotated[list[float], Meta(min_length=1, max_length=100), named("ComparedNumbers")]
_Inner = Annotated[Any, named("Filter")]


class CompoundFilter(Closed, frozen=True):
    type: Literal["and", "or"]
    filters: Annotated[list[_Inner], Meta(min_length=1, max_length=64)]


class NotFilter(Closed, frozen=True):
    type: Literal["not"]
    filter: _Inner


class ComparisonFilter(Closed, frozen=True):
    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "prefix", "in", "nin"]
    key: str
    value: Annotated[
        Any,
        named(
            "ComparedValue",
            "A list for in and nin, a single value for the other types",
            (str, float, bool, ComparedTexts, ComparedNumbers),
        ),
    ]


Filter = Annotated[
    Any,
    named(
        "Filter",
        "A condition on documents. A key is an attribute, source or modified_at; prefix is for source.",
        (CompoundFilter, NotFilter, ComparisonFilter),
    ),
]
