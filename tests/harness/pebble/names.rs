//! A name server (RFC 1035, over TCP, as Pebble asks): every name is this machine, and has the TXT records of a
//! directory.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use crate::STEP;

/// Type A.
const A: u16 = 1;
/// Type TXT.
const TXT: u16 = 16;

/// The server. Its thread ends with the test process.
#[derive(Debug)]
pub(super) struct Names {
    address: SocketAddr,
}

impl Names {
    /// Records are the lines of files that are called like their names.
    pub(super) fn start(records: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let records = records.clone();
                thread::spawn(move || serve(&stream, &records));
            }
        });
        Self { address }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Questions of one connection, each behind its length.
fn serve(mut stream: &TcpStream, records: &Path) -> Option<()> {
    let _ = stream.set_read_timeout(Some(STEP));
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length).ok()?;
        let mut question = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut question).ok()?;
        let answer = answer(&question, records)?;
        let length = u16::try_from(answer.len()).ok()?.to_be_bytes();
        stream.write_all(&[&length[..], &answer].concat()).ok()?;
    }
}

fn answer(question: &[u8], records: &Path) -> Option<Vec<u8>> {
    let mut at = 12;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*question.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(question.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes([*question.get(at)?, *question.get(at + 1)?]);
    let asked = question.get(12..at + 4)?;
    let data: Vec<Vec<u8>> = match kind {
        A => vec![vec![127, 0, 0, 1]],
        TXT => {
            let text = fs::read_to_string(records.join(labels.join("."))).unwrap_or_default();
            let value = |line: &str| [&[u8::try_from(line.len()).unwrap()], line.as_bytes()].concat();
            text.lines().map(value).collect()
        }
        _ => Vec::new(),
    };
    // An answer, recursion available, no error; one question, so many answers.
    let mut answer = question.get(..2)?.to_vec();
    answer.extend([0x81, 0x80, 0, 1]);
    answer.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    answer.extend([0; 4]);
    answer.extend_from_slice(asked);
    for data in data {
        // The name of the question, the type, the Internet, no time to live.
        answer.extend([0xc0, 12]);
        answer.extend(kind.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 0]);
        answer.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        answer.extend(data);
    }
    Some(answer)
}
