"""Secrets in a text: tokens of well-known services by their fixed beginnings, private keys, passwords in assignments.

A table of its own: `detect-secrets` takes line after line through 27 plugins, and its high-entropy plugins take
hashes and names for secrets. Each row has a literal that the text must contain, so that most texts cost a few searches
of literals. A secret's text leaves this module only as a place.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """A secret at text[start:end]."""

    start: int
    end: int
    kind: str


# kind, literals of which the text contains one, pattern; a group named `secret` is what to hide, else the whole match
_TOKENS = tuple(
    (kind, tuple(literals.split()), re.compile(pattern))
    for kind, literals, pattern in (
        ("AWS access key", "AKIA ASIA", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
        ("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),
        ("GitHub token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{60,255}\b"),
        ("GitLab token", "glpat-", r"\bglpat-[A-Za-z0-9_-]{20,64}"),
        ("Slack token", "xox", r"\bxox[abeoprs]-[A-Za-z0-9]+-[A-Za-z0-9-]{10,250}"),
        ("Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/services/T\w{8,12}/B\w{8,12}/\w{20,32}"),
        ("Stripe key", "_live_", r"\b[sr]k_live_[A-Za-z0-9]{20,250}\b"),
        ("OpenAI key", "sk-", r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,250}|\bsk-[A-Za-z0-9]{48}\b"),
        ("Anthropic key", "sk-ant-", r"\bsk-ant-[a-z0-9]{3,12}-[A-Za-z0-9_-]{40,250}"),
        ("Google API key", "AIza", r"\bAIza[A-Za-z0-9_-]{35}(?![\w-])"),
        ("Google OAuth secret", "GOCSPX-", r"\bGOCSPX-[A-Za-z0-9_-]{28}(?![\w-])"),
        ("npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
        ("PyPI token", "pypi-AgE", r"\bpypi-AgE[A-Za-z0-9_-]{50,250}"),
        ("SendGrid key", "SG.", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}(?![\w-])"),
        ("Hugging Face token", "hf_", r"\bhf_[A-Za-z0-9]{34}\b"),
        ("DigitalOcean token", "_v1_", r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
        ("Azure storage key", "AccountKey=", r"AccountKey=(?P<secret>[A-Za-z0-9+/]{86}==)"),
        ("JSON web token", ".eyJ", r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{20,2000}"),
        (
            "private key",
            "-----BEGIN",
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:\\n|\s){1,9}"
            r"(?:[\w-]{1,30}: [^\n]{0,200}\n\s{0,9}){0,5}"
            r"(?P<secret>(?:[A-Za-z0-9+/=]|\\n|\s){40,20000}+)",
        ),
    )
)
_IN_URL = re.compile(r"\b[a-z][a-z0-9+]{1,20}://[^\s:@/\"'<>]{0,64}:(?P<secret>[^\s:@/\"'<>]{6,128})@[\w.-]+")
_ASSIGNED = re.compile(
    r"(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key(?:[_-]id)?|[_-]token|private[_-]?key)"
    r"[\"'`]?[ \t]{0,9}(?::=|=>|[:=])[ \t]{0,9}(?P<quote>[\"'`]?)(?P<secret>[^\s\"'`,;<>(){}\[\]$|&]{8,128})(?P=quote)",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"example|sample|placeholder|change|your|dummy|test|todo|secret|passwor|token|key|xxx|\*\*|\.\.\.|…|redact|masked|"
    r"^[a-z_]\w*(?:\.[a-z_]\w*)+$|1234|abcd|none|null|true|false|://|[/\\].*[/\\.]|\(|_env\b|^env[._]|%",
    re.IGNORECASE,
)
_LEAST_BITS = 2.8  # of a password's letters each; words and numbers of one kind have less


def secrets_in(text: str) -> list[Found]:
    """Return all secrets in order; none overlaps another."""
    found = []
    for kind, literals, pattern in _TOKENS:
        if any(literal in text for literal in literals):
            found += [_of(match, kind) for match in pattern.finditer(text) if "EXAMPLE" not in match[0]]
    if "://" in text:
        found += [_of(match, "password in a URL") for match in _IN_URL.finditer(text) if _is_random(match["secret"])]
    found += [_of(match, "password or key") for match in _ASSIGNED.finditer(text) if _is_random(match["secret"])]
    kept: list[Found] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
    return kept


def masked(text: str) -> str:
    """The text with the kind of each secret in its place."""
    parts, at = [], 0
    for one in secrets_in(text):
        parts += [text[at : one.start], f"[{one.kind}]"]
        at = one.end
    return "".join([*parts, text[at:]])


def _of(match: re.Match[str], kind: str) -> Found:
    start, end = match.span("secret" if "secret" in match.re.groupindex else 0)
    return Found(start, end, kind)


def _is_random(value: str) -> bool:
    """Whether a value is made up, not a word, a path or a placeholder."""
    if _PLACEHOLDER.search(value) or not any(map(str.isdigit, value)) or not any(map(str.isalpha, value)):
        return False
    bits = -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
    return bits >= _LEAST_BITS
