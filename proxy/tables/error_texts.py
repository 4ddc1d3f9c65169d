"""Texts of databases' errors without values of rows, which may be rows that the caller must not see."""

import re

_MOST_CHARS = 300
_REST = re.compile(r"(\n|\b(LINE \d|DETAIL|HINT|CONTEXT|Candidate|Did you mean|Input:)).*", re.DOTALL)
_WORD = re.compile(r"\w+")
_MASKED = re.compile(r"[^\x20-\x7e…]+|…(?:[^\w()]*…)+")

# Words that databases' own texts are made of.
_WORDS = frozenset(
    """
    a about absent access add aggregate all ambiguous an and any anonymous appear arg argument arguments array as at be
    before between big binary binder blob bool boolean both bigint by byte bytes call can cannot cast catalog casts char
    character check clause clauses close code collation column columns compare complex compound condition connection
    constraint contain contains context conversion convert converted correlated could count cross data database date
    datatype datetime decimal deep denied depth different directly distinct division do does double duplicate each
    either element empty engine error escape exceeded except execute executor exist exists expected explicit expression
    expressions extra failed field filter first float follows for form format found frame from full function functions
    given greater group grouping has have having in incorrect index inner input int integer interrupted intersect
    interval into invalid is it item its join json key large left length level like limit list lock malformed match
    matches maximum memory mismatch missing misuse misused more most must name named near negative neither nested no
    non nor not null number numeric object of off offset on one only open operand operation operator operators or order
    out outer outside over overflow parameter parameters parse parser parsing partition pattern permission position
    possible precision prohibited qualified query quoted range read real recursion recursive reference referenced
    references regular relation remaining required resolve result results return returned returns right round row rows
    same schema second select selects set setting side signature single size smallint specified sqrt stack star start
    state statement string strings subquery such sum syntax table tables take temporary term terms text than that the
    their them then there this time timeout timestamp timestamptz to token too transaction true false try tuple two type
    types unable undefined unexpected unimplemented union unique unknown unrecognized unsupported unterminated use used
    using value values varchar variable view was were when where which while window with within without wrong year
    month day hour minute zero zone st nd rd rank end logarithm root power taking subqueries sub rhs lhs unescaped
    locked
    """.split()
)  # fmt: skip


def masked(text: str, sql: str) -> str:
    """A text with only words of the query and of databases; "…" stands for all others."""
    known = {word.lower() for word in _WORD.findall(sql)}

    def shown(match: re.Match[str]) -> str:
        word = match[0].lower()
        return match[0] if word in known or word in _WORDS else "…"

    kept = _WORD.sub(shown, _REST.sub("", text.strip()))
    return _MASKED.sub("…", kept).strip()[:_MOST_CHARS] or "the query failed"
