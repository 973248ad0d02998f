//! Heads of HTTP/2 as the lines that the rest of the product reads, and back (RFC 9113 §8.2, §8.3).
//!
//! Only names, values and pseudo-fields are translated. What a head must look like is checked by the parser of HTTP/1 and by the
//! rules behind it, so that both versions are admitted by the same code.

use ::http::header::{HeaderMap, HeaderName, HeaderValue};
use ::http::{Request, Response, StatusCode, Uri};
use thalweg_core::Fault;
use thalweg_http::rules::may_be_trailer;

/// Fields that belong to one connection of HTTP/1 (RFC 9113 §8.2.2).
const OF_CONNECTION: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// Writes a request's head as one of HTTP/1.1.
///
/// # Errors
/// 400 for pseudo-fields that contradict each other or the fields.
pub(super) fn write_request(request: &Request<()>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = request.uri();
    out.extend_from_slice(request.method().as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target(uri)?);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let fields = request.headers();
    if let Some(authority) = uri.authority() {
        let authority = authority.as_str().as_bytes();
        if authority.contains(&b'@') {
            return Err(Fault::request(400, "user information in :authority"));
        }
        let mut hosts = fields.get_all(::http::header::HOST).iter();
        if hosts.any(|host| !host.as_bytes().eq_ignore_ascii_case(authority)) {
            return Err(Fault::request(400, "host and :authority differ"));
        }
        write_line(out, b"host", authority);
    }
    let mut cookies = fields.get_all(::http::header::COOKIE).iter().peekable();
    if cookies.peek().is_some() {
        // Crumbs are one field everywhere else (RFC 9113 §8.2.3).
        out.extend_from_slice(b"cookie: ");
        for (i, crumb) in cookies.enumerate() {
            out.extend_from_slice(if i > 0 { b"; " } else { b"" });
            out.extend_from_slice(crumb.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
    for (name, value) in fields {
        let is_said =
            name == ::http::header::COOKIE || (name == ::http::header::HOST && uri.authority().is_some());
        if !is_said {
            write_line(out, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

fn target(uri: &Uri) -> Result<&[u8], Fault> {
    match uri.path_and_query().map(|target| target.as_str().as_bytes()) {
        Some(target) if target.starts_with(b"/") || target == b"*" => Ok(target),
        _ => Err(Fault::request(400, "a :path that is none")),
    }
}

fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The head of a response that was composed as one of HTTP/1.1; `None`: it cannot be said in HTTP/2.
pub(super) fn response(head: &[u8]) -> Option<Response<()>> {
    let (status, fields) = split_line(head)?;
    let status = StatusCode::from_bytes(status.get(9..12)?).ok()?;
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = map(fields)?;
    Some(response)
}

/// Trailers that were received as lines; `None`: there are none.
pub(super) fn trailers(lines: &[u8]) -> Option<HeaderMap> {
    map(lines).filter(|map| !map.is_empty())
}

/// What may be passed on of trailers, as lines.
pub(super) fn trailer_lines(map: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in map {
        if may_be_trailer(name.as_str().as_bytes()) {
            write_line(&mut lines, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    lines
}

/// The fields of lines, without those of a connection.
fn map(mut lines: &[u8]) -> Option<HeaderMap> {
    let mut map = HeaderMap::new();
    while let Some((line, rest)) = split_line(lines).filter(|(line, _)| !line.is_empty()) {
        lines = rest;
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if OF_CONNECTION.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            continue;
        }
        map.append(HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
    }
    Some(map)
}

fn split_line(lines: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = lines.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&lines[..end], &lines[end + 2..]))
}
