"""Effects: for an operation that changes something, a read that shows the change, and a call that undoes it.

A document says neither, but its paths and names do:

    PUT, PATCH, DELETE /orders/{id}   GET /orders/{id}; undone by the values read before
    POST /orders                      GET /orders before, GET /orders/{id} of the result after; undone by DELETE
    POST /orders/{id}/cancel          GET /orders/{id}
    deleteOrder, order.archive        getOrder, order.info: the same words with a reading verb
    start, stop; star, unstar …       each undoes the other

A read is proposed only if its effect is "reads" and its required arguments follow from those of the write (or, for what
was created, from its result). An undo is an offer: the call is shown and confirmed like every other write.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from proxy.apis.openapi.operation import (
    FORM,
    Effects,
    LinkedCall,
    Operation,
    Parameter,
    ValueSource,
    bare_type,
    is_json,
)
from proxy.apis.openapi.producers import singular
from proxy.apis.search_text import words_of

Words = tuple[str, ...]

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_CUSTOM_METHOD = re.compile(r"(.*\}):(\w+)")  # /v1/{name}:cancel
_VERSION = re.compile(r"|v?\d[\w.]*|api|rest", re.IGNORECASE)
_MOST_ALIKE = 50  # operations with the same nouns, or below the same path: each is compared with each
_MOST_UP = 2  # segments from a write up to a read of what is around it
_GETTING = (
    "get",
    "show",
    "info",
    "describe",
    "retrieve",
    "read",
    "fetch",
    "view",
    "detail",
    "find",
    "lookup",
    "status",
)
_LISTING = ("list", "index", "all", "search", "query")
_CREATING = frozenset({"create", "add", "insert", "new", "post", "register"})
_DELETING = frozenset({"delete", "remove", "destroy", "deregister", "unregister", "del", "drop"})
_CHANGING = frozenset(
    "update edit modify set change patch replace put save upsert rename move cancel refund close reopen send resend "
    "pay approve reject confirm complete finish submit accept decline verify reset restart reboot retry run trigger "
    "transfer capture void ship return merge extend renew upgrade downgrade scale resize reserve release promote "
    "clear demote invite share copy clone import export upload sync refresh rotate revoke test validate".split()
)
_OPPOSITES = (
    ("add", "remove"), ("start", "stop"), ("enable", "disable"), ("lock", "unlock"), ("archive", "unarchive"),
    ("publish", "unpublish"), ("subscribe", "unsubscribe"), ("follow", "unfollow"), ("like", "unlike"),
    ("star", "unstar"), ("pause", "resume"), ("pause", "unpause"), ("open", "close"), ("reopen", "close"),
    ("attach", "detach"), ("assign", "unassign"), ("grant", "revoke"), ("activate", "deactivate"),
    ("suspend", "unsuspend"), ("suspend", "resume"), ("suspend", "reactivate"), ("block", "unblock"),
    ("mute", "unmute"), ("hide", "unhide"), ("pin", "unpin"), ("join", "leave"), ("mark", "unmark"),
    ("register", "deregister"), ("register", "unregister"), ("associate", "disassociate"), ("link", "unlink"),
    ("tag", "untag"), ("connect", "disconnect"), ("bookmark", "unbookmark"), ("favorite", "unfavorite"),
    ("hold", "unhold"), ("freeze", "unfreeze"), ("map", "unmap"), ("mount", "unmount"), ("ban", "unban"),
    ("deprecate", "undeprecate"), ("trash", "untrash"), ("delete", "undelete"), ("delete", "restore"),
    ("bind", "unbind"), ("install", "uninstall"), ("check", "uncheck"), ("close", "reopen"), ("share", "unshare"),
    ("upvote", "unvote"), ("watch", "unwatch"), ("arm", "disarm"), ("allow", "disallow"), ("show", "hide"),
)  # fmt: skip
_UNDOING: Mapping[str, Sequence[str]] = {
    word: tuple(dict.fromkeys([b for a, b in _OPPOSITES if a == word] + [a for a, b in _OPPOSITES if b == word]))
    for word in {one for pair in _OPPOSITES for one in pair}
}
_VERBS = frozenset({*_GETTING, *_LISTING, *_CREATING, *_DELETING, *_CHANGING, *_UNDOING})
_NO_NOUN = re.compile(r"by|id|the|a|an|of|for|to|v|\d+|api|controller|using|post|put|patch|method|action|request|new")
# What an answer contains and how it is written.
_SHAPING = re.compile(
    r"fields?|callback|alt|include\w*|expand\w*|format|pretty\w*|embed|select|view|limit|page\w*|offset|sort\w*|force"
)
_IDENTIFYING = (
    "id",
    "uuid",
    "guid",
    "_id",
    "key",
    "slug",
    "name",
    "code",
    "number",
    "sid",
    "gid",
    "uid",
    "arn",
    "href",
)
_AROUND = ("data", "result", "results", "item", "response", "object", "attributes", "properties", "metadata")


def with_effects(operations: Sequence[Operation]) -> list[Operation]:
    """A document's operations; those that change something with their effects."""
    document = _Document(operations)
    return [
        msgspec.structs.replace(one, effects=found)
        if one.effect == "changes" and (found := document.effects_of(one)) != Effects()
        else one
        for one in operations
    ]


def read_arguments(
    link: LinkedCall, arguments: Mapping[str, Any], result: Any = None, location: str = ""
) -> dict[str, Any] | None:
    """Arguments for a read, or for the call that undoes; None: a value is not known (yet).

    arguments: the write's, as the model gave them. result: its response as JSON. location: that response's header. A
    fixed argument of the write is not among them and is left out: the set fixes it in the read, too.
    """
    made = dict[str, Any]()
    for name, source in link.arguments.items():
        if source.origin == "result":
            value = _identifier(result, source.path, location)
            if value is None:
                return None
        elif source.origin == "arguments":
            value = _within(arguments, source.path)
        else:
            continue
        if value is not None:
            made[name] = value
    return made


def undo_arguments(
    operation: Operation,
    link: LinkedCall,
    arguments: Mapping[str, Any],
    before: Any,
    result: Any = None,
    location: str = "",
) -> dict[str, Any] | None:
    """Arguments for the call that undoes a write; None: it cannot be undone so.

    before: the whole JSON that `Effects.read` gave before the write. operation: the link's.
    """
    made = read_arguments(link, arguments, result, location)
    source = next(((name, one) for name, one in link.arguments.items() if one.origin == "before"), None)
    if made is None or source is None:
        return made
    name, _ = source
    state = _item(before)
    wanted = _members_of(operation, name)
    given = arguments.get(name)
    if link.how == "restore" and operation.method != "PUT":
        wanted = list(given) if isinstance(given, Mapping) else []
        if not all(one in state for one in wanted):
            return None  # a member that did not exist cannot be removed by naming it
    values = {one: state[one] for one in wanted if one in state}
    return {**made, name: values} if values else None


class _Document:
    """A document's operations, by path and by words in their names."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._by_path: dict[tuple[str, ...], dict[str, Operation]] = defaultdict(dict)
        self._by_noun: dict[Words, list[tuple[str, Operation]]] = defaultdict(list)
        self._below: dict[tuple[str, ...], list[Operation]] = defaultdict(list)
        for one in operations:
            path = _plain(one)
            self._by_path[path].setdefault(one.method, one)
            if path and path[-1] == "{}" and len(self._below[path[:-1]]) < _MOST_ALIKE:
                self._below[path[:-1]].append(one)
            if (spoken := _spoken(one)) and len(self._by_noun[spoken[1]]) < _MOST_ALIKE:
                self._by_noun[spoken[1]].append((spoken[0], one))

    def effects_of(self, write: Operation) -> Effects:
        read = next(self._reads(write), None)
        created = self._created(write, self._items(write, "GET"), _GETTING, "created")
        if read is None and created is None:
            read = next(self._reads_by_name(write), None)
        return Effects(read, created, self._undo(write, read))

    def _reads(self, write: Operation) -> Iterator[LinkedCall]:
        """Reads found by path, best first."""
        path = _plain(write)
        same = self._by_path[path].get("GET") if path in self._by_path else None
        if same is not None and (found := _link(same, write, "same")):
            yield found
        custom = _CUSTOM_METHOD.fullmatch(path[-1]) if path else None
        if custom:
            path = (*path[:-1], custom[1])
        elif path and path[-2:-1] == ("actions",):
            path = (*path[:-2], path[-1])
        elif write.method == "POST" and path[-1] != "{}" and not _is_action(path):
            return  # a list that an element is added to rarely shows it
        for up in range(0 if custom else 1, _MOST_UP + 1):
            around = path[: len(path) - up]
            if not around or all(_VERSION.fullmatch(one) for one in around):
                return
            one = self._by_path[around].get("GET") if around in self._by_path else None
            if up > 1 and "{}" not in path[len(path) - up]:
                return  # two segments of words away
            how = "list" if path[len(path) - up :][:1] == ("{}",) else "parent"
            if one is not None and (found := _link(one, write, how)):
                yield found

    def _reads_by_name(self, write: Operation) -> Iterator[LinkedCall]:
        spoken = _spoken(write)
        if spoken is None:
            return
        named = [(verb, one) for verb, one in self._by_noun[spoken[1]] if one.method == "GET" and one is not write]
        for verbs in (_GETTING, _LISTING):
            for verb, one in named:
                found = _link(one, write, "name") if verb in verbs else None
                if found and (found.arguments or verb in _LISTING):
                    yield found

    def _items(self, write: Operation, method: str) -> list[Operation]:
        """Operations on an element of the list that a POST adds to."""
        if write.method != "POST":
            return []
        found = (
            [one for one in self._below[_plain(write)] if one.method == method] if _plain(write) in self._below else []
        )
        return found if len(found) == 1 else []

    def _created(
        self, write: Operation, items: Sequence[Operation], verbs: Iterable[str], how: Any
    ) -> LinkedCall | None:
        """An operation on what the write created, with its identifier from the result."""
        spoken = _spoken(write)
        candidates = list(items)
        if not candidates and spoken and spoken[0] in _CREATING:
            method = {"created": "GET"}.get(how)
            candidates = [
                one for verb, one in self._by_noun[spoken[1]] if verb in verbs and (not method or one.method == method)
            ]
        found = (_link(one, write, how, created=True) for one in candidates)
        return next(filter(None, found), None)

    def _undo(self, write: Operation, read: LinkedCall | None) -> LinkedCall | None:
        path = _plain(write)
        here = self._by_path[path]
        restores = read is not None and read.how == "same"
        if found := self._opposite(write):
            return found
        if write.method == "DELETE":
            return self._undo_deletion(write, here, restores=restores)
        if write.method in ("PUT", "POST") and write.body is None and path[-1:] != ("{}",):
            other = here.get("DELETE")
            if other is not None and (found := _link(other, write, "opposite")):
                return found
        on_item = path[-1:] == ("{}",) and not any(one.method == "GET" for one in self._below.get(path, ()))
        if write.method in ("PUT", "PATCH") or (write.method == "POST" and on_item):
            return _restoring(write, write, "restore") if restores and not _only_creates(write) else None
        return self._created(write, self._items(write, "DELETE"), _DELETING, "delete")

    def _undo_deletion(self, write: Operation, here: Mapping[str, Operation], *, restores: bool) -> LinkedCall | None:
        path = _plain(write)
        for method in ("PUT", "POST"):
            other = here.get(method)
            if other is not None and other.body is None and (found := _link(other, write, "opposite")):
                return found
        if not restores or path[-1:] != ("{}",):
            return None
        adding = self._by_path[path[:-1]].get("POST") if path[:-1] in self._by_path else None
        putting = here.get("PUT")
        if putting is not None and (_changes_only(putting) or _ends_with_identifier(putting)):
            putting = None  # if the API assigns identifiers, PUT changes what exists
        other = adding or putting
        return _restoring(other, write, "recreate") if other is not None else None

    def _opposite(self, write: Operation) -> LinkedCall | None:
        """The operation with the opposite verb, in its path's last segment or its name."""
        path = _plain(write)
        words = tuple(words_of(path[-1]).split()) if path and "{}" not in path[-1] else ()
        for at, word in enumerate(words):
            for other in _UNDOING.get(word, ()):
                wanted = (*words[:at], other, *words[at + 1 :])
                for method in ("POST", "PUT", "PATCH", "DELETE", "GET"):
                    one = self._by_words.get((path[:-1], wanted, method))
                    if one is not None and one.effect == "changes" and (found := _link(one, write, "opposite")):
                        return found
        spoken = _spoken(write)
        for other in _UNDOING.get(spoken[0], ()) if spoken else ():
            for verb, one in self._by_noun[spoken[1]] if spoken else ():
                if verb == other and one.effect == "changes" and (found := _link(one, write, "opposite")):
                    return found
        return None

    @property
    def _by_words(self) -> Mapping[tuple[tuple[str, ...], Words, str], Operation]:
        if not hasattr(self, "_words"):
            self._words = {
                (path[:-1], tuple(words_of(path[-1]).split()), method): one
                for path, methods in self._by_path.items()
                if path and "{}" not in path[-1]
                for method, one in methods.items()
            }
        return self._words


# --- paths and names -------------------------------------------------------------------------------------------------


def _plain(operation: Operation) -> tuple[str, ...]:
    """The path without parameter names, after its server: /orders/{id} as ("orders", "{}")."""
    segments = _PLACEHOLDER.sub("{}", operation.path.strip("/")).split("/")
    return (operation.server, *segments) if operation.server else tuple(segments)


def _is_action(path: tuple[str, ...]) -> bool:
    """Whether a POST's last segment is an action on the thing before it, not a list of things."""
    words = words_of(path[-1]).split()
    if not words or words[-1] in _GETTING:
        return False
    return words[0] in _VERBS or words[-1] in _VERBS or (path[-2:-1] == ("{}",) and singular(words[-1]) == (words[-1],))


def _spoken(operation: Operation) -> tuple[str, Words] | None:
    """The verb and other words in an operation's name, such as ("delete", ("order",)); None: no verb."""
    name = operation.operation_id or operation.path.rpartition("/")[2]
    words = words_of(name).split()
    verbs = [word for word in words if word in _VERBS]
    if not verbs:
        return None
    verb = words[0] if words[0] in _VERBS else words[-1] if words[-1] in _VERBS else verbs[0]
    rest = list(words)
    rest.remove(verb)
    noun = tuple(one for one in singular(" ".join(rest)) if not _NO_NOUN.fullmatch(one))
    return (verb, noun) if noun else None


def _changes_only(operation: Operation) -> bool:
    words = {*words_of(operation.operation_id).split(), *words_of(operation.summary).split()}
    return not words.isdisjoint(("update", "updates", "edit", "modify", "change", "changes"))


def _ends_with_identifier(operation: Operation) -> bool:
    names = _PLACEHOLDER.findall(operation.path)
    return bool(names) and words_of(names[-1]).split()[-1:] in (["id"], ["uuid"], ["guid"], ["gid"], ["uid"], ["sid"])


def _names_what_is_made(parameter: Parameter, target: Operation) -> bool:
    """Whether a parameter identifies what a write created: at the path's end, or as in /user.info?user=."""
    if parameter.place == "path":
        return _plain(target)[-1] == "{}"
    words, spoken = words_of(parameter.name).split(), _spoken(target)
    return bool(words) and (words[-1] in _IDENTIFYING or (spoken is not None and words[-1] == spoken[1][-1]))


def _only_creates(operation: Operation) -> bool:
    words = words_of(operation.operation_id).split()
    return not _CREATING.isdisjoint(words) and "or" not in words and "update" not in words


# --- arguments -------------------------------------------------------------------------------------------------------


def _link(target: Operation, write: Operation, how: Any, *, created: bool = False) -> LinkedCall | None:
    """A link to an operation; None: nothing gives a required argument.

    created: the target's last identifier is that of what the write created.
    """
    if how in ("same", "list", "parent", "created", "name") and target.effect != "reads":
        return None
    if target.server != write.server or target is write:
        return None
    sources, missing = _sources(target, write)
    if target.body is not None and (target.body.required or _required_of(target, target.body.argument)):
        own, needed = write.body, _required_of(target, target.body.argument)
        if own is None or not needed or not needed <= set(_members_of(write, own.argument)):
            return None
        sources[target.body.argument] = ValueSource("arguments", (own.argument,))
    if created and len(missing) == 1 and _names_what_is_made(missing[0], target):
        sources[missing[0].argument] = ValueSource("result", _identifiers(missing[0].name, target))
    elif created or missing:
        return None
    return LinkedCall(target.name, how, sources)


def _restoring(target: Operation, write: Operation, how: Any) -> LinkedCall | None:
    """A link to an operation that takes the earlier state as its body."""
    body = target.body
    if body is None or not (is_json(body.media_type) or bare_type(body.media_type) == FORM):
        return None
    sources, missing = _sources(target, write)
    if missing or not _members_of(target, body.argument):
        return None
    return LinkedCall(target.name, how, {**sources, body.argument: ValueSource("before")})


def _sources(target: Operation, write: Operation) -> tuple[dict[str, ValueSource], list[Parameter]]:
    """Where an operation's arguments come from, and required parameters that nothing gives."""
    by_place = _shared(target, write)
    sources, missing = dict[str, ValueSource](), list[Parameter]()
    for one in target.parameters:
        required = one.required or one.place == "path"
        source = by_place.get(one.name) if one.place == "path" else None
        if one.name not in by_place and (required or one.place == "query"):
            source = _by_name(one.name, one.place, write, body=required)  # a value to set is not one to search by
        if source is not None:
            sources[one.argument] = source
        elif required:
            missing.append(one)
    return sources, missing


def _shared(target: Operation, write: Operation) -> dict[str, ValueSource]:
    """Parameters in the beginning of the path, as far as both share it."""
    found = dict[str, ValueSource]()
    arguments = {one.name: one.argument for one in write.parameters if one.place == "path"}
    pairs = zip(target.path.strip("/").split("/"), write.path.strip("/").split("/"), strict=False)
    for own, other in pairs:
        custom = _CUSTOM_METHOD.fullmatch(other)
        names, others = _PLACEHOLDER.findall(own), _PLACEHOLDER.findall(other)
        plain = _PLACEHOLDER.sub("{}", own)
        if plain != _PLACEHOLDER.sub("{}", other) and (custom is None or plain != _PLACEHOLDER.sub("{}", custom[1])):
            break
        for name, given in zip(names, others, strict=True):
            if given in arguments:
                found[name] = ValueSource("arguments", (arguments[given],))
    return found


def _by_name(name: str, place: str, write: Operation, *, body: bool = True) -> ValueSource | None:
    """The write's argument or body member with the same name."""
    for one in write.parameters:
        if (
            one.name == name
            and one.place in ("path", "query", place)
            and (place == "header" or not _SHAPING.fullmatch(name))
        ):
            if one.place == place == "path" and name in _IDENTIFYING:
                continue  # another path's `id` may identify another thing
            return ValueSource("arguments", (one.argument,))
    if body and write.body is not None and place != "header":
        members = {_key(one): one for one in _members_of(write, write.body.argument)}
        if (member := members.get(_key(name))) is not None:
            return ValueSource("arguments", (write.body.argument, member))
    return None


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _schema_of(operation: Operation, argument: str) -> list[Mapping[str, Any]]:
    """Parts of an argument's schema, with references and combined schemas followed."""
    defs = operation.schema.get("$defs", {})
    parts, waiting = list[Mapping[str, Any]](), [operation.schema.get("properties", {}).get(argument)]
    for _ in range(50):
        if not waiting:
            break
        one = waiting.pop(0)
        if isinstance(one, Mapping):
            parts.append(one)
            if isinstance(reference := one.get("$ref"), str):
                waiting.append(defs.get(reference.removeprefix("#/$defs/")))
            waiting += [each for word in ("allOf", "anyOf", "oneOf") for each in one.get(word, ())]
    return parts


def _members_of(operation: Operation, argument: str) -> list[str]:
    found = (one.get("properties") for one in _schema_of(operation, argument))
    return list(dict.fromkeys(name for members in found if isinstance(members, Mapping) for name in members))


def _required_of(operation: Operation, argument: str) -> set[str]:
    found = (one.get("required") for one in _schema_of(operation, argument))
    return {name for names in found if isinstance(names, list) for name in names}


# --- values of a call ------------------------------------------------------------------------------------------------


def _identifiers(name: str, target: Operation) -> tuple[str, ...]:
    """Names under which a result may hold a parameter's value: its own, then those of identifiers.

    /disputes/{dispute} and /orders/{orderId} accept any identifier of the new element, /users/{userEmail} does not.
    """
    words = words_of(name).split()
    last = words[-1] if words else ""
    before = target.path.partition(f"{{{name}}}")[0].rstrip("/").rpartition("/")[2]
    if last in _IDENTIFYING:
        return tuple(dict.fromkeys([name, last, *_IDENTIFYING]))
    whole = set(singular(words_of(name))) <= set(singular(words_of(before)))
    return (name, *_IDENTIFYING) if whole else (name, last)


def _identifier(result: Any, names: Sequence[str], location: str) -> Any:
    """The new thing's identifier: in the result, in a wrapper such as `data`, or at the end of Location."""
    inner = result if isinstance(result, Mapping) else {}
    levels = [inner, *(one for word in _AROUND if isinstance(one := inner.get(word), Mapping))]
    if len(inner) == 1:
        levels += [one for one in inner.values() if isinstance(one, Mapping)]
    for name in names[:2]:  # its own name, anywhere, comes before other identifiers
        for level in levels:
            if (value := _scalar(level, name)) is not None:
                return value
    if location:
        return unquote(urlsplit(location).path.rstrip("/").rpartition("/")[2]) or None
    found = (_scalar(level, name) for level in levels for name in names)
    return next((value for value in found if value is not None), None)


def _scalar(level: Mapping[str, Any], name: str) -> Any:
    for key, value in level.items():
        if _key(key) == _key(name) and isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return value
    return None


def _within(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _item(before: Any) -> Mapping[str, Any]:
    """The item in a state as read: many APIs wrap it in `data` or in a single member."""
    if not isinstance(before, Mapping):
        return {}
    for name in ("data", "result", "item", *([next(iter(before))] if len(before) == 1 else [])):
        if isinstance(inner := before.get(name), Mapping):
            return inner
    return before
