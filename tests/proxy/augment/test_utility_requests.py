"""A chat program's own calls are known by their prompts, each as its program sends it; a person's question never is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from config.settings import UTILITY_REQUESTS
from proxy.augment.skipped import PromptsError, UtilityPrompts
from proxy.dialects.base import ConversationMessage
from proxy.dialects.chat import CHAT
from tests.support.dialect_clients import BY_DIALECT, DialectClient
from tests.support.rows import all_rows

KNOWN = UtilityPrompts.read(UTILITY_REQUESTS)
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
LIBRECHAT_ASSISTANTS = (
    "Please generate a concise, 5-word-or-less title for the conversation, using its same language, with no "
    "punctuation. Apply title case conventions appropriate for the language. Never directly mention the language name "
    'or the word "title"\n\n||>User:\n"How do I connect?"\n||>Response:\n"\\"Use TLS.\\""\n\n||>Title:'
)
AIDER_COMMIT = (
    "You are an expert software engineer that generates concise, one-line Git commit messages based on the provided "
    "diffs.\nReview the provided context and diffs which are about to be committed to a git repo.\nReview the diffs "
    "carefully.\nGenerate a one-line commit message for those changes."
)
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
    LIBRECHAT_ASSISTANTS,
    "---BEGIN USER MESSAGES---\nhow do I connect?\nwith TLS\n---END USER MESSAGES---\n\nGenerate a short title for the "
    "above messages.",
    "Here are the first few user messages:\nhow do I connect?\n\nBased on the conversation so far, provide a concise "
    "description of this session in 4 words or less. This will be used for finding the session later in a UI with "
    "limited space - reply *ONLY* with the description",
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
    LIBRECHAT_ASSISTANTS,
    "Write a concise title for this conversation in the given language. Title in 5 Words or Less. No Punctuation or "
    'Quotation. Must be in Title Case, written in the given Language.\n||>User:\n"hi"',
    "Generate a short title (four words or less) for this conversation.\n\nTitle what the work is ABOUT, not the "
    "mechanical activity.",
    "Generate a short title (four words or less) that describes the topic of the user's messages. \nReply with only "
    "the title, nothing else. Do not show your reasoning.",
    "Reply with only a description in four words or less",
    "You are a title generator. Output only the requested title of 4 words or less, with no additional text, "
    "reasoning, or explanations.",
    AIDER_COMMIT,
    "You are an expert software engineer.\nReview the provided context and diffs which are about to be committed to a "
    "git repo.\nGenerate a commit message for those changes",
    "*Briefly* summarize this partial conversation about programming.\nInclude less detail about older parts and more "
    "detail about the most recent messages.\nStart a new paragraph every time the topic changes!\n\n…\nStart the "
    'summary with "I asked you...".',
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
    "Please generate a concise, 5-word-or-less title for the conversation, using its same language: does that work?",
    "Here are the first few user messages:\nhi\n\nWhat do these people want?",
    "---BEGIN USER MESSAGES---\nhi\n---END USER MESSAGES---\n\nWhich program sends this?",
    "Generate a short title (four words or less) for this conversation.",
    "*Briefly* summarize this partial conversation about programming.",
    AIDER_COMMIT,
    "Summarise the chapter about connections.",
    "",
]


SYSTEMS = [
    "You are an expert software engineer that generates Git hooks.",
    "You are an expert software engineer. Review the provided context and answer.",
    "Generate a short title (four words or less) for each of your answers.",
    "*Briefly* summarize what you know about a question.",
    "You help people who ask about Aider, whose prompt is: You are an expert software engineer that generates concise, "
    "one-line Git commit messages based on the provided diffs.",
]


def read(messages: list[dict[str, Any]]) -> Sequence[ConversationMessage]:
    return CHAT.parse(json.dumps({"messages": messages}).encode()).messages()


def is_utility_request(messages: list[dict[str, Any]]) -> bool:
    return KNOWN.match(read(messages))


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


@all_rows("prompt", FROM_USERS)
def test_a_prompt_in_the_newest_user_message_is_known(prompt: str) -> None:
    assert is_utility_request([user(prompt)])
    assert is_utility_request([user([{"type": "text", "text": prompt}])])
    before = [
        {"role": "system", "content": "Be brief."},
        user("How do I connect?"),
        {"role": "assistant", "content": "So."},
    ]
    assert is_utility_request([*before, user(prompt)])
    assert not is_utility_request(
        [*before, user(prompt), {"role": "assistant", "content": "TLS"}, user("And in Java?")]
    )


@all_rows("prompt", FROM_SYSTEMS)
@all_rows("role", ["system", "developer"])
def test_a_prompt_in_an_instruction_is_known(prompt: str, role: str) -> None:
    assert is_utility_request([{"role": role, "content": prompt}, user("How do I connect?")])
    parts = [{"type": "text", "text": "You are a client."}, {"type": "text", "text": prompt}]
    assert is_utility_request([{"role": role, "content": parts}, user("How do I connect?")])
    assert is_utility_request(
        [{"role": "system", "content": "Be brief."}, {"role": role, "content": prompt}, user("hi")]
    )


@BY_DIALECT
def test_a_prompt_is_known_in_every_dialect_and_a_persons_question_is_none(client: DialectClient) -> None:
    def known(question: str, *earlier: tuple[str, str]) -> bool:
        body = json.dumps(client.body("m", question, *earlier)).encode()
        return KNOWN.match(client.dialect.parse(body).messages())

    before = [("user", "How do I connect?"), ("assistant", "So.")]
    assert all(known(prompt) and known(prompt, *before) for prompt in FROM_USERS)
    assert all(known("How do I connect?", ("system", prompt)) for prompt in FROM_SYSTEMS)
    assert not any(known(question) or known(question, ("system", "Be brief."), *before) for question in QUESTIONS)


@all_rows("question", QUESTIONS)
def test_a_persons_question_is_none(question: str) -> None:
    assert not is_utility_request([user(question)])
    assert not is_utility_request(
        [{"role": "system", "content": "You give every conversation a title."}, user(question)]
    )


@pytest.mark.parametrize("instruction", SYSTEMS)
def test_an_applications_instruction_is_none(instruction: str) -> None:
    assert not is_utility_request([{"role": "system", "content": instruction}, user("How do I connect?")])


@all_rows("prompt", [*FROM_USERS, *FROM_SYSTEMS])
def test_a_prompt_that_somebody_quotes_is_none(prompt: str) -> None:
    assert not is_utility_request([user(f"What is this? {prompt}")])
    assert not is_utility_request([{"role": "assistant", "content": prompt}, user("What was that?")])
    assert not is_utility_request([{"role": "tool", "content": prompt}, user("What was that?")])
    assert not is_utility_request(
        [{"role": "system", "content": "Never say: " + " ".join(prompt.split())}, user("What was that?")]
    )


@pytest.mark.parametrize("content", [None, 7, [], [{"type": "image_url"}], {}])
def test_a_message_without_text_is_none(content: object) -> None:
    assert not is_utility_request([user(content)])
    assert not is_utility_request([{"role": "system", "content": content}])


@pytest.mark.parametrize("at", [0, 7, -8, -1])
def test_of_many_instructions_the_first_and_the_last_are_looked_at(at: int) -> None:
    many = [{"role": "system", "content": "Be brief."} for _ in range(1000)]
    many[at] = {"role": "system", "content": FROM_SYSTEMS[0]}
    assert is_utility_request([*many, user("hi")])
    many[at], many[500] = many[500], many[at]
    assert not is_utility_request([*many, user("hi")])


def test_a_users_own_prompts_are_added_to_the_known_ones(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "- role: system\n  begins: You write subject lines for tickets.\n"
        '- role: user\n  begins: "Name this chat.\\n"\n  holds: Answer with JSON\n'
    )
    known = UtilityPrompts.read(UTILITY_REQUESTS, file)
    assert known.match(
        read([{"role": "system", "content": "You write subject lines for tickets. Be brief."}, user("hi")])
    )
    assert known.match(read([user("Name this chat.\nhi\nAnswer with JSON only.")]))
    assert known.match(read([user(LIBRECHAT_ASSISTANTS)]))
    assert not known.match(read([user("Name this chat.\nhi")]))
    assert not known.match(read([user("You write subject lines for tickets.")]))
    assert not is_utility_request([user("Name this chat.\nhi\nAnswer with JSON only.")])


def test_no_prompts_know_nothing() -> None:
    assert not UtilityPrompts().match(read([user(OPEN_WEBUI[0])]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- role: system\n  begins: [", "cannot read"),
        ("role: system", "must be a list"),
        ("", "must be a list"),
        ("- hello", "entry 1 must have role, begins and holds, got 'hello'"),
        ("- {role: user, begins: Title this conversation now}\n- {role: User, begins: Title this one too}",
         "entry 2: role must be user or system, got 'User'"),
        ("- {role: user, begin: Title this conversation now}", "has 'begin', but an entry has only"),
        ("- {role: user, begins: 2024}", "begins must be text, got 2024"),
        ("- {role: user}", "begins must be the first words"),
        ("- {role: user, begins: '  ', holds: Title this conversation now}", "begins must be the first words"),
        ("- {role: user, begins: Title}", "5 characters together"),
    ],
)  # fmt: skip
def test_a_file_of_prompts_that_cannot_be_used_says_why(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(PromptsError) as error:
        UtilityPrompts.read(file)
    assert str(file) in str(error.value)
    assert said in str(error.value)


def test_a_file_of_prompts_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(PromptsError, match="No such file"):
        UtilityPrompts.read(tmp_path / "none.yaml")
