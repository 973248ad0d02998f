//! Options of dependencies that must stay off, whoever asks for them: options of one package are joined over all that
//! depend on it.

use cargo_metadata::Metadata;

/// Package, option, and why it is off.
const OFF: &[(&str, &str, &str)] = &[
    ("rustls", "ring", "there is one cryptographic library, aws-lc"),
    ("rustls", "logging", "it writes a line for what any client can send"),
    ("rustls", "prefer-post-quantum", "crates/tls orders the groups by hand"),
];

/// Reports options that are on and must not be.
pub(crate) fn check(metadata: &Metadata, findings: &mut Vec<String>) {
    for node in metadata.resolve.iter().flat_map(|resolve| &resolve.nodes) {
        let package = metadata.packages.iter().find(|package| package.id == node.id);
        let name = package.map(|package| package.name.to_string()).unwrap_or_default();
        findings.extend(node.features.iter().filter_map(|option| finding(&name, option)));
    }
}

fn finding(package: &str, option: &str) -> Option<String> {
    let (_, _, why) = OFF.iter().find(|(name, off, _)| *name == package && *off == option)?;
    Some(format!(
        "the option `{option}` of {package} is on; it must not be: {why}; help: cargo tree -e features -i {package}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_off_are_found_when_they_are_on() {
        assert!(finding("rustls", "ring").is_some_and(|finding| finding.contains("aws-lc")));
        assert_eq!(finding("rustls", "std"), None);
        assert_eq!(finding("rcgen", "ring"), None);
    }
}
