"""The official openai client against intaglio serve --openai, for tests/server/test_openai.c.

usage: openai_client.py BASE_URL MODEL

Exit status 0 when everything the API promises holds.
"""
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0, timeout=60)
model = sys.argv[2]
question = [{"role": "user", "content": "Tell me something about foxes."}]

models = client.models.list()
assert [m.id for m in models.data] == [model], models

plain = client.chat.completions.create(model=model, messages=question, max_tokens=12, temperature=0)
choice = plain.choices[0]
assert plain.object == "chat.completion" and choice.message.role == "assistant", plain
assert choice.finish_reason in ("stop", "length") and plain.usage.completion_tokens <= 12, plain
assert plain.usage.total_tokens == plain.usage.prompt_tokens + plain.usage.completion_tokens, plain

text, finish, usage = "", None, None
for chunk in client.chat.completions.create(model=model, messages=question, max_completion_tokens=12, temperature=0,
                                            stream=True, stream_options={"include_usage": True}):
    if chunk.usage:
        usage = chunk.usage
    for part in chunk.choices:
        text += part.delta.content or ""
        finish = part.finish_reason or finish
assert text == choice.message.content, (text, choice.message.content)
assert finish == choice.finish_reason and usage.completion_tokens == plain.usage.completion_tokens, (finish, usage)
assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1, usage

drawn = [client.chat.completions.create(model=model, messages=question, max_tokens=16, temperature=1.5, seed=s).choices[0]
         .message.content for s in (1, 1, 2)]
assert drawn[0] == drawn[1] != drawn[2], drawn

stop = next(c for c in text[2:] if c.isalnum())
cut = client.chat.completions.create(model=model, messages=question, max_tokens=12, temperature=0, stop=[stop, "\x01"])
assert cut.choices[0].message.content == text[:text.index(stop)], cut
assert cut.choices[0].finish_reason == "stop", cut

turns = question + [{"role": "assistant", "content": text},
                    {"role": "user", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "dogs?"}]}]
assert client.chat.completions.create(model=model, messages=[{"role": "developer", "content": "Be brief."}] + turns,
                                      max_tokens=3).choices[0].message.content is not None

picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]
web = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}]
tool = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
for expected, arguments in (
        (openai.NotFoundError, {"model": "another"}),
        (openai.BadRequestError, {"messages": []}),
        (openai.BadRequestError, {"messages": [{"role": "wizard", "content": "x"}]}),
        (openai.BadRequestError, {"messages": [{"role": "user", "content": 5}]}),
        (openai.BadRequestError, {"messages": [{"role": "user", "content": "word " * 5000}]}),
        (openai.BadRequestError, {"messages": picture}),
        (openai.BadRequestError, {"messages": web}),
        (openai.BadRequestError, {"temperature": 9}),
        (openai.BadRequestError, {"n": 2}),
        (openai.BadRequestError, {"tools": tool}),
        (openai.BadRequestError, {"response_format": {"type": "json_object"}}),
        (openai.BadRequestError, {"messages": [{"role": "user", "content": "word " * 5000}], "stream": True})):
    try:
        client.chat.completions.create(**{"model": model, "messages": question, "max_tokens": 2, **arguments})
    except expected as error:
        assert error.body["message"] and "type" in error.body and "code" in error.body, error.body
    else:
        raise AssertionError(f"{arguments} was taken")
long = {"model": model, "messages": [{"role": "user", "content": "word " * 5000}]}
try:
    client.chat.completions.create(**long)
except openai.BadRequestError as error:
    assert error.code == "context_length_exceeded", error.body
print("the openai client is content")
