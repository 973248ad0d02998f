//! Bodies and parameters that are wrong: what the answer says and names.

use super::*;

const ADD: &str = "POST /api/v1/services/checkout/endpoints";
const CHANGE: &str = "PATCH /api/v1/services/checkout/endpoints/http%3A%2F%2F10.0.0.1%3A8080";
const WEIGHTS: &str = "PATCH /api/v1/routes/checkout%20canary/weights";

#[test]
fn a_wrong_member_is_400_and_named() {
    let running = Running::start(Some("secret"));
    for (line, body, field) in [
        (ADD, r#"{"url":"http://h","weight":1001}"#, "weight"),
        (ADD, r#"{"url":"http://h","weight":-1}"#, "weight"),
        (ADD, r#"{"url":"http://h","weight":1.5}"#, "weight"),
        (ADD, r#"{"url":"http://h","weight":"1"}"#, "weight"),
        (ADD, r#"{"url":"http://h","weight":null}"#, "weight"),
        (ADD, r#"{"url":"http://h","weight":99999999999999999999}"#, "weight"),
        (ADD, r#"{"url":"http://h","tier":10}"#, "tier"),
        (ADD, r#"{"url":"http://h","tier":300}"#, "tier"),
        (ADD, r#"{"url":1}"#, "url"),
        (ADD, r#"{"weight":1}"#, "url"),
        (ADD, r#"{"url":"http://h","wieght":1}"#, "wieght"),
        (ADD, r#"{"url":"http://h","url":"http://i"}"#, "url"),
        (CHANGE, r#"{"state":"ejected"}"#, "state"),
        (CHANGE, r#"{"state":null}"#, "state"),
        (CHANGE, r#"{"state":1}"#, "state"),
        (CHANGE, r#"{"weight":1001}"#, "weight"),
        (CHANGE, r#"{"url":"http://h"}"#, "url"),
        (WEIGHTS, r#"{"checkout":1001}"#, "checkout"),
        (WEIGHTS, r#"{"checkout":-1}"#, "checkout"),
        (WEIGHTS, r#"{"checkout":1,"checkout":2}"#, "checkout"),
    ] {
        let answer = running.json(line, body);
        assert_eq!(
            (answer.status, answer.json()["field"].as_str()),
            (400, Some(field)),
            "{body}: {answer:?}"
        );
        assert_eq!(answer.field("content-type"), Some("application/problem+json"));
    }
    for (line, body) in [(CHANGE, "{}"), (WEIGHTS, "{}"), (ADD, "[]"), (ADD, "1"), (WEIGHTS, "[1]")] {
        assert_eq!(running.json(line, body).status, 400, "{body}");
    }
    assert_eq!(running.send("GET /api/v1/services", "", "").json()["version"], 1);
}

#[test]
fn a_number_without_a_fraction_is_a_whole_one_however_it_is_written() {
    let running = Running::start(Some("secret"));
    for body in [r#"{"url":"http://10.0.0.7:1","weight":3.0}"#, r#"{"url":"http://10.0.0.8:1","weight":3e0}"#]
    {
        let answer = running.json(ADD, body);
        assert_eq!((answer.status, &answer.json()["weight"]), (201, &3.into()), "{body}: {answer:?}");
    }
    for number in ["1.5", "-1.0", "1e400", "1e20"] {
        assert_eq!(running.json(CHANGE, &format!("{{\"weight\":{number}}}")).status, 400, "{number}");
    }
}

#[test]
fn malformed_json_is_400_with_line_and_column() {
    let running = Running::start(Some("secret"));
    for (body, line, column) in [
        ("", 1, 0),
        ("{", 1, 1),
        ("{\n  \"url\": \"http://h\",\n}", 3, 1),
        ("{\"url\":\"http://h\"} x", 1, 20),
        ("{\"url\":\"http://h\"", 1, 17),
    ] {
        let answer = running.json(ADD, body);
        let document = answer.json();
        assert_eq!(answer.status, 400, "{body:?}");
        assert_eq!((&document["line"], &document["column"]), (&line.into(), &column.into()), "{body:?}");
    }
}

#[test]
fn wrong_content_types_are_415() {
    let running = Running::start(Some("secret"));
    let body = r#"{"url":"http://h"}"#;
    for fields in [
        "",
        "Content-Type: text/plain\n",
        "Content-Type: application/jsonp\n",
        "Content-Type: application/json\nContent-Type: application/json\n",
    ] {
        assert_eq!(running.send(ADD, fields, body).status, 415, "{fields}");
    }
    assert_eq!(running.send(ADD, "Content-Type: Application/JSON; charset=utf-8\n", body).status, 201);
    let config = |fields: &str| {
        running.send("PUT /api/v1/config", &format!("{fields}If-Match: *\n"), "routes: []\n").status
    };
    assert_eq!(config("Content-Type: application/toml\n"), 415);
    assert_eq!(config("Content-Type: text/plain\n"), 415);
    assert_eq!(config("Content-Type: application/json\n"), 200);
}

#[test]
fn bodies_over_the_limit_are_413_by_their_length_and_while_they_are_read() {
    let running = Running::start(Some("secret"));
    let head = |line: &str, framing: &str| {
        format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nIf-Match: *\r\n\
             Content-Type: application/json\r\nConnection: close\r\n{framing}\r\n\r\n"
        )
    };
    for (line, limit) in [(ADD, 1024 * 1024), ("PUT /api/v1/config", 4 * 1024 * 1024)] {
        let by_length = running.raw(&head(line, &format!("Content-Length: {}", limit + 1)));
        assert!(by_length.starts_with("HTTP/1.1 413 "), "{by_length}");
        let chunk = format!("{limit:x}\r\n{}\r\n", " ".repeat(limit));
        let mut stream = TcpStream::connect(running.addresses().admin.unwrap()).unwrap();
        stream.write_all(head(line, "Transfer-Encoding: chunked").as_bytes()).unwrap();
        stream.write_all(chunk.as_bytes()).unwrap();
        // One byte too many; the answer comes although the body has no end.
        stream.write_all(b"1\r\n").unwrap();
        stream.write_all(b" \r\n").unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 413", "{line}");
    }
    let fits = format!("{}{}", r#"{"url":"http://h"}"#, " ".repeat(1024 * 1024 - 18));
    assert_eq!(running.json(ADD, &fits).status, 201);
}

#[test]
fn a_body_that_breaks_off_changes_nothing() {
    let running = Running::start(Some("secret"));
    let mut stream = TcpStream::connect(running.addresses().admin.unwrap()).unwrap();
    let head = "POST /api/v1/services/checkout/endpoints HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\
                Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"url\":\"http://h\"}";
    stream.write_all(head.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(!answer.contains(" 201 "), "{answer}");
    assert_eq!(running.send("GET /api/v1/services", "", "").json()["version"], 1);
}

#[test]
fn wrong_parameters_are_400_and_named() {
    let running = Running::start(Some("secret"));
    let place = "DELETE /api/v1/services/checkout/endpoints/http%3A%2F%2F10.0.0.1%3A8080";
    for (line, field) in [
        (format!("{place}?drain=5"), "drain"),
        (format!("{place}?drain=2h"), "drain"),
        (format!("{place}?drain=-1s"), "drain"),
        (format!("{place}?drain=1s&drain=2s"), "drain"),
        (format!("{place}?grace=1s"), "grace"),
        ("GET /api/v1/audit?last=0".into(), "last"),
        ("GET /api/v1/audit?last=1001".into(), "last"),
        ("GET /api/v1/services?x=1".into(), "x"),
        ("POST /api/v1/reload?max_p99=100".into(), "max_p99"),
        ("DELETE /api/v1/access/blocked".into(), "network"),
        ("DELETE /api/v1/keys/partners".into(), "name"),
        ("GET /api/v1/explain".into(), "url"),
    ] {
        let answer = running.send(&line, "", "");
        assert_eq!((answer.status, answer.json()["field"].as_str()), (400, Some(field)), "{line}");
    }
    assert_eq!(running.send("GET /api/v1/services/%ff", "", "").status, 400);
    assert_eq!(running.send("GET /api/v1/services", "", "").json()["version"], 1);
}
