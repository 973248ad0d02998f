//! As much of a browser as a login needs: cookies by site, and redirects.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use thalweg_tests::Message;
use thalweg_tests::message::fetch;

/// Redirects that are followed.
const REDIRECTS: usize = 12;

/// A browser.
#[derive(Clone, Debug, Default)]
pub(super) struct Browser {
    /// By site, then by name.
    cookies: BTreeMap<SocketAddr, BTreeMap<String, String>>,
}

/// A site and a target, of `http://127.0.0.1:1234/a`.
fn parts(url: &str) -> (SocketAddr, String) {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url}"));
    let at = rest.find('/').unwrap_or(rest.len());
    let target = if at == rest.len() { "/" } else { &rest[at..] };
    (rest[..at].parse().unwrap_or_else(|_| panic!("{url}")), target.to_owned())
}

impl Browser {
    /// One request, with the cookies of its site.
    pub(super) fn ask(&mut self, method: &str, url: &str, fields: &str, body: &str) -> Message {
        let (site, target) = parts(url);
        let jar = self.cookies.entry(site).or_default();
        let cookies: Vec<String> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies =
            if cookies.is_empty() { String::new() } else { format!("Cookie: {}\r\n", cookies.join("; ")) };
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {site}\r\n{cookies}{length}{fields}Connection: close\r\n\r\n{body}"
        );
        let answer = fetch(site, &request).unwrap_or_else(|error| panic!("{url}: {error}"));
        for set in answer.values("set-cookie") {
            let (name, rest) = set.split_once('=').unwrap();
            let value = rest.split(';').next().unwrap();
            let lower = set.to_ascii_lowercase();
            if value.is_empty() || lower.contains("max-age=0") || lower.contains("expires=thu, 01 jan 1970") {
                jar.remove(name);
            } else {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }

    /// Loads a page, through redirects; the last URL too.
    pub(super) fn load(&mut self, url: &str) -> (String, Message) {
        let mut url = url.to_owned();
        for _ in 0..REDIRECTS {
            let answer = self.ask("GET", &url, "Accept: text/html\r\n", "");
            let Some(to) = answer.value("location").filter(|_| (300..400).contains(&answer.status())) else {
                return (url, answer);
            };
            url = if to.starts_with('/') { format!("http://{}{to}", parts(&url).0) } else { to.to_owned() };
        }
        panic!("it goes in circles: {url}");
    }

    /// Redirects up to the first whose URL contains this; that URL, which is not loaded.
    pub(super) fn load_until(&mut self, url: &str, part: &str) -> String {
        let mut url = url.to_owned();
        for _ in 0..REDIRECTS {
            if url.contains(part) {
                return url;
            }
            let answer = self.ask("GET", &url, "Accept: text/html\r\n", "");
            let to = answer.value("location").unwrap_or_else(|| panic!("{url}: {answer:?}"));
            url = if to.starts_with('/') { format!("http://{}{to}", parts(&url).0) } else { to.to_owned() };
        }
        panic!("{part} does not come: {url}");
    }

    /// The cookies of a site whose names begin so.
    pub(super) fn cookies(&self, site: SocketAddr, begin: &str) -> Vec<(String, String)> {
        let jar = self.cookies.get(&site).into_iter().flatten();
        jar.filter(|(name, _)| name.starts_with(begin))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Another value for a cookie.
    pub(super) fn set(&mut self, site: SocketAddr, name: &str, value: &str) {
        self.cookies.entry(site).or_default().insert(name.to_owned(), value.to_owned());
    }
}
