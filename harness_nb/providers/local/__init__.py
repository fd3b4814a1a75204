"""The embedded model: a small llama.cpp server in a child process, behind an ordinary `Model` call."""
