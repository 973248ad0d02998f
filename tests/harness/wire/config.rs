//! The configuration of a transcript: a standard one, with top-level keys replaced.

/// What every transcript runs with unless it says otherwise. One worker, so that connection reuse is certain.
const STANDARD: &str = "\
workers: 1
shutdown: { delay: 0s, grace: 1s }
access_log: { format: json, path: \"{log}\" }
listeners: { web: { address: \"127.0.0.1:0\" } }
services: { s: { endpoints: [ \"http://{upstream}\" ] } }
routes: [ { to: s } ]
";

/// Merges `own` over the standard configuration: a top-level key in it replaces the standard one.
pub(super) fn merge(own: &str) -> String {
    let own = blocks(own);
    let mut merged = String::new();
    for (key, text) in blocks(STANDARD) {
        if !own.iter().any(|(own, _)| *own == key) {
            merged.push_str(&text);
        }
    }
    merged.extend(own.iter().map(|(_, text)| text.as_str()));
    merged
}

/// The same with TLS on the listener `web`.
pub(super) fn with_tls(config: &str, tls: &str) -> String {
    with(config, &format!("tls: {tls}"))
}

/// The same with this key on the listener `web`.
pub(super) fn with(config: &str, key: &str) -> String {
    let address = "web: { address: \"127.0.0.1:0\"";
    assert!(config.contains(address), "a transcript writes its listener as `{address}`");
    config.replace(address, &format!("{address}, {key}"))
}

/// Top-level keys with their text, up to the next one.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let mut blocks: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        let key = line.split_once(':').map(|(key, _)| key).filter(|_| line.starts_with(char::is_alphabetic));
        match (key, blocks.last_mut()) {
            (Some(key), _) => blocks.push((key, format!("{line}\n"))),
            (None, Some((_, block))) => block.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_transcript_replaces_the_standard_one() {
        let merged = merge("routes:\n  - to: x\nlimits: { max_fields: 3 }\n");
        assert!(merged.contains("workers: 1\n") && merged.contains("routes:\n  - to: x\n"));
        assert!(!merged.contains("to: s") && merged.contains("max_fields"));
    }
}
