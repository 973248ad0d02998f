//! The dashboard: its files, and the sessions of browsers.

use super::*;

const JSON: &str = "Content-Type: application/json\r\n";

fn ask(running: &Running, line: &str, fields: &str, body: &str) -> Raw {
    let length = body.len();
    Raw::parse(&running.raw(&format!(
        "{line} HTTP/1.1\r\nHost: localhost:9900\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    )))
}

fn login(running: &Running, token: &str) -> Raw {
    ask(running, "POST /api/v1/session", JSON, &format!("{{\"token\":\"{token}\"}}"))
}

/// The cookie field of a session.
fn cookie(running: &Running, token: &str) -> String {
    let answer = login(running, token);
    assert_eq!(answer.status, 204, "{answer:?}");
    let cookie = answer.field("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict; ") && !cookie.contains("Secure"), "{cookie}");
    format!("Cookie: {}\r\n", cookie.split(';').next().unwrap())
}

#[test]
fn a_browser_logs_in_reads_changes_and_logs_out() {
    let running = Running::start(Some("secret"));
    let cookie = cookie(&running, "secret");
    let session = ask(&running, "GET /api/v1/session", &cookie, "").json();
    assert_eq!(session["role"], "write");
    assert!(session["expires"].is_string());
    assert_eq!(ask(&running, "GET /api/v1/services", &cookie, "").status, 200);
    let own = format!("{cookie}X-Thalweg-Request: 1\r\n");
    assert_eq!(ask(&running, "DELETE /api/v1/routes/x/weights", &own, "").status, 404);
    assert_eq!(ask(&running, "DELETE /api/v1/session", &own, "").status, 204);
    assert_eq!(ask(&running, "GET /api/v1/session", &cookie, "").status, 401);
}

#[test]
fn changes_without_the_field_and_from_other_pages_are_refused() {
    let running = Running::start(Some("secret"));
    let cookie = cookie(&running, "secret");
    assert_eq!(ask(&running, "POST /api/v1/stop", &cookie, "").status, 403);
    let other = format!("{cookie}X-Thalweg-Request: 1\r\nOrigin: http://evil.example\r\n");
    assert_eq!(ask(&running, "POST /api/v1/stop", &other, "").status, 403);
    assert_eq!(running.sample.stops.load(Ordering::Relaxed), 0);
    let from_another = format!("{JSON}Origin: http://localhost:9901\r\n");
    assert_eq!(ask(&running, "POST /api/v1/session", &from_another, "{\"token\":\"secret\"}").status, 403);
}

#[test]
fn a_session_of_the_read_token_reads_and_may_be_ended() {
    let running = Running::start(Some("secret"));
    let own = format!("{}X-Thalweg-Request: 1\r\n", cookie(&running, "reader"));
    assert_eq!(ask(&running, "GET /api/v1/session", &own, "").json()["role"], "read");
    assert_eq!(ask(&running, "POST /api/v1/stop", &own, "").status, 403);
    assert_eq!(ask(&running, "DELETE /api/v1/session", &own, "").status, 204);
}

#[test]
fn wrong_tokens_are_refused_and_then_not_looked_at() {
    let running = Running::start(Some("secret"));
    (0..10).for_each(|_| assert_eq!(login(&running, "wrong").status, 401));
    assert_eq!(login(&running, "secret").status, 429);
    assert_eq!(running.raw_unix("GET /api/v1/session").json()["role"], "write");
}

#[test]
fn files_are_for_everybody_and_may_load_nothing_from_elsewhere() {
    let running = Running::start(Some("secret"));
    for path in ["/", "/app.js", "/app.css", "/icon.svg"] {
        let answer = ask(&running, &format!("GET {path}"), "", "");
        assert_eq!(answer.status, 200, "{path}");
        assert!(
            answer.field("content-security-policy").unwrap().starts_with("default-src 'none'; "),
            "{path}"
        );
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.field("cache-control"), Some("no-cache"));
        let known = format!("If-None-Match: {}\r\n", answer.etag());
        assert_eq!(ask(&running, &format!("GET {path}"), &known, "").status, 304, "{path}");
        assert_eq!(ask(&running, &format!("POST {path}"), "", "").status, 405, "{path}");
        assert_eq!(running.metrics("GET", path).status, 404, "{path}");
    }
    let rebound = running.raw("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(rebound.starts_with("HTTP/1.1 403 "), "{rebound}");
}
