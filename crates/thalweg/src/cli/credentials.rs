//! `thalweg hash-password`, `hash-key` and `sign-url`: what the filter `auth` reads, made without a running proxy.
//!
//! Secrets come from standard input, a file or the environment, never from the command line: that is shown to everybody
//! on the machine.

use super::{complain, say};
use clap::Args;
use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thalweg_access::api_keys::{hash_key, new_key};
use thalweg_access::password::{NewHash, hash_password};
use thalweg_access::signed_url::{Signed, SigningKey};
use thalweg_core::units::parse_duration;
use thalweg_http::{Span, parse_authority, write_normal_host};

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
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| format!("cannot read the file {}: {error}", path.display()))?;
            text.lines().next().unwrap_or_default().to_owned()
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
    let (host, path) = (host.ok_or_else(wrong)?, if path.is_empty() { "/" } else { path });
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
        path: path.as_bytes(),
        expires: expires.as_bytes(),
        parameters: args.parameters.iter().filter_map(named).collect(),
    });
    let separator = if query.is_empty() { "" } else { "&" };
    Ok(format!("{place}?{query}{separator}expires={expires}&key_id={}&signature={signature}", args.key_id))
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
    let input = std::io::stdin();
    if input.is_terminal() {
        complain(format_args!("type {what} and press Enter; the terminal shows it"));
    }
    let mut line = String::new();
    let read = input.lock().take(LINE).read_line(&mut line);
    read.map_err(|error| format!("cannot read {what} from standard input: {error}"))?;
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
