//! The path of a request: the normal form, which is forwarded, and its readings if they differ.
//!
//! Set by [`crate::exchange::read_request`], which writes all readings once: routes and filters only look at them. In
//! nearly all heads the raw path is the normal form and the only reading, and nothing is copied.

use thalweg_core::Fault;
use thalweg_http::{Escapes, PathReadings, Span, normalize_path, write_readings};

/// A path. Its size is that of a span and a buffer, because every tunnel holds one.
#[derive(Debug, Default)]
pub(crate) struct RequestPath {
    place: Place,
    /// The copied normal form, if the path is not a part of the head, and behind it its readings.
    pub(crate) written: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// A span of the head.
    Received(Span),
    /// The whole of `written`.
    #[default]
    Written,
    /// The first `len` bytes of `written`; the rest are its readings, the first of `matched` bytes.
    Readings { len: u32, matched: u32 },
}

impl RequestPath {
    /// Sets the path to a span of the head, which is also its matched form.
    pub(crate) fn is_at(&mut self, place: Span) {
        self.place = Place::Received(place);
    }

    /// Sets the path to this text, which is also its matched form.
    pub(crate) fn is(&mut self, text: &[u8]) {
        self.place = Place::Written;
        self.written.extend_from_slice(text);
    }

    /// Normalises the path; gives the escapes that its route must allow.
    ///
    /// # Errors
    /// See [`normalize_path`].
    pub(crate) fn normalize(&mut self, raw: &[u8]) -> Result<Escapes, Fault> {
        self.clear();
        let escapes = normalize_path(raw, &mut self.written)?;
        let normal = self.written.clone();
        if let Some(matched) = write_readings(&normal, &mut self.written) {
            // Heads are far smaller than 4 GiB.
            self.place = Place::Readings { len: normal.len() as u32, matched: matched as u32 };
        }
        Ok(escapes)
    }

    /// The normal form; empty before it is known.
    pub(crate) fn of<'a>(&'a self, received: &'a [u8]) -> &'a [u8] {
        match self.place {
            Place::Received(place) => place.of(received),
            Place::Written => &self.written,
            Place::Readings { len, .. } => self.written.get(..len as usize).unwrap_or_default(),
        }
    }

    /// Its readings, if it has another one than its normal form.
    pub(crate) fn readings(&self) -> Option<PathReadings<'_>> {
        match self.place {
            Place::Received(_) | Place::Written => None,
            Place::Readings { len, matched } => {
                let written = self.written.get(len as usize..).unwrap_or_default();
                Some(PathReadings::new(written, matched as usize))
            }
        }
    }

    /// Forgets the readings and gives their memory back: the request has been routed and filtered.
    pub(crate) fn shrink(&mut self) {
        if let Place::Readings { len, .. } = self.place {
            self.place = Place::Written;
            self.written.truncate(len as usize);
        }
        self.written.shrink_to_fit();
    }

    /// Clears the path, and keeps the allocation.
    pub(crate) fn clear(&mut self) {
        self.place = Place::Written;
        self.written.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings were made anew for each condition of each filter: 300 of them cost a long path a second.
    #[test]
    fn a_path_has_all_its_readings_once_it_is_normalised_and_gives_them_back() {
        let mut path = RequestPath::default();
        assert_eq!(path.normalize(b"/a//b;c/%2Fd"), Ok(Escapes::SLASH));
        let (readings, written) = (path.readings().unwrap(), path.written.as_ptr_range());
        assert_eq!(readings.matched, b"/a/b;c/%2Fd");
        assert_eq!(readings.others().count(), 7);
        assert!(
            readings.others().all(|(_, other)| written.contains(&other.as_ptr())),
            "they are only looked at"
        );
        path.shrink();
        assert_eq!((path.of(&[]), path.readings()), (&b"/a//b;c/%2Fd"[..], None));
        assert_eq!(path.written.capacity(), path.written.len());
        assert_eq!(path.normalize(b"/a/./b"), Ok(Escapes::NONE));
        assert_eq!((path.of(&[]), path.readings()), (&b"/a/b"[..], None));
    }
}
