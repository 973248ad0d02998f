//! Against `oidc-provider`, a certified implementation.

use std::net::SocketAddr;
use std::time::Instant;

use thalweg_tests::message::get;
use thalweg_tests::npm_tool::npm_tool;
use thalweg_tests::{Message, Process, Proxy, STEP, Upstream};

use super::super::watchdog;
use super::browser::Browser;

const PROVIDER: &str = "oidc-provider@9.13.3";

/// A provider, and a proxy in front of a service that says who it is told of.
struct House {
    provider: Process,
    issuer: String,
    proxy: Proxy,
    _service: Upstream,
}

/// `None` without Node. The provider's clock is `skew` seconds ahead; its access tokens last `ttl` seconds.
fn house(skew: u64, ttl: u64) -> Option<House> {
    let mut command = npm_tool(&[PROVIDER], "provider.mjs")?;
    command.env("SKEW", skew.to_string()).env("TTL", ttl.to_string());
    let provider = Process::start(&mut command);
    let at: u16 = provider.wait_line("the port", STEP * 4, |line| line.strip_prefix("port ")?.parse().ok());
    let issuer = format!("http://127.0.0.1:{at}");
    let service = Upstream::start(|request: &Message| {
        let told = format!("{:?} {:?}", request.value("x-user"), request.value("cookie"));
        Some(thalweg_tests::upstream::ok(&told))
    });
    let proxy = Proxy::start(&format!(
        "access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services: {{ s: {{ endpoints: \"{}\" }} }}\n\
         routes: [ {{ to: s, filters: [ {{ auth: {{ forward: {{ X-User: \"{{user}}\" }}, oidc: {{\n\
         \x20 providers: {{ real: {{ issuer: \"{issuer}\", client_id: shop, allow_http: true,\n\
         \x20   client_secret: {{ value: \"a secret of the shop + %\" }} }} }},\n\
         \x20 secret: {{ value: \"0123456789abcdef0123456789abcdef\" }} }} }} }} ] }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        service.url()
    ));
    let house = House { provider, issuer, proxy, _service: service };
    house.tell(&format!("site/{}", house.site()));
    Some(house)
}

impl House {
    fn site(&self) -> SocketAddr {
        self.proxy.web()
    }

    fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.site())
    }

    /// Tells the provider something.
    fn tell(&self, what: &str) -> String {
        let address = self.issuer.strip_prefix("http://").unwrap().parse().unwrap();
        get(address, &format!("/test/{what}")).unwrap().text()
    }
}

const ADA: &str = "Some(\"ada\") None";

#[test]
fn a_browser_logs_in_comes_back_and_logs_out() {
    let _watchdog = watchdog("a_browser_logs_in_comes_back_and_logs_out");
    let Some(house) = house(0, 3600) else { return };
    let mut browser = Browser::default();
    let (url, page) = browser.load(&house.url("/a?b=1&c=2"));
    assert_eq!((url, page.text().as_str()), (house.url("/a?b=1&c=2"), ADA), "{}", house.provider.stderr());
    let cookies = browser.cookies(house.site(), "thalweg_session");
    assert!(cookies.iter().all(|(name, _)| !name.contains("login")), "the login is over: {cookies:?}");
    // A script without a session gets no page of a login.
    assert_eq!(get(house.site(), "/").unwrap().status(), 401);
    // The callback a second time is the button "back"; from another browser it is nothing.
    let mut other = Browser::default();
    let callback = other.load_until(&house.url("/x"), "/.auth/callback");
    assert_eq!(Browser::default().ask("GET", &callback, "Accept: text/html\r\n", "").status(), 400);
    assert_eq!(other.load(&callback).1.text(), ADA);
    assert_eq!(other.load(&callback).0, house.url("/"));
    // A changed session is none, and there is no loop.
    let (name, value) = cookies[0].clone();
    let middle = value.len() / 2;
    let other = if value[middle..].starts_with('A') { 'B' } else { 'A' };
    browser.set(house.site(), &name, &format!("{}{other}{}", &value[..middle], &value[middle + 1..]));
    assert_eq!(browser.load(&house.url("/b")).1.text(), ADA);
    // Out: here and there.
    let page = browser.ask("GET", &house.url("/.auth/logout"), "Accept: text/html\r\n", "");
    assert!(page.status() == 200 && page.text().contains("<form method=\"post\""), "{page:?}");
    assert!(!browser.cookies(house.site(), "thalweg_session").is_empty(), "a GET ends nothing");
    let own = "Sec-Fetch-Site: same-origin\r\nContent-Length: 0\r\n";
    let left = browser.ask("POST", &house.url("/.auth/logout"), own, "");
    assert_eq!(left.status(), 303, "{left:?}");
    let there = left.value("location").unwrap().to_owned();
    assert!(there.starts_with(&house.issuer) && there.contains("id_token_hint="), "{there}");
    assert!(browser.cookies(house.site(), "thalweg_session").is_empty());
    let form = browser.ask("GET", &there, "Accept: text/html\r\n", "");
    let secret = form.text();
    let secret =
        secret.split("name=\"xsrf\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let fields = "Content-Type: application/x-www-form-urlencoded\r\n";
    let confirm = format!("{}/session/end/confirm", house.issuer);
    let done = browser.ask("POST", &confirm, fields, &format!("xsrf={secret}&logout=yes"));
    assert_eq!(
        done.value("location").map(|to| to.split('?').next().unwrap()),
        Some(&*house.url("/")),
        "{done:?}"
    );
    let log = house.proxy.stop().log;
    assert!(log.iter().any(|line| line["user"] == "ada"), "{log:?}");
    let why = "oidc: the session was not made here, or was changed";
    assert!(log.iter().any(|line| line["reason"] == why), "{log:?}");
}

#[test]
fn sessions_are_refreshed_and_requests_of_one_share_it() {
    let _watchdog = watchdog("sessions_are_refreshed_and_requests_of_one_share_it");
    let Some(house) = house(0, 1) else { return };
    let mut browser = Browser::default();
    assert_eq!(browser.load(&house.url("/")).1.text(), ADA);
    let end = Instant::now() + STEP;
    // Until the tokens of a second have ended and been refreshed.
    while house.tell("refreshes") == "0" {
        assert!(Instant::now() < end, "nothing is refreshed");
        let (url, page) = browser.load(&house.url("/r"));
        assert_eq!((url, page.text().as_str()), (house.url("/r"), ADA));
    }
    // With the cookies from before it, another tab gets the same: the refresh token was good once only.
    let mut tabs: Vec<Browser> = (0..4).map(|_| browser.clone()).collect();
    let begin = Instant::now();
    while begin.elapsed().as_secs() < 2 {
        for tab in &mut tabs {
            assert_eq!(tab.ask("GET", &house.url("/t"), "", "").status(), 200);
        }
    }
}

#[test]
fn a_provider_may_change_its_keys_and_go_away() {
    let _watchdog = watchdog("a_provider_may_change_its_keys_and_go_away");
    let Some(house) = house(0, 3600) else { return };
    let mut first = Browser::default();
    assert_eq!(first.load(&house.url("/")).1.text(), ADA);
    for _ in 0..2 {
        house.tell("rotate");
        // The next login is signed with a key that the proxy has not seen.
        assert_eq!(Browser::default().load(&house.url("/")).1.text(), ADA);
        assert_eq!(first.load(&house.url("/")).1.text(), ADA, "sessions stay");
    }
    house.tell("down");
    assert_eq!(first.load(&house.url("/")).1.text(), ADA, "a session needs no provider");
    let mut late = Browser::default();
    let callback = late.load_until(&house.url("/"), &house.issuer);
    assert_eq!(late.ask("GET", &callback, "", "").status(), 503, "the provider's own");
    house.tell("up");
    assert_eq!(late.load(&house.url("/")).1.text(), ADA);
}

#[test]
fn clocks_may_differ_a_little() {
    let _watchdog = watchdog("clocks_may_differ_a_little");
    let Some(near) = house(25, 3600) else { return };
    assert_eq!(Browser::default().load(&near.url("/")).1.text(), ADA);
    let Some(far) = house(90, 3600) else { return };
    let (url, page) = Browser::default().load(&far.url("/"));
    assert!(url.contains("/.auth/callback") && page.status() == 403, "{url}: {page:?}");
    let log = far.proxy.stop().log;
    let reasons: Vec<_> = log.iter().filter_map(|line| line["reason"].as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("in the future")), "{reasons:?}");
}
