//! Addresses to listen on: free, or ours already.

use super::owner::{Owner, owner_of_port, owner_of_socket};
use super::{Subject, place};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use thalweg_config::{Class, Span, SpecError};
use thalweg_net::{datagram, listen};
use thalweg_proxy::plan::ListenAddress;

pub(super) fn check(subject: &Subject<'_>) -> Vec<SpecError> {
    let (plan, settings, places) = (&subject.loaded.plan, &subject.loaded.settings, subject.places);
    let listeners = plan.listeners.iter().map(|listener| &listener.address);
    let listeners = listeners.zip(places.listeners.iter().copied());
    let admin = settings.admin.as_ref().map(|admin| (&admin.address, place(places.admin)));
    let metrics = settings.metrics.as_ref().map(|metrics| (metrics, place(places.metrics)));
    let all = listeners.chain(admin).chain(metrics);
    all.filter_map(|(address, span)| match address {
        ListenAddress::Tcp { address, dual_stack } => {
            ip((*address, false), listen::probe(*address, *dual_stack), span)
        }
        ListenAddress::Udp { address, dual_stack } => {
            ip((*address, true), datagram::probe(*address, *dual_stack), span)
        }
        ListenAddress::Unix(path) => unix(path, span),
    })
    .collect()
}

fn warning(span: Span, message: String, help: &str) -> SpecError {
    SpecError::warning("addresses", span, message).help(help)
}

fn ip((address, is_udp): (SocketAddr, bool), probed: io::Result<()>, span: Span) -> Option<SpecError> {
    let error = probed.err()?;
    let port = address.port();
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ADDRINUSE) => taken(&format!("port {port}"), &owner_of_port(port, is_udp), span),
        Some(Errno::ACCESS | Errno::PERM) => Some(warning(
            span,
            format!("this user may not listen on port {port}"),
            "ports below 1024 need root or CAP_NET_BIND_SERVICE; the user that runs the proxy may have it",
        )),
        Some(Errno::ADDRNOTAVAIL) => Some(warning(
            span,
            format!("this machine has no address {}", address.ip()),
            "write one of its addresses, or `:PORT` for all of them",
        )),
        _ => Some(warning(span, format!("cannot listen here: {error}"), "write another address")),
    }
}

fn taken(what: &str, owner: &Owner, span: Span) -> Option<SpecError> {
    let help = "stop it, or write another address";
    match owner {
        Owner::Ourselves => None,
        Owner::Program(name) => Some(warning(span, format!("{what} is taken by {name}"), help)),
        Owner::Hidden => Some(warning(
            span,
            format!("{what} is taken by a program that this user cannot look at"),
            "where that is the running proxy, all is well: check as its user, or with `--offline`",
        )),
    }
}

fn unix(path: &Path, span: Span) -> Option<SpecError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = directory.display();
    if !directory.is_dir() {
        let message = format!("the directory {shown} of this socket does not exist");
        return Some(
            warning(span, message, "create it before the start: `run` does not").class(Class::Invalid),
        );
    }
    if !super::files::may_write(directory) {
        let message = format!("this user may not make a socket in {shown}");
        return Some(warning(span, message, "the user that runs the proxy needs to write to the directory"));
    }
    let metadata = path.symlink_metadata().ok()?;
    if !metadata.file_type().is_socket() {
        let message = format!("{} is there and is no socket", path.display());
        return Some(warning(span, message, "remove it, or write another path"));
    }
    // One that nobody answers on is replaced at the start.
    let stream = UnixStream::connect(path).ok()?;
    taken("this socket", &owner_of_socket(&stream), span)
}
