//! Labels are made, read, revoked and outlived by their keys.

use super::*;

fn thalweg(proxy: &Proxy, arguments: &[&str]) -> (bool, String, String) {
    let config = proxy.directory().join("thalweg.yaml");
    let ended =
        Command::new(thalweg_tests::binary::path()).args(arguments).arg("--config").arg(config).output();
    let ended = ended.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    (ended.status.success(), text(&ended.stdout), text(&ended.stderr))
}

#[test]
fn what_seal_prints_is_served_and_unseal_says_where_it_leads() {
    let _watchdog = watchdog("what_seal_prints_is_served_and_unseal_says_where_it_leads");
    let upstream = Upstream::saying("here");
    let services = format!("services: {{ app: {{ endpoints: [ \"{}\" ] }} }}\n", upstream.url());
    let proxy = Proxy::start(&config(", services: [ app ]", &services));
    let target = upstream.address().to_string();
    let (done, host, _) = thalweg(&proxy, &["seal", &target, "--ttl", "10m"]);
    assert!(done && host.ends_with(&format!(".{DOMAIN}")) && host.find('.') == Some(63), "{host}");
    assert_eq!(ask(proxy.web(), &host).text(), "here");
    for text in [host.clone(), host[..63].to_owned(), format!("https://{host}:8443/x")] {
        let (done, told, _) = thalweg(&proxy, &["unseal", &text]);
        assert!(
            done && told.starts_with(&format!("http://{target}, route `previews`, for another ")),
            "{told}"
        );
    }
    let (done, host, _) = thalweg(&proxy, &["seal", "service:app"]);
    assert!(done && ask(proxy.web(), &host).text() == "here", "{host}");
    let (_, told, _) = thalweg(&proxy, &["unseal", &host, "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["destination"], &told["route"]), (&json!("service:app"), &json!("previews")));
    for (arguments, word) in [
        (
            ["seal", "10.0.0.7:80"].as_slice(),
            "route `previews`: 10.0.0.7:80: no entry of `allow` holds the address",
        ),
        (&["seal", "service:other"], "none of the `services`"),
        (&["seal", &target, "--ttl", "25h"], "1d at most"),
        (&["seal", &target, "--route", "other"], "there is no route `other`"),
        (&["unseal", "abc"], "the label has not 63 characters"),
    ] {
        let (done, out, said) = thalweg(&proxy, arguments);
        assert!(!done && out.is_empty() && said.contains(word), "{arguments:?}: {said}");
    }
    let explained = thalweg(&proxy, &["explain", "GET", &format!("http://{host}/")]).1;
    assert!(explained.contains("previews") && explained.contains("the label leads to"), "{explained}");
    let explained = thalweg(&proxy, &["explain", "GET", &format!("http://{}/", seal(upstream.address()))]).1;
    assert!(explained.contains(": sealed, up to 2 attempts"), "{explained}");
}

#[test]
fn the_api_seals_what_the_route_would_serve() {
    let _watchdog = watchdog("the_api_seals_what_the_route_would_serve");
    let upstream = Upstream::saying("here");
    let proxy = Proxy::start(&config("", ""));
    let admin = Admin::of(&proxy);
    let body = |to: &str| json!({ "destination": to, "ttl": "5m" }).to_string();
    let answer = admin.call("POST", "/api/v1/sealed", &body(&upstream.address().to_string()));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let sealed = thalweg_tests::admin::json(&answer);
    assert_eq!(ask(proxy.web(), sealed["host"].as_str().unwrap()).text(), "here");
    assert!(sealed["redacted"].as_str().unwrap().starts_with("sealed:1:"));
    let own = proxy.web().to_string();
    for (target, word) in [
        ("10.0.0.7:80", "no entry of `allow`"),
        (own.as_str(), "the proxy's own"),
        ("app.internal:80", "is no destination"),
    ] {
        let answer = admin.call("POST", "/api/v1/sealed", &body(target));
        assert!(answer.status() == 400 && answer.text().contains(word), "{target}: {}", answer.text());
    }
    let audit = admin.get("/api/v1/audit").to_string();
    assert!(!audit.contains(sealed["label"].as_str().unwrap()), "{audit}");
    // Where labels lead is no service that anybody could add endpoints to.
    let added = admin.call("POST", "/api/v1/services/previews/endpoints", r#"{"url":"http://127.0.0.1:1"}"#);
    assert_eq!(added.status(), 404, "{}", added.text());
    assert_eq!(admin.get("/api/v1/routes")["routes"][0]["sealed"], json!(format!("*.{DOMAIN}")));
}

#[test]
fn keys_change_and_labels_are_revoked_while_tunnels_go_on() {
    let _watchdog = watchdog("keys_change_and_labels_are_revoked_while_tunnels_go_on");
    let (upstream, echo) = (Upstream::saying("here"), Echo::start());
    let directory = Directory::new();
    directory.write("revoked", "# none yet\n");
    let file = directory.path().join("revoked");
    let keys = |ids: &[u8]| {
        let one = |id: &u8| format!("{{ id: {id}, secret: {{ value: \"{}\" }} }}", digits(*id));
        let ids: Vec<_> = ids.iter().map(one).collect();
        format!(", keys: [ {} ], revoked: {{ file: \"{}\" }}", ids.join(", "), file.display())
    };
    let proxy = Proxy::start_in(directory, &config(&keys(&[1]), ""));
    let web = proxy.web();
    let text = |ids: &[u8]| config(&keys(ids), "");
    let address = To::Address(upstream.address());
    let [one, two] = [1, 2].map(|id| seal_for(&keyring(id, DOMAIN), address, false, HOUR));
    let stream = TcpStream::connect(web).unwrap();
    stream.set_read_timeout(Some(STEP)).unwrap();
    let (mut socket, _) = tungstenite::client(format!("ws://{}/", seal(echo.address())), stream).unwrap();
    let mut echoes = |text: &str| {
        socket.send(tungstenite::Message::text(text)).unwrap();
        assert_eq!(socket.read().unwrap().into_text().unwrap().as_str(), text);
    };
    echoes("before");
    refused(web, &two);
    super::super::reload(&proxy, &text(&[1, 2]), 1);
    assert_eq!([ask(web, &one).status(), ask(web, &two).status()], [200, 200]);
    echoes("during");
    // In upper case, with its domain and a remark: it is the same label.
    write_file(proxy.directory(), "revoked", &format!("# lost\n{} # Anna's\n", one.to_uppercase()));
    let end = Instant::now() + STEP;
    while ask(web, &one).status() == 200 {
        assert!(Instant::now() < end, "it was revoked");
        thread::yield_now();
    }
    refused(web, &one);
    assert_eq!(record_of(&proxy, "destination_not_found")["fault_detail"], "the label was revoked");
    // What is no list changes nothing.
    write_file(proxy.directory(), "revoked", "no label at all\n");
    proxy.process().wait_line("what was revoked before stays so", STEP, |line| {
        line.contains("what was revoked before stays so").then_some(())
    });
    refused(web, &one);
    write_file(proxy.directory(), "revoked", "");
    proxy.process().wait_line("0 labels are revoked now", STEP, |line| {
        line.contains("0 labels are revoked now").then_some(())
    });
    assert_eq!([ask(web, &one).status(), ask(web, &two).status()], [200, 200]);
    super::super::reload(&proxy, &text(&[2]), 2);
    refused(web, &one);
    assert_eq!(ask(web, &two).status(), 200);
    echoes("after");
}

#[test]
fn the_examples_in_other_languages_seal_as_the_vectors_say() {
    let _watchdog = thalweg_tests::Watchdog::new("the_examples_in_other_languages", Duration::from_secs(300));
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let vectors = root.join("docs/reference/sealed-vectors.json");
    let find = |name: &str| thalweg_tests::program::find_or_skip(name).map(Command::new);
    let python = thalweg_tests::python_tool::python_tool(&["cryptography==50.0.2"]);
    for (command, arguments, folder) in [
        (find("go"), ["run", "."].as_slice(), "go"),
        (find("node"), &["seal.mjs"], "node"),
        (python, &["seal.py"], "python"),
    ] {
        let Some(mut command) = command else { continue };
        command.args(arguments).arg("--vectors").arg(&vectors);
        command.current_dir(root.join("examples/sealed").join(folder));
        let ended = thalweg_tests::program::run(&mut command, 5 * STEP);
        assert!(ended.code == 0 && ended.stdout.contains(" 0 differ"), "{folder}: {ended:?}");
    }
}
