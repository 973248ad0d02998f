//! The dashboard: files that a browser loads from `/`, sealed in the binary.
//!
//! Called by the router of the admin listener. The source is in `ui/`; `cargo xtask ui` writes `ui/dist/`. Invariant:
//! the files are the same for everybody and hold no data of this proxy, so no token is asked for; what they show they
//! ask the API for, with a session. They load nothing from elsewhere, and the policy below has the browser see to it.

use std::io::Read as _;

use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, REFERRER_POLICY, VARY, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use flate2::read::GzDecoder;

use crate::precondition::is_known;
use crate::problem::Problem;

/// What the browser may load and do: our own files and our own API, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A file of the dashboard.
pub(crate) struct Asset {
    /// The path that it is loaded from.
    pub(crate) path: &'static str,
    content_type: &'static str,
    /// Its content, gzip (RFC 1952).
    gzip: &'static [u8],
}

/// The files.
pub(crate) static ASSETS: [Asset; 4] = [
    Asset {
        path: "/",
        content_type: "text/html; charset=utf-8",
        gzip: include_bytes!("../../../ui/dist/index.html.gz"),
    },
    Asset {
        path: "/app.js",
        content_type: "text/javascript; charset=utf-8",
        gzip: include_bytes!("../../../ui/dist/app.js.gz"),
    },
    Asset {
        path: "/app.css",
        content_type: "text/css; charset=utf-8",
        gzip: include_bytes!("../../../ui/dist/app.css.gz"),
    },
    Asset {
        path: "/icon.svg",
        content_type: "image/svg+xml",
        gzip: include_bytes!("../../../ui/dist/icon.svg.gz"),
    },
];

/// Whether a path is a file of the dashboard.
pub(crate) fn has(path: &str) -> bool {
    ASSETS.iter().any(|asset| asset.path == path)
}

impl Asset {
    /// The answer to a request for it.
    pub(crate) fn answer(&self, method: &Method, headers: &HeaderMap) -> Result<Response, Problem> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(Problem::wrong_method("GET, HEAD".into()));
        }
        let tag = self.tag();
        let mut response = if is_known(headers, &tag)? {
            StatusCode::NOT_MODIFIED.into_response()
        } else if takes_gzip(headers) {
            let mut response = self.gzip.into_response();
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
        } else {
            self.plain().into_response()
        };
        let fields = response.headers_mut();
        let mut field = |name: HeaderName, value| fields.insert(name, HeaderValue::from_static(value));
        field(CONTENT_TYPE, self.content_type);
        // Asked for again each time, and mostly answered 304: after an upgrade nobody sees an old page.
        field(CACHE_CONTROL, "no-cache");
        field(VARY, "Accept-Encoding");
        field(CONTENT_SECURITY_POLICY, POLICY);
        field(REFERRER_POLICY, "no-referrer");
        field(X_FRAME_OPTIONS, "DENY");
        field(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
        field(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
        if let Ok(tag) = HeaderValue::try_from(format!("W/\"{tag}\"")) {
            fields.insert(ETAG, tag);
        }
        Ok(response)
    }

    /// Changes with the content: its checksum and length, which gzip ends with (RFC 1952 §2.3.1).
    fn tag(&self) -> String {
        let trailer = self.gzip.len().saturating_sub(8);
        self.gzip.iter().skip(trailer).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The content for those who take no gzip.
    fn plain(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        // What stands in the binary does not break off.
        let _ = GzDecoder::new(self.gzip).read_to_end(&mut plain);
        plain
    }
}

/// Whether the client takes gzip; a weight of 0 is a no (RFC 9110 §12.5.3).
fn takes_gzip(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    fields.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().trim_start_matches("q=");
        name.trim().eq_ignore_ascii_case("gzip")
            && !(weight.starts_with('0') && weight.trim_matches(['0', '.']).is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_whole_and_small() {
        let mut all = 0;
        for asset in &ASSETS {
            let plain = asset.plain();
            let length = asset.gzip.last_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize);
            assert_eq!(Some(plain.len()), length, "{}", asset.path);
            all += asset.gzip.len();
        }
        assert!(all < 150 * 1024, "{all} bytes");
    }

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        for (value, takes) in [
            ("gzip, br", true),
            ("br;q=1, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.00", false),
            ("*", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(takes_gzip(&headers), takes, "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
