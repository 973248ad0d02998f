//! A place in a buffer.
//!
//! Heads are never copied while they are read: every name, value and target is a [`Span`] over the
//! received bytes. A span is only as good as the buffer it was made for; [`Span::of`] on a shorter
//! one gives an empty slice instead of a panic.

/// The bytes `start..end` of a buffer of at most 4 GiB.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte, at least `start`.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end`. Offsets of 4 GiB and more do not occur: heads are bounded far below.
    #[inline]
    pub const fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= u32::MAX as usize);
        Self { start: start as u32, end: end as u32 }
    }

    /// The bytes meant, or nothing where the buffer does not reach that far.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// The number of bytes.
    #[inline]
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Whether there are no bytes.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_its_bytes_and_never_panics_on_a_shorter_buffer() {
        let span = Span::new(2, 4);
        assert_eq!(span.of(b"abcdef"), b"cd");
        assert_eq!(span.of(b"abc"), b"");
        assert_eq!((span.len(), span.is_empty()), (2, false));
        assert!(Span::default().is_empty());
    }
}
