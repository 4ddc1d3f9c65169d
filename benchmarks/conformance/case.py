"""A case of the conformance table, and the parts that cases share."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.conformance.judge import Judge
from benchmarks.conformance.wire import Pairs, Script

KEY = b"sk-of-the-upstream"
QUESTION = "How do I connect to the Zephyr server with TLS?"
TRAP = "TRAP_PORT"  # in a body or a header: the port of a server that no lane should call

Group = Literal["request", "reply", "stream", "fault", "provider", "dialect"]
Leave = Literal["", "before the first byte", "within the stream"]
FIRST_WORD = b"alpha"  # received by a client before the client leaves the stream


@dataclass(frozen=True, slots=True)
class Case:
    """One row. Each script is one exchange; the cell is the judge's result for all exchanges."""

    group: Group
    name: str
    body: bytes
    judge: Judge
    scripts: Sequence[Script]
    headers: Pairs = ()
    rag: bool = False  # our lanes retrieve
    leave: Leave = ""  # when the client leaves
    target: bytes = b"/v1/chat/completions"
    relayed: bool = True  # False: the upstream's dialect needs translation, which a relay does not do
    of_ours: bool = False  # True: a feature that only ragway has
    only_last: bool = False  # all scripts before the last prepare the last

    @property
    def title(self) -> str:
        """Group and name: unique."""
        return f"{self.group}: {self.name}"


def chat(extra: str, *, messages: str = "", model: str = "gpt-4o", first: str = "") -> bytes:
    """A compact chat body; `extra` is the text of more members, without a leading comma."""
    asked = messages or f'[{{"role":"user","content":{json.dumps(QUESTION)}}}]'
    more = f",{extra}" if extra else ""
    return f'{{{first}"model":"{model}","messages":{asked}{more}}}'.encode()


USAGE = ',"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}'


def completion(choices: str, more: str = USAGE) -> bytes:
    """A whole reply of an OpenAI-dialect upstream; `more` is the text of further members, with a leading comma."""
    head = '"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"gpt-4o-2024-08-06"'
    return f'{{{head},"choices":[{choices}]{more}}}'.encode()


def choice(message: str, finish: str = "stop", more: str = ',"logprobs":null', index: int = 0) -> str:
    """A choice of a whole reply; `message` is the text of the members after the role."""
    reason = f'"finish_reason":"{finish}"'
    return f'{{"index":{index},"message":{{"role":"assistant",{message}}},{reason}{more}}}'


COMPLETION = completion(choice('"content":"Yes.","refusal":null'), f'{USAGE},"system_fingerprint":"fp_1"')
