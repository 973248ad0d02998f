"""A client that uses what httpx has for HTTP/2, and h2 where httpx shows too little, against the service of
tests/scenario/runtimes.rs.

Its arguments are the base URL and, through TLS, the file of the certificate that it trusts. It ends with 0 when every
answer was what it has to be, and otherwise says what was not.
"""

import asyncio
import socket
import ssl
import sys
import urllib.parse

import h2.config
import h2.connection
import h2.events
import httpx

# Seconds for one exchange: a busy machine and a debug build need some of it.
PATIENCE = 20
# Requests side by side.
TOGETHER = 100
# Bytes of the body under /large.
LARGE = 10_000_000

base = sys.argv[1]
context = ssl.create_default_context(cafile=sys.argv[2]) if len(sys.argv) > 2 else True


def client(kind):
    # Without TLS it speaks HTTP/2 only when it may speak nothing else.
    return kind(base_url=base, http1=False, http2=True, verify=context, timeout=PATIENCE)


def wants(answer, status, text):
    got = (answer.http_version, answer.status_code, answer.text)
    assert got == ("HTTP/2", status, text), f"{answer.request.method} {answer.request.url}: {got} instead of {text}"
    return answer.extensions["network_stream"].get_extra_info("client_addr")


def one_after_another():
    with client(httpx.Client) as session:
        ends = {wants(session.get(f"/echo/{n}?q={n}"), 200, f"GET /echo/{n}?q={n} 0") for n in range(50)}
        head = session.head("/echo/head")
        ends.add(wants(head, 200, ""))
        assert head.headers["content-length"] == str(len("HEAD /echo/head 0")), head.headers
        ends.add(wants(session.delete("/empty"), 204, ""))
        ends.add(wants(session.post("/echo/form", data={"a": "b"}), 200, "POST /echo/form 3"))
        body = b"x" * 3_000_000
        ends.add(wants(session.put("/echo/up", content=body), 200, "PUT /echo/up 3000000"))
        # A stream of unknown length, and an answer of unknown length.
        parts = (body[:70_001] for _ in range(30))
        ends.add(wants(session.put("/chunks", content=parts), 200, "PUT /chunks 2100030"))
        large = session.get("/large")
        assert large.status_code == 200 and large.headers["content-length"] == str(LARGE), large
        assert large.content == bytes(range(251)) * (LARGE // 251) + bytes(range(LARGE % 251)), "the large body"
        assert len(ends) == 1, f"{len(ends)} connections"


async def side_by_side():
    async with client(httpx.AsyncClient) as session:
        # What it does before its connection is there, it does on connections of its own.
        ends = {wants(await session.get("/echo/first"), 200, "GET /echo/first 0")}
        for turn in range(5):
            sizes = [number * turn * 10 for number in range(TOGETHER)]
            answers = await asyncio.gather(
                *(session.post(f"/echo/{turn}/{n}", content=b"x" * size) for n, size in enumerate(sizes))
            )
            for number, (answer, size) in enumerate(zip(answers, sizes)):
                ends.add(wants(answer, 200, f"POST /echo/{turn}/{number} {size}"))
        assert len(ends) == 1, f"{len(ends)} connections"


def trailers():
    """httpx keeps no trailers, in neither direction."""
    url = urllib.parse.urlsplit(base)
    stream = socket.create_connection((url.hostname, url.port), timeout=PATIENCE)
    if context is not True:
        context.set_alpn_protocols(["h2"])
        stream = context.wrap_socket(stream, server_hostname=url.hostname)
    session = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    session.initiate_connection()
    number = session.get_next_available_stream_id()
    head = {":method": "POST", ":scheme": url.scheme, ":authority": url.netloc, ":path": "/chunks", "te": "trailers"}
    session.send_headers(number, list(head.items()))
    session.send_data(number, b"hello world")
    session.send_headers(number, [("x-check", "right")], end_stream=True)
    body, seen, over = b"", {}, False
    while not over:
        stream.sendall(session.data_to_send())
        received = stream.recv(65536)
        assert received, "the connection ended"
        for event in session.receive_data(received):
            if isinstance(event, h2.events.DataReceived):
                body += event.data
                session.acknowledge_received_data(event.flow_controlled_length, number)
            if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                seen[type(event).__name__] = dict(event.headers)
            assert not isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)), event
            over = over or isinstance(event, h2.events.StreamEnded)
    assert seen["ResponseReceived"][":status"] == "200" and body == b"POST /chunks 11", (seen, body)
    assert seen["TrailersReceived"] == {"x-sum": "11 right"}, seen
    session.close_connection()
    stream.sendall(session.data_to_send())
    stream.close()


one_after_another()
asyncio.run(side_by_side())
trailers()
print("all served")
