//! Recognises credentials in requests by the names of parameters, fields and cookies. Called by every writer of logs,
//! records, taps and recordings.
//!
//! One rule for parameters of queries, fields and cookies: a name is split into words at each character that is
//! neither a letter nor a digit, before a digit, and between lower and upper case; one word that names a credential
//! is enough. So `X-Amz-Signature`, `api_key` and `SAMLResponse` are hidden, and `monkey`, `author` and `passenger`
//! are not.

/// Request fields that always are or contain credentials.
const FIELDS: &[&str] =
    &["authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token", "x-csrf-token"];
/// Parts of the names of cookies that are credentials.
const COOKIES: &[&str] = &["sess", "token", "auth", "jwt", "secret", "passw", "csrf"];

/// Words that name a credential.
const WORDS: &[&str] = &[
    "key",
    "pass",
    "pwd",
    "pswd",
    "sig",
    "sign",
    "auth",
    "session",
    "sess",
    "sid",
    "code",
    "cred",
    "creds",
    "jwt",
    "jws",
    "jwe",
    "otp",
    "totp",
    "pin",
    "mfa",
    "cvv",
    "cvc",
    "assertion",
    "wresult",
    "hmac",
    "bearer",
    "hdnts",
    "hdnea",
    "hdntl",
];
/// Parts of words that name a credential at any position.
const PARTS: &[&str] = &[
    "token",
    "secret",
    "passw",
    "passphrase",
    "passcode",
    "signature",
    "credential",
    "cookie",
    "jwt",
    "saml",
    "csrf",
    "xsrf",
    "sessid",
    "sessionid",
    "oauth",
    "authoriz",
    "authoris",
    "authentic",
];
/// Endings of words that name a credential.
const ENDS: &[&str] = &["key", "auth", "session"];
/// Ordinary words that contain such a part or ending.
const ORDINARY: &[&str] = &[
    "tokens",
    "tokenizer",
    "tokenize",
    "tokenise",
    "tokeniser",
    "secretary",
    "secretariat",
    "monkey",
    "turkey",
    "donkey",
    "hockey",
    "jockey",
    "whiskey",
    "hotkey",
    "mickey",
    "lackey",
    "obsession",
    "possession",
    "supersession",
    "authenticity",
    "cookies",
];
/// Words next to which `code` is an ordinary number or name.
const ORDINARY_CODES: &[&str] = &[
    "country", "zip", "postal", "post", "area", "region", "city", "state", "status", "error", "exit",
    "return", "reason", "response", "http", "lang", "language", "locale", "currency", "color", "colour",
    "product", "item", "source", "airport", "station", "bar", "qr", "type", "iata", "icao", "iso", "sku",
];
/// Longest name that is examined, in bytes: values of longer names are hidden.
const NAME: usize = 256;

/// Whether a parameter, a field or a cookie may be or contain a credential, by its name. A false positive only hides
/// a harmless value.
pub fn may_be_secret(name: &str) -> bool {
    if name.len() > NAME {
        return true;
    }
    // `SAMLart` has no case change between its words.
    let begins_with_saml = |part: &str| part.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("saml"));
    if name.split(|char: char| !char.is_ascii_alphanumeric()).any(begins_with_saml) {
        return true;
    }
    let has_ordinary_code =
        || words(name).any(|word| ORDINARY_CODES.iter().any(|known| word.eq_ignore_ascii_case(known)));
    words(name).any(|word| {
        let mut small = [0; NAME];
        let small = &mut small[..word.len()];
        small.copy_from_slice(word.as_bytes());
        small.make_ascii_lowercase();
        let word = str::from_utf8(small).unwrap_or_default();
        names_credential(word) && (word != "code" || !has_ordinary_code())
    })
}

fn names_credential(word: &str) -> bool {
    if ORDINARY.contains(&word) {
        return false;
    }
    let is_auth = word.strip_prefix("auth").is_some_and(|rest| !rest.starts_with("or"));
    is_auth
        || WORDS.contains(&word)
        || PARTS.iter().any(|part| word.contains(part))
        || ENDS.iter().any(|end| word.ends_with(end))
}

/// The words of a name.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|char: char| !char.is_ascii_alphanumeric()).flat_map(parts).filter(|word| !word.is_empty())
}

/// The words of a text of letters and digits: `accessToken2` has three, `SAMLResponse` two.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let bytes = rest.as_bytes();
        let is_border = |at: &usize| {
            let (before, here) = (bytes[at - 1], bytes[*at]);
            let next_is_small = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            before.is_ascii_digit() != here.is_ascii_digit()
                || before.is_ascii_lowercase() && here.is_ascii_uppercase()
                || before.is_ascii_uppercase() && here.is_ascii_uppercase() && next_is_small
        };
        let end = (1..bytes.len()).find(is_border).unwrap_or(bytes.len());
        let (word, left) = rest.split_at(end);
        rest = left;
        (!word.is_empty()).then_some(word)
    })
}

/// Whether a field of a request is one, or holds some.
pub fn is_field(name: &str) -> bool {
    FIELDS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether a parameter of a query is one.
pub fn is_parameter(name: &str) -> bool {
    may_be_secret(name)
}

/// Whether a cookie is likely one, by its name.
pub fn is_cookie(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    may_be_secret(name) || lower.ends_with("sid") || COOKIES.iter().any(|part| lower.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_by_the_words_of_their_names() {
        for name in [
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
            "apikey",
            "apiKey",
            "APIKEY",
            "X-Amz-Signature",
            "X-Amz-Credential",
            "X-Amz-Security-Token",
            "X-Goog-Signature",
            "sessionid",
            "JSESSIONID",
            "PHPSESSID",
            "SAMLResponse",
            "SAMLart",
            "access-token",
            "accessToken",
            "accesstoken2",
            "user[password]",
            "passwd",
            "userPwd",
            "auth",
            "oauth_verifier",
            "authtoken",
            "authenticity_token",
            "client_secret",
            "clientSecret",
            "code_verifier",
            "auth_code",
            "session",
            "session.id",
            "reset_password_token",
            "Key-Pair-Id",
            "sas.sig",
            "otp",
            "csrf",
            "Set-Cookie",
            "Idempotency-Key",
            "X-Session-Id",
            "subscription-key",
            "client_assertion",
            "credentials",
        ] {
            assert!(may_be_secret(name), "{name}");
        }
        for name in FIELDS {
            assert!(may_be_secret(name), "{name}");
        }
        assert!(may_be_secret(&"a".repeat(NAME + 1)));
    }

    #[test]
    fn ordinary_names_stay_visible() {
        for name in [
            "monkey",
            "author",
            "authors",
            "authority",
            "passenger",
            "passport",
            "keyword",
            "keywords",
            "keys",
            "keyboard",
            "page",
            "q",
            "design",
            "assign",
            "signal",
            "signup",
            "significant",
            "bypass",
            "compass",
            "tokens",
            "max_tokens",
            "tokenizer",
            "secretary",
            "sessions",
            "assessment",
            "codec",
            "encoded",
            "country_code",
            "postalCode",
            "zip-code",
            "status_code",
            "barcode",
            "donkey",
            "hockey",
            "pinned",
            "spin",
            "sidebar",
            "inside",
            "keynote",
            "turkey",
            "a",
            "",
            "a1b2",
        ] {
            assert!(!may_be_secret(name), "{name}");
        }
        for name in
            ["Accept", "User-Agent", "Host", "X-Request-Id", "Content-Type", "ETag", "Location", "Origin"]
        {
            assert!(!may_be_secret(name), "{name}");
        }
    }

    #[test]
    fn cookies_and_fields_are_known_by_their_names() {
        for name in ["PHPSESSID", "connect.sid", "__Host-session", "access_token", "Sig", "sid", "XSRF-TOKEN"]
        {
            assert!(is_cookie(name), "{name}");
        }
        for name in ["variant", "lang", "consent", "theme"] {
            assert!(!is_cookie(name), "{name}");
        }
        assert!(is_field("Authorization") && !is_field("X-Tenant"));
        assert!(is_parameter("TOKEN") && !is_parameter("page"));
    }
}
