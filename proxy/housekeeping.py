"""Which requests are a chat program's own: a title, tags, follow-ups, a summary, a search query. They ask nothing.

Programs send them to the same model as the conversation. Passages would cost tokens there and spoil answers that must
be JSON or four words. Recognised by the fixed words of their prompts alone, where a prompt begins: a person who asks
about titles, or quotes such a prompt, begins otherwise. Where the words were found is said beside them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proxy.chat import text_of

_HEAD_CHARS = 4000  # of a system message: where a prompt of this kind would stand


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prompt by its first words, and by words that must come later ("" for none)."""

    begins: str
    holds: str = ""


# open-webui/open-webui backend/open_webui/config.py: DEFAULT_…_PROMPT_TEMPLATE, now and in earlier releases.
_OPEN_WEBUI = (
    _Prompt("### Task:\nGenerate a concise", "<chat_history>"),  # title: "…, 3-5 word title", "… title summarizing"
    _Prompt("### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history", "<chat_history>"),
    _Prompt("### Task:\nSuggest 3-5 relevant follow-up questions or prompts", "<chat_history>"),
    _Prompt(
        "### Task:\nAnalyze the chat history to determine the necessity of generating search quer", "<chat_history>"
    ),
    _Prompt("### Task:\nGenerate a detailed prompt for am image generation task", "<chat_history>"),  # so spelled there
    _Prompt("### Task:\nYou are an autocompletion system. Continue the text in `<text>`", "<type>"),
    _Prompt("Your task is to reflect the speaker's likely facial expression through a fitting emoji."),
)
_USER = (
    *_OPEN_WEBUI,
    # LibreChat: danny-avila/agents src/utils/title.ts
    _Prompt("Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise title"),
    _Prompt("Provide a concise, 5-word-or-less title for the conversation, using title case conventions."),
    # ChatGPTNextWeb/NextChat app/locales/en.ts and cn.ts: Store.Prompt.Topic
    _Prompt("Please generate a four to five word title summarizing our conversation without any lead-in"),
    _Prompt("使用四到五个字直接返回这句话的简要主题，不要解释、不要标点、不要语气词、不要多余文本"),
    # continuedev/continue core/util/chatDescriber.ts
    _Prompt("Given the following... please reply with a short summary that is 4-12 words in length"),
    _Prompt("Given the following... please reply with a title for the chat that is 3-4 words in length"),
    # zed-industries/zed crates/agent_settings/src/prompts/summarize_thread_prompt.txt
    _Prompt("Generate a concise 3-7 word title for this conversation, omitting punctuation. Go straight to the title"),
    # Claude Code through a gateway: the title of a finished session, spelled in both ways
    _Prompt("Please write a 5-10 word title the following conversation:", "Respond with the title"),
    _Prompt("Please write a 5-10 word title for the following conversation:", "Respond with the title"),
    # langchain-ai/langchain langchain/chains/conversational_retrieval/prompts.py, langchain/memory/prompt.py
    _Prompt(
        "Given the following conversation and a follow up question, rephrase the follow up question to be a standalone "
        "question",
        "Standalone question:",
    ),
    _Prompt("Progressively summarize the lines of conversation provided, adding onto the previous summary"),
    # run-llama/llama_index llama_index/core/chat_engine/condense_question.py, condense_plus_context.py
    _Prompt(
        "Given a conversation (between Human and Assistant) and a follow up message from Human, rewrite the message to "
        "be a standalone question",
        "<Standalone question>",
    ),
    _Prompt(
        "Given the following conversation between a user and an AI assistant and a follow up question from user,",
        "Standalone question:",
    ),
    # CherryHQ/cherry-studio src/renderer/src/config/prompts.ts: SEARCH_SUMMARY_PROMPT
    _Prompt("You are an AI question rephraser. Your role is to rephrase follow-up queries from a conversation"),
)
_SYSTEM = (
    # lobehub/lobe-chat packages/prompts/src/chains/summaryTitle.ts, and src/prompts/chat.ts of earlier releases
    _Prompt("You are a professional conversation summarizer. Generate a concise title"),
    _Prompt("你是一名擅长会话的助理，你需要将用户的会话总结为 10 个字以内的标题"),
    # CherryHQ/cherry-studio src/renderer/src/config/prompts.ts: SUMMARIZE_PROMPT, SEARCH_SUMMARY_PROMPT
    _Prompt("You are an assistant skilled in conversation. You need to summarize the user's conversation into a title"),
    _Prompt("You are an AI question rephraser. Your role is to rephrase follow-up queries from a conversation"),
    # NextChat app/locales/en.ts: Store.Prompt.Summarize, sent as the last message
    _Prompt("Summarize the discussion briefly in 200 words or less to use as a prompt for future context."),
    # anomalyco/opencode packages/opencode/src/agent/prompt/title.txt
    _Prompt("You are a title generator. You output ONLY a thread title. Nothing else."),
    # Claude Code through a gateway: behind "You are Claude Code, …", in a part or a line of its own
    _Prompt("Analyze if this message indicates a new conversation topic. If it does, extract a 2-3 word title"),
    # Claude Code and opencode: a conversation made shorter
    _Prompt("You are a helpful AI assistant tasked with summarizing conversations."),
    # GitHub Copilot in VS Code, with a model of one's own: chat-titles
    _Prompt("You are an expert in crafting pithy titles for chatbot conversations."),
    # Open WebUI: the choice of tools before the question itself
    _Prompt("Available Tools:", "Your task is to choose and return the correct tool(s) from the list"),
    # LangChain's tutorial for history-aware retrievers, widely copied
    _Prompt("Given a chat history and the latest user question which might reference context in the chat history, "
            "formulate a standalone question"),
)  # fmt: skip
_USER_BEGINNINGS = tuple(prompt.begins for prompt in _USER)


def is_housekeeping(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether the newest user message, or an instruction to the model, is a known prompt of this kind."""
    newest = next((message for message in reversed(messages) if message["role"] == "user"), None)
    if newest is not None and _known(_USER, text_of(newest.get("content")).lstrip()):
        return True
    instructions = (message for message in messages if message["role"] in ("system", "developer"))
    return any(_instructs(text_of(message.get("content"))) for message in instructions)


def _known(prompts: Sequence[_Prompt], text: str) -> bool:
    if prompts is _USER and not text.startswith(_USER_BEGINNINGS):
        return False
    return any(text.startswith(prompt.begins) and prompt.holds in text for prompt in prompts)


def _instructs(text: str) -> bool:
    """A line may begin such a prompt: what was a list of parts arrives joined."""
    head = "\n" + text[:_HEAD_CHARS]
    return any("\n" + prompt.begins in head and prompt.holds in text for prompt in _SYSTEM)
