//! Certificates that are exchanged under a running proxy: good ones take over, bad ones change nothing.

use std::fs;
use std::path::Path;
use std::time::Instant;

use thalweg_tests::message::{Kind, get};
use thalweg_tests::program::{Finished, run};
use thalweg_tests::proxy::command;
use thalweg_tests::{Connection, Directory, Identity, Message, Proxy, STEP, Upstream};

use super::super::watchdog;
use super::wait_said;

/// A proxy with a listener in the clear and one with this certificate in `site.pem` and `site.key`, which the lines 5
/// and 6 name.
fn proxy(upstream: &Upstream, identity: &Identity, arguments: &[&str]) -> Proxy {
    let directory = Directory::new();
    identity.write(&directory, "site");
    let text = format!(
        "listeners:\n  web: {{ address: \"127.0.0.1:0\" }}\n  secure:\n    address: \"127.0.0.1:0\"\n    tls: {{ certificates: [ {{ cert: site.pem,\n      key: site.key }} ] }}\n\
         routes: [ {{ to: [ \"{}\" ] }} ]\nworkers: 2\nmetrics: {{ address: \"127.0.0.1:0\" }}\n",
        upstream.url()
    );
    directory.write("thalweg.yaml", &text);
    Proxy::start_file(directory, arguments, "thalweg.yaml")
}

/// The mode of a file that is there stays.
fn write(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(name), text).unwrap();
}

/// Whether a client that trusts only this certificate is served.
fn shows(proxy: &Proxy, identity: &Identity) -> bool {
    let address = proxy.address("secure");
    let Ok(mut client) = Connection::open_secure(address, identity, "a.test") else { return false };
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
    assert_eq!((answer.status(), &*answer.text()), (200, "one"));
    true
}

fn reload(proxy: &Proxy) -> Finished {
    run(command(proxy.directory()).arg("reload"), STEP)
}

fn assert_refused((proxy, old): (&Proxy, &Identity), line: usize, why: &str) {
    let refused = reload(proxy);
    let place = format!("thalweg.yaml:{line}:");
    let said = format!("exit {}\n{}{}", refused.code, refused.stdout, refused.stderr);
    assert_eq!(refused.code, 1, "{said}");
    assert!(refused.stderr.contains(&place) && refused.stderr.contains(why), "{place} {why} in\n{said}");
    assert!(!said.contains("PRIVATE KEY") && !said.contains("MIG"), "a key is shown in\n{said}");
    let answer = get(proxy.web(), "/").unwrap();
    assert_eq!((answer.status(), &*answer.text()), (200, "one"), "the old configuration serves");
    assert!(shows(proxy, old), "the old certificate is shown");
}

#[test]
fn a_bad_certificate_is_refused_with_its_line_and_the_old_configuration_serves() {
    let _watchdog = watchdog("a_bad_certificate_is_refused_with_its_line_and_the_old_configuration_serves");
    let upstream = Upstream::saying("one");
    let (old, new) = (Identity::new(&["a.test"]), Identity::new(&["a.test"]));
    let proxy = proxy(&upstream, &old, &[]);
    let directory = proxy.directory().to_owned();
    let (certificate, key) = (&new.chain, &new.key);
    let refused = |line: usize, why: &str| assert_refused((&proxy, &old), line, why);

    // Half of a pair was exchanged.
    write(&directory, "site.pem", certificate);
    refused(6, "holds the private key of another certificate");
    // A file that is being written.
    write(&directory, "site.key", &key[..key.len() / 2]);
    refused(6, "the file of the key ");
    write(&directory, "site.key", key);
    write(&directory, "site.pem", &certificate[..certificate.len() / 2]);
    refused(5, "the file of the certificate ");
    write(&directory, "site.pem", key);
    refused(5, "holds no certificate");
    fs::remove_file(directory.join("site.pem")).unwrap();
    refused(5, "no such file");

    // In other files: the whole pair in the old ones would take over without a reload.
    new.write_into(&directory, "next");
    let text = fs::read_to_string(directory.join("thalweg.yaml")).unwrap();
    write(&directory, "thalweg.yaml", &text.replace("site.", "next."));
    let done = reload(&proxy);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let changed = "~ listener `secure`\n    tls.certificates[0]: sha256 ";
    assert!(done.stdout.starts_with(changed), "{}", done.stdout);
    assert!(shows(&proxy, &new) && !shows(&proxy, &old), "the new one takes over");
}

#[test]
fn a_certificate_file_that_changes_is_noticed() {
    let _watchdog = watchdog("a_certificate_file_that_changes_is_noticed");
    let upstream = Upstream::saying("one");
    let (old, new) = (Identity::new(&["a.test"]), Identity::new(&["a.test"]));
    let proxy = proxy(&upstream, &old, &["--watch"]);
    let directory = proxy.directory().to_owned();
    let said = proxy.process().stderr().len();
    // The key alone does not fit; both together do.
    write(&directory, "site.key", &new.key);
    wait_said(&proxy, said, "reload refused; the old configuration keeps running");
    assert!(shows(&proxy, &old));
    let said = proxy.process().stderr().len();
    write(&directory, "site.pem", &new.chain);
    wait_said(&proxy, said, "thalweg: reloaded ");
    assert!(shows(&proxy, &new) && !shows(&proxy, &old));
}
