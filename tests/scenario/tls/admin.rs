//! The admin API through TLS: curl and the verbs ask, and another certificate takes over.

use std::process::Command;
use std::time::Duration;

use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::proxy::command;
use thalweg_tests::{Directory, Identity, Proxy, STEP, Upstream};

use super::super::{config, watchdog};

const TOKEN: &str = "0123456789abcdef";

#[test]
fn the_admin_api_is_asked_through_tls_and_follows_its_certificate() {
    let _watchdog = watchdog("the_admin_api_is_asked_through_tls_and_follows_its_certificate");
    let Some(curl) = find_or_skip("curl") else { return };
    let upstream = Upstream::saying("hello");
    let directory = Directory::new();
    let (old, new) = (Identity::new(&["localhost", "127.0.0.1"]), Identity::new(&["localhost", "127.0.0.1"]));
    let files = old.write(&directory, "admin");
    directory.write("old.pem", &old.chain);
    directory.write("new.pem", &new.chain);
    directory.write("token", TOKEN);
    // Every address, which is allowed with TLS.
    let admin = format!("admin: {{ address: \"0.0.0.0:0\", token: {{ value: {TOKEN} }}, tls: {files} }}");
    let proxy = Proxy::start_in(directory, &config(&[&upstream.url()], &admin));
    let port = proxy.process().wait_line("the admin address", STEP, |line| {
        line.strip_prefix("thalweg: admin on 0.0.0.0:")?.parse::<u16>().ok()
    });
    let ask = |ca: &str| {
        let (header, url) =
            (format!("Authorization: Bearer {TOKEN}"), format!("https://localhost:{port}/api/v1/status"));
        let mut command = Command::new(&curl);
        command
            .current_dir(proxy.directory())
            .args(["-sS", "-4", "--fail", "--cacert", ca, "-H", &header, &url]);
        run(&mut command, Duration::from_secs(20))
    };
    let health = |arguments: &[&str]| {
        let url = format!("https://127.0.0.1:{port}");
        run(command(proxy.directory()).args(["health", "--admin", &url]).args(arguments), STEP)
    };
    let answered = ask("old.pem");
    assert!(answered.code == 0 && answered.stdout.contains("\"state\":\"running\""), "{answered:?}");
    assert_ne!(ask("new.pem").code, 0, "curl looks whom it speaks with");
    let healthy = health(&["--token-file", "token", "--ca", "old.pem"]);
    assert_eq!((healthy.code, healthy.stdout.trim()), (0, "ready"), "{}", healthy.stderr);
    let unknown = health(&["--ca", "new.pem"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("invalid peer certificate"), "{unknown:?}");

    new.write_into(proxy.directory(), "admin");
    let done = run(command(proxy.directory()).arg("reload"), STEP);
    assert!(done.code == 0 && done.stdout.contains("tls.cert: sha256 "), "{done:?}");
    assert_eq!(ask("new.pem").code, 0);
    assert_ne!(ask("old.pem").code, 0);
    assert!(!proxy.stop().stderr.contains("PRIVATE KEY"));
}
