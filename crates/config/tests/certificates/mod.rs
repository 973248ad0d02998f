//! Certificates for tests: made when they are asked for, because a key that comes with the sources can be read by
//! everybody, and is warned of.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer, KeyIdMethod, KeyPair,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The variable of the test files that names the folder with `site.pem`, `site.key`, `shop.pem`, `shop.key`, `tickets`,
/// and the authority of clients `clients.pem` with `revoked.pem`.
pub(crate) const VARIABLE: &str = "CERTIFICATES";

/// The folder. Several test programs at once share it: it appears as a whole, with the pairs of one of them.
pub(crate) fn folder() -> String {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tls_files_and_authority");
        if !folder.is_dir() {
            let own = folder.with_extension(std::process::id().to_string());
            fs::create_dir_all(&own).unwrap();
            write(&own, "site", &["www.example.com", "example.com"]);
            write(&own, "shop", &["shop.example.com", "*.shop.example.com"]);
            secret(&own.join("tickets"), &format!("{}\n{}\n", "1".repeat(64), "a".repeat(64)));
            write_authority(&own);
            if fs::rename(&own, &folder).is_err() {
                fs::remove_dir_all(&own).unwrap();
            }
        }
        folder
    });
    FOLDER.to_str().unwrap().to_owned()
}

/// A certificate that is its own issuer, and its key, which only this user can read. It holds from 1975 to 4096.
fn write(folder: &Path, name: &str, hosts: &[&str]) {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
    secret(&folder.join(format!("{name}.key")), &key.serialize_pem());
}

/// What only this user can read.
fn secret(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// An authority, and a list of it that revokes nothing.
fn write_authority(folder: &Path) {
    let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new(Vec::new()).unwrap());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    fs::write(folder.join("clients.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let list = CertificateRevocationListParams {
        this_update: params.not_before,
        next_update: params.not_after,
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = list.signed_by(&Issuer::new(params, key)).unwrap().pem().unwrap();
    fs::write(folder.join("revoked.pem"), list).unwrap();
}
