//! Who gets in where, and how the thread begins and ends.

use super::*;

#[test]
fn status_is_answered_on_the_socket_and_with_the_token() {
    let running = Running::start(Some("secret"));
    for answer in
        [running.unix("GET", "/api/v1/status"), running.admin(Some("secret"), "GET", "/api/v1/status")]
    {
        assert_eq!(answer.status, 200);
        let status = json(&answer);
        assert_eq!(status["state"], "running");
        assert_eq!(status["listeners"][0]["address"], "127.0.0.1:8080");
        assert_eq!(status["connections"]["max"], 10);
        assert_eq!(status["descriptors"], serde_json::json!({ "limit": 1024 }));
    }
}

#[test]
fn without_the_token_nothing_but_probes_is_answered() {
    let running = Running::start(Some("secret"));
    for path in ["/api/v1/status", "/metrics", "/unknown", "/app", "/livez/", "/livez/../metrics", "//livez"]
    {
        for token in [None, Some("Secret")] {
            let answer = running.admin(token, "GET", path);
            assert_eq!((answer.status, &json(&answer)["status"]), (401, &401.into()), "{path}");
        }
    }
    assert_eq!(running.admin(None, "POST", "/api/v1/stop").status, 401);
    assert_eq!(running.sample.stops.load(Ordering::Relaxed), 0);
    for path in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(running.admin(None, "GET", path).status, 200, "{path}");
    }
    assert_eq!(running.admin(Some("secret"), "GET", "/metrics").body, b"thalweg_requests_active 0\n");
}

#[test]
fn refusals_carry_a_challenge_and_a_problem_document() {
    let running = Running::start(Some("secret"));
    let answer = running.raw("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    for field in [
        "www-authenticate: Bearer\r\n",
        "content-type: application/problem+json\r\n",
        "cache-control: no-store\r\n",
    ] {
        assert!(answer.contains(field), "{field} in {answer}");
    }
    assert!(
        answer.contains(r#""type":"about:blank","title":"Unauthorized","status":401,"detail":"#),
        "{answer}"
    );
}

#[test]
fn foreign_hosts_and_origins_are_refused_even_with_the_token() {
    let running = Running::start(Some("secret"));
    let ask = |fields: &str| {
        running.raw(&format!(
            "GET /metrics HTTP/1.1\r\nAuthorization: Bearer secret\r\nConnection: close\r\n{fields}\r\n"
        ))
    };
    assert!(ask("Host: admin.example.com\r\n").starts_with("HTTP/1.1 200 "));
    assert!(ask("Host: evil.example\r\n").starts_with("HTTP/1.1 403 "));
    assert!(ask("Host: localhost\r\nOrigin: http://evil.example\r\n").starts_with("HTTP/1.1 403 "));
    assert!(ask("Host: localhost\r\nOrigin: http://localhost\r\n").starts_with("HTTP/1.1 200 "));
    let probe = running.raw("GET /livez HTTP/1.1\r\nHost: balancer.example\r\nConnection: close\r\n\r\n");
    assert!(probe.starts_with("HTTP/1.1 200 "), "{probe}");
    let absolute = running.raw("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nConnection: close\r\n\r\n");
    assert!(absolute.starts_with("HTTP/1.1 403 "), "{absolute}");
}

#[test]
fn unknown_paths_are_404_and_wrong_methods_405() {
    let running = Running::start(Some("secret"));
    let unknown = running.unix("GET", "/api/v1/nothing");
    assert_eq!((unknown.status, &json(&unknown)["detail"]), (404, &"there is no GET /api/v1/nothing".into()));
    let wrong = running.unix("GET", "/api/v1/stop");
    assert_eq!((wrong.status, &json(&wrong)["detail"]), (405, &"this path takes POST only".into()));
    assert_eq!(running.unix("POST", "/metrics").status, 405);
    assert_eq!(running.unix("HEAD", "/api/v1/status").status, 200);
    let raw = running.raw("DELETE /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(raw.starts_with("HTTP/1.1 405 ") && raw.matches("allow: GET, HEAD\r\n").count() == 1, "{raw}");
    assert_eq!(raw.matches("allow:").count(), 1, "{raw}");
}

#[test]
fn stop_is_accepted_once_per_request() {
    let running = Running::start(Some("secret"));
    let answer = running.unix("POST", "/api/v1/stop");
    assert_eq!((answer.status, &json(&answer)["state"]), (202, &"draining".into()));
    assert_eq!(running.admin(Some("secret"), "POST", "/api/v1/stop").status, 202);
    assert_eq!(running.sample.stops.load(Ordering::Relaxed), 2);
}

#[test]
fn probes_say_why_they_fail() {
    let running = Running::start(None);
    running.sample.silent.store(true, Ordering::Relaxed);
    running.sample.draining.store(true, Ordering::Relaxed);
    for (path, why) in
        [("/livez", "worker 1 has not ticked for 11s"), ("/readyz", "draining"), ("/healthz", "draining")]
    {
        let answer = running.metrics("GET", path);
        assert_eq!((answer.status, &json(&answer)["detail"]), (503, &why.into()), "{path}");
    }
}

#[test]
fn the_metrics_listener_has_metrics_and_probes_only() {
    let running = Running::start(None);
    assert_eq!(running.metrics("GET", "/metrics").body, b"thalweg_requests_active 0\n");
    assert_eq!(running.metrics("GET", "/readyz").body, b"ok\n");
    assert_eq!(running.metrics("GET", "/api/v1/status").status, 404);
    assert_eq!(running.metrics("POST", "/api/v1/stop").status, 404);
}

#[test]
fn a_token_is_made_once_and_kept() {
    let running = Running::start(None);
    let file = running.handle().token_file().expect("a token file").clone();
    assert!(file.created && file.path == running.folder.0.join("state/admin.token"));
    assert_eq!(running.admin(Some(file.token.reveal()), "GET", "/api/v1/status").status, 200);
    assert!(Running::start(Some("given")).handle().token_file().is_none());
}

#[test]
fn bodies_over_the_limit_are_refused() {
    let running = Running::start(Some("secret"));
    let length = 1024 * 1024 + 1;
    let answer = running.raw(&format!("POST /api/v1/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert_eq!(running.sample.stops.load(Ordering::Relaxed), 0);
}

#[test]
fn the_process_does_not_answer_itself_on_its_unix_socket() {
    let folder = Folder::new();
    let socket = folder.0.join("admin.sock");
    let options = AdminOptions { socket: socket.clone(), ..AdminOptions::default() };
    let handle = start(options, Arc::new(Sample::default())).expect("starts");
    let mut stream = UnixStream::connect(&socket).unwrap();
    let _ = stream.write_all(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut answer = Vec::new();
    // Closed, or reset because the request is unread.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    handle.shutdown();
}

#[test]
fn a_second_proxy_on_the_same_socket_does_not_start() {
    let running = Running::start(Some("secret"));
    let options = AdminOptions { socket: running.addresses().socket.clone(), ..AdminOptions::default() };
    let error = start(options, Arc::new(Sample::default())).expect_err("the socket is taken");
    assert!(error.to_string().contains("cannot be opened: another thalweg is running"), "{error}");
    assert_eq!(running.unix("GET", "/livez").status, 200);
}

#[test]
fn an_address_in_use_is_named_and_leaves_no_socket() {
    let running = Running::start(Some("secret"));
    let folder = Folder::new();
    let socket = folder.0.join("admin.sock");
    let address = running.addresses().admin;
    let options = AdminOptions { socket: socket.clone(), address, ..AdminOptions::default() };
    let error = start(options, Arc::new(Sample::default())).expect_err("the port is taken");
    assert!(error.to_string().contains(&format!("the admin address {}", address.unwrap())), "{error}");
    assert!(!socket.exists());
}

#[test]
fn shutdown_answers_closes_and_removes_the_socket() {
    let mut running = Running::start(Some("secret"));
    let (socket, address) = (running.addresses().socket.clone(), running.addresses().admin.unwrap());
    let mut idle = UnixStream::connect(&socket).unwrap();
    let mut half = TcpStream::connect(address).unwrap();
    half.write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
    let begin = Instant::now();
    running.handle.take().unwrap().shutdown();
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert!(!socket.exists());
    assert_eq!(idle.read(&mut [0; 64]).unwrap_or(0), 0);
    assert!(TcpStream::connect(address).is_err());
    let error = call(&Target::Socket(socket), None, "GET", "/livez").expect_err("nobody is there");
    assert!(error.nobody_there() && error.to_string().starts_with("no thalweg answers at "));
}

#[test]
fn the_socket_answers_while_every_place_on_tcp_is_taken() {
    let running = Running::start(Some("secret"));
    let address = running.addresses().admin.unwrap();
    let held = (0..CONNECTIONS + 8).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>();
    assert_eq!(running.unix("GET", "/livez").status, 200);
    drop(held);
    assert_eq!(running.admin(None, "GET", "/livez").status, 200);
}

#[test]
fn one_connection_serves_many_requests() {
    let running = Running::start(Some("secret"));
    let one = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = running
        .raw(&format!("{one}{one}GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
}

#[test]
fn heads_that_are_sent_by_halves_shut_nobody_out() {
    let running = Running::start(Some("secret"));
    let addresses = running.addresses();
    for address in [addresses.admin.unwrap(), addresses.metrics.unwrap()] {
        let half = || {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(b"GET /livez HTTP/1.1\r\nHo").unwrap();
            client
        };
        let mut halves: Vec<_> = (0..CONNECTIONS).map(|_| half()).collect();
        let target = Target::Tcp(address.to_string());
        assert_eq!(call(&target, None, "GET", "/livez").expect("an answer").status, 200);
        let mut longest = halves.swap_remove(0);
        longest.set_read_timeout(Some(HEAD_TIME)).unwrap();
        let ended = longest.read(&mut [0; 16]);
        assert!(
            matches!(ended, Ok(0))
                || ended.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        );
    }
}
