//! Formats with samples, `%[src]` and `%ci`, as texts with placeholders.

use super::acl::split_converters;
use crate::draft::literal;
use std::collections::BTreeMap;

/// What is known where a format stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Whether clients speak TLS, where it is the same for all.
    pub(super) secure: Option<bool>,
    /// The port of the listener, where it is the same for all.
    pub(super) port: Option<u16>,
    /// Samples of variables.
    pub(super) variables: BTreeMap<String, String>,
    /// The path was changed before.
    pub(super) is_moved: bool,
    pub(super) frontend: String,
}

impl Scope {
    /// A format as a text with placeholders.
    ///
    /// # Errors
    /// The sample that has none.
    pub(super) fn template(&self, format: &str) -> Result<String, String> {
        let (mut out, mut rest) = (String::new(), format);
        while let Some((before, behind)) = rest.split_once('%') {
            out.push_str(&literal(before));
            if let Some(after) = behind.strip_prefix('%') {
                out.push('%');
                rest = after;
            } else if let Some(inner) = behind.strip_prefix('[') {
                let end = closing(inner).ok_or_else(|| format.to_owned())?;
                out.push_str(&self.sample(&inner[..end], 0)?);
                rest = &inner[end + 1..];
            } else {
                let name: String = behind.chars().take_while(char::is_ascii_alphabetic).take(3).collect();
                let found = (1..=name.len()).rev().find_map(|length| Some((length, alias(&name[..length])?)));
                let (length, sample) = found.ok_or_else(|| format!("%{name}"))?;
                out.push_str(&self.sample(sample, 0)?);
                rest = &behind[length..];
            }
        }
        out.push_str(&literal(rest));
        Ok(out)
    }

    /// A sample as a placeholder.
    ///
    /// # Errors
    /// The sample.
    pub(super) fn sample(&self, sample: &str, depth: usize) -> Result<String, String> {
        let (fetch, converters) = split_converters(sample.trim());
        let (name, argument) = match fetch.split_once('(') {
            Some((name, argument)) => (name, argument.trim_end_matches(')').trim()),
            None => (fetch, ""),
        };
        let is_host = argument.eq_ignore_ascii_case("host");
        let is_bare = !converters.is_empty()
            && is_host
            && converters.iter().all(|it| matches!(*it, "lower" | "field(1,:)" | "host_only" | "word(1,:)"));
        let has_lower_only = converters.iter().all(|it| *it == "lower");
        let is_method = has_lower_only && name == "method";
        if !(converters.is_empty() || is_bare || is_method) {
            return Err(sample.to_owned());
        }
        let named = !argument.is_empty() && !argument.contains(',');
        Ok(match name {
            "src" => "{client_ip}".to_owned(),
            "dst_port" => self.port.map(|port| port.to_string()).ok_or_else(|| sample.to_owned())?,
            "hdr" | "req.hdr" | "req.fhdr" if is_bare => "{host}".to_owned(),
            "hdr" | "req.hdr" | "req.fhdr" if named => {
                format!("{{header.{}}}", argument.to_ascii_lowercase())
            }
            "path" if self.is_moved => "{upstream_path}".to_owned(),
            "path" => "{path}".to_owned(),
            "query" => "{query}".to_owned(),
            "method" => "{method}".to_owned(),
            "ssl_fc_sni" => "{tls.sni}".to_owned(),
            "ssl_fc_protocol" => "{tls.version}".to_owned(),
            "ssl_c_s_dn" if argument.is_empty() => "{tls.client.subject}".to_owned(),
            "ssl_fc" => match self.secure {
                Some(secure) => u8::from(secure).to_string(),
                None => return Err(sample.to_owned()),
            },
            "url_param" | "urlp" if named => format!("{{query.{argument}}}"),
            "cook" | "req.cook" if named => format!("{{cookie.{argument}}}"),
            "str" => literal(argument),
            "unique-id" => "{request_id}".to_owned(),
            "fe_name" => literal(&self.frontend),
            "be_name" => "{service}".to_owned(),
            "var" if depth < 8 => {
                let known = self.variables.get(argument).ok_or_else(|| sample.to_owned())?;
                self.sample(known, depth + 1)?
            }
            _ => return Err(sample.to_owned()),
        })
    }
}

/// The samples that short names of logs stand for.
fn alias(name: &str) -> Option<&'static str> {
    Some(match name {
        "ci" => "src",
        "fp" => "dst_port",
        "HM" => "method",
        "HP" => "path",
        "ID" => "unique-id",
        "f" | "ft" => "fe_name",
        "b" => "be_name",
        "sslv" => "ssl_fc_protocol",
        _ => return None,
    })
}

/// Where the bracket closes that is open.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' if depth == 0 => return Some(at),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_become_texts_with_placeholders() {
        let scope = Scope { secure: Some(true), port: Some(443), ..Scope::default() };
        for (format, expected) in [
            ("%[src]", "{client_ip}"),
            ("https://%[hdr(host),lower]/x?{a}", "https://{host}/x?{{a}}"),
            ("%ci:%fp", "{client_ip}:443"),
            ("100%%", "100%"),
            ("%[ssl_fc] %[req.cook(sid)]", "1 {cookie.sid}"),
        ] {
            assert_eq!(scope.template(format).as_deref(), Ok(expected), "{format}");
        }
        assert_eq!(scope.template("%[rand(5)]"), Err("rand(5)".to_owned()));
    }
}
