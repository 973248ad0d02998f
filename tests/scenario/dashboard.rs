//! The dashboard in a real browser: Debian's Chromium, driven by `playwright-core`; `axe-core` judges contrast and
//! labels.

use std::net::SocketAddr;
use std::time::Duration;

use thalweg_tests::npm_tool::npm_tool;
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Directory, Message, Proxy, STEP, Upstream, Watchdog};

const PACKAGES: &[&str] = &["playwright-core@1.65.1", "axe-core@4.14.1"];
const TOKEN: &str = "write-token-0123456789";
const READ_TOKEN: &str = "read-token-0123456789";
/// For everything that the program does in the browser.
const TIME: Duration = Duration::from_secs(200);
/// For all of it, with the installation of what the program needs.
const LIMIT: Duration = Duration::from_secs(140);

#[test]
fn an_operator_works_in_a_browser() {
    let _watchdog = Watchdog::new("an_operator_works_in_a_browser", LIMIT);
    let Some(chromium) = find_or_skip("chromium") else { return };
    let Some(mut program) = npm_tool(PACKAGES, "dashboard.mjs") else { return };
    let service = || Upstream::start(|_: &Message| Some(ok("hello")));
    let (one, other) = (service(), service());
    let directory = Directory::new();
    let found = directory.write("found.yaml", &format!("- \"{}\"\n", one.url()));
    let proxy = Proxy::start(&format!(
        "admin:\n  address: \"127.0.0.1:0\"\n  token: {{ value: {TOKEN} }}\n  read_token: {{ value: {READ_TOKEN} }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         state: {{ path: state }}\n\
         slos: {{ products: {{ route: products, target: 99%, window: 1d }} }}\n\
         lists: {{ blocked: [ 192.0.2.0/24 ] }}\n\
         routes:\n  - {{ name: products, match: {{ host: shop.localhost, path: /products/* }}, to: products }}\n\
         \x20 - {{ name: legacy, match: {{ path: /legacy/* }}, to: legacy }}\n\
         services:\n  products: {{ endpoints: [ \"{}\", \"{}\" ] }}\n\
         \x20 legacy: {{ endpoints: \"http://127.0.0.1:1\" }}\n\
         \x20 found: {{ discover: {{ file: {{ path: \"{}\", interval: 100ms }} }} }}\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        one.url(),
        other.url(),
        found.display()
    ));
    let admin: SocketAddr = proxy
        .process()
        .wait_line("the admin address", STEP, |line| line.strip_prefix("thalweg: admin on ")?.parse().ok());
    program
        .env("ADMIN", admin.to_string())
        .env("WEB", proxy.web().to_string())
        .env("FOUND", found)
        .env("CHROMIUM", chromium)
        .env("TOKEN", TOKEN)
        .env("READ_TOKEN", READ_TOKEN);
    let done = run(&mut program, TIME);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.ends_with("all of it\n"), "{}", done.stdout);
}
