//! The licences of everything that the binary is made of, in one text: whose it is, and each text once.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Result;

use super::sbom::Part;

/// How files with licences and notices begin.
const NAMES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// A longer file is no licence.
const LONGEST: u64 = 256 * 1024;

/// The text.
pub(super) fn text(parts: &[Part<'_>]) -> Result<String> {
    let mut out =
        String::from("Thalweg is licensed under Apache-2.0 or MIT. Its binary contains these packages:\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in parts.iter().map(|part| part.package).filter(|package| package.source.is_some()) {
        let name = format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().unwrap_or("see below");
        let repository = package.repository.as_deref().unwrap_or_default();
        out += format!("{name} ({licence}) {repository}").trim_end();
        out.push('\n');
        let Some(folder) = package.manifest_path.parent() else { continue };
        let mut files = fs::read_dir(folder)?.filter_map(Result::ok).collect::<Vec<_>>();
        files.sort_by_key(fs::DirEntry::file_name);
        for file in files {
            let is_one = |name: &str| NAMES.iter().any(|known| name.to_ascii_uppercase().starts_with(known));
            let metadata = file.metadata()?;
            if metadata.is_file() && metadata.len() <= LONGEST && is_one(&file.file_name().to_string_lossy())
            {
                let text = String::from_utf8_lossy(&fs::read(file.path())?).replace("\r\n", "\n");
                let owners = texts.entry(text.trim().to_owned()).or_default();
                if owners.last() != Some(&name) {
                    owners.push(name.clone());
                }
            }
        }
    }
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|(_, one), (_, other)| one.cmp(other));
    for (text, owners) in texts {
        out += &format!("\n{}\n{}\n\n{text}\n", "-".repeat(72), owners.join(", "));
    }
    Ok(out)
}
