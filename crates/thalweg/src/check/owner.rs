//! Who listens already: the running proxy, or another program.

use rustix::net::sockopt::socket_peercred;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Most sockets and descriptors that are looked at.
const LOOKED_AT: usize = 1_000_000;
/// The column of a socket's number in the tables of the kernel.
const INODE: usize = 9;
/// The state of a socket that listens (TCP_LISTEN).
const LISTENS: &str = "0A";
/// That of a socket of datagrams without a peer.
const UNCONNECTED: &str = "07";

/// Who has an address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Owner {
    /// A proxy of this user.
    Ourselves,
    /// Another program: its name and number.
    Program(String),
    /// A program of which this user sees nothing.
    Hidden,
}

/// Who listens on a TCP port.
pub(super) fn owner_of_port(port: u16, is_udp: bool) -> Owner {
    let (tables, state) = match is_udp {
        false => (["/proc/net/tcp", "/proc/net/tcp6"], LISTENS),
        true => (["/proc/net/udp", "/proc/net/udp6"], UNCONNECTED),
    };
    let inodes: Vec<String> = tables
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening(&table, port, state))
        .collect();
    let links: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut looked = 0;
    for process in processes {
        let Ok(pid) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        let descriptors = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        for descriptor in descriptors {
            looked += 1;
            let link = fs::read_link(descriptor.path()).unwrap_or_default();
            if links.iter().any(|wanted| link.as_os_str() == wanted.as_str()) {
                return named(pid);
            }
            if looked > LOOKED_AT {
                return Owner::Hidden;
            }
        }
    }
    Owner::Hidden
}

/// Who answers on a unix socket.
pub(super) fn owner_of_socket(stream: &UnixStream) -> Owner {
    let peer = socket_peercred(stream).ok();
    peer.and_then(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()).ok()).map_or(Owner::Hidden, named)
}

/// The numbers of the sockets that listen on a port, from a table of the kernel (proc_net_tcp.rst).
fn listening(table: &str, port: u16, wanted: &str) -> Vec<String> {
    let ends = format!(":{port:04X}");
    let rows = table.lines().skip(1).take(LOOKED_AT).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening = rows.filter(|row| {
        row.get(1).is_some_and(|local| local.ends_with(&ends))
            && row.get(3).is_some_and(|state| *state == wanted)
    });
    listening.filter_map(|row| row.get(INODE).map(|inode| (*inode).to_owned())).collect()
}

/// A process as people know it; one that runs this program as this user is the proxy itself.
fn named(pid: u32) -> Owner {
    let directory = Path::new("/proc").join(pid.to_string());
    let name = fs::read_to_string(directory.join("comm")).unwrap_or_default();
    let program = fs::read_link(directory.join("exe")).ok();
    let is_proxy = program.as_deref().and_then(Path::file_name).is_some_and(|name| {
        // Behind an upgrade the kernel writes ` (deleted)` after it.
        name.to_string_lossy().split(' ').next() == Some("thalweg")
    });
    let same_user =
        fs::metadata(&directory).is_ok_and(|owner| owner.uid() == rustix::process::geteuid().as_raw());
    if is_proxy && same_user {
        return Owner::Ourselves;
    }
    match name.trim() {
        "" => Owner::Hidden,
        name => Owner::Program(format!("{name} (process {pid})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn reads_the_tables_of_the_kernel() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0\n   1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 4243 1 0\n";
        assert_eq!(listening(table, 8080, LISTENS), ["4242"]);
        assert_eq!(listening(table, 8081, LISTENS), [""; 0]);
    }

    #[test]
    fn finds_the_program_that_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let Owner::Program(name) = owner_of_port(port, false) else { panic!("this test listens itself") };
        assert!(name.ends_with(&format!("(process {})", std::process::id())), "{name}");
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(
            matches!(owner_of_port(port, true), Owner::Program(_)),
            "and the one that receives datagrams"
        );
    }
}
