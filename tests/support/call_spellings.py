"""The spellings in which models write the call act_a(x=1) as text."""

BAR, LINE = "｜", "▁"

# Beside JSON; the schema says that x is a number.
SPELLINGS = {
    "hermes": '<tool_call>\n{"name": "act_a", "arguments": {"x": 1}}\n</tool_call>',
    "hermes, arguments first": '<tool_call>{"arguments": {"x": 1}, "name": "act_a"}</tool_call>',
    "hermes, as Python writes": "<tool_call>{'name': 'act_a', 'arguments': {'x': 1}}</tool_call>",
    "qwen": "<tool_call>\n<function=act_a>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
    "qwen, without the tag": "<function=act_a>\n<parameter=x>\n1\n</parameter>\n</function>",
    "qwen, cut ends": "<tool_call>\n<function=act_a>\n<parameter=x>\n1\n</function>",
    "seed": "<seed:tool_call><function=act_a><parameter=x>1</parameter></function></seed:tool_call>",
    "glm": "<tool_call>act_a\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.act_a:0<|tool_call_argument_begin|>"
    '{"x": 1}<|tool_call_end|><|tool_calls_section_end|>',
    "harmony": '<|channel|>commentary to=functions.act_a <|constrain|>json<|message|>{"x": 1}<|call|>',
    "harmony, begun": '<|start|>assistant<|channel|>commentary to=functions.act_a json<|message|>{"x": 1}<|call|>',
    "harmony, by the role": "<|start|>assistant to=functions.act_a<|channel|>commentary json<|message|>"
    '{"x": 1}<|call|>',
    "llama": '<|python_tag|>{"name": "act_a", "parameters": {"x": 1}}',
    "llama, a method": "<|python_tag|>act_a.call(x=1)",
    "llama, a list": "[act_a(x=1)]",
    "llama, two in a list": "[act_a(x=1), act_ab(y='z')]",
    "llama, a function": '<function=act_a>{"x": 1}</function>',
    "lfm": "<|tool_call_start|>[act_a(x=1)]<|tool_call_end|>",
    "harmony, without marks": 'to=functions.act_a code\n{"x": 1}',
    "phi": 'functools[{"name": "act_a", "arguments": {"x": 1}}]',
    "gemma 4": "<|tool_call>call:act_a{x:1}<tool_call|>",
    "a whole message": '{"tool_calls": [{"id": "c", "type": "function", '
    '"function": {"name": "act_a", "arguments": "{\\"x\\": 1}"}}]}',
    "a block of messages": '{"type": "tool_use", "id": "toolu_1", "name": "act_a", "input": {"x": 1}}',
    "gemma": "```tool_code\nact_a(x=1)\n```",
    "functiongemma": "<start_function_call>call:act_a{x:1}<end_function_call>",
    "mistral": '[TOOL_CALLS] [{"name": "act_a", "arguments": {"x": 1}}]',
    "mistral, by name": '[TOOL_CALLS]act_a[ARGS]{"x": 1}',
    "mistral, with an id": '[TOOL_CALLS]act_a[CALL_ID]abc123XYZ[ARGS]{"x": 1}',
    "mistral, short": '[TOOL_CALLS]act_a{"x": 1}',
    "deepseek": f"<{BAR}tool{LINE}calls{LINE}begin{BAR}><{BAR}tool{LINE}call{LINE}begin{BAR}>function"
    f'<{BAR}tool{LINE}sep{BAR}>act_a\n```json\n{{"x": 1}}\n```<{BAR}tool{LINE}call{LINE}end{BAR}>',
    "deepseek, newer": f"<{BAR}tool{LINE}call{LINE}begin{BAR}>act_a<{BAR}tool{LINE}sep{BAR}>"
    f'{{"x": 1}}<{BAR}tool{LINE}call{LINE}end{BAR}>',
    "deepseek, newest": f'<{BAR}DSML{BAR}function_calls>\n<{BAR}DSML{BAR}invoke name="act_a">\n'
    f'<{BAR}DSML{BAR}parameter name="x" string="false">1</{BAR}DSML{BAR}parameter>\n</{BAR}DSML{BAR}invoke>',
    "minimax": '<minimax:tool_call>\n<invoke name="act_a">\n<parameter name="x">1</parameter>\n</invoke>\n'
    "</minimax:tool_call>",
    "claude": '<function_calls>\n<invoke name="act_a">\n<parameter name="x">1</parameter>\n</invoke>\n'
    "</function_calls>",
    "granite": '<|tool_call|>[{"name": "act_a", "arguments": {"x": 1}}]',
    "nemotron": '<TOOLCALL>[{"name": "act_a", "arguments": {"x": 1}}]</TOOLCALL>',
    "command-r": 'Action: ```json\n[{"tool_name": "act_a", "parameters": {"x": 1}}]\n```',
    "command-a": '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "act_a", "parameters": {"x": 1}}]<|END_ACTION|>',
}
WITHOUT_ARGUMENTS = {
    "qwen": "<tool_call>\n<function=act_a>\n</function>\n</tool_call>",
    "glm": "<tool_call>act_a\n</tool_call>",
    "python": "[act_a()]",
    "kimi": "<|tool_call_begin|>functions.act_a:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
    "claude": '<invoke name="act_a">\n</invoke>',
    "hermes": '<tool_call>{"name": "act_a"}</tool_call>',
}
# Answers that only resemble calls, in the marks of templates, too.
ANSWERS = [
    "```xml\n<tool_call>\n<function=get_weather>\n<parameter=city>\nBonn\n</parameter>\n</function>\n</tool_call>\n```",
    "<tool_call> is the tag, and <|python_tag|> the mark of Llama; [TOOL_CALLS] is Mistral's.",
    "[TODO] [TOOL] [act](x) [a](b) <toolbar> <function=f> <invoke>",
    "if a < b and c > d: call(x=1)\n<b>act_a</b> lists [users].",
    "def act(x):\n    return [act(x - 1)]\n",
    "<details><summary>tool</summary>\n<call/></details>\n<",
    "std::vector<std::function<int(int)>> calls; a <| b |> c",
    "<|",
    "[",
    "[TOOL_CALLS]",
    "<tool_call>",
    "[1, 2, act_b(x=1)]",
    "{'name': 'Ann'}",
    '{"arguments": {"x": 1}, "name": "Ann"}',
]
