//! The filters of the route on the head of a final response: those of a service's, and of the proxy's own from when a route
//! has taken the request.

use crate::state::exchange::Exchange;
use thalweg_filter::{ResponseEdit, ResponseFields};
use thalweg_http::Field;
use thalweg_http::h1::encode::write_field;

/// Runs the filters from the last one to the first, before the fields of the response are written: `out` gets what they
/// add, and the fields whose place that takes are not kept. `head` is the response as it came; of an own answer, which
/// has no fields yet, it is empty.
pub(crate) fn filter_response(x: &mut Exchange, head: &[u8], out: &mut Vec<u8>) {
    let Exchange { route: Some(found), response, is_secure, filters_acted, .. } = x else { return };
    let filters = &found.route().filters;
    let fields = if head.is_empty() { &mut [][..] } else { &mut response.fields[..] };
    let mut fields = Fields { fields, head, out, begins: 0, touched: false };
    fields.begins = fields.out.len();
    for (at, filter) in filters.iter().enumerate().rev() {
        fields.touched = false;
        filter.on_response(&mut ResponseEdit { is_secure: *is_secure, fields: &mut fields });
        if fields.touched {
            // Of the first 32 filters it is remembered which filters_acted.
            *filters_acted |= u32::try_from(at).ok().and_then(|at| 1_u32.checked_shl(at)).unwrap_or(0);
        }
    }
}

/// The fields of a response, those that came and those that were added.
#[derive(Debug)]
struct Fields<'a> {
    fields: &'a mut [Field],
    head: &'a [u8],
    out: &'a mut Vec<u8>,
    /// Where what is added begins in `out`.
    begins: usize,
    /// The filter has set one.
    touched: bool,
}

impl ResponseFields for Fields<'_> {
    fn set(&mut self, name: &str, value: &str) {
        self.touched = true;
        let is_it = |field: &&mut Field| field.name.of(self.head).eq_ignore_ascii_case(name.as_bytes());
        self.fields.iter_mut().filter(is_it).for_each(|field| field.keep = false);
        self.drop_added(name);
        write_field(self.out, name.as_bytes(), value.as_bytes());
    }
}

impl Fields<'_> {
    /// Takes back what a filter behind this one has added under that name.
    fn drop_added(&mut self, name: &str) {
        let mut at = self.begins;
        while let Some(length) = self.out[at..].windows(2).position(|end| end == b"\r\n") {
            let line = &self.out[at..at + length];
            let is_it = line.split(|byte| *byte == b':').next();
            match is_it.is_some_and(|known| known.eq_ignore_ascii_case(name.as_bytes())) {
                true => {
                    self.out.drain(at..at + length + 2);
                }
                false => at += length + 2,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_http::h1::encode::write_fields;
    use thalweg_http::{HeadLimits, ResponseHead};

    #[test]
    fn a_field_that_is_set_stands_once_and_the_others_stay() {
        let head = b"HTTP/1.1 200 OK\r\nA: 1\r\nX: own\r\nB: 2\r\nx: again\r\n\r\n";
        let mut response = ResponseHead::new();
        response.parse(head, &HeadLimits::default()).unwrap();
        let mut out = b"HTTP/1.1 200 OK\r\n".to_vec();
        let begins = out.len();
        let mut fields = Fields { fields: &mut response.fields, head, out: &mut out, begins, touched: false };
        fields.set("X", "first");
        fields.set("Y", "y");
        fields.set("x", "last");
        // What would split the message is not sent.
        fields.set("Z", "a\r\nB: 3");
        assert!(fields.touched);
        write_fields(&mut out, head, &response.fields);
        assert_eq!(out.as_slice(), b"HTTP/1.1 200 OK\r\nY: y\r\nx: last\r\nA: 1\r\nB: 2\r\n");
    }
}
