//! The protocol of Redis and Valkey (RESP2), as much of it as reading needs: a command is an array of strings, an
//! answer is read with a bound on its size.
//!
//! The crate `redis`, which limits use, reads an answer of any size and keeps messages without a bound.

use crate::ByteStream;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::io::{ReadHalf, WriteHalf, split};

/// Most bytes of an answer.
const ANSWER: usize = 16 * 1024 * 1024;
/// Longest line, in bytes.
const LINE: usize = 64 * 1024;
/// Most elements of one answer.
const ELEMENTS: usize = 256 * 1024;
/// Deepest nesting of arrays.
const DEPTH: u8 = 4;
/// How many characters of an error are shown.
const SHOWN: usize = 200;

/// An answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// A state, as `OK`, or a string.
    Text(Vec<u8>),
    /// What Redis says is wrong.
    Error(String),
    /// A number.
    Number(i64),
    /// Nothing.
    Nil,
    /// Several.
    Array(Vec<Self>),
}

impl Reply {
    /// The elements of an array; nothing is an empty one.
    ///
    /// # Errors
    /// A sentence: it is none.
    pub fn array(self) -> Result<Vec<Self>, String> {
        match self {
            Self::Array(all) => Ok(all),
            Self::Nil => Ok(Vec::new()),
            other => Err(other.strange()),
        }
    }

    /// The bytes of a string.
    ///
    /// # Errors
    /// A sentence: it is none.
    pub fn text(self) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(text) => Ok(text),
            other => Err(other.strange()),
        }
    }

    fn strange(&self) -> String {
        match self {
            Self::Error(why) => refusal(why),
            _ => "the answer is not what the command gives".to_owned(),
        }
    }
}

/// Codes of errors that are shown.
const CODES: &[&str] = &[
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "ERR",
    "EXECABORT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "NOSCRIPT",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "WRONGPASS",
    "WRONGTYPE",
];

/// An error of Redis, with a remedy where there is one. Only its code is shown: the rest is text of a server that
/// somebody else may have named.
pub fn refusal(why: &str) -> String {
    let code = why.split(' ').next().unwrap_or_default();
    let help = match code {
        "NOAUTH" => "; write a user and the password",
        "NOPERM" => {
            "; give the user the rights for what is asked, such as HGETALL, SCAN, MGET, SUBSCRIBE and PUBLISH"
        }
        "WRONGTYPE" => "; `key` is one hash, write `prefix` for keys of their own",
        "MOVED" | "ASK" => "; a cluster is not followed, write the `url` of the member that has the key",
        _ => "",
    };
    let known = CODES.iter().find(|known| **known == code).copied().unwrap_or("an unknown error");
    format!("it answers {known}{help}")
}

/// Reads answers.
pub struct Answers<R>(BufReader<R>);

/// Sends commands.
pub struct Commands(WriteHalf<Box<dyn ByteStream>>);

/// A connection.
pub struct Connection {
    /// What comes.
    pub answers: Answers<ReadHalf<Box<dyn ByteStream>>>,
    /// What goes.
    pub commands: Commands,
}

impl Connection {
    /// Over this stream.
    pub fn new(stream: Box<dyn ByteStream>) -> Self {
        let (read, write) = split(stream);
        Self { answers: Answers(BufReader::new(read)), commands: Commands(write) }
    }

    /// Sends a command and reads its answer, which is no error. Not cancel-safe: then the connection is of no use.
    ///
    /// # Errors
    /// A sentence.
    pub async fn ask(&mut self, words: &[&[u8]]) -> Result<Reply, String> {
        self.commands.send(words).await?;
        match self.answers.next().await? {
            Reply::Error(why) => Err(refusal(&why)),
            reply => Ok(reply),
        }
    }
}

impl Commands {
    /// Sends one.
    ///
    /// # Errors
    /// A sentence.
    pub async fn send(&mut self, words: &[&[u8]]) -> Result<(), String> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        let sent = async {
            self.0.write_all(&bytes).await?;
            self.0.flush().await
        };
        sent.await.map_err(|error| format!("the connection breaks off: {error}"))
    }
}

/// What is left of the bounds of an answer.
struct Rest {
    bytes: usize,
    elements: usize,
}

impl<R: AsyncRead + Unpin> Answers<R> {
    #[cfg(test)]
    pub(crate) fn of(reader: R) -> Self {
        Self(BufReader::new(reader))
    }

    /// The next answer. Not cancel-safe.
    ///
    /// # Errors
    /// A sentence: it cannot be read, or is too large.
    pub async fn next(&mut self) -> Result<Reply, String> {
        let mut rest = Rest { bytes: ANSWER, elements: ELEMENTS };
        self.read(0, &mut rest).await
    }

    async fn read(&mut self, depth: u8, rest: &mut Rest) -> Result<Reply, String> {
        let line = self.line().await?;
        let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        let strange = || "the server does not speak the protocol of Redis".to_owned();
        let (kind, value) = line.split_first().ok_or_else(strange)?;
        let number = || text(value).parse::<i64>().map_err(|_| strange());
        rest.elements = rest.elements.checked_sub(1).ok_or("the answer has too many elements")?;
        match kind {
            b'+' => Ok(Reply::Text(value.to_vec())),
            b'-' => {
                let why: String = text(value).chars().take(SHOWN).collect();
                Ok(Reply::Error(why.replace(char::is_control, " ")))
            }
            b':' => Ok(Reply::Number(number()?)),
            b'$' => match usize::try_from(number()?) {
                Err(_) => Ok(Reply::Nil),
                Ok(length) => {
                    let too_large = || format!("the answer has more than {} MiB", ANSWER >> 20);
                    rest.bytes = rest.bytes.checked_sub(length).ok_or_else(too_large)?;
                    self.string(length).await.map(Reply::Text)
                }
            },
            b'*' => match usize::try_from(number()?) {
                Err(_) => Ok(Reply::Nil),
                Ok(_) if depth == DEPTH => Err("the answer is nested too deeply".to_owned()),
                Ok(count) => {
                    let mut all = Vec::new();
                    for _ in 0..count {
                        all.push(Box::pin(self.read(depth + 1, rest)).await?);
                    }
                    Ok(Reply::Array(all))
                }
            },
            _ => Err(strange()),
        }
    }

    /// A line without its end.
    async fn line(&mut self) -> Result<Vec<u8>, String> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.0).take(LINE as u64);
        bounded.read_until(b'\n', &mut line).await.map_err(|error| broken(&error))?;
        if line.is_empty() {
            return Err("it has closed the connection".to_owned());
        }
        match line.strip_suffix(b"\r\n") {
            Some(text) => Ok(text.to_vec()),
            None => Err("the server does not speak the protocol of Redis: a line has no end".to_owned()),
        }
    }

    async fn string(&mut self, length: usize) -> Result<Vec<u8>, String> {
        // Grows with what comes, not with what is promised.
        let mut bytes = Vec::new();
        let mut bounded = (&mut self.0).take(length as u64 + 2);
        bounded.read_to_end(&mut bytes).await.map_err(|error| broken(&error))?;
        if bytes.len() != length + 2 || !bytes.ends_with(b"\r\n") {
            return Err("the connection breaks off within an answer".to_owned());
        }
        bytes.truncate(length);
        Ok(bytes)
    }
}

fn broken(error: &std::io::Error) -> String {
    format!("the connection breaks off: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Reply, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Answers::of(bytes).next())
    }

    #[test]
    fn answers_are_read_as_redis_writes_them() {
        let text = |text: &str| Reply::Text(text.into());
        assert_eq!(read(b"+OK\r\n"), Ok(text("OK")));
        assert_eq!(read(b":-3\r\n"), Ok(Reply::Number(-3)));
        assert_eq!(read(b"$-1\r\n"), Ok(Reply::Nil));
        assert_eq!(read(b"*-1\r\n"), Ok(Reply::Nil));
        assert_eq!(read(b"$0\r\n\r\n"), Ok(text("")));
        assert_eq!(read(b"$4\r\na\r\nb\r\n"), Ok(text("a\r\nb")));
        assert_eq!(read(b"*0\r\n"), Ok(Reply::Array(Vec::new())));
        let nested = Reply::Array(vec![text("0"), Reply::Array(vec![text("a"), Reply::Nil])]);
        assert_eq!(read(b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$-1\r\n"), Ok(nested));
        assert_eq!(
            read(b"-NOAUTH Authentication required.\r\n"),
            Ok(Reply::Error("NOAUTH Authentication required.".into()))
        );
        assert!(refusal("NOAUTH x").contains("password") && refusal("ERR x").ends_with("ERR"));
        assert_eq!(refusal("s3cret x"), "it answers an unknown error");
    }

    #[test]
    fn what_is_no_answer_or_too_large_is_refused() {
        let deep = b"*1\r\n".repeat(usize::from(DEPTH) + 1);
        let many = [format!("*{}\r\n", ELEMENTS + 1).into_bytes(), b":1\r\n".repeat(ELEMENTS + 1)].concat();
        let promised = format!("${}\r\n", ANSWER + 1).into_bytes();
        let twice = [
            b"*2\r\n".to_vec(),
            format!("${ANSWER}\r\n").into_bytes(),
            vec![b'x'; ANSWER],
            b"\r\n$1\r\n".to_vec(),
        ];
        let (twice, long) = (twice.concat(), vec![b'+'; LINE + 1]);
        let bad: [&[u8]; 14] = [
            b"",
            b"\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b":x\r\n",
            b"$x\r\n",
            b"*\r\n",
            b"+OK",
            b"+OK\n",
            b"$3\r\nab",
            b"$1\r\nabc",
            &deep,
            &many,
            &promised,
            &twice,
        ];
        for bytes in bad.into_iter().chain([long.as_slice()]) {
            let why = read(bytes).unwrap_err();
            assert!(why.len() < 400 && !why.contains('\n'), "{why}");
        }
    }
}
