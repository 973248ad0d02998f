//! The admin thread: its listeners, its connections, its end.
//!
//! The binary calls [`start`] once the plan is known and [`Handle::shutdown`] as the last thing but
//! the log. Sockets are bound before the thread starts, so that errors come back to the caller.
//! Invariant: the number of connections per listener, the time of each and the size of each request
//! are bounded, and the unix socket has places of its own.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::audit::AuditLog;
use crate::auth::{Auth, Peer};
use crate::connection::Connection;
use crate::control::Control;
use crate::heads::{Head, Heads};
use crate::operation::App;
use crate::routes;
use crate::server::unix::{Peers, serve_unix};
use crate::session::Sessions;
use crate::socket::{self, SocketFile};
use crate::tls::AdminTls;
use crate::token::{self, Token, TokenFile, Tokens};

/// Connections per listener. At the limit, the connection that has waited longest for a head is closed for the next
/// one. If all of them are being answered, further connections wait in the kernel's queue.
const CONNECTIONS: usize = 256;
/// Time for the head of a request, and for the silence before it on a kept connection.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Largest head of a request, in bytes.
const HEAD: usize = 64 * 1024;
/// Longest life of a connection; then it is closed after its current answer.
const CONNECTION_TIME: Duration = Duration::from_secs(300);
/// Longest life of a connection with an event stream. Its reader goes on where it was on another one.
const STREAM_TIME: Duration = Duration::from_secs(3600);
/// Time for that last answer, and for all of them at the end of the process.
const LAST_ANSWER_TIME: Duration = Duration::from_secs(1);
/// Interval at which a new connection at the limit checks again for a connection to close.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Pause after a failed accept (no descriptors, no memory).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What to do when the socket cannot be opened.
pub const ANOTHER_SOCKET: &str = "`--admin-socket PATH` or `$THALWEG_ADMIN_SOCKET` names another place";

/// Where the admin API listens and whom it lets in.
#[derive(Debug, Default)]
pub struct AdminOptions {
    /// The unix socket. It is always there.
    pub socket: PathBuf,
    /// The TCP address of the admin listener, if any. The caller has made sure that an address that
    /// is not loopback has TLS or is wanted all the same (`insecure: true`).
    pub address: Option<SocketAddr>,
    /// What the admin listener shakes hands on; `None`: it speaks in the clear.
    pub tls: Option<Arc<AdminTls>>,
    /// The token for TCP; without one, `<state_dir>/admin.token` is used, and made if it is missing.
    pub token: Option<Token>,
    /// A token for TCP that may GET and HEAD only. It must differ from `token`.
    pub read_token: Option<Token>,
    /// The state directory: the token that is made, and the audit log.
    pub state_dir: PathBuf,
    /// Host names by which the admin listener may be addressed, besides IP addresses and `localhost`.
    pub names: Vec<String>,
    /// The address of a listener with only `/metrics`, `/livez`, `/readyz` and `/healthz`, without a token.
    pub metrics_address: Option<SocketAddr>,
    /// The process takes over from another one: nothing is answered before [`Handle::take_place`], and the unix socket
    /// of the other one is not in the way.
    pub succeeds: bool,
    /// Sockets of the other one for the admin listener and that of metrics.
    pub sockets: [Option<StdTcpListener>; 2],
    /// Serves connections of this process itself to the unix socket. Only for tests: a proxy that connects to its own
    /// socket does so for a client of its listeners, and the kernel reports the proxy's user.
    pub serves_itself: bool,
}

/// The admin API could not be started.
#[derive(Debug)]
pub struct StartError {
    what: String,
    source: io::Error,
    help: Option<&'static str>,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)?;
        self.help.map_or(Ok(()), |help| write!(f, "\n  help: {help}"))
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Where the admin API can be reached.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// The unix socket.
    pub socket: PathBuf,
    /// The admin listener, with the port that the kernel chose.
    pub admin: Option<SocketAddr>,
    /// The metrics listener, with the port that the kernel chose.
    pub metrics: Option<SocketAddr>,
}

/// The running admin thread. Dropping it ends the thread as [`Handle::shutdown`] does.
#[derive(Debug)]
pub struct Handle {
    addresses: Addresses,
    token_file: Option<TokenFile>,
    tokens: Option<Arc<Tokens>>,
    tls: Option<Arc<AdminTls>>,
    stop: watch::Sender<bool>,
    begin: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    socket_file: SocketFile,
    /// Those of the admin listener and of metrics, for a process that takes over.
    copies: [Option<StdTcpListener>; 2],
}

impl Handle {
    /// Where the admin API can be reached.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The token file, when there is a TCP address and no token was configured. Print its path; its
    /// value only to a terminal, and only if it was created now.
    pub fn token_file(&self) -> Option<&TokenFile> {
        self.token_file.as_ref()
    }

    /// What the admin listener asks for, to be replaced while it runs; `None`: there is no such listener.
    pub fn tokens(&self) -> Option<&Arc<Tokens>> {
        self.tokens.as_ref()
    }

    /// What the admin listener shakes hands on, to be replaced while it runs; `None`: it speaks in the clear.
    pub fn tls(&self) -> Option<&Arc<AdminTls>> {
        self.tls.as_ref()
    }

    /// Begins to answer, where [`AdminOptions::succeeds`] was said.
    ///
    /// # Errors
    /// The unix socket cannot be put in its place; all else is answered.
    pub fn take_place(&mut self) -> io::Result<()> {
        self.begin.send_replace(true);
        self.socket_file.take_place()
    }

    /// Answers what has been asked and accepts nobody any more: another process does.
    pub fn retire(&mut self) {
        self.copies = [None, None];
        self.socket_file.pass_on();
        self.stop.send_replace(true);
    }

    /// Copies of the sockets of the admin listener and of that of metrics, as far as there are any.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn copies(&self) -> io::Result<[Option<StdTcpListener>; 2]> {
        let copy =
            |socket: &Option<StdTcpListener>| socket.as_ref().map(StdTcpListener::try_clone).transpose();
        Ok([copy(&self.copies[0])?, copy(&self.copies[1])?])
    }

    /// Answers what has been asked (at most a second), ends the thread and removes the socket.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        // Who waits to begin ends.
        self.begin = watch::channel(false).0;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Binds the sockets and starts the thread.
///
/// # Errors
/// A socket cannot be bound (another thalweg may be running), the token cannot be read or made, or
/// the thread cannot be started. The text names which.
pub fn start(options: AdminOptions, control: Arc<dyn Control>) -> Result<Handle, StartError> {
    let failed = |what: String| move |source| StartError { what, source, help: None };
    let (unix, socket_file) =
        socket::bind(&options.socket, options.succeeds).map_err(|source| StartError {
            what: format!("the admin socket {} cannot be opened", options.socket.display()),
            source,
            help: Some(ANOTHER_SOCKET),
        })?;
    // Plain sockets: the caller may be inside a runtime of its own, which allows no other here.
    let [passed_admin, passed_metrics] = options.sockets;
    let admin = bind("admin", options.address, passed_admin)?;
    let metrics = bind("metrics", options.metrics_address, passed_metrics)?;
    let copy = |socket: &Option<StdTcpListener>| socket.as_ref().and_then(|socket| socket.try_clone().ok());
    let copies = [copy(&admin), copy(&metrics)];
    let (token, token_file) = match (&admin, options.token) {
        (None, _) => (None, None),
        (Some(_), Some(token)) => (Some(token), None),
        (Some(_), None) => {
            let path = options.state_dir.join(token::TOKEN_FILE);
            let file = token::load_or_create(&options.state_dir)
                .map_err(failed(format!("the admin token {} cannot be read or made", path.display())))?;
            (Some(file.token.clone()), Some(file))
        }
    };
    let tokens = token.map(|token| Tokens::new(token, options.read_token.clone())).transpose();
    let tokens = tokens.map(|tokens| tokens.map(Arc::new)).map_err(|what| StartError {
        what: "the admin read token cannot be used".into(),
        source: io::Error::new(io::ErrorKind::InvalidInput, what),
        help: None,
    })?;
    let audit = AuditLog::new(options.state_dir, Arc::clone(&control));
    let secure = options.tls.is_some();
    let sessions = tokens.clone().map(|tokens| Arc::new(Sessions::new(tokens, secure)));
    let app = Arc::new(App::new(control, audit, crate::openapi::document, sessions.clone()));
    let local = |listener: &Option<StdTcpListener>| listener.as_ref().and_then(|l| l.local_addr().ok());
    let addresses = Addresses { socket: options.socket, admin: local(&admin), metrics: local(&metrics) };
    let names = options.names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let gate = sessions.map(|sessions| Auth::Token { sessions, names, tls: options.tls.clone() });
    let admin = admin.zip(gate).map(|(listener, gate)| (listener, gate, options.tls.clone()));
    let (stop, stopped) = watch::channel(false);
    let (begin, begun) = watch::channel(!options.succeeds);
    let own_pid = (!options.serves_itself).then(rustix::process::getpid);
    let thread = spawn(Listeners { unix, own_pid, admin, metrics }, app, (begun, stopped))?;
    Ok(Handle {
        addresses,
        token_file,
        tokens,
        tls: options.tls,
        stop,
        begin,
        thread: Some(thread),
        socket_file,
        copies,
    })
}

/// A socket of the process before this one, or a new one.
fn bind(
    name: &str,
    address: Option<SocketAddr>,
    passed: Option<StdTcpListener>,
) -> Result<Option<StdTcpListener>, StartError> {
    let Some(address) = address else { return Ok(None) };
    let what = || format!("the {name} address {address} cannot be opened");
    let passed = passed.filter(|passed| is_at(passed, address));
    let bound = passed.map_or_else(|| StdTcpListener::bind(address), Ok);
    bound.map(Some).map_err(|source| StartError { what: what(), source, help: None })
}

/// Starts the thread, which serves when it may begin.
fn spawn(
    listeners: Listeners,
    app: Arc<App>,
    (mut begun, stopped): (watch::Receiver<bool>, watch::Receiver<bool>),
) -> Result<JoinHandle<()>, StartError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |source| StartError { what, source, help: None }
    };
    let (started, outcome) = std::sync::mpsc::sync_channel(1);
    let thread = thread::Builder::new()
        .name("thalweg-admin".into())
        .spawn(move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = started.send(Ok(()));
                // It ends without having begun when the handle is dropped.
                if runtime.block_on(begun.wait_for(|begun| *begun)).is_ok() {
                    listeners.run(&runtime, &app, &stopped);
                }
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        })
        .map_err(failed("the admin thread cannot be started"))?;
    outcome
        .recv()
        .unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
        .map_err(failed("the admin runtime cannot be started"))?;
    Ok(thread)
}

/// Whether a socket is the one of this address; with port 0 the kernel has chosen its port.
fn is_at(socket: &StdTcpListener, address: SocketAddr) -> bool {
    socket
        .local_addr()
        .is_ok_and(|at| at.ip() == address.ip() && (address.port() == 0 || at.port() == address.port()))
}

fn into_tokio(listener: StdTcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// What the thread serves.
struct Listeners {
    unix: StdUnixListener,
    /// The process whose connections to the unix socket are closed.
    own_pid: Option<Pid>,
    admin: Option<(StdTcpListener, Auth, Option<Arc<AdminTls>>)>,
    metrics: Option<StdTcpListener>,
}

impl Listeners {
    /// The thread: serves until it is told to stop and the last answers are given.
    fn run(self, runtime: &Runtime, app: &Arc<App>, stopped: &watch::Receiver<bool>) {
        runtime.block_on(async {
            let mut tasks = Vec::new();
            // Fails only if the descriptor is not a socket or the runtime has no I/O: neither can be.
            if self.unix.set_nonblocking(true).is_ok()
                && let Ok(unix) = UnixListener::from_std(self.unix)
            {
                let open = routes::admin(Arc::clone(app), Auth::Open);
                let closed = routes::admin(Arc::clone(app), Auth::Closed);
                let peers = Peers { open, closed, own_pid: self.own_pid };
                tasks.push(tokio::spawn(serve_unix(unix, peers, stopped.clone())));
            }
            if let Some((listener, gate, tls)) = self.admin
                && let Ok(listener) = into_tokio(listener)
            {
                let router = routes::admin(Arc::clone(app), gate);
                tasks.push(tokio::spawn(serve_tcp(listener, tls, router, stopped.clone())));
            }
            if let Some(Ok(listener)) = self.metrics.map(into_tokio) {
                let router = routes::metrics_only(Arc::clone(app), Auth::Anyone);
                tasks.push(tokio::spawn(serve_tcp(listener, None, router, stopped.clone())));
            }
            for task in tasks {
                let _ = task.await;
            }
        });
    }
}

async fn serve_tcp(
    listener: TcpListener,
    tls: Option<Arc<AdminTls>>,
    router: Router,
    stopped: watch::Receiver<bool>,
) {
    let places = Places::new(stopped);
    while let Some(accepted) = places.next(async || listener.accept().await).await {
        let Some((stream, peer)) = accepted else { continue };
        // Without it answers are merely slower.
        let _ = stream.set_nodelay(true);
        let peer = Peer::Tcp(peer);
        match tls.clone() {
            Some(tls) => places.serve(async move { tls.open(stream).await }, peer, &router).await,
            None => places.serve(async { Some(stream) }, peer, &router).await,
        }
    }
    places.empty().await;
}

/// The bounded places for connections of one listener.
struct Places {
    free: Arc<Semaphore>,
    heads: Heads,
    stopped: watch::Receiver<bool>,
}

impl Places {
    fn new(stopped: watch::Receiver<bool>) -> Self {
        Self { free: Arc::new(Semaphore::new(CONNECTIONS)), heads: Heads::default(), stopped }
    }

    /// The next connection. `None` when the thread is to end;
    /// `Some(None)` after a failed accept, when the pause is over.
    async fn next<T>(&self, accept: impl AsyncFnOnce() -> io::Result<T>) -> Option<Option<T>> {
        let mut stopped = self.stopped.clone();
        let accepted = async {
            match accept().await {
                Ok(connection) => Some(connection),
                Err(_) => {
                    sleep(ACCEPT_PAUSE).await;
                    None
                }
            }
        };
        tokio::select! {
            // Who comes after the end is for another process.
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => None,
            accepted = accepted => Some(accepted),
        }
    }

    /// Serves an open connection in its own task, which holds a connection permit. Waits for a permit at the limit.
    async fn serve<I>(
        &self,
        opening: impl Future<Output = Option<I>> + Send + 'static,
        peer: Peer,
        router: &Router,
    ) where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut free = pin!(Arc::clone(&self.free).acquire_owned());
        let place = loop {
            if self.free.available_permits() == 0 {
                self.heads.call_off_longest();
            }
            // A connection that is being answered now may soon wait for a head.
            match timeout(LOOK_AGAIN, free.as_mut()).await {
                Ok(Ok(place)) => break place,
                Ok(Err(_)) => return,
                Err(_) => {}
            }
        };
        let (router, stopped, head) = (router.clone(), self.stopped.clone(), self.heads.connect());
        tokio::spawn(async move {
            let served = async {
                if let Some(io) = opening.await {
                    serve_connection(io, (peer, &head), router, stopped).await;
                }
            };
            tokio::select! {
                () = served => {}
                () = head.called_off() => {}
            }
            drop(place);
        });
    }

    /// Waits until every connection has ended, at most [`LAST_ANSWER_TIME`].
    async fn empty(&self) {
        let _ = timeout(LAST_ANSWER_TIME, self.free.acquire_many(CONNECTIONS as u32)).await;
    }
}

async fn serve_connection<I>(
    io: I,
    (peer, head): (Peer, &Arc<Head>),
    router: Router,
    mut stopped: watch::Receiver<bool>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let life = Connection::new(stopped.clone());
    let streaming = life.clone();
    let router = TowerToHyperService::new(router);
    let head = Arc::clone(head);
    let service = service_fn(move |mut request: Request<Incoming>| {
        head.end_wait();
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(life.clone());
        let (answer, head) = (router.call(request.map(Body::new)), Arc::clone(&head));
        async move {
            head.room().await;
            answer.await.map(|answer| head.answer(answer))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(io), service);
    let mut connection = pin!(connection);
    tokio::select! {
        // How it ended matters to the client alone.
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = sleep(CONNECTION_TIME) => {}
    }
    connection.as_mut().graceful_shutdown();
    if streaming.is_streaming() && !*stopped.borrow() {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = sleep(STREAM_TIME) => {}
        }
    }
    let _ = timeout(LAST_ANSWER_TIME, connection).await;
}

mod unix;

#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
