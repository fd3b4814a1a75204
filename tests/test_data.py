"""Values are picked out of JSON by a path; the web is fetched within bounds, and nothing private."""

import asyncio
import gzip
import json
import socket
import socketserver
import threading
import time
from contextlib import contextmanager

import pytest

from harness_nb.errors import ToolError
from harness_nb.messages import ToolCall
from harness_nb.safety.spill import Outputs
from harness_nb.seams import Call, Run, ToolSpec
from harness_nb.toolkit.address import public
from harness_nb.toolkit.data import json_query, querying
from harness_nb.toolkit.page import readable_page
from harness_nb.toolkit.web import http_get, web
from harness_nb.tools import Toolbox

PEOPLE = json.dumps(
    {
        "rows": [{"name": "Ann", "age": 5}, {"name": "Bo", "age": None}],
        "a.b": {"0": "zero"},
        'q"]': 1,
        "": 2,
        "*": 3,
    }
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("rows[0].name", "Ann"),
        ("rows.0.name", "Ann"),
        ("$.rows[-1].name", "Bo"),
        ("rows[*].name", ["Ann", "Bo"]),
        ("rows.*.age", [5, None]),
        ('["a.b"].0', "zero"),
        ('["q\\"]"]', 1),
        ('[""]', 2),
        ('["*"]', 3),
        ("", json.loads(PEOPLE)),
        ("$", json.loads(PEOPLE)),
    ],
)
def test_a_path_leads_to_its_value(path, value):
    assert json_query(PEOPLE, path) == value


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("row", "The whole has no `row`. Did you mean `rows`? It is an object with `rows`, `a.b`"),
        ("rows[5]", "`rows` is a list of 2 items: there is no [5]."),
        ("rows.first", "`rows` is a list of 2 items: give an index such as [0], not `first`."),
        ("rows[0].nmae", "`rows[0]` has no `nmae`. Did you mean `name`?"),
        ("rows[*].x", "`rows[0]` has no `x`."),
        ("rows[0].age.x", "`rows[0].age` is a number: it has no `x`."),
        ("rows[1].age[*]", "`rows[1].age` is null: `[*]` needs a list or an object."),
        ("rows[", "is not a path: it can't be read from `[` on"),
        ("a..b", "is not a path"),
        ("rows[x]", "is not a path: it can't be read from `[x]` on"),
    ],
)
def test_a_path_that_leads_nowhere_says_how_far_it_led(path, said):
    with pytest.raises(ToolError) as fault:
        json_query(PEOPLE, path)
    assert said in str(fault.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('{"a": 1,}', "The data is not valid JSON: "),
        ("[NaN]", "The data is not valid JSON: NaN is not JSON"),
        ('{"a": 1, "a": 2}', "a key is given twice"),
        ("[" * 200 + "]" * 200, "nested deeper than 100"),
        (
            "people.json",
            "The data is not valid JSON: Expecting value: line 1 column 1 (char 0). If it is a file, give it as `file`.",
        ),
        (
            '{"a": 1}\n{"a": 2}\n',
            "It holds more than one value, perhaps one a line: give one of them as `data`.",
        ),
        ("", "Give either `data` or `file`."),
    ],
)
def test_bad_json_is_said_with_what_is_wrong(tmp_path, data, said):
    with pytest.raises(ToolError) as fault:
        querying(tmp_path)(data)
    assert said in str(fault.value)


def test_a_file_and_a_long_output_are_read_by_name(tmp_path):
    (tmp_path / "people.json").write_text("\ufeff" + PEOPLE)
    (tmp_path / "bad.json").write_text("{")
    outputs = Outputs(tmp_path / "outputs")
    name = outputs.keep(PEOPLE, Call("c", {}, ToolSpec("dump", "Dump.", {})))
    query = querying(tmp_path, outputs.text)
    assert query(path="rows[0].name", file="people.json") == query(name, "rows[0].name") == "Ann"
    with pytest.raises(ToolError, match=r"`bad.json` is not valid JSON"):
        query(file="bad.json")
    with pytest.raises(ToolError, match="There is no output `out-9`"):
        query("out-9")
    for file, said in (
        ("no.json", "can't be read"),
        ("../x.json", "outside the workspace"),
        (".", "it is a directory"),
    ):
        with pytest.raises(ToolError, match=said):
            query(file=file)
    with pytest.raises(ToolError, match="Give either"):
        query("{}", file="people.json")


# -- the web: a real server that says what each test tells it to


@contextmanager
def serving(answer):
    """The URL of a server; `answer` is given the connection's file and the request's first line, and the lines after."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            lines = []
            while line := self.rfile.readline().strip():
                lines.append(line.decode())
            asked.append(lines)
            try:
                said = answer(lines[0].split()[1])
                for piece in [said] if isinstance(said, bytes) else said:
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:  # the client has gone
                pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    asked = []
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def page(body, kind="text/html; charset=utf-8", status="200 OK", **headers):
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    body = body if isinstance(body, bytes) else body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def fetched(url, **options):
    return got(url, allow_private=True, **options)


def got(url, **options):
    (get,) = web(**options)
    return asyncio.run(get(url))


def refusal(url, **options):
    with pytest.raises(ToolError) as fault:
        fetched(url, **options)
    return str(fault.value)


def test_a_page_comes_as_text_and_little_is_sent():
    with serving(lambda path: page("<title>T</title><h1>Hi</h1><script>x</script><a href='/b'>B</a>")) as (
        url,
        asked,
    ):
        said = fetched(f"{url}/a b?q=é#part")
    assert said == f"[{url}/a%20b?q=%C3%A9: status 200, text/html]\nT\n\n# Hi\n[B]({url}/b)"
    assert asked[0][0] == "GET /a%20b?q=%C3%A9 HTTP/1.1"
    names = {line.split(":")[0].lower() for line in asked[0][1:]}
    assert names == {"host", "user-agent", "accept", "accept-encoding", "connection"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (page('{"a": 1}', "application/json"), 'json]\n{"a": 1}'),
        (page("é".encode("latin-1"), "text/plain; charset=latin-1"), "plain]\né"),
        (page('<meta charset="latin-1">é'.encode("latin-1"), "text/html"), "html]\né"),
        (page(b"\xff\xfea\0", "text/plain"), "plain]\na"),
        (page("x", "text/plain; charset=none-such"), "plain]\nx"),
        (page(b"a\0b", "application/octet-stream"), "(3 bytes of application/octet-stream, not text)"),
        (page(gzip.compress(b"packed"), "text/plain", Content_Encoding="gzip"), "plain]\npacked"),
        (b"HTTP/1.1 200 OK\r\n\r\nno type", "no type"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "abc"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "cut off"),
    ],
)
def test_an_answer_is_read_for_what_it_is(answer, said):
    with serving(lambda _: answer) as (url, _):
        assert said in fetched(url)


async def test_a_picture_is_a_picture():
    picture = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\1\0\0\0\1"
    with serving(lambda _: page(picture, "image/gif")) as (url, _):
        dispatch = Toolbox(web(allow_private=True)).dispatch()
        result = await dispatch(ToolCall("c", "http_get", json.dumps({"url": url})), Run())
    assert [(part.kind, part.media_type) for part in result.content] == [("image", "image/png")]


@pytest.mark.parametrize("packed", [False, True])
def test_a_body_is_read_to_the_limit_only(packed):
    body = b"x" * 5_000_000
    answer = (
        page(gzip.compress(body), "text/plain", Content_Encoding="gzip")
        if packed
        else page(body, "text/plain")
    )
    with serving(lambda _: answer) as (url, _):
        said = fetched(url, most=10_000)
    head, text = said.split("\n", 1)
    assert "cut off, more than 10,000 bytes" in head
    assert text == "x" * 10_000


def test_a_server_that_trickles_is_left_when_the_time_is_up():
    def drip(path):
        if path == "/body":
            yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
        for _ in range(200):
            yield b"x"
            time.sleep(0.05)

    with serving(drip) as (url, _):
        for path in ("/head", "/body"):
            began = time.monotonic()
            assert "it took too long" in refusal(url + path, seconds=0.3)
            assert time.monotonic() - began < 5


def test_failures_are_told_with_what_the_server_says():
    with serving(lambda _: page("<p>No <b>such</b> page", status="404 Not Found")) as (url, _):
        assert refusal(url) == f"{url}/ answered with status 404: No such page"
    assert "can't be fetched: connection refused" in refusal(url).lower()
    with serving(lambda _: b"nonsense\r\n\r\n") as (url, _):
        assert "can't be fetched" in refusal(url)
        assert "can't be fetched" in refusal(url.replace("http:", "https:"))
    with serving(lambda _: page(b"junk", "text/plain", Content_Encoding="gzip")) as (url, _):
        assert "can't be fetched" in refusal(url)
    with serving(lambda _: page(b"junk", "text/plain", Content_Encoding="br")) as (url, _):
        assert "its encoding, 'br', is not known here" in refusal(url)


def test_a_redirect_is_followed_on_its_host_and_only_so_often():
    def answer(path):
        number = int(path.removeprefix("/"))
        return (
            page("", status="302 Found", Location=f"/{number - 1}") if number else page("there", "text/plain")
        )

    with serving(answer) as (url, _):
        assert fetched(f"{url}/5") == f"[{url}/0: status 200, text/plain]\nthere"
        assert "redirects more than 5 times" in refusal(f"{url}/6")


@pytest.mark.parametrize("target", ["https://example.org/x", "http://127.0.0.2/x", "//example.org/x"])
def test_a_redirect_to_another_host_is_another_call(target):
    with serving(lambda _: page("", status="301 Moved", Location=target)) as (url, asked):
        said = fetched(url)
    assert said.startswith(
        "[301: redirects to another host and was not followed; to go there, http_get(url='http"
    )
    assert len(asked) == 1


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://u:p@127.0.0.1/"])
def test_a_redirect_is_checked_like_the_first_url(target):
    with serving(lambda _: page("", status="302 Found", Location=target)) as (url, _):
        refusal(url)


PRIVATE = [
    *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "0", "0.0.0.0"),
    *(
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
    ),
    *(
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[fe80::1]",
        "[fc00::1]",
        "[fec0::1]",
    ),
    *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[ff02::1]", "[2001:db8::1]"),
]


@pytest.mark.parametrize("host", PRIVATE)
def test_no_spelling_of_a_private_address_is_fetched(host):
    with pytest.raises(ToolError, match="of this machine or a private network"):
        got(f"http://{host}:9/x")


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_a_public_address_is_public(address):
    assert public(address)


@pytest.mark.parametrize("found", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::1"], ["fe80::1%eth0"]])
def test_a_name_that_has_a_private_address_is_not_fetched(found):
    with pytest.raises(ToolError, match=r"`inside.example` is .*, an address of this machine"):
        got("https://inside.example/", resolve=lambda host, port: found)


def test_the_address_that_was_checked_is_the_one_that_is_connected_to():
    answers = [["127.0.0.1"], ["127.0.0.9"]]
    with serving(lambda _: page("here", "text/plain")) as (url, asked):
        port = url.rpartition(":")[2]
        said = fetched(f"http://name.example:{port}/", resolve=lambda host, port: answers.pop(0))
    assert said.endswith("here")
    assert answers == [["127.0.0.9"]]
    assert f"Host: name.example:{port}" in asked[0]


def test_a_name_without_an_address_is_told():
    def unknown(host, port):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert "`no.example` can't be found: Name or service not known." in refusal(
        "http://no.example", resolve=unknown
    )
    assert "has no address" in refusal("http://no.example", resolve=lambda host, port: [])


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "example.org",
            "file:///etc/passwd",
            "ftp://example.org",
            "http://",
            "https:///x",
            "http://[::1",
            "//x",
        ),
        *(
            "http://user:key@example.org/",
            "http://a b/",
            "http://x\n.org/",
            "http://x:99999/",
            "javascript:alert(1)",
        ),
        *("http://a\u202eb/", "http://" + "é" * 300 + "/", "gopher://127.0.0.1/", "http://x\r\nHost: y/"),
    ],
)
def test_what_is_no_url_is_refused(url):
    with pytest.raises(ToolError):
        asyncio.run(http_get(url))


def callers():
    """The threads in which a call is made."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("tool-")]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_stop_ends_the_thread_of_a_call_at_once(scheme):
    silent = socket.create_server(("127.0.0.1", 0))
    (get,) = web(allow_private=True)
    work = asyncio.create_task(get(f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/"))
    connection, _ = await asyncio.to_thread(silent.accept)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    for thread in callers():  # none, if it was quick
        await asyncio.to_thread(thread.join, 5)
    assert callers() == []
    connection.close()
    silent.close()


async def test_a_look_up_that_takes_for_ever_does_not_hold_the_call():
    over = threading.Event()
    (get,) = web(resolve=lambda host, port: over.wait(30) and [], seconds=0.2)
    began = time.monotonic()
    with pytest.raises(ToolError, match="it took too long"):
        await get("https://slow.example/")
    assert time.monotonic() - began < 5
    over.set()


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a<p>b<br>c", "a\n\nb\nc"),
        ("<ul><li>a<li>b</ul>", "- a\n- b"),
        ("<style>p{}</style><div hidden>x<div>y</div></div>z", "z"),
        ("<p hidden>x<p>y", "x\n\ny"),
        ("a <!-- b --> c <!-- d", "a c"),
        ("&lt;b&gt; &amp; &#x41;", "<b> & A"),
        ("<pre>a\n  b</pre>", "a\n  b"),
        ("<table><tr><td>1<td>2</table>", "| 1 | 2"),
        ('<a href="javascript:x">j</a> <a href="#x">k</a> <a href="c">l</a>', "j k [l](https://x.org/a/c)"),
        ('<img alt="A cat" src=x>', "(A cat)"),
        ("<title>T\n t</title><h1>T t</h1>x", "# T t\nx"),
        ("<script>var a = '</p>'", ""),
        ("", ""),
    ],
)
def test_a_page_reads_well(html, text):
    assert readable_page(html, "https://x.org/a/b") == text


@pytest.mark.parametrize("bad", ["<!--", "<![", "<a ", "</", "<?", "<a href='", "<", "<div>", "&#x"])
def test_no_page_takes_long(bad):
    began = time.process_time()
    readable_page(bad * (500_000 // len(bad)) + ">")
    assert time.process_time() - began < 10
