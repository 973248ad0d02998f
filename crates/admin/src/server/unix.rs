//! Who is served on the unix socket.

use axum::Router;
use rustix::process::Pid;
use tokio::net::UnixListener;
use tokio::sync::watch;

use super::Places;
use crate::auth::Peer;
use crate::socket::peer_allowed;

/// What is served to processes that connect.
pub(super) struct Peers {
    /// To those of a user that may use the socket.
    pub(super) open: Router,
    /// To those of other users.
    pub(super) closed: Router,
    /// Connections of this process are closed.
    pub(super) own_pid: Option<Pid>,
}

/// Serves connections until the thread is to end.
pub(super) async fn serve_unix(listener: UnixListener, peers: Peers, stopped: watch::Receiver<bool>) {
    let own = rustix::process::geteuid().as_raw();
    let places = Places::new(stopped);
    while let Some(accepted) = places.next(async || listener.accept().await).await {
        let Some((stream, _)) = accepted else { continue };
        // SO_PEERCRED: the process that connected and its user, as the kernel saw them then.
        let peer = stream.peer_cred().ok();
        // A route leads here: the peer is the proxy itself, and its client may be anybody.
        let pid = peer.and_then(|peer| peer.pid()).and_then(Pid::from_raw);
        if peers.own_pid.is_some() && pid == peers.own_pid {
            continue;
        }
        let uid = peer.map(|peer| peer.uid());
        let allowed = uid.is_some_and(|uid| peer_allowed(uid, own));
        let router = if allowed { &peers.open } else { &peers.closed };
        places.serve(async { Some(stream) }, Peer::Unix { uid }, router).await;
    }
    places.empty().await;
}
