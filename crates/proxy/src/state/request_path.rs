//! The path of a request: the normal form, which is forwarded, and the matched form if it differs.
//!
//! Set by [`crate::exchange::read_request`]. In nearly all heads the raw path equals both forms, and nothing is
//! copied.

use thalweg_core::Fault;
use thalweg_http::{Doubts, Escapes, PathReadings, Span, normalize_path, write_matched_form};

/// A path. Its size is that of a span and a buffer, because every tunnel holds one.
#[derive(Debug, Default)]
pub(crate) struct RequestPath {
    place: Place,
    /// The copied forms, if the path is not a part of the head.
    pub(crate) written: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// A span of the head.
    Received(Span),
    /// The whole of `written`.
    #[default]
    Written,
    /// The first `len` bytes of `written`; the rest is the matched form.
    TwoForms { len: u32, doubts: Doubts },
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
        let len = normal.len();
        let doubts = write_matched_form(&normal, &mut self.written);
        if doubts == Doubts::default() && self.written[len..] == normal {
            self.written.truncate(len);
        } else {
            // Heads are far smaller than 4 GiB.
            self.place = Place::TwoForms { len: len as u32, doubts };
        }
        Ok(escapes)
    }

    /// The normal form; empty before it is known.
    pub(crate) fn of<'a>(&'a self, received: &'a [u8]) -> &'a [u8] {
        match self.place {
            Place::Received(place) => place.of(received),
            Place::Written => &self.written,
            Place::TwoForms { len, .. } => self.written.get(..len as usize).unwrap_or_default(),
        }
    }

    /// Its readings, if its matched form is not its normal form.
    pub(crate) fn readings(&self) -> Option<PathReadings<'_>> {
        match self.place {
            Place::Received(_) | Place::Written => None,
            Place::TwoForms { len, doubts } => {
                let matched = self.written.get(len as usize..).unwrap_or_default();
                Some(PathReadings { matched, doubts })
            }
        }
    }

    /// Clears the path, and keeps the allocation.
    pub(crate) fn clear(&mut self) {
        self.place = Place::Written;
        self.written.clear();
    }
}
