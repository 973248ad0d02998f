//! WebSockets with clients and servers that are not ours: tungstenite within the test, Python's `websockets` as
//! programs.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use thalweg_tests::program::{find_with_module, run};
use thalweg_tests::upstream::Listener;
use thalweg_tests::{Noise, Process, Proxy, STEP, Vitals};
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame};
use tungstenite::protocol::{Message, WebSocketConfig};
use tungstenite::{Error, WebSocket, accept_with_config, client};

use super::{proxy, watchdog};

/// Lengths at the edges of the frame header's length forms (RFC 6455 §5.2), and beyond every buffer.
const LENGTHS: [usize; 11] = [0, 1, 125, 126, 127, 65_535, 65_536, 65_537, 1 << 20, (1 << 24) - 1, 1 << 24];

/// A WebSocket server that echoes messages, pings whoever says `ping me`, closes on `close me`, and tells how each
/// connection was closed.
pub(super) struct Echo {
    listener: Listener,
    closed: Receiver<Option<CloseFrame>>,
}

fn unbounded() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(None).max_frame_size(None)
}

fn timed(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    stream.set_write_timeout(Some(STEP)).unwrap();
    stream
}

impl Echo {
    pub(super) fn start() -> Self {
        let (accepted, connections) = mpsc::channel();
        let (closed, was_closed) = mpsc::channel();
        let closed = Mutex::new(closed);
        thread::spawn(move || {
            for stream in connections {
                let closed = closed.lock().unwrap().clone();
                thread::spawn(move || {
                    let Ok(mut socket) = accept_with_config(timed(stream), Some(unbounded())) else { return };
                    let _ = closed.send(echo(&mut socket));
                });
            }
        });
        Self { listener: Listener::start(accepted), closed: was_closed }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    fn how_closed(&self) -> Option<CloseFrame> {
        self.closed.recv_timeout(STEP).unwrap()
    }
}

/// Serves until the connection ends; how the client closed it.
fn echo(socket: &mut WebSocket<TcpStream>) -> Option<CloseFrame> {
    let mut how = None;
    while let Ok(message) = socket.read() {
        let answered = match message {
            Message::Text(text) if text == "ping me" => {
                socket.send(Message::Ping(b"are you there?".as_slice().into()))
            }
            Message::Text(text) if text == "close me" => socket.close(Some(frame(4321, "as you wish"))),
            Message::Text(_) | Message::Binary(_) => socket.send(message),
            Message::Pong(payload) => socket.send(Message::text(format!("pong {}", payload.len()))),
            Message::Close(frame) => {
                how = frame;
                Ok(())
            }
            Message::Ping(_) | Message::Frame(_) => socket.flush(),
        };
        if answered.is_err() {
            break;
        }
    }
    how
}

fn frame(code: u16, reason: &'static str) -> CloseFrame {
    CloseFrame { code: CloseCode::from(code), reason: reason.into() }
}

pub(super) fn connect(proxy: &Proxy) -> WebSocket<TcpStream> {
    let stream = timed(TcpStream::connect(proxy.web()).unwrap());
    let request = format!("ws://{}/echo", proxy.web());
    client::client_with_config(request, stream, Some(unbounded())).unwrap().0
}

#[test]
fn messages_of_every_length_come_back_unchanged() {
    let _watchdog = watchdog("messages_of_every_length_come_back_unchanged");
    let echo = Echo::start();
    let proxy = proxy(&[&echo.url()]);
    let mut socket = connect(&proxy);
    for len in LENGTHS {
        let text = Message::text("\u{20ac}".repeat(len / 3) + &"x".repeat(len % 3));
        let binary = Message::binary(Noise::new(len as u64).take(len));
        for message in [text, binary] {
            socket.send(message.clone()).unwrap();
            let got = socket.read().unwrap();
            assert!(got == message, "{len} bytes came back as {} other ones", got.len());
        }
    }
}

#[test]
fn fragments_with_a_ping_between_them_make_one_message() {
    let _watchdog = watchdog("fragments_with_a_ping_between_them_make_one_message");
    let echo = Echo::start();
    let proxy = proxy(&[&echo.url()]);
    let mut socket = connect(&proxy);
    let mut expected = String::new();
    for number in 0..50 {
        let piece = format!("piece {number}; ").repeat(number);
        expected.push_str(&piece);
        let opcode = OpCode::Data(if number == 0 { Data::Text } else { Data::Continue });
        socket.send(Message::Frame(Frame::message(piece, opcode, number == 49))).unwrap();
        if number % 10 == 5 {
            socket.send(Message::Ping(vec![7; number].into())).unwrap();
            assert_eq!(socket.read().unwrap(), Message::Pong(vec![7; number].into()));
        }
    }
    assert_eq!(socket.read().unwrap(), Message::text(expected));
}

#[test]
fn pings_are_answered_from_both_sides() {
    let _watchdog = watchdog("pings_are_answered_from_both_sides");
    let echo = Echo::start();
    let proxy = proxy(&[&echo.url()]);
    let mut socket = connect(&proxy);
    for payload in [vec![], vec![1; 125]] {
        socket.send(Message::Ping(payload.clone().into())).unwrap();
        assert_eq!(socket.read().unwrap(), Message::Pong(payload.into()));
    }
    socket.send(Message::text("ping me")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Ping(b"are you there?".as_slice().into()));
    assert_eq!(socket.read().unwrap(), Message::text("pong 14"), "reading the ping has answered it");
}

#[test]
fn close_codes_and_reasons_reach_the_other_side() {
    let _watchdog = watchdog("close_codes_and_reasons_reach_the_other_side");
    let echo = Echo::start();
    let proxy = proxy(&[&echo.url()]);
    for (code, reason) in [(1000, ""), (1001, "going away"), (1011, "it broke"), (3000, "x"), (4999, "y")] {
        let mut socket = connect(&proxy);
        socket.close(Some(frame(code, reason))).unwrap();
        assert_eq!(echo.how_closed(), Some(frame(code, reason)));
        let answer = socket.read().unwrap();
        assert!(
            matches!(answer, Message::Close(Some(ref said)) if u16::from(said.code) == code),
            "{answer:?}"
        );
        assert!(matches!(socket.read(), Err(Error::ConnectionClosed)), "it ends after the handshake");
    }
    let mut socket = connect(&proxy);
    socket.send(Message::text("close me")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Close(Some(frame(4321, "as you wish"))));
    assert!(matches!(socket.read(), Err(Error::ConnectionClosed)));
}

/// Echoes what it gets, bounded by nothing.
const PYTHON_SERVER: &str = r#"
import asyncio, sys, websockets
async def echo(socket, *_):
    async for message in socket:
        await socket.send(message)
async def main():
    async with websockets.serve(echo, "127.0.0.1", 0, max_size=None) as server:
        print("port", server.sockets[0].getsockname()[1], file=sys.stderr, flush=True)
        await asyncio.Future()
asyncio.run(main())
"#;

/// With and without compression: text, binary, fragments, pings, many at once, and a close with a code.
const PYTHON_CLIENT: &str = r#"
import asyncio, os, sys, websockets
async def talk(url, compression, longest):
    async with websockets.connect(url, max_size=None, compression=compression) as socket:
        for length in (0, 1, 125, 126, 127, 65535, 65536, longest):
            for message in ("x" * length, os.urandom(length)):
                await socket.send(message)
                assert await socket.recv() == message, length
        async def pieces():
            for number in range(100):
                yield "piece %d" % number * number
        await socket.send(pieces())
        assert await socket.recv() == "".join(["piece %d" % number * number for number in range(100)])
        await asyncio.wait_for(await socket.ping(b"hello"), 5)
        await socket.close(4000, "done")
    assert (socket.close_code, socket.close_reason) == (4000, "done"), socket.close_code
async def main():
    url = "ws://" + sys.argv[1]
    await talk(url, None, 1 << 24)
    await talk(url, "deflate", 1 << 20)
    sockets = await asyncio.gather(*(websockets.connect(url) for _ in range(50)))
    async def rounds(number, socket):
        for turn in range(20):
            await socket.send("%d %d" % (number, turn))
            assert await socket.recv() == "%d %d" % (number, turn)
        await socket.close()
    await asyncio.gather(*(rounds(number, socket) for number, socket in enumerate(sockets)))
asyncio.run(main())
"#;

#[test]
fn python_websockets_talk_through_the_proxy() {
    let _watchdog = watchdog("python_websockets_talk_through_the_proxy");
    let Some(python) = find_with_module("python3", "websockets") else { return };
    let server = Process::start(Command::new(&python).args(["-c", PYTHON_SERVER]));
    let port: u16 = server.wait_line("the port", STEP, |line| line.strip_prefix("port ")?.parse().ok());
    let proxy = proxy(&[&format!("http://127.0.0.1:{port}")]);
    let before = Vitals::of(&proxy);
    let mut command = Command::new(&python);
    let finished =
        run(command.args(["-c", PYTHON_CLIENT, &proxy.web().to_string()]), Duration::from_secs(40));
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    before.wait_for(&proxy, "a hundred WebSockets");
}
