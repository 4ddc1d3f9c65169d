"""Writes a chat completion as a response, streamed or whole."""

from collections.abc import Mapping
from typing import Any

from proxy.dialects.responses import envelope, item_id, usage_of
from proxy.upstream.bridges.members import Json
from proxy.upstream.bridges.reply_writer import Kind, ReplyWriter
from proxy.upstream.bridges.responses_request import namespaces_of, packed

# Kind -> part type, member with its text, further members of the part, further members of its text events
_PARTS: Mapping[str, tuple[str, str, Json, Json]] = {
    "text": ("output_text", "text", {"annotations": [], "logprobs": []}, {"logprobs": []}),
    "refusal": ("refusal", "refusal", {}, {}),
    "reasoning": ("reasoning_text", "text", {}, {}),
}
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponseWriter(ReplyWriter):
    """Writes one item after another: reasoning, messages and calls."""

    def __init__(self, fields: Mapping[str, Any], *, streamed: bool) -> None:
        """fields: the client's request, which a response repeats."""
        super().__init__(streamed=streamed)
        self._response = {**envelope(fields), "truncation": "disabled"}
        self._namespaces = namespaces_of(fields)
        self._output: list[Json] = []
        self._number = 0
        self._item: Json = {}  # the item being written; empty: none
        self._kind = ""  # of the part or call being written; "": none
        self._pieces: list[str] = []  # of that part or those arguments
        self._unsigned: list[str] = []  # reasoning since the last signature
        self._blocks: list[Json] = []  # signed blocks of this reasoning

    def emit(self, event: Json) -> None:
        super().emit({**event, "sequence_number": self._number})
        self._number += 1

    def begin(self) -> None:
        self.emit({"type": "response.created", "response": self._response})
        self.emit({"type": "response.in_progress", "response": self._response})

    def piece(self, kind: Kind, text: str) -> None:
        """A part or an item of another kind ends first."""
        part_type, member, more, of_text = _PARTS[kind]
        reasons = kind == "reasoning"
        if self._item.get("type") != ("reasoning" if reasons else "message"):
            self._add_item(_reasoning(self._new_id("rs")) if reasons else _message(self._new_id("msg")))
        if self._kind != kind:
            self._end_part()
            self._kind = kind
            part = {"type": part_type, member: "", **more}
            self.emit({"type": "response.content_part.added", **self._place_of_part(), "part": part})
        self._pieces.append(text)
        self._unsigned += [text] if reasons else []
        self.emit({"type": f"response.{part_type}.delta", **self._place_of_part(), "delta": text, **of_text})

    def signed(self, block: Json) -> None:
        """In a stream, a signature comes without its text."""
        if self._item.get("type") != "reasoning":
            self._add_item(_reasoning(self._new_id("rs")))
        text = {"thinking": "".join(self._unsigned)} if block.get("signature") else {}
        self._blocks.append({**block, **text})
        self._unsigned = []

    def begin_call(self, id: str, name: str, *, custom: bool) -> None:
        kind, member = ("custom_tool_call", "input") if custom else ("function_call", "arguments")
        status = {} if custom else {"status": "in_progress"}
        item = {"id": self._new_id("ctc" if custom else "fc"), "type": kind, "call_id": id, "name": name}
        if name in self._namespaces:
            item["namespace"], item["name"] = self._namespaces[name]
        self._add_item({**item, member: "", **status})
        self._kind = "custom_tool_call_input" if custom else "function_call_arguments"

    def arguments(self, piece: str) -> None:
        self._pieces.append(piece)
        self.emit({"type": f"response.{self._kind}.delta", **self._place(), "delta": piece})

    def keep_alive(self) -> None:
        """The API has no event for this: repeat the second one."""
        self.emit({"type": "response.in_progress", "response": self._response})

    def finish(self) -> None:
        reason = _INCOMPLETE.get(self.finish_reason or "")
        self.end_item("incomplete" if reason == "max_output_tokens" else "completed")
        for item in self.further:
            self._add_item(dict(item))
            self.end_item()
        self.whole = {
            **self._response,
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "output": self._output,
            "usage": None if self.usage is None else usage_of(self.usage),
        }
        self.emit({"type": f"response.{self.whole['status']}", "response": self.whole})

    # --- Items and parts

    def _new_id(self, kind: str) -> str:
        return item_id(kind, self._response["id"], len(self._output))

    def _place(self) -> Json:
        return {"item_id": self._item["id"], "output_index": len(self._output) - 1}

    def _place_of_part(self) -> Json:
        return {**self._place(), "content_index": len(self._item["content"])}

    def _end_part(self) -> None:
        if self._kind in _PARTS:
            part_type, member, more, of_text = _PARTS[self._kind]
            text = "".join(self._pieces)
            part = {"type": part_type, member: text, **more}
            self.emit({"type": f"response.{part_type}.done", **self._place_of_part(), member: text, **of_text})
            self.emit({"type": "response.content_part.done", **self._place_of_part(), "part": part})
            self._item["content"].append(part)
        self._kind, self._pieces = "", []

    def _add_item(self, item: Json) -> None:
        self.end_item()
        self._item = item
        self._output.append(item)
        self.emit({"type": "response.output_item.added", "output_index": len(self._output) - 1, "item": item})

    def end_item(self, status: str = "completed") -> None:
        if not self._item:
            return
        if self._kind in _PARTS:
            self._end_part()
        elif self._kind:
            member = self._kind.rpartition("_")[2]
            self._item[member] = "".join(self._pieces)
            name = {"name": self._item["name"]} if member == "arguments" else {}
            done = {"type": f"response.{self._kind}.done", **self._place(), member: self._item[member], **name}
            self.emit(done)
        if self._blocks:
            self._item["encrypted_content"] = packed(self._blocks)
        if "status" in self._item:
            self._item["status"] = status
        self.emit({"type": "response.output_item.done", "output_index": len(self._output) - 1, "item": self._item})
        self._item, self._kind, self._pieces, self._unsigned, self._blocks = {}, "", [], [], []


def _message(id: str) -> Json:
    return {"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []}


def _reasoning(id: str) -> Json:
    return {"id": id, "type": "reasoning", "summary": [], "content": []}
