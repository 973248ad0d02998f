//! `thalweg hash-password`, `hash-key` and `sign-url`: what the filter `auth` reads, made without a running proxy.
//!
//! Secrets come from standard input, a file or the environment, never from the command line: that is shown to everybody
//! on the machine.

use super::{complain, say};
use clap::Args;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_access::api_keys::{hash_key, new_key};
use thalweg_access::password::{NewHash, hash_password};
use thalweg_access::signed_url::{Signed, SigningKey};
use thalweg_core::units::parse_duration;
use thalweg_http::{Span, normalize_path, parse_authority, write_normal_host};

/// Bytes that are read of a secret.
const LINE: u64 = 64 * 1024;

/// A password.
#[derive(Args, Debug)]
pub(crate) struct HashPasswordArgs {
    /// The user: a whole line of a file of users is printed
    #[arg(value_name = "USER")]
    user: Option<String>,
    /// Make a hash of bcrypt, as `htpasswd -B` does, in place of argon2id
    #[arg(long)]
    bcrypt: bool,
}

/// An API key.
#[derive(Args, Debug)]
pub(crate) struct HashKeyArgs {
    /// The name of the key: a whole line of a file of keys is printed
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Read the key from standard input; without, a new one is made and printed
    #[arg(long)]
    stdin: bool,
}

/// A link.
#[derive(Args, Debug)]
pub(crate) struct SignUrlArgs {
    /// The URL, with its host
    #[arg(value_name = "URL")]
    url: String,
    /// The name of the route, or `scope` of `signed_url` where the configuration has one
    #[arg(long, value_name = "NAME")]
    scope: String,
    /// The id of the key, as the configuration names it
    #[arg(long, value_name = "ID")]
    key_id: String,
    /// A file whose first line is the key
    #[arg(long, value_name = "FILE", required_unless_present = "key_env", conflicts_with = "key_env")]
    key_file: Option<PathBuf>,
    /// A variable of the environment that holds the key
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// How long the link is good for
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    ttl: Duration,
    /// A parameter of the query that is signed too, as in `parameters` of the configuration and in its order
    #[arg(long = "parameter", value_name = "NAME")]
    parameters: Vec<String>,
    /// The method, where the configuration says `method: true`
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
}

pub(crate) fn password(args: &HashPasswordArgs) -> ExitCode {
    let how = if args.bcrypt { NewHash::Bcrypt } else { NewHash::Argon2id };
    let made = read_line("the password").and_then(|password| hash_password(password.as_bytes(), how));
    print(made.map(|hash| match &args.user {
        Some(user) => format!("{user}:{hash}"),
        None => hash,
    }))
}

pub(crate) fn key(args: &HashKeyArgs) -> ExitCode {
    let named = |hash: String| match &args.name {
        Some(name) => format!("{name} {hash}"),
        None => hash,
    };
    if args.stdin {
        return print(read_line("the key").and_then(|key| hash_key(&key)).map(named));
    }
    print(new_key().map(|(key, hash)| {
        // The line for the file is the only thing on standard output, so that it can be appended to one.
        complain(format_args!("the key, which is shown this once: {key}"));
        named(hash)
    }))
}

pub(crate) fn sign(args: &SignUrlArgs) -> ExitCode {
    print(signed(args))
}

fn signed(args: &SignUrlArgs) -> Result<String, String> {
    let secret = match (&args.key_file, &args.key_env) {
        (Some(path), _) => {
            let line = File::open(path).and_then(|file| first_line(BufReader::new(file)));
            line.map_err(|error| format!("cannot read the file {}: {error}", path.display()))?
        }
        (None, Some(name)) => {
            std::env::var(name).map_err(|_| format!("the variable `{name}` is not set, or is not text"))?
        }
        (None, None) => return Err("no key; write --key-file or --key-env".into()),
    };
    let key = SigningKey::new(&args.key_id, secret.as_bytes())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| "the clock is before 1970")?;
    let expires = now.saturating_add(args.ttl).as_secs().to_string();
    let url = args.url.split('#').next().unwrap_or_default();
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let wrong = || format!("`{}` is not a URL; write `https://host/path`, percent-encoded", args.url);
    let (_, rest) = place.split_once("://").ok_or_else(wrong)?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = normal_host(authority).filter(|_| url.bytes().all(|byte| byte.is_ascii_graphic()));
    let (host, path) = (host.ok_or_else(wrong)?, normal_path(path)?);
    check_query(query, &args.parameters)?;
    if args.scope.chars().any(char::is_control) {
        return Err("--scope has a control character; write the name of the route".into());
    }
    let named = |name: &String| {
        query.split('&').find(|pair| pair.split('=').next() == Some(name.as_str())).map(str::as_bytes)
    };
    let signature = key.sign(&Signed {
        method: args.method.as_deref().map(str::as_bytes),
        host: &host,
        scope: args.scope.as_bytes(),
        path: &path,
        expires: expires.as_bytes(),
        parameters: args.parameters.iter().filter_map(named).collect(),
    });
    let separator = if query.is_empty() { "" } else { "&" };
    Ok(format!("{place}?{query}{separator}expires={expires}&key_id={}&signature={signature}", args.key_id))
}

/// The path that the proxy compares: it has a normal form.
fn normal_path(path: &str) -> Result<Vec<u8>, String> {
    let mut normal = Vec::new();
    let path = if path.is_empty() { "/" } else { path };
    match normalize_path(path.as_bytes(), &mut normal) {
        Err(fault) => Err(format!("the proxy would refuse the link: {}", fault.detail)),
        // `//a/..` has another normal form, and is refused before.
        Ok(_) if path.starts_with("//") => {
            Err("the proxy would refuse a path with two slashes at its start".into())
        }
        Ok(_) => Ok(normal),
    }
}

/// Each parameter that the proxy reads stands once in the link, in any spelling of its name.
fn check_query(query: &str, signed: &[String]) -> Result<(), String> {
    let names: Vec<Vec<u8>> =
        query.split('&').map(|pair| decoded(pair.split('=').next().unwrap_or_default())).collect();
    let count = |name: &str| names.iter().filter(|known| *known == name.as_bytes()).count();
    if let Some(name) = ["expires", "key_id", "signature"].into_iter().find(|name| count(name) > 0) {
        return Err(format!(
            "the URL has the parameter `{name}`, which is a part of the signature; remove it"
        ));
    }
    match signed.iter().find(|name| count(name) > 1) {
        Some(name) => Err(format!("the parameter `{name}` is to be signed and stands twice in the URL")),
        None => Ok(()),
    }
}

/// A text without percent-encoding.
fn decoded(text: &str) -> Vec<u8> {
    let digit =
        |byte: Option<&u8>| char::from(*byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let escape = digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2))).filter(|_| *byte == b'%');
        out.push(escape.map_or(*byte, |(high, low)| high * 16 + low));
        at += if escape.is_some() { 3 } else { 1 };
    }
    out
}

/// The host of an authority in its normal form; `None`: it has no host.
fn normal_host(authority: &str) -> Option<Vec<u8>> {
    let bytes = authority.as_bytes();
    let host = parse_authority(bytes, Span::new(0, bytes.len())).ok()?.host.of(bytes);
    let mut normal = Vec::new();
    write_normal_host(host, &mut normal);
    (!normal.is_empty()).then_some(normal)
}

/// The first line of standard input.
fn read_line(what: &str) -> Result<String, String> {
    let input = io::stdin();
    if input.is_terminal() {
        complain(format_args!("type {what} and press Enter; the terminal shows it"));
    }
    first_line(input.lock()).map_err(|error| format!("cannot read {what} from standard input: {error}"))
}

/// The first line, without its end; of a longer one than [`LINE`] no more is read.
fn first_line(input: impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    let length = input.take(LINE).read_line(&mut line)?;
    if u64::try_from(length).is_ok_and(|length| length == LINE) {
        let why = format!("its first line has more than {} KiB", LINE / 1024);
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

fn print(made: Result<String, String>) -> ExitCode {
    match made {
        Ok(text) => {
            say(text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn link(url: &str, key: &Path) -> Result<String, String> {
        signed(&SignUrlArgs {
            url: url.into(),
            scope: "r".into(),
            key_id: "k".into(),
            key_file: Some(key.into()),
            key_env: None,
            ttl: Duration::from_secs(60),
            parameters: vec!["user".into()],
            method: None,
        })
    }

    /// Such links were signed, and the proxy answered 400.
    #[test]
    fn no_link_is_signed_that_the_proxy_refuses() {
        let key = std::env::temp_dir().join(format!("thalweg-sign-url-{}", std::process::id()));
        std::fs::write(&key, "0123456789abcdef\n").unwrap();
        for (url, why) in [
            ("https://a.test//a", "two slashes"),
            ("https://a.test/..", "climbs above the root"),
            ("https://a.test/%zz", "percent escape"),
            ("https://a.test/a?expires=1", "`expires`"),
            ("https://a.test/a?b=1&%73ignature=x", "`signature`"),
            ("https://a.test/a?key_id", "`key_id`"),
            ("https://a.test/a?user=1&us%65r=2", "twice"),
        ] {
            let refused = link(url, &key).unwrap_err();
            assert!(refused.contains(why), "{url}: {refused}");
        }
        let made = link("https://a.test/a/./b?c=1&c=2&user=1", &key).unwrap();
        assert!(made.starts_with("https://a.test/a/./b?c=1&c=2&user=1&expires="), "{made}");
        assert_eq!(normal_path("/a/./b%7e").unwrap(), b"/a/b~");
        std::fs::remove_file(&key).unwrap();
    }

    #[test]
    fn a_key_without_an_end_is_read_to_a_bound() {
        let refused = link("https://a.test/", Path::new("/dev/zero")).unwrap_err();
        assert!(refused.contains("/dev/zero") && refused.contains("64 KiB"), "{refused}");
    }
}
