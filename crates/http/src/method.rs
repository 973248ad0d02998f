//! Methods and versions of the request line.

/// A request method (RFC 9110 §9, RFC 5789). Case-sensitive: `get` is [`Method::Other`], and refused in requests.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Method {
    /// Transfer a representation.
    #[default]
    Get,
    /// As GET, without the body.
    Head,
    /// Process the body.
    Post,
    /// Replace the representation.
    Put,
    /// Remove the representation.
    Delete,
    /// Describe the communication options.
    Options,
    /// Open a tunnel.
    Connect,
    /// Loop the message back.
    Trace,
    /// Change a representation in part (RFC 5789).
    Patch,
    /// Any other token; its text is in the head.
    Other,
}

/// The methods of the IANA registry, and `PURGE`, which caches know.
const WELL_KNOWN: [&str; 41] = [
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "ORDERPATCH",
    "PATCH",
    "POST",
    "PRI",
    "PROPFIND",
    "PROPPATCH",
    "PURGE",
    "PUT",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "TRACE",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

impl Method {
    /// Reads a method. Every other text, also one that is no token, is [`Method::Other`].
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        match bytes {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            b"CONNECT" => Self::Connect,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => Self::Other,
        }
    }

    /// Whether a method that is [`Method::Other`] is a well-known one but for its case, such as `delete`. Endpoints
    /// that ignore case take it for that one, which a rule about methods would have missed.
    pub fn is_miscased(bytes: &[u8]) -> bool {
        bytes.iter().any(u8::is_ascii_lowercase)
            && WELL_KNOWN.iter().any(|known| bytes.eq_ignore_ascii_case(known.as_bytes()))
    }

    /// Whether the client asks for nothing to change (RFC 9110 §9.2.1).
    pub const fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }

    /// Whether twice means the same as once (RFC 9110 §9.2.2). Unknown methods are not.
    pub const fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Self::Put | Self::Delete)
    }

    /// The word for logs and metrics; `OTHER` for every unknown method, so that labels are bounded.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Connect => "CONNECT",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Other => "OTHER",
        }
    }
}

/// The version of a message. Anything else is refused.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/2, whose heads are read as lines here too.
    Http2,
}

impl Version {
    /// The text of the request line; of HTTP/2, which has none, what logs write.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_case_sensitive_and_keep_their_label() {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PATCH"] {
            assert_eq!(Method::from_bytes(method.as_bytes()).label(), method);
            assert_eq!(Method::from_bytes(method.to_lowercase().as_bytes()), Method::Other);
        }
        assert_eq!(Method::from_bytes(b"PROPFIND").label(), "OTHER");
    }

    #[test]
    fn a_well_known_method_in_another_case_is_recognised() {
        for method in ["get", "Post", "dElete", "PROPFINd", "patch", "purge"] {
            assert!(Method::is_miscased(method.as_bytes()), "{method}");
        }
        for method in ["GET", "DELETE", "PROPFIND", "frob", "Frob", "M-SEARCH", "gets", ""] {
            assert!(!Method::is_miscased(method.as_bytes()), "{method}");
        }
    }

    #[test]
    fn only_rfc_9110_methods_are_idempotent() {
        assert!(Method::Put.is_idempotent() && Method::Delete.is_idempotent() && Method::Get.is_idempotent());
        assert!(!Method::Post.is_idempotent() && !Method::Patch.is_idempotent());
        assert!(!Method::Other.is_idempotent() && !Method::Put.is_safe());
    }
}
