//! Why the workers cannot start or take a plan over, in words.

use rustix::io::Errno;
use thalweg_proxy::StartError;

/// What the kernel said, and what to do about it.
pub(super) fn explain(error: &StartError) -> String {
    let code = error.source.raw_os_error().map(Errno::from_raw_os_error);
    let help = match code {
        Some(Errno::ADDRINUSE) => "another program listens there; stop it, or choose another address",
        Some(Errno::ACCESS | Errno::PERM) => {
            "ports below 1024 need root or CAP_NET_BIND_SERVICE: `setcap cap_net_bind_service=+ep` on the \
             binary, or AmbientCapabilities=CAP_NET_BIND_SERVICE in its systemd unit"
        }
        Some(Errno::ADDRNOTAVAIL) => "this machine has no such address",
        _ => return error.to_string(),
    };
    format!("{error}\n  help: {help}")
}
