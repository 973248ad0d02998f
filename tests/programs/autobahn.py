"""Autobahn's cases (the package kosoku) and what they are played to (websockets), for tests/scenario/autobahn.rs.

`echo` serves messages back, and says `port N`; `client HOST:PORT` is Autobahn's fuzzing client, and prints a line for each
case: what it is called, `passed` or `failed`, and the verdicts on its messages and on its end. `server` is Autobahn's
fuzzing server, says `port N`, and prints the same when `play HOST:PORT` has been: a client that sends messages back.
Further arguments of `client` and `server` are the cases that are played, with `*` for any part of a name.
"""

import asyncio
import os
import sys

import kosoku
import websockets

# Cases that are played side by side.
AT_ONCE = 4


def tell(results):
    for case in results:
        verdicts = f"{case.behavior.value}, {case.behavior_close.value}"
        print(case.case_id, "passed" if case.passed else "failed", verdicts, sep="\t")


async def echo_all(socket):
    try:
        async for message in socket:
            await socket.send(message)
    except websockets.ConnectionClosed:
        pass


async def echo():
    async with websockets.serve(echo_all, "127.0.0.1", 0, max_size=None) as server:
        print("port", server.sockets[0].getsockname()[1], file=sys.stderr, flush=True)
        await server.serve_forever()


async def client(address, *cases):
    try:
        tell(await kosoku.run_fuzzingclient(address, list(cases), None, concurrency=AT_ONCE))
    except kosoku.FailureError as failure:
        tell(failure.results)


async def server(*cases):
    async with kosoku.run_fuzzingserver(list(cases), None, host="127.0.0.1", port=0) as fuzzer:
        print("port", fuzzer.port, file=sys.stderr, flush=True)
        try:
            tell(await fuzzer.get_result())
        except kosoku.FailureError as failure:
            tell(failure.results)


async def play(address):
    async with websockets.connect(f"ws://{address}/getCaseCount") as socket:
        count = int(await socket.recv())
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(case):
        url = f"ws://{address}/runCase?case={case}&agent=websockets"
        async with turn:
            try:
                async with websockets.connect(url, max_size=None) as socket:
                    await echo_all(socket)
            except (websockets.WebSocketException, OSError) as failure:
                print(case, failure, file=sys.stderr)

    await asyncio.gather(*map(one, range(1, count + 1)))
    async with websockets.connect(f"ws://{address}/updateReports?agent=websockets") as socket:
        await socket.wait_closed()


what, *arguments = sys.argv[1:]
asyncio.run({"echo": echo, "client": client, "server": server, "play": play}[what](*arguments))
sys.stdout.flush()
# kosoku does not survive the end of the interpreter.
os._exit(0)
