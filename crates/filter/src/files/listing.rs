//! The page that lists a directory.

use crate::{Escape, Reply};
use rustix::fs::{Dir, FileType};
use std::fmt::Write as _;
use std::os::fd::OwnedFd;

/// Names that are read and shown at most.
const MOST: usize = 2000;
/// The page brings its own style, loads nothing, and cannot be framed by others.
const POLICY: &[u8] =
    b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'self'";
const STYLE: &str = "<style>:root{color-scheme:light dark}body{font:1rem/1.6 system-ui,sans-serif;max-width:48rem;\
                     margin:2rem auto;padding:0 1rem}ul{list-style:none;padding:0}a{text-decoration:none}\
                     a:hover{text-decoration:underline}</style>";

/// Lists a directory that the client knows by `path`, which ends with a slash: directories first, then files.
///
/// # Errors
/// It cannot be read.
pub(super) fn page(directory: OwnedFd, path: &[u8], hidden: bool) -> rustix::io::Result<Reply> {
    let (mut names, mut has_more) = (Vec::new(), false);
    for entry in Dir::new(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") || (name.starts_with(b".") && !hidden) {
            continue;
        }
        if names.len() == MOST {
            has_more = true;
            break;
        }
        let is_file = match entry.file_type() {
            FileType::Directory => false,
            FileType::RegularFile | FileType::Symlink | FileType::Unknown => true,
            // Devices, pipes and sockets are not served.
            _ => continue,
        };
        names.push((is_file, name.to_vec()));
    }
    names.sort();
    let html = html(&names, path, has_more);
    let reply = Reply::new(200).field("Content-Security-Policy", POLICY);
    Ok(reply.field("X-Content-Type-Options", b"nosniff").body("text/html; charset=utf-8", html.into_bytes()))
}

fn html(names: &[(bool, Vec<u8>)], path: &[u8], has_more: bool) -> String {
    let title = escaped(path);
    let mut out =
        format!("<!doctype html><meta charset=utf-8><title>{title}</title>{STYLE}<h1>{title}</h1><ul>");
    if path.iter().any(|byte| *byte != b'/') {
        out.push_str("<li><a href=\"../\">../</a>");
    }
    for (is_file, name) in names {
        let slash = if *is_file { "" } else { "/" };
        // With `./` no name can be read as the scheme of a URL.
        let _ = write!(out, "<li><a href=\"./{}{slash}\">{}{slash}</a>", linked(name), escaped(name));
    }
    out.push_str("</ul>");
    if has_more {
        let _ = write!(out, "<p>Only {MOST} names are shown.</p>");
    }
    out.push('\n');
    out
}

/// Text of a page.
fn escaped(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    Escape::Html.write(text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// A name in a link.
fn linked(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_write_on_the_page() {
        let names: Vec<(bool, Vec<u8>)> = vec![
            (false, b"dir".to_vec()),
            (true, b"<script>alert(1)</script>\"'&".to_vec()),
            (true, b"javascript:alert(1)".to_vec()),
            (true, "\u{e4} %2e?#".into()),
            (true, b"\xff\n".to_vec()),
        ];
        let html = html(&names, b"/<b>/", true);
        assert!(
            !html.contains("<script") && !html.contains("<b>") && !html.contains("\"javascript"),
            "{html}"
        );
        for part in [
            "<a href=\"./dir/\">dir/</a>",
            "./%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%26",
            "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;</a>",
            "./javascript%3Aalert%281%29",
            "./%C3%A4%20%252e%3F%23",
            "./%FF%0A",
            "Only 2000 names",
            "href=\"../\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!super::html(&[], b"/", false).contains("../"));
    }
}
