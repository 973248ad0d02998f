//! The records of ZooKeeper's protocol (Jute): numbers in network order, and bytes behind their length.
//!
//! Sans-I/O: bytes in, numbers and texts out. Invariant: no read goes past the end of a record, and no memory is
//! reserved for a length that a record merely declares.

/// Operations that a client asks for.
pub mod op {
    /// Whether a node exists, with a watch.
    pub const EXISTS: i32 = 3;
    /// The data of a node, with a watch.
    pub const GET_DATA: i32 = 4;
    /// A keep-alive of the session.
    pub const PING: i32 = 11;
    /// The names of the children of a node, with a watch.
    pub const GET_CHILDREN: i32 = 8;
    /// User and password.
    pub const AUTH: i32 = 100;
}

/// Numbers of requests that have no number of their own.
pub mod xid {
    /// A watch has fired.
    pub const EVENT: i32 = -1;
    /// A ping.
    pub const PING: i32 = -2;
    /// User and password.
    pub const AUTH: i32 = -4;
}

/// A record that is written, with room for its length before it.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// An empty record.
    pub fn new() -> Self {
        Self(vec![0; 4])
    }

    /// A request.
    pub fn request(xid: i32, op: i32) -> Self {
        Self::new().int(xid).int(op)
    }

    /// A number of 32 bits.
    pub fn int(mut self, value: i32) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A number of 64 bits.
    pub fn long(mut self, value: i64) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A boolean.
    pub fn bool(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    /// Bytes or text.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // What is sent has bounds far below.
        let mut this = self.int(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        this.0.extend_from_slice(bytes);
        this
    }

    /// The frame: the record behind its length.
    pub fn frame(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len() - 4).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}

/// A record that is read.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

/// It is shorter than it says.
#[derive(Debug)]
pub struct Short;

impl<'a> Reader<'a> {
    /// A record without its length.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// A number of 32 bits.
    ///
    /// # Errors
    /// The record ends before it does.
    pub fn int(&mut self) -> Result<i32, Short> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Short)?;
        self.0 = rest;
        Ok(i32::from_be_bytes(*bytes))
    }

    /// A number of 64 bits.
    ///
    /// # Errors
    /// The record ends before it does.
    pub fn long(&mut self) -> Result<i64, Short> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Short)?;
        self.0 = rest;
        Ok(i64::from_be_bytes(*bytes))
    }

    /// Bytes; −1 as their length means none.
    ///
    /// # Errors
    /// The record ends before they do.
    pub fn bytes(&mut self) -> Result<&'a [u8], Short> {
        let length = usize::try_from(self.int()?).unwrap_or(0);
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Bytes that are text.
    ///
    /// # Errors
    /// The record ends before it does, or it is not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Short> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Short)
    }

    /// Texts, each behind its length.
    ///
    /// # Errors
    /// The record ends before they do, or one is not UTF-8.
    pub fn texts(&mut self) -> Result<Vec<&'a str>, Short> {
        let count = usize::try_from(self.int()?).unwrap_or(0);
        // Grows with what is there, not with what is promised.
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.text()?);
        }
        Ok(all)
    }
}

/// Takes the first frame off the buffer, without its length; `None`: it is not whole yet.
///
/// # Errors
/// It is longer than `most`, or no frame.
pub fn take_frame(buffer: &mut Vec<u8>, most: usize) -> Result<Option<Vec<u8>>, String> {
    let Some((length, _)) = buffer.split_first_chunk() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > most {
        return Err("it does not speak the protocol of ZooKeeper, or says too much at once".to_owned());
    }
    if buffer.len() < 4 + length {
        return Ok(None);
    }
    let frame = buffer[4..4 + length].to_vec();
    buffer.drain(..4 + length);
    Ok(Some(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut frame = Writer::request(7, op::PING).long(-1).bytes(b"ab").bool(true).frame();
        let whole = frame.len();
        frame.push(9);
        let record = take_frame(&mut frame, 100).unwrap().unwrap();
        assert_eq!((record.len(), frame.as_slice()), (whole - 4, &[9][..]));
        let mut reader = Reader::new(&record);
        assert_eq!((reader.int().unwrap(), reader.int().unwrap(), reader.long().unwrap()), (7, op::PING, -1));
        assert_eq!(reader.text().unwrap(), "ab");
        assert!(reader.int().is_err());
    }

    #[test]
    fn what_is_no_frame_or_no_record_is_refused() {
        assert!(take_frame(&mut b"HTTP/1.1".to_vec(), 1 << 20).is_err());
        assert!(take_frame(&mut vec![0xff; 8], 1 << 20).is_err());
        assert!(take_frame(&mut vec![0, 0, 0, 5, 1], 1 << 20).unwrap().is_none());
        assert!(Reader::new(&[0x7f, 0xff, 0xff, 0xff, 1]).bytes().is_err());
        assert!(Reader::new(&[0x7f, 0xff, 0xff, 0xff]).texts().is_err());
        assert!(Reader::new(&[0, 0, 0, 1, 0xff]).text().is_err());
        assert_eq!(Reader::new(&[0xff; 4]).bytes().unwrap(), b"");
    }
}
