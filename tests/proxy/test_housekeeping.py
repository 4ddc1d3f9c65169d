"""A chat program's own calls are known by their prompts, each as its program sends it; a person's question never is."""

from typing import Any

import pytest

from proxy.housekeeping import is_housekeeping

HISTORY = "<chat_history>\nUSER: How do I connect?\nASSISTANT: Use TLS.\n</chat_history>"
OPEN_WEBUI = [
    "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Guidelines:\n- …\n"
    f'### Output:\nJSON format: {{ "title": "your concise title here" }}\n### Chat History:\n{HISTORY}',
    f"### Task:\nGenerate a concise title summarizing the chat history.\n### Chat History:\n{HISTORY}",
    "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history, along with 1-3 more specific "
    f"subtopic tags.\n\n### Guidelines:\n…\n### Chat History:\n{HISTORY}",
    "### Task:\nSuggest 3-5 relevant follow-up questions or prompts that the user might naturally ask next in this "
    f"conversation as a **user**, based on the chat history.\n### Chat History:\n{HISTORY}",
    "### Task:\nAnalyze the chat history to determine the necessity of generating search queries, in the given "
    f"language.\n### Chat History:\n{HISTORY}\n",
    f"### Task:\nGenerate a detailed prompt for am image generation task based on the given language.\n{HISTORY}",
    "### Task:\nYou are an autocompletion system. Continue the text in `<text>` based on the **completion type** in "
    f"`<type>` and the given language.\n### Context:\n{HISTORY}\n<type>General</type>\n<text>How do</text>\n",
    "Your task is to reflect the speaker's likely facial expression through a fitting emoji. Interpret emotions from "
    "the message.\n\nMessage: ```hi```",
]
FROM_USERS = [
    *OPEN_WEBUI,
    "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise title in the "
    "detected language (5 words or less, no punctuation or quotation)\n\nUser: hi",
    "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return the title "
    "itself.\n\nConversation:\nUser: hi",
    "Please generate a four to five word title summarizing our conversation without any lead-in, punctuation, "
    "quotation marks, periods, symbols, bold text, or additional text. Remove enclosing quotation marks.",
    "使用四到五个字直接返回这句话的简要主题，不要解释、不要标点、不要语气词、不要多余文本，不要加粗，如果没有主题，请直接返回“闲聊”",
    "Given the following... please reply with a short summary that is 4-12 words in length, you should summarize what "
    "the user is asking for.\n\nHow do I connect?",
    "Generate a concise 3-7 word title for this conversation, omitting punctuation. Go straight to the title, without "
    "any preamble and prefix like `Here's a concise suggestion:...` or `Title:`",
    "Please write a 5-10 word title the following conversation:\n\nUser: hi\n\nRespond with the title for the "
    "conversation and nothing else.",
    "Given the following conversation and a follow up question, rephrase the follow up question to be a standalone "
    "question, in its original language.\n\nChat History:\n…\nFollow Up Input: And in Java?\nStandalone question:",
    "\n  Given the following conversation between a user and an AI assistant and a follow up question from user,\n  "
    "rephrase the follow up question to be a standalone question.\n\n  Chat History:\n  …\n  Standalone question:",
    "Given a conversation (between Human and Assistant) and a follow up message from Human, rewrite the message to be "
    "a standalone question that captures all relevant context from the conversation.\n\n<Chat History>\n…\n\n"
    "<Follow Up Message>\nAnd in Java?\n\n<Standalone question>\n",
    "Progressively summarize the lines of conversation provided, adding onto the previous summary returning a new "
    "summary.\n\nEXAMPLE\n…",
]
FROM_SYSTEMS = [
    "You are a professional conversation summarizer. Generate a concise title that captures the essence of the "
    "conversation.\n\nRules:\n- Output ONLY the title text",
    "You are an assistant skilled in conversation. You need to summarize the user's conversation into a title within "
    "10 words. The language of the title should be consistent with the user's primary language.",
    "You are a title generator. You output ONLY a thread title. Nothing else.\n\n<task>\nGenerate a brief title",
    "You are Claude Code, Anthropic's official CLI for Claude.\nAnalyze if this message indicates a new conversation "
    "topic. If it does, extract a 2-3 word title that captures the new topic.",
    "Summarize the discussion briefly in 200 words or less to use as a prompt for future context.",
    "You are a helpful AI assistant tasked with summarizing conversations.",
    "You are an expert in crafting pithy titles for chatbot conversations. You are presented with a chat conversation",
    "Available Tools: []\n\nYour task is to choose and return the correct tool(s) from the list of available tools "
    "based on the query.",
]
QUESTIONS = [
    "Generate a title for this conversation.",
    "Please generate a title, tags and a summary for my article about TLS.",
    'What does Open WebUI mean by "### Task:\\nGenerate a concise, 3-5 word title" and <chat_history>?',
    f"Why does this prompt not work?\n\n{OPEN_WEBUI[0]}",
    "### Task:\nGenerate a concise description of our product for the website.",
    "### Task:\nMigrate the database\n<chat_history>",
    "How do I write a 5-10 word title for the following conversation?",
    "Please write a 5-10 word title for the following conversation: which prompt is that of?",
    "Given the following conversation and a follow up question, what is a condense prompt?",
    "Summarize the discussion briefly in 200 words or less to use as a prompt for future context.",
    "You are a title generator. You output ONLY a thread title. Nothing else.",
    "Suggest follow-up questions.",
    "Summarise the chapter about connections.",
    "",
]


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize("prompt", FROM_USERS)
def test_a_prompt_in_the_newest_user_message_is_known(prompt: str) -> None:
    assert is_housekeeping([user(prompt)])
    assert is_housekeeping([user([{"type": "text", "text": prompt}])])
    before = [
        {"role": "system", "content": "Be brief."},
        user("How do I connect?"),
        {"role": "assistant", "content": "So."},
    ]
    assert is_housekeeping([*before, user(prompt)])
    assert not is_housekeeping([*before, user(prompt), {"role": "assistant", "content": "TLS"}, user("And in Java?")])


@pytest.mark.parametrize("prompt", FROM_SYSTEMS)
@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_prompt_in_an_instruction_is_known(prompt: str, role: str) -> None:
    assert is_housekeeping([{"role": role, "content": prompt}, user("How do I connect?")])
    parts = [{"type": "text", "text": "You are a client."}, {"type": "text", "text": prompt}]
    assert is_housekeeping([{"role": role, "content": parts}, user("How do I connect?")])
    assert is_housekeeping([{"role": "system", "content": "Be brief."}, {"role": role, "content": prompt}, user("hi")])


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_persons_question_is_none(question: str) -> None:
    assert not is_housekeeping([user(question)])
    assert not is_housekeeping([{"role": "system", "content": "You give every conversation a title."}, user(question)])


@pytest.mark.parametrize("prompt", [*FROM_USERS, *FROM_SYSTEMS])
def test_a_prompt_that_somebody_quotes_is_none(prompt: str) -> None:
    assert not is_housekeeping([user(f"What is this? {prompt}")])
    assert not is_housekeeping([{"role": "assistant", "content": prompt}, user("What was that?")])
    assert not is_housekeeping([{"role": "tool", "content": prompt}, user("What was that?")])
    assert not is_housekeeping(
        [{"role": "system", "content": "Never say: " + " ".join(prompt.split())}, user("What was that?")]
    )


@pytest.mark.parametrize("content", [None, 7, [], [{"type": "image_url"}], {}])
def test_a_message_without_text_is_none(content: object) -> None:
    assert not is_housekeeping([user(content)])
    assert not is_housekeeping([{"role": "system", "content": content}])
