//! Servers that are asked over HTTP: the one that answered last is asked first.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thalweg_client::{BodyStream, Bounds, Bytes, ClientError, Destination, HttpClient, Request, Response};
use thalweg_filter::ConfigFiles;
use thalweg_http::HttpUrl;
use thalweg_tls::{Certificate, Trust};
use tokio::time::timeout;

/// Largest answer, in bytes.
pub(crate) const ANSWER: usize = 16 * 1024 * 1024;
/// Largest file of certificates or a key, in bytes.
const CA_FILE: usize = 1024 * 1024;
/// The longest silence of a body whose server is watched by other signs.
const FOR_EVER: Duration = Duration::from_secs(30 * 24 * 3600);
/// The most servers of one source.
const SERVERS: usize = 16;

/// Who vouches for the certificates of servers: those of a file in PEM, else whom the system trusts.
///
/// # Errors
/// A sentence: the file cannot be read, or holds no certificates.
pub(crate) fn trust(ca: Option<&str>, files: &dyn ConfigFiles) -> Result<Trust, String> {
    let Some(path) = ca else { return Ok(Trust::System) };
    files.roots(path, CA_FILE).map(|pem| Trust::Only(pem.into()))
}

/// The certificate that is shown to a server, with its key, each in a file.
///
/// # Errors
/// A sentence: one of the two is missing, or cannot be read.
pub(crate) fn certificate(
    (cert, key): (Option<&str>, Option<&str>),
    files: &dyn ConfigFiles,
) -> Result<Option<Arc<Certificate>>, String> {
    let (cert, key) = match (cert, key) {
        (None, None) => return Ok(None),
        (Some(cert), Some(key)) => (cert, key),
        _ => return Err("`cert` and `key` belong together; write both or none".to_owned()),
    };
    let read = Certificate::read(&files.read(cert, CA_FILE)?, &files.read(key, CA_FILE)?);
    read.map(|read| Some(Arc::new(read))).map_err(|why| format!("`{cert}` and `{key}`: {why}"))
}

/// One server or several that know the same. Fields that are sent with every request may be secret and are not shown.
pub(crate) struct HttpServers {
    servers: Vec<(Destination, String)>,
    fields: Vec<(&'static str, String)>,
    client: HttpClient,
    trust: Trust,
    certificate: Option<Arc<Certificate>>,
    urls: Vec<String>,
    last_good: AtomicUsize,
}

impl HttpServers {
    /// From URLs such as `http://10.0.0.1:8500/prefix` or `unix:/run/x.sock`, without a query.
    ///
    /// # Errors
    /// A sentence that names the URL.
    pub(crate) fn new(
        urls: &[String],
        fields: Vec<(&'static str, String)>,
        trust: Trust,
    ) -> Result<Self, String> {
        if urls.is_empty() || urls.len() > SERVERS {
            return Err(format!("write 1 to {SERVERS} URLs of servers"));
        }
        let servers = urls.iter().map(|url| server(url)).collect::<Result<_, _>>()?;
        let client = HttpClient::new(trust.clone());
        let (urls, last_good) = (urls.to_vec(), AtomicUsize::new(0));
        Ok(Self { servers, fields, client, trust, certificate: None, urls, last_good })
    }

    /// Shows this certificate to servers that ask for one.
    pub(crate) fn showing(mut self, certificate: Option<Arc<Certificate>>) -> Self {
        if let Some(certificate) = &certificate {
            self.client = self.client.showing(certificate.clone());
        }
        self.certificate = certificate;
        self
    }

    /// The URLs, for people.
    pub(crate) fn place(&self) -> String {
        self.urls.join(", ")
    }

    /// The host of the first one, or its path.
    pub(crate) fn first_host(&self) -> &str {
        match self.servers.first() {
            Some((Destination::Tcp { host, .. }, _)) => host,
            Some((Destination::Unix(path), _)) => path.to_str().unwrap_or("unix"),
            None => "",
        }
    }

    /// All that connections depend on: URLs, and fields and trust by a digest.
    pub(crate) fn group(&self) -> String {
        let fields: String = self.fields.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let trust = match &self.trust {
            Trust::Only(pem) => crate::source::digest(pem),
            other => format!("{other:?}"),
        };
        let certificate = self.certificate.as_ref().map(|certificate| certificate.whole_digest());
        let shown = crate::source::digest(format!("{fields}{certificate:?}").as_bytes());
        format!("{} {trust} {shown}", self.place())
    }

    /// Which of them answered last, and is asked first.
    pub(crate) fn current(&self) -> usize {
        self.last_good.load(Ordering::Relaxed)
    }

    /// `GET` of this path and query, behind the path of the URL.
    ///
    /// # Errors
    /// A sentence with the server's URL: no server answered in time, or not with a body that fits.
    pub(crate) async fn get(&self, target: &str, time: Duration) -> Result<Response<Bytes>, String> {
        self.send("GET", target, &[], Bytes::new(), Bounds::new(time, ANSWER)).await
    }

    /// Any request.
    ///
    /// # Errors
    /// As for [`Self::get`].
    #[expect(clippy::too_many_arguments, reason = "these make a request")]
    pub(crate) async fn send(
        &self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: Bytes,
        bounds: Bounds,
    ) -> Result<Response<Bytes>, String> {
        let mut failures = Vec::new();
        for at in self.order() {
            let (to, prefix) = &self.servers[at];
            let request = self.request(method, &format!("{prefix}{target}"), fields, body.clone())?;
            match self.client.send(to, request, bounds).await {
                // Another server may be well.
                Ok(response) if response.status().is_server_error() && self.servers.len() > 1 => {
                    failures.push(format!("{} answers {}", self.urls[at], response.status()));
                }
                Ok(response) => {
                    self.last_good.store(at, Ordering::Relaxed);
                    return Ok(response);
                }
                Err(error) => failures.push(format!("{}: {error}", self.urls[at])),
            }
        }
        Err(failures.join("; "))
    }

    /// A request whose answer is read piece by piece. The head comes within `head`; the body may be silent for
    /// ever: the caller sees by other signs that the server lives.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub(crate) async fn endless(
        &self,
        (method, target): (&str, &str),
        fields: &[(&str, &str)],
        body: Bytes,
        head: Duration,
    ) -> Result<Response<BodyStream>, String> {
        let mut failures = Vec::new();
        for at in self.order() {
            let (to, prefix) = &self.servers[at];
            let request = self.request(method, &format!("{prefix}{target}"), fields, body.clone())?;
            let opened = timeout(head, self.client.stream(to, request, FOR_EVER)).await;
            match opened.unwrap_or(Err(ClientError::Time(head))) {
                Ok(response) if response.status().is_server_error() && self.servers.len() > 1 => {
                    failures.push(format!("{} answers {}", self.urls[at], response.status()));
                }
                Ok(response) => {
                    self.last_good.store(at, Ordering::Relaxed);
                    return Ok(response);
                }
                Err(error) => failures.push(format!("{}: {error}", self.urls[at])),
            }
        }
        Err(failures.join("; "))
    }

    fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (count, first) = (self.servers.len(), self.last_good.load(Ordering::Relaxed));
        (0..count).map(move |at| (first + at) % count)
    }

    fn request(
        &self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Request<Bytes>, String> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in &self.fields {
            request = request.header(*name, value);
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(body).map_err(|error| format!("the request cannot be made: {error}"))
    }
}

impl fmt::Debug for HttpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServers").field("urls", &self.urls).finish_non_exhaustive()
    }
}

/// Where to connect, and the path without a slash at its end.
pub(crate) fn server(url: &str) -> Result<(Destination, String), String> {
    if let Some(path) = url.strip_prefix("unix:") {
        return Ok((Destination::Unix(path.into()), String::new()));
    }
    let read = HttpUrl::parse(url).map_err(|flaw| format!("`{url}` is not the URL of a server: {flaw}"))?;
    if read.target().contains('?') {
        return Err(format!("`{url}` has a query; write the URL without one"));
    }
    Ok((Destination::from(&read), read.target().trim_end_matches('/').to_owned()))
}

/// The value of a parameter or a segment of a path, percent-encoded.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// An answer that is not 200, in a sentence.
pub(crate) fn refused(response: &Response<Bytes>) -> String {
    format!("the server answers {}", response.status())
}

/// For a time that may be written, with its bounds.
///
/// # Errors
/// A sentence that names the key.
pub(crate) fn time(
    (key, written): (&str, Option<&str>),
    default: Duration,
    (least, most): (Duration, Duration),
) -> Result<Duration, String> {
    use thalweg_core::units::{duration_text, parse_duration};
    let Some(text) = written else { return Ok(default) };
    let time = parse_duration(text).map_err(|flaw| format!("`{key}`: {flaw}"))?;
    if time < least || time > most {
        return Err(format!("`{key}` must be from {} to {}", duration_text(least), duration_text(most)));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_from_urls_with_a_path_and_without_a_query() {
        assert_eq!(server("http://a:8500/x/").unwrap().1, "/x");
        assert_eq!(server("unix:/run/docker.sock").unwrap().0, Destination::Unix("/run/docker.sock".into()));
        assert!(server("http://a/?b").is_err() && server("a:80").is_err());
        assert!(HttpServers::new(&[], Vec::new(), Trust::System).is_err());
    }

    #[test]
    fn parameters_are_encoded() {
        assert_eq!(encoded("a/b c+é"), "a%2Fb%20c%2B%C3%A9");
    }
}
