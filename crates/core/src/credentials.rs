//! Where credentials of clients stand in requests. Called by what writes logs.

/// Keys of a query whose values are replaced by `[redacted]` in logs.
pub const REDACTED_KEYS: &[&str] = &[
    "token",
    "access_token",
    "id_token",
    "jwt",
    "code",
    "api_key",
    "key",
    "password",
    "secret",
    "signature",
    "sig",
];
/// Fields of requests that are credentials, or hold some.
const FIELDS: &[&str] =
    &["authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token", "x-csrf-token"];
/// Parts of the names of cookies that are credentials.
const COOKIES: &[&str] = &["sess", "token", "auth", "jwt", "secret", "passw", "csrf"];

/// Parts of the names of fields that may be credentials. One too many costs a value that nobody sees.
const PARTS: &[&str] =
    &["auth", "cookie", "token", "key", "secret", "passw", "sess", "jwt", "csrf", "credential", "signature"];

/// Whether a field of a request or response may be one, or hold some, by its name. As [`is_field`], but rather too
/// often than too seldom: for what shows the values of fields to people.
pub fn may_be_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    PARTS.iter().any(|part| lower.contains(part))
}

/// Whether a field of a request is one, or holds some.
pub fn is_field(name: &str) -> bool {
    is_listed(FIELDS, name)
}

/// Whether a parameter of a query is one.
pub fn is_parameter(name: &str) -> bool {
    is_listed(REDACTED_KEYS, name)
}

/// Whether a cookie is likely one, by its name.
pub fn is_cookie(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    is_parameter(name) || lower.ends_with("sid") || COOKIES.iter().any(|part| lower.contains(part))
}

fn is_listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_by_their_names() {
        for name in ["PHPSESSID", "connect.sid", "__Host-session", "access_token", "Sig", "sid", "XSRF-TOKEN"]
        {
            assert!(is_cookie(name), "{name}");
        }
        for name in ["variant", "lang", "consent", "theme"] {
            assert!(!is_cookie(name), "{name}");
        }
        assert!(is_field("Authorization") && !is_field("X-Tenant"));
        for name in
            FIELDS.iter().chain(&["Set-Cookie", "X-Amz-Security-Token", "Idempotency-Key", "X-Session-Id"])
        {
            assert!(may_be_secret(name), "{name}");
        }
        for name in ["Accept", "User-Agent", "Host", "X-Request-Id", "Content-Type", "ETag", "Location"] {
            assert!(!may_be_secret(name), "{name}");
        }
        assert!(is_parameter("TOKEN") && !is_parameter("page"));
    }
}
