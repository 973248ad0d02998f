//! Drops request trailers that imitate fields of filters. A service may merge trailers into the head's fields, and so
//! could take a client's trailer for a field that a filter has verified, set or removed.
//!
//! Servers that fold names (CGI and similar) read `x_user` and `X.User` as `X-User`: names are compared in folded
//! form.

use crate::fields::FieldView;
use std::sync::Arc;
use thalweg_http::h1::encode::write_field;
use thalweg_http::{Field, is_alias};

/// The rule that decides which trailers of a request are dropped.
#[derive(Clone, Debug, Default)]
pub struct TrailerRule {
    names: Vec<Box<[u8]>>,
    /// A filter writes fields that differ between requests.
    has_others: bool,
}

impl TrailerRule {
    /// Fields with these names belong to filters; `has_others`: so do all further fields that they write.
    pub(crate) fn new<'n>(names: impl Iterator<Item = &'n str>, has_others: bool) -> Option<Self> {
        let mut rule = Self { names: Vec::new(), has_others };
        names.for_each(|name| rule.add(name.as_bytes()));
        (has_others || !rule.names.is_empty()).then_some(rule)
    }

    /// The rule for one request, given the field lines that its filters have added, and the received ones that they
    /// have left.
    #[must_use]
    pub fn for_request(self: &Arc<Self>, (fields, received): (&[Field], &[u8]), added: &[u8]) -> Arc<Self> {
        if !self.has_others {
            return self.clone();
        }
        let mut rule = Self::clone(self);
        FieldView::new(&[], &[], added).iter().for_each(|(name, _)| rule.add(name));
        let removed = fields.iter().filter(|field| !field.keep);
        removed.for_each(|field| rule.add(field.name.of(received)));
        Arc::new(rule)
    }

    /// The forwarded trailers, as lines.
    pub fn allowed(&self, trailers: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(trailers.len());
        for (name, value) in FieldView::new(&[], &[], trailers).iter().filter(|(name, _)| !self.has(name)) {
            write_field(&mut out, name, value);
        }
        out
    }

    fn add(&mut self, name: &[u8]) {
        if !self.has(name) {
            self.names.push(name.into());
        }
    }

    /// Whether a service may read the name as one of these.
    fn has(&self, name: &[u8]) -> bool {
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name) || is_alias(name, known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(names: &[&str], has_others: bool) -> Arc<TrailerRule> {
        Arc::new(TrailerRule::new(names.iter().copied(), has_others).unwrap())
    }

    #[test]
    fn trailers_that_may_be_taken_for_a_field_of_the_filters_do_not_go_on() {
        let rule = rule(&["X-User", "x_team"], false);
        let sent = b"X-User: root\r\nx_user: root\r\nX.User: root\r\nX-TEAM: root\r\nx-users: 1\r\nGrpc-Status: 0\r\n";
        assert_eq!(rule.allowed(sent), b"x-users: 1\r\nGrpc-Status: 0\r\n");
        assert_eq!(rule.allowed(b""), b"");
        assert!(TrailerRule::new(std::iter::empty(), false).is_none());
    }

    #[test]
    fn fields_that_a_filter_wrote_into_this_request_do_not_go_on() {
        let written = rule(&[], true).for_request((&[], b""), b"X-Role: reader\r\n");
        assert_eq!(written.allowed(b"X_Role: admin\r\nX-User: 1\r\n"), b"X-User: 1\r\n");
        let fixed = rule(&["X-User"], false);
        assert!(Arc::ptr_eq(&fixed, &fixed.for_request((&[], b""), b"X-Role: reader\r\n")));
    }
}
