//! The process that has started this one: a predecessor, a supervisor, or systemd.

use super::channel::{Channel, Received};
use super::message::{MessageSpec, PassedSocketSpec};
use super::successor::Successor;
use crate::service_manager;
use rustix::fd::{AsFd, OwnedFd};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use thalweg_net::crash::report_to;
use thalweg_net::inherited::{InheritedSocket, of_systemd};

/// The environment variable that says what standard input is: `1`: the channel of a process that has started this one.
pub(crate) const VARIABLE: &str = "THALWEG_HANDOVER";
/// How long whoever has started this process may take to say what it is to do.
const FIRST_WORD: Duration = Duration::from_secs(20);

/// Who has started this process, and what it has given it.
#[derive(Debug, Default)]
pub(crate) struct Parent {
    /// Listening sockets to use.
    pub(crate) sockets: Vec<InheritedSocket>,
    /// Where to take over from.
    pub(crate) successor: Option<Successor>,
    /// Where a supervisor is.
    pub(crate) supervisor: Option<Arc<Channel>>,
    /// The only user that the supervisor lets this process become.
    pub(crate) uid: Option<u32>,
}

impl Parent {
    /// Finds out. Where nobody speaks this protocol, nothing is read from standard input. To be called once, before
    /// there are threads.
    ///
    /// # Errors
    /// A sentence: who has started this process says nothing, or nothing that can be understood.
    pub(crate) fn find() -> Result<Self, String> {
        if std::env::var_os(VARIABLE).is_none_or(|value| value != "1") {
            return Ok(Self { sockets: of_systemd(), ..Self::default() });
        }
        let told = Self::ask();
        told.map_err(|error| {
            format!("the process that has started this one does not say what to do: {error}")
        })
    }

    fn ask() -> io::Result<Self> {
        let channel = Channel::from(io::stdin().as_fd().try_clone_to_owned()?);
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let Received { message, fds } = channel.receive(Some(FIRST_WORD))?;
        match message {
            MessageSpec::Start { sockets, uid } => {
                report_to(fds.get(sockets.len()).map(OwnedFd::try_clone).transpose()?)?;
                let sockets = PassedSocketSpec::join(sockets, fds);
                service_manager::is_supervised();
                Ok(Self { sockets, successor: None, supervisor: Some(Arc::new(channel)), uid })
            }
            MessageSpec::TakeOver { uid } => {
                let mut fds = fds.into_iter();
                let other = fds.next().ok_or(io::ErrorKind::InvalidData)?;
                report_to(fds.next())?;
                let from = Channel::from(other);
                let received = from.receive(Some(FIRST_WORD))?;
                let (successor, sockets) = Successor::of(from, received)?;
                service_manager::is_supervised();
                let (successor, supervisor) = (Some(successor), Some(Arc::new(channel)));
                Ok(Self { sockets, successor, supervisor, uid })
            }
            message => {
                let (successor, sockets) = Successor::of(channel, Received { message, fds })?;
                Ok(Self { sockets, successor: Some(successor), ..Self::default() })
            }
        }
    }
}
