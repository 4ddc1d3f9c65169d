"""Options to variants, and a variant to what is sent."""

import pytest

from evaluation.answers.records import BenchError, Variant
from evaluation.answers.run.matrix import headers_of, request_of, settings_of, variants
from evaluation.answers.scoring.scored_replies import baselines


def test_every_model_is_asked_raw_once_and_with_each_choice_of_collections() -> None:
    found = variants(["small", "large"], ["rag", "raw"], ["docs", "docs, api"], [])
    assert [one.name for one in found] == [
        "small raw",
        "small rag docs",
        "small rag docs,api",
        "large raw",
        "large rag docs",
        "large rag docs,api",
    ]
    assert found[0] == Variant("small raw", "small", "raw")
    assert found[2].collections == ["docs", "api"]


def test_settings_of_retrieval_make_no_second_raw_variant_and_those_of_the_request_do() -> None:
    found = variants(["m"], ["raw", "rag", "whole"], [], ["k=3", "k=9", "temperature=0,k=9"])
    assert [one.name for one in found] == [
        "m raw",
        "m raw temperature=0",
        "m rag k=3",
        "m rag k=9",
        "m rag temperature=0 k=9",
        "m whole",
        "m whole temperature=0",
    ]


def test_the_same_choice_given_twice_is_one_variant() -> None:
    assert len(variants(["m", "m"], ["raw", "rag"], ["docs", "docs"], ["k=3", "k=3"])) == 2


def test_each_dialect_is_a_variant_with_the_members_that_the_api_requires() -> None:
    found = variants(["m"], ["raw", "rag"], ["docs"], [], ["chat", "responses", "messages"])
    assert [one.name for one in found] == [
        "m raw",
        "m raw dialect=responses",
        "m raw dialect=messages max_tokens=4096",
        "m rag docs",
        "m rag docs dialect=responses",
        "m rag docs dialect=messages max_tokens=4096",
    ]
    assert baselines(found)["m rag docs dialect=responses"] == "m raw dialect=responses"
    (short,) = variants(["m"], ["raw"], [], ["max_tokens=9"], ["messages"])
    assert short.settings == {"max_tokens": 9}
    assert headers_of(short) == {"x-rag": "off", "anthropic-version": "2023-06-01"}


def test_a_value_is_json_or_else_a_text_and_its_commas_are_its_own() -> None:
    text = 'reasoning_effort=low, stop=["a,b", "c"], temperature=0.5,user="x, \\"y",seed=7'
    assert settings_of(text) == {
        "reasoning_effort": "low",
        "stop": ["a,b", "c"],
        "temperature": 0.5,
        "user": 'x, "y',
        "seed": 7,
    }


@pytest.mark.parametrize("text", ["", "k", "k=", "=3", "k=0", "k=101", "k=true", "stream=false", "model=x", "a=1,a=2"])
def test_settings_that_cannot_be_sent_are_refused(text: str) -> None:
    with pytest.raises(BenchError, match="--set"):
        settings_of(text)


@pytest.mark.parametrize(("model", "collection"), [("raw/m", "a"), ("rag/docs/m", "a"), ("", "a"), ("m", "a,,b")])
def test_names_that_are_none_are_refused(model: str, collection: str) -> None:
    with pytest.raises(BenchError):
        variants([model], ["rag"], [collection], [])


def test_a_request_says_what_its_variant_is() -> None:
    messages = [{"role": "user", "content": "Why?"}]
    raw, rag = variants(["m"], ["raw", "rag"], [], ["k=3,temperature=0"])
    bare = Variant("m rag", "m", "rag", ["a"])
    assert request_of(raw, messages, usage=False) == {
        "model": "m",
        "messages": messages,
        "temperature": 0,
        "stream": True,
    }
    asked = request_of(rag, messages, usage=True)
    assert (asked["rag"], asked["temperature"]) == ({"enabled": True, "k": 3}, 0)
    assert asked["stream_options"] == {"include_usage": True}
    assert request_of(bare, messages, usage=True)["rag"] == {"enabled": True, "collections": ["a"]}
    assert (headers_of(raw), headers_of(rag)) == ({"x-rag": "off"}, {"x-rag": "on"})
