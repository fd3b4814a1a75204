"""What the child process of the local provider runs: one llama.cpp server, alive as long as its stdin is open.

Theory of operation. The parent writes one JSON line (the settings) to stdin and then keeps the pipe open. The child
answers with one JSON line on stdout, `{"url": ...}` or `{"error": ...}`, and reads stdin until it closes: that
happens when the parent closes it, exits, or is killed, so no child is ever left behind. Run as a file, by path:
it imports nothing of this package, and nothing beside the notebook can shadow what it imports.
"""

import json
import os
import signal
import sys
from typing import Any, NoReturn


def main() -> NoReturn:
    """Read the settings, serve until stdin closes, and leave without running the engine's destructors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    settings = json.loads(sys.stdin.buffer.readline())
    try:
        server = serve(settings)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must reach the parent as one line
        say({"error": f"{error}" or type(error).__name__})
        os._exit(1)
    say({"url": server.listening_address})
    sys.stdin.buffer.read()
    os._exit(0)  # tearing the server down in order can hang


def serve(settings: dict[str, Any]) -> Any:  # noqa: ANN401 - the engine ships no types
    """Start the server on a free port of this machine only, behind a key."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.api_keys = [settings["key"]]
    params.n_parallel = settings["parallel"]
    params.n_ctx = settings["context"] * settings["parallel"]  # shared out
    params.chat_template = settings["template"]
    params.slot_save_path = settings["slots"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.port = 0
    params.ui = False
    params.use_jinja = True
    params.cache_ram_mib = 128  # the default, 8 GiB, is a laptop's whole memory
    params.verbosity = 0  # the default writes ten lines into the cell
    return xllamacpp.Server(params)


def say(line: dict[str, str]) -> None:
    """Tell the parent one thing."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
