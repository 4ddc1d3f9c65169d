"""Thoughts that a model writes into its answer: `<think>…</think>` and the like.

A server with a reasoning parser sends thoughts apart from the answer. Without one, a local model's thoughts are text in
the answer: no score, refusal or judgement may read them. A chat template may write the first mark, and a reply may
break off before the last.
"""

import re

_TAGS = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis|seed:think)"
# How thoughts begin and end, by model family.
_PAIRS = (
    (rf"<{_TAGS}(?:\s[^<>]{{0,80}})?>", rf"</{_TAGS}>"),  # DeepSeek, Qwen, GLM, MiniMax, Seed
    (r"\[THINK\]", r"\[/THINK\]"),  # Mistral
    ("◁think▷", "◁/think▷"),  # Kimi
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Cohere
    (r"<unused94>", r"<unused95>"),  # MedGemma
    (r"<\|channel>thought", r"<channel\|>"),  # Gemma
    # gpt-oss: every channel but the final one
    (
        r"(?:<\|start\|>assistant)?<\|channel\|>(?!final)\w+[^<]{0,80}<\|message\|>",
        r"(?:<\|end\|>|<\|return\|>|<\|call\|>)",
    ),
)
# Thoughts begin at the start of a line or after other thoughts: an answer may be about such marks.
_BEGINS = re.compile(
    "|".join(rf"(?P<b{at}>(?:^|(?<=\n)|(?<=>)|(?<=\]))[ \t]*(?:{begin}))" for at, (begin, _) in enumerate(_PAIRS)),
    re.IGNORECASE,
)
_ENDS = [re.compile(end, re.IGNORECASE) for _, end in _PAIRS]
_ANY_BEGIN = re.compile("|".join(begin for begin, _ in _PAIRS), re.IGNORECASE)
# Within a line, a mark needs words: "Write <think> and </think>" is about marks.
_WITHIN = re.compile(r"(?<!`)<(think|thinking)>(?!`)\s*(?:[^\s<`]+\s+){2}[^`]*?</\1>", re.IGNORECASE)
_ANY_END = re.compile("|".join(rf"(?<!`)(?:{end})(?!`)" for _, end in _PAIRS), re.IGNORECASE)
_MARKS = re.compile(
    r"<\|start\|>assistant|<\|channel\|>final[^<]{0,80}<\|message\|>|<\|(?:end|return)\|>"
    r"|<\|(?:START|END)_RESPONSE\|>|<\|(?:begin|end)_of_solution\|>"
)


def without_thoughts(answer: str) -> str:
    """The answer without thoughts; "" if there is nothing else."""
    kept, at = "", 0
    while (begin := _BEGINS.search(answer, at)) is not None:
        kept += answer[at : begin.start()]
        end = _ENDS[int((begin.lastgroup or "b0")[1:])].search(answer, begin.end())
        at = len(answer) if end is None else end.end()
    kept = _WITHIN.sub("", kept + answer[at:])
    if (ends := list(_ANY_END.finditer(kept))) and _ANY_BEGIN.search(kept) is None:
        kept = kept[ends[-1].end() :]  # the chat template wrote how they begin
    if kept == answer:
        return answer
    return _MARKS.sub("", kept).strip()
