//! Pages for browsers: the choice of a provider, and the confirmation of a logout.

use crate::{Escape, Reply};
use std::fmt::Write as _;
use thalweg_access::oidc::encoded;

/// A page with a link for each provider, by name and title.
pub(super) fn choose<'p>(
    providers: impl Iterator<Item = (&'p str, &'p str)>,
    login: &str,
    to: &str,
) -> Reply {
    let mut links = String::new();
    for (name, title) in providers {
        let mut text = Vec::new();
        Escape::Html.write(title.as_bytes(), &mut text);
        let (name, to, text) = (encoded(name), encoded(to), String::from_utf8_lossy(&text));
        // Writing to a String does not fail.
        let _ = writeln!(links, "<li><a href=\"{login}?provider={name}&amp;to={to}\">{text}</a></li>");
    }
    page("Log in", &format!("<ul>\n{links}</ul>"))
}

/// A page with a button that logs out and leads to `to`.
pub(super) fn log_out(logout: &str, to: &str) -> Reply {
    let (mut path, to) = (Vec::new(), encoded(to));
    Escape::Html.write(logout.as_bytes(), &mut path);
    let path = String::from_utf8_lossy(&path);
    page(
        "Log out",
        &format!("<form method=\"post\" action=\"{path}?to={to}\"><button>Log out</button></form>"),
    )
}

fn page(title: &str, content: &str) -> Reply {
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title></head>\n<body><main><h1>{title}</h1>\n{content}\
         </main></body></html>\n"
    );
    Reply::new(200)
        .field("Cache-Control", b"no-store")
        .field("Content-Security-Policy", b"default-src 'none'; frame-ancestors 'none'")
        .body("text/html; charset=utf-8", page.into_bytes())
}
