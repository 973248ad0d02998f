//! Connections that had one exchange each and stay open, silent, until standard input ends.

use std::io::{self, Read};
use std::net::SocketAddr;

use crate::ask::{Connection, Language};

/// Opens `count` connections, says so, and waits. At the end the first and the last still have to serve.
pub(crate) fn run(address: SocketAddr, language: Language, text: &str, count: usize) -> io::Result<()> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let mut connection = Connection::open(address, language)?;
        connection.exchange(text)?;
        open.push(connection);
    }
    println!("READY {count}");
    io::stdin().read_to_end(&mut Vec::new())?;
    if let Some(connection) = open.first_mut() {
        connection.exchange(text)?;
    }
    if let Some(connection) = open.last_mut() {
        connection.exchange(text)?;
    }
    println!("RESULT {count}");
    Ok(())
}
