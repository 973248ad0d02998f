//! Certificates that are exchanged under a running proxy: good ones take over, bad ones change nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{CertificateParams, KeyPair};
use thalweg_tests::message::get;
use thalweg_tests::program::{Finished, run};
use thalweg_tests::proxy::command;
use thalweg_tests::{Directory, Proxy, STEP, Upstream};

use super::super::watchdog;
use super::wait_said;

/// A new certificate and its key, in PEM.
fn pair() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["a.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A proxy with a listener in the clear and one with the certificate of `site.pem` and `site.key`, which the lines 5 and 6
/// name.
fn proxy(upstream: &Upstream, arguments: &[&str]) -> Proxy {
    let directory = Directory::new();
    let (certificate, key) = pair();
    write(directory.path(), "site.pem", &certificate);
    write(directory.path(), "site.key", &key);
    let text = format!(
        "listeners:\n  web: {{ address: \"127.0.0.1:0\" }}\n  secure:\n    address: \"127.0.0.1:0\"\n    tls: {{ certificates: [ {{ cert: site.pem,\n      key: site.key }} ] }}\n\
         routes: [ {{ to: [ \"{}\" ] }} ]\nworkers: 2\nmetrics: {{ address: \"127.0.0.1:0\" }}\n",
        upstream.url()
    );
    directory.write("thalweg.yaml", &text);
    Proxy::start_file(directory, arguments, "thalweg.yaml")
}

fn reload(proxy: &Proxy) -> Finished {
    run(command(proxy.directory()).arg("reload"), STEP)
}

fn assert_refused(proxy: &Proxy, line: usize, why: &str) {
    let refused = reload(proxy);
    let place = format!("thalweg.yaml:{line}:");
    let said = format!("exit {}\n{}{}", refused.code, refused.stdout, refused.stderr);
    assert_eq!(refused.code, 1, "{said}");
    assert!(refused.stderr.contains(&place) && refused.stderr.contains(why), "{place} {why} in\n{said}");
    assert!(!said.contains("PRIVATE KEY") && !said.contains("MIG"), "a key is shown in\n{said}");
    let answer = get(proxy.web(), "/").unwrap();
    assert_eq!((answer.status(), &*answer.text()), (200, "one"), "the old configuration serves");
}

#[test]
fn a_bad_certificate_is_refused_with_its_line_and_the_old_configuration_serves() {
    let _watchdog = watchdog("a_bad_certificate_is_refused_with_its_line_and_the_old_configuration_serves");
    let upstream = Upstream::saying("one");
    let proxy = proxy(&upstream, &[]);
    let directory = proxy.directory().to_owned();
    let (certificate, key) = pair();

    // Half of a pair was exchanged.
    write(&directory, "site.pem", &certificate);
    assert_refused(&proxy, 6, "holds the private key of another certificate");
    // A file that is being written.
    write(&directory, "site.key", &key[..key.len() / 2]);
    assert_refused(&proxy, 6, "the file of the key ");
    write(&directory, "site.key", &key);
    write(&directory, "site.pem", &certificate[..certificate.len() / 2]);
    assert_refused(&proxy, 5, "the file of the certificate ");
    write(&directory, "site.pem", &key);
    assert_refused(&proxy, 5, "holds no certificate");
    fs::remove_file(directory.join("site.pem")).unwrap();
    assert_refused(&proxy, 5, "no such file");

    write(&directory, "site.pem", &certificate);
    let done = reload(&proxy);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let changed = "~ listener `secure`\n    tls.certificates[0]: sha256 ";
    assert!(done.stdout.starts_with(changed), "{}", done.stdout);
}

#[test]
fn a_certificate_file_that_changes_is_noticed() {
    let _watchdog = watchdog("a_certificate_file_that_changes_is_noticed");
    let upstream = Upstream::saying("one");
    let proxy = proxy(&upstream, &["--watch"]);
    let directory = proxy.directory().to_owned();
    let (certificate, key) = pair();
    let said = proxy.process().stderr().len();
    // The key alone does not fit; both together do.
    write(&directory, "site.key", &key);
    wait_said(&proxy, said, "reload refused; the old configuration keeps running");
    let said = proxy.process().stderr().len();
    write(&directory, "site.pem", &certificate);
    wait_said(&proxy, said, "thalweg: reloaded ");
}
