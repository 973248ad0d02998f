//! Cookies of sessions and logins: as they are set (RFC 6265bis), and large values over several of them.

/// Longest value of one cookie, in bytes: browsers take 4,096 with name and attributes.
const VALUE: usize = 3600;
/// Most cookies of one value.
pub const CHUNKS: usize = 6;

/// Cookies of one name and their attributes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cookies {
    /// The name, with its prefix where there is TLS.
    pub name: String,
    /// Only sent through TLS.
    pub is_secure: bool,
}

impl Cookies {
    /// Those of a name. Through TLS, `__Host-` has browsers refuse what other hosts, or the same without TLS, have set.
    pub fn new(name: &str, is_secure: bool) -> Self {
        Self { name: if is_secure { format!("__Host-{name}") } else { name.to_owned() }, is_secure }
    }

    /// Values of `Set-Cookie` that keep a value for so many seconds; `had`: cookies of the name that the client has,
    /// and that go where there is no value for them any more. `None`: it is too long.
    pub fn keep(&self, value: &str, seconds: u64, had: usize) -> Option<Vec<String>> {
        let whole = value.len() <= VALUE;
        let count = if whole { 1 } else { value.len().div_ceil(VALUE) };
        if count > CHUNKS {
            return None;
        }
        let mut set = Vec::new();
        for (at, chunk) in value.as_bytes().chunks(VALUE).enumerate() {
            let chunk = str::from_utf8(chunk).ok()?;
            let count = if at == 0 { format!("{count}.") } else { String::new() };
            set.push(format!(
                "{}={count}{chunk}; Max-Age={seconds}{}",
                numbered(&self.name, at),
                self.attributes()
            ));
        }
        set.extend((count..had.min(CHUNKS)).map(|at| self.gone(at)));
        Some(set)
    }

    /// Values of `Set-Cookie` that remove the `had` cookies of the name.
    pub fn remove(&self, had: usize) -> Vec<String> {
        (0..had.clamp(1, CHUNKS)).map(|at| self.gone(at)).collect()
    }

    fn gone(&self, at: usize) -> String {
        format!("{}=; Max-Age=0{}", numbered(&self.name, at), self.attributes())
    }

    fn attributes(&self) -> &'static str {
        match self.is_secure {
            true => "; Path=/; Secure; HttpOnly; SameSite=Lax",
            false => "; Path=/; HttpOnly; SameSite=Lax",
        }
    }

    /// Whether a cookie is one of these.
    pub fn has(&self, name: &[u8]) -> bool {
        match name.strip_prefix(self.name.as_bytes()) {
            Some(b"") => true,
            Some([b'_', digit]) => digit.is_ascii_digit(),
            _ => false,
        }
    }
}

fn numbered(name: &str, at: usize) -> String {
    if at == 0 { name.to_owned() } else { format!("{name}_{at}") }
}

/// The value of which cookies have the parts, and how many cookies there are. `get` gives the value of a cookie.
pub fn join<'c>(name: &str, get: impl Fn(&str) -> Option<&'c [u8]>) -> Option<(Vec<u8>, usize)> {
    let first = get(name)?;
    let dot = first.iter().position(|byte| *byte == b'.')?;
    let count: usize = str::from_utf8(&first[..dot]).ok()?.parse().ok()?;
    if !(1..=CHUNKS).contains(&count) {
        return None;
    }
    let mut value = first[dot + 1..].to_vec();
    for at in 1..count {
        let chunk = get(&numbered(name, at))?;
        if chunk.len() > VALUE {
            return None;
        }
        value.extend_from_slice(chunk);
    }
    Some((value, count))
}
