"""A request larger than the window, in the words of every provider and server, and what only sounds like it."""

import httpx2
import pytest
from wire.peer import Peer
from wire.speech import WIRES, say, spoken, sse

from harness_nb.errors import ProviderError
from harness_nb.messages import user
from harness_nb.providers.retry import restated
from harness_nb.providers.tape import Take, _read, line

every_wire = pytest.mark.parametrize("wire", WIRES)

TOO_LARGE = [
    ("Anthropic", 400, "prompt is too long: 204398 tokens > 200000 maximum", 200_000),
    ("Anthropic with its reply", 400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again", 200_000),
    ("OpenAI", 400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens. Please reduce the length of the messages.", 8192),
    ("OpenAI's Responses", 400, "Your input exceeds the context window of this model. Please adjust your input and try again.", 0),
    ("OpenAI's input limit", 400, "Input tokens exceed the configured limit of 272,000 tokens. Your messages resulted in 300,000 tokens.", 272_000),
    ("OpenAI, one string", 400, "Invalid 'input[3].output': string too long. Expected a string with maximum length 10485760, but got a string with length 12000000 instead.", 0),
    ("llama.cpp", 400, "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096),
    ("llama.cpp before 2026", 400, "the request exceeds the available context size. try increasing the context size or enable context shift", 0),
    ("llama.cpp, later", 500, "Context size has been exceeded.", 0),
    ("llama-cpp-python", 400, "Requested tokens (5000) exceed context window of 4096", 4096),
    ("vLLM", 400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion).", 4096),
    ("vLLM, its engine", 400, "The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens.", 8192),
    ("vLLM with its reply", 400, "'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context length is 32768 tokens and your request has 30000 input tokens (8000 > 32768 - 30000).", 32_768),
    ("SGLang", 400, "The input (40000 tokens) is longer than the model's context length (32768 tokens).", 32_768),
    ("Ollama", 400, "the input length exceeds the context length", 0),
    ("Ollama's runner", 400, "prompt too long; exceeded max context length by 123 tokens", 0),
    ("LM Studio", 400, "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.", 4096),
    ("LM Studio, later", 400, "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5000>= n_ctx: 4096). Try to load the model with a larger context length.", 4096),
    ("Text Generation Inference", 422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 `inputs` tokens and 100 `max_new_tokens`", 4097),
    ("Bedrock", 400, "Input is too long for requested model.", 0),
    ("Bedrock's Titan", 400, "Too many input tokens. Max input tokens: 8192, request input token count: 8500", 8192),
    ("Bedrock's Claude", 400, "The model returned the following errors: prompt is too long: 215000 tokens > 200000 maximum", 200_000),
    ("Gemini", 400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", 1_048_575),
    ("Vertex", 400, "Unable to submit request because the input token count is 40000 but model only supports up to 32768. Reduce the input token count and try again.", 32_768),
    ("OpenRouter", 400, "This endpoint's maximum context length is 131072 tokens. However, you requested about 200000 tokens (190000 of text input, 10000 in the output). Please reduce the length of either one.", 131_072),
    ("Mistral", 400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 32_768),
    ("Cohere", 400, "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000. Try using a shorter prompt", 4081),
    ("xAI", 400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072),
    ("Groq", 400, "Please reduce the length of the messages or completion.", 0),
    ("Cerebras", 400, "Please reduce the length of the messages or completion. Current length is 10000 while limit is 8192", 8192),
    ("Fireworks", 400, "The prompt is too long: 140000, model maximum context length: 131072", 131_072),
    ("Moonshot", 400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)", 262_144),
    ("MiniMax", 400, "invalid params, context window exceeds limit (2013)", 0),
    ("Copilot", 400, "prompt token count of 70000 exceeds the limit of 64000", 64_000),
]  # fmt: skip
"""Who says it, the status it comes with, the words, and the window that they name."""

SOMETHING_ELSE = [
    ("tokens a minute", 429, "This request would exceed the rate limit for your organization of 40,000 input tokens per minute."),
    ("tokens a minute, OpenAI", 429, "Request too large for gpt-x on tokens per min (TPM): Limit 10000, Requested 12000. The input or output tokens must be reduced in order to run successfully."),
    ("tokens a minute, Groq", 413, "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 8000, please reduce your message size and try again."),
    ("tokens a minute, by another status", 400, "Input token rate limit: please reduce the length of the prompt or wait."),
    ("Bedrock throttles", 429, "Too many tokens, please wait before trying again."),
    ("tokens a day", 400, "Too many tokens per day, please wait before trying again."),
    ("a quota", 403, "You exceeded your current quota for the model's maximum context length tier."),
    ("an output limit", 400, "max_tokens: 300000 > 128000, which is the maximum allowed number of output tokens for claude-x"),
    ("an output limit, OpenAI", 400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000."),
    ("bytes", 413, "Request exceeds the maximum size"),
    ("a name", 400, "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64."),
    ("pictures", 400, "messages.2.content.0.image.source.base64: image exceeds 5 MB maximum"),
    ("a model", 404, "The model `long-context-window` does not exist"),
    ("a parameter", 400, "temperature: range: -1 to 1"),
]  # fmt: skip

BY_NAME = {"ids": lambda value: value if isinstance(value, str) and len(value) < 40 else ""}


async def failed(wire, turn):
    with pytest.raises(ProviderError) as caught:
        await Peer(wire, [turn]).ask(user("hi"))
    return caught.value


def refusal(status, words, **more):
    return httpx2.Response(status, json={"error": {"message": words, **more}})


@every_wire
@pytest.mark.parametrize(("who", "status", "words", "window"), TOO_LARGE, **BY_NAME)
async def test_a_request_larger_than_the_window_is_known_as_one(wire, who, status, words, window):
    error = await failed(wire, refusal(status, words))
    assert (who, error.overflow, error.window, error.retryable) == (who, True, window, False)
    assert words[:60] in str(error)


@every_wire
@pytest.mark.parametrize(("who", "status", "words"), SOMETHING_ELSE, **BY_NAME)
async def test_what_only_sounds_like_it_is_not(wire, who, status, words):
    error = await failed(wire, refusal(status, words))
    assert (who, error.overflow, error.window) == (who, False, 0)
    assert error.retryable == (status == 429)


@every_wire
async def test_a_code_and_a_field_say_it_too(wire):
    sizes = {"n_prompt_tokens": 9000, "n_ctx": 4096}
    error = await failed(wire, refusal(400, "No.", type="exceed_context_size_error", code=400, **sizes))
    assert (error.overflow, error.window) == (True, 4096)
    assert (await failed(wire, refusal(400, "No.", code="context_length_exceeded"))).overflow


@every_wire
@pytest.mark.parametrize("size", ["0", "9" * 10, "9" * 5000, "-5", ",", ",,,"])
async def test_a_window_that_can_not_be_is_not_believed(wire, size):
    error = await failed(wire, refusal(400, f"prompt is too long: 5 tokens > {size} maximum", n_ctx=10**30))
    assert (error.overflow, error.window) == (True, 0)


@every_wire
async def test_it_may_come_in_the_middle_of_a_stream(wire):
    event = {"type": "error", "error": {"message": "Context size has been exceeded.", "n_ctx": 2048}}
    error = await failed(wire, spoken(wire, [say("Hel")], cut=True) + sse(wire, [event]))
    assert (error.overflow, error.window, error.retryable) == (True, 2048, False)


async def test_retries_and_recordings_keep_it():
    fault = await failed("chat", refusal(400, "prompt is too long: 9 tokens > 8 maximum"))
    assert vars(restated(fault, "Asked twice.")) == vars(fault)
    assert vars(_read(line(Take((), (), fault), ()), ()).end) == vars(fault)
