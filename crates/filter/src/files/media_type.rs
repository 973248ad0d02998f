//! Types of files, by the ends of their names: those that sites have, as IANA registers them.

/// The type of a file; texts with their charset, unless that is empty.
pub(crate) fn media_type(path: &[u8], charset: &str) -> String {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let ending = name.iter().rposition(|byte| *byte == b'.').map_or(&b""[..], |dot| &name[dot + 1..]);
    let kind = std::str::from_utf8(ending).map_or(UNKNOWN, |ending| of(&ending.to_ascii_lowercase()));
    match kind.starts_with("text/") && !charset.is_empty() {
        true => format!("{kind}; charset={charset}"),
        false => kind.to_owned(),
    }
}

const UNKNOWN: &str = "application/octet-stream";

fn of(ending: &str) -> &'static str {
    match ending {
        "html" | "htm" => "text/html",
        "css" => "text/css",
        // RFC 9239.
        "js" | "mjs" => "text/javascript",
        "txt" | "text" | "log" | "conf" => "text/plain",
        "md" | "markdown" => "text/markdown",
        "csv" => "text/csv",
        "vtt" => "text/vtt",
        "ics" => "text/calendar",
        "vcf" => "text/vcard",
        "xml" | "xsl" | "xsd" => "text/xml",
        "json" | "map" => "application/json",
        "jsonld" => "application/ld+json",
        "geojson" => "application/geo+json",
        "webmanifest" => "application/manifest+json",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "rss" => "application/rss+xml",
        "atom" => "application/atom+xml",
        "xhtml" => "application/xhtml+xml",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        "rtf" => "application/rtf",
        "epub" => "application/epub+zip",
        "zip" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "zst" => "application/zstd",
        "bz2" => "application/x-bzip2",
        "xz" => "application/x-xz",
        "tar" => "application/x-tar",
        "jar" => "application/java-archive",
        "apk" => "application/vnd.android.package-archive",
        "doc" => "application/msword",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xls" => "application/vnd.ms-excel",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "ppt" => "application/vnd.ms-powerpoint",
        "pptx" => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "odt" => "application/vnd.oasis.opendocument.text",
        "ods" => "application/vnd.oasis.opendocument.spreadsheet",
        "m3u8" => "application/vnd.apple.mpegurl",
        "mpd" => "application/dash+xml",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "apng" => "image/apng",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "jxl" => "image/jxl",
        "tif" | "tiff" => "image/tiff",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "otf" => "font/otf",
        "mp3" => "audio/mpeg",
        "m4a" => "audio/mp4",
        "ogg" | "oga" | "opus" => "audio/ogg",
        "wav" => "audio/wav",
        "flac" => "audio/flac",
        "weba" => "audio/webm",
        "mp4" | "m4v" => "video/mp4",
        "webm" => "video/webm",
        "mov" => "video/quicktime",
        "ts" => "video/mp2t",
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_end_of_the_name() {
        for (path, expected) in [
            ("a/index.HTML", "text/html; charset=utf-8"),
            ("app.min.js", "text/javascript; charset=utf-8"),
            ("x.json", "application/json"),
            ("a.html/readme", UNKNOWN),
            ("archive.tar.gz", "application/gzip"),
            ("none", UNKNOWN),
            (".png", "image/png"),
            ("", UNKNOWN),
        ] {
            assert_eq!(media_type(path.as_bytes(), "utf-8"), expected, "{path}");
        }
        assert_eq!(media_type(b"a.txt", ""), "text/plain");
        assert_eq!(media_type(b"a.\xff", "utf-8"), UNKNOWN);
    }
}
