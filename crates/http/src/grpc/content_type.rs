//! Which requests are gRPC: their media type says it.

/// What a message's `Content-Type` makes of it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Kind {
    /// Anything else.
    #[default]
    No,
    /// `application/grpc`: trailers tell the status.
    Grpc,
    /// `application/grpc-web`: the trailers are the last frame of the body.
    Web,
    /// `application/grpc-web-text`: the same in base64.
    WebText,
}

/// The longest first: each is the beginning of the next.
const TYPES: [(&[u8], Kind); 3] = [
    (b"application/grpc-web-text", Kind::WebText),
    (b"application/grpc-web", Kind::Web),
    (b"application/grpc", Kind::Grpc),
];

impl Kind {
    /// The kind that a `Content-Type` names, and what follows the name in it: nothing, a form such as
    /// `+proto`, or parameters.
    pub fn of(content_type: &[u8]) -> (Self, &[u8]) {
        TYPES
            .iter()
            .find_map(|(name, kind)| {
                let (start, rest) = content_type.split_at_checked(name.len())?;
                let ends = matches!(rest, [] | [b'+' | b';' | b' ' | b'\t', ..]);
                (start.eq_ignore_ascii_case(name) && ends).then_some((*kind, rest))
            })
            .unwrap_or((Self::No, b""))
    }

    /// The media type's name, without what follows it; empty for [`Kind::No`].
    pub fn name(self) -> &'static str {
        match self {
            Self::No => "",
            Self::Grpc => "application/grpc",
            Self::Web => "application/grpc-web",
            Self::WebText => "application/grpc-web-text",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_ends_where_a_form_or_parameters_begin() {
        for (content_type, kind, rest) in [
            ("application/grpc", Kind::Grpc, ""),
            ("application/grpc+proto", Kind::Grpc, "+proto"),
            ("Application/gRPC;charset=utf-8", Kind::Grpc, ";charset=utf-8"),
            ("application/grpc-web", Kind::Web, ""),
            ("application/grpc-web+json", Kind::Web, "+json"),
            ("application/grpc-web-text", Kind::WebText, ""),
            ("application/grpc-web-text+proto", Kind::WebText, "+proto"),
            ("application/grpc-webtext", Kind::No, ""),
            ("application/grpcx", Kind::No, ""),
            ("application/grp", Kind::No, ""),
            ("text/application/grpc", Kind::No, ""),
            ("", Kind::No, ""),
        ] {
            assert_eq!(Kind::of(content_type.as_bytes()), (kind, rest.as_bytes()), "{content_type}");
            if kind != Kind::No {
                assert!(content_type.to_ascii_lowercase().starts_with(kind.name()));
            }
        }
    }
}
