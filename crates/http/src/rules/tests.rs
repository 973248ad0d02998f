use super::*;
use crate::h1::HeadLimits;
use crate::h1::encode::write_fields;

fn request(text: &str) -> (RequestHead, Vec<u8>) {
    let bytes = text.replace('|', "\r\n").into_bytes();
    let mut head = RequestHead::new();
    head.parse(&bytes, &HeadLimits::default()).unwrap();
    (head, bytes)
}

/// The fields that are left, with `|` for line ends.
fn stripped(fields: &str, rules: RequestRules) -> String {
    let (mut head, bytes) = request(&format!("GET / HTTP/1.1|{fields}|"));
    strip_request(&mut head, &bytes, &rules);
    let mut out = Vec::new();
    write_fields(&mut out, &bytes, &head.fields);
    String::from_utf8(out).unwrap().replace("\r\n", "|")
}

fn stripped_response(fields: &str, keep_upgrade: bool) -> String {
    let bytes = format!("HTTP/1.1 200 OK|{fields}|").replace('|', "\r\n").into_bytes();
    let mut head = ResponseHead::new();
    head.parse(&bytes, &HeadLimits::default()).unwrap();
    strip_response(&mut head, &bytes, keep_upgrade);
    let mut out = Vec::new();
    write_fields(&mut out, &bytes, &head.fields);
    String::from_utf8(out).unwrap().replace("\r\n", "|")
}

const STRANGER: RequestRules = RequestRules { trusted_peer: false, keep_upgrade: false };
const TRUSTED: RequestRules = RequestRules { trusted_peer: true, keep_upgrade: false };

#[test]
fn what_ends_at_this_hop_is_not_passed_on() {
    let here = "Connection: x|Keep-Alive: 5|Proxy-Connection: a|Proxy: b|Proxy-Authorization: c|TE: trailers|\
                Upgrade: h2c|HTTP2-Settings: d|Transfer-Encoding: chunked|Content-Length: 5|Host: e|\
                Proxy-Authenticate: f|";
    for rules in [STRANGER, TRUSTED] {
        assert_eq!(
            stripped(&format!("A: 1|{here}Trailer: g|Expect: 100-continue|B: 2|"), rules),
            "A: 1|Trailer: g|Expect: 100-continue|B: 2|"
        );
    }
    let keep = RequestRules { trusted_peer: false, keep_upgrade: true };
    assert_eq!(stripped("Connection: upgrade|Upgrade: websocket|", keep), "Upgrade: websocket|");
}

#[test]
fn a20_nominated_fields_go_but_protected_ones_stay() {
    let fields = "Connection: close, X-Forwarded-Port, Authorization, Content-Length, Host, X-A|connection: x-b ,cookie, \
                  Cache-Control|";
    let given =
        "Authorization: a|X-A: b|x-a: c|X-B: d|Cookie: e|X-C: f|Cache-Control: g|X-Forwarded-Port: 1|";
    assert_eq!(
        stripped(&format!("{fields}{given}"), TRUSTED),
        "Authorization: a|Cookie: e|X-C: f|Cache-Control: g|X-Forwarded-Port: 1|"
    );
}

#[test]
fn a20_a_flood_of_nominations_takes_every_field_that_could_be_meant() {
    let names: Vec<_> = (0..=NOMINATIONS).map(|i| format!("n{i}")).collect();
    let flood = format!("Connection: {}|A: b|Authorization: c|", names.join(","));
    assert_eq!(stripped(&flood, STRANGER), "Authorization: c|");
    let most = format!("Connection: {}|A: b|N3: c|", names[1..].join(","));
    assert_eq!(stripped(&most, STRANGER), "A: b|");
}

#[test]
fn a24_underscore_aliases_of_protected_names_go() {
    let fields = "X_Forwarded_For: 1|Content_Length: 5|x.real.ip: 2|my_field: 3|X_Forwarded_Prefix: 4|";
    for rules in [STRANGER, TRUSTED] {
        assert_eq!(stripped(fields, rules), "my_field: 3|");
    }
}

#[test]
fn b4_forwarding_fields_of_strangers_go_and_those_the_proxy_writes_always() {
    let written = "X-Forwarded-For: 1|X-Forwarded-Proto: 2|X-Forwarded-Host: 3|";
    let others = "X-Forwarded-Port: 4|X-Forwarded-Prefix: 5|Forwarded: 6|X-Real-IP: 7|True-Client-IP: 8|";
    assert_eq!(stripped(&format!("{written}{others}A: b|"), STRANGER), "A: b|");
    assert_eq!(stripped(&format!("{written}{others}A: b|"), TRUSTED), format!("{others}A: b|"));
    let certificates = "Client-Cert: :AA==:|X-Client-Cert-Verified: true|x-client-cert-subject: CN=a|";
    assert_eq!(stripped(&format!("{certificates}A: b|"), STRANGER), "A: b|");
    assert_eq!(stripped(&format!("{certificates}A: b|"), TRUSTED), format!("{certificates}A: b|"));
    let nominated = format!("{certificates}Connection: Client-Cert, X-Client-Cert-Verified|A: b|");
    assert_eq!(stripped(&nominated, TRUSTED), format!("{certificates}A: b|"), "nor can others be taken out");
    assert!(FORBIDDEN_TRAILERS.contains(FieldId::ClientCert), "nor do they come behind a body");
    let (mut head, bytes) = request("GET / HTTP/1.1|X-Forwarded-For: 1|x-forwarded-for: 2||");
    strip_request(&mut head, &bytes, &STRANGER);
    let old: Vec<_> = head.values(&bytes, FieldId::XForwardedFor).collect();
    assert_eq!(old, [b"1", b"2"], "the old values stay readable");
}

#[test]
fn c7_hop_by_hop_fields_of_responses_go() {
    let fields = "Connection: X-Secret, Set-Cookie|X-Secret: a|Proxy-Authenticate: b|Keep-Alive: c|\
                  Upgrade: h2c|Content-Length: 5|Set-Cookie: d|E: f|";
    assert_eq!(stripped_response(fields, false), "Set-Cookie: d|E: f|");
    assert_eq!(stripped_response(fields, true), "Upgrade: h2c|Set-Cookie: d|E: f|");
}

#[test]
fn a18_a19_upgrades_are_recognized_only_where_they_can_be_granted() {
    let ask = |line: &str, fields: &str| {
        let (head, bytes) = request(&format!("{line}|{fields}||"));
        wants_upgrade(&head, &bytes)
    };
    let get = "GET / HTTP/1.1";
    assert_eq!(ask(get, "Connection: keep-alive, Upgrade|Upgrade: WebSocket"), Upgrade::WebSocket);
    assert_eq!(ask(get, "Connection: Upgrade, HTTP2-Settings|Upgrade: h2c"), Upgrade::H2c);
    assert_eq!(ask(get, "Connection: Upgrade|Upgrade: websocket, H2C"), Upgrade::H2c);
    assert_eq!(ask(get, "Connection: Upgrade|Upgrade: foo"), Upgrade::Other);
    assert_eq!(ask(get, "Connection: Upgrade|Upgrade: websocket|Upgrade: foo"), Upgrade::Other);
    assert_eq!(ask("POST / HTTP/1.1", "Connection: Upgrade|Upgrade: websocket"), Upgrade::Other);
    for (line, fields) in [
        (get, "Upgrade: websocket"),
        (get, "Connection: upgrade"),
        (get, "Connection: close|Upgrade: websocket"),
        (get, "Connection: Upgrade|Upgrade: , "),
        ("GET / HTTP/1.0", "Connection: Upgrade|Upgrade: websocket"),
        (get, "Connection: Upgrade|Upgrade: websocket|Content-Length: 5"),
        (get, "Connection: Upgrade|Upgrade: websocket|Transfer-Encoding: chunked"),
    ] {
        assert_eq!(ask(line, fields), Upgrade::None, "{line} {fields}");
    }
}

#[test]
fn a21_only_100_continue_is_an_expectation() {
    let ask = |version: &str, fields: &str| {
        let (head, bytes) = request(&format!("GET / HTTP/{version}|{fields}A: b||"));
        expects_continue(&head, &bytes).map_err(|fault| fault.status)
    };
    assert_eq!(ask("1.1", ""), Ok(false));
    assert_eq!(ask("1.1", "Expect: 100-Continue|"), Ok(true));
    assert_eq!(ask("1.1", "Expect: 200-ok|"), Err(417));
    assert_eq!(ask("1.1", "Expect:|"), Err(417));
    assert_eq!(ask("1.1", "Expect: 100-continue|Expect: 100-continue|"), Err(417));
    assert_eq!(ask("1.0", "Expect: 200-ok|"), Ok(false));
}

#[test]
fn a13_one_host_is_needed_in_http_1_1() {
    let ask = |text: &str| {
        let (head, bytes) = request(text);
        host_of(&head, &bytes)
            .map(|host| host.map(|span| span.of(&bytes).to_vec()))
            .map_err(|fault| fault.status)
    };
    assert_eq!(ask("GET / HTTP/1.1|Host: a||"), Ok(Some(b"a".to_vec())));
    assert_eq!(ask("GET / HTTP/1.1|Host:||"), Ok(Some(vec![])));
    assert_eq!(ask("GET / HTTP/1.1||"), Err(400));
    assert_eq!(ask("GET / HTTP/1.1|Host: a|host: a||"), Err(400));
    assert_eq!(ask("GET / HTTP/1.0||"), Ok(None));
    assert_eq!(ask("GET / HTTP/1.0|Host: a|Host: a||"), Err(400));
}

#[test]
fn trailers_are_accepted_when_te_says_so() {
    for (fields, expected) in
        [("TE: trailers|", true), ("TE: gzip, Trailers|", true), ("TE: trailer|", false), ("", false)]
    {
        let (head, bytes) = request(&format!("GET / HTTP/1.1|{fields}A: b||"));
        assert_eq!(accepts_trailers(&head, &bytes), expected, "{fields}");
    }
}
