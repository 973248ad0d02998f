use super::super::containers::containers;
use super::*;

/// A container of the service `shop` of the project `p`, with more labels and other fields.
fn container(name: &str, labels: &str, fields: &str) -> String {
    format!(
        r#"{{"Id":"id-{name}","Names":["/{name}"],"State":"running","Status":"Up 3 minutes",
            "Labels":{{"com.docker.compose.service":"shop","com.docker.compose.project":"p",
                       "thalweg.port":"80"{labels}}},
            "NetworkSettings":{{"Networks":{{"p_front":{{"IPAddress":"ip-{name}"}}}}}}{fields}}}"#
    )
}

fn of(all: &[String], choice: &Choice) -> (Vec<Document>, Option<String>) {
    let (containers, flaw) = containers(format!("[{}]", all.join(",")).as_bytes()).unwrap();
    assert_eq!(flaw, None);
    documents(&containers, choice, "127.0.0.1")
}

fn choice() -> Choice {
    Choice { prefix: "docker/".to_owned(), ..Choice::default() }
}

/// The only document, and the flaw.
fn only(all: &[String]) -> (Value, Option<String>) {
    let (documents, flaw) = of(all, &choice());
    assert_eq!(documents.len(), 1, "{documents:?} {flaw:?}");
    (serde_json::from_str(&documents[0].text).unwrap(), flaw)
}

/// The flaw of a container with these labels, which is left out.
fn flaw(labels: &str) -> String {
    let (documents, flaw) = of(&[container("a", labels, "")], &choice());
    assert_eq!(documents, []);
    flaw.unwrap()
}

fn urls(document: &Value) -> Vec<&str> {
    let endpoints = document["services"]["docker/shop"]["endpoints"].as_array().unwrap();
    endpoints.iter().map(|endpoint| endpoint["url"].as_str().unwrap()).collect()
}

#[test]
fn a_service_is_a_route_and_a_service_with_all_its_containers() {
    let labels = r#","thalweg.host":"a.example.com, *.b.example.com","thalweg.path":"/x/*","thalweg.methods":"GET,POST",
        "thalweg.listeners":"web","thalweg.filters":"[ { strip_prefix: /x }, { chain: std } ]","thalweg.health":"/up""#;
    let weighted = format!("{labels},\"thalweg.weight\":\"3\",\"thalweg.scheme\":\"https\"");
    let (document, flaw) = only(&[container("b", &weighted, ""), container("a", labels, "")]);
    assert_eq!(flaw, None);
    let endpoint = |name: &str, url: &str, weight: u32| json!({ "url": url, "weight": weight, "tier": 0, "labels": { "container": name } });
    assert_eq!(
        document,
        json!({
            "routes": [{
                "name": "docker/shop",
                "match": { "host": ["a.example.com", "*.b.example.com"], "path": ["/x/*"], "methods": ["GET", "POST"] },
                "listeners": ["web"],
                "filters": [{ "strip_prefix": "/x" }, { "chain": "std" }],
                "to": "docker/shop",
            }],
            "services": { "docker/shop": {
                "endpoints": [endpoint("a", "http://ip-a:80", 1), endpoint("b", "https://ip-b:80", 3)],
                "health": "/up",
            } },
        })
    );
}

#[test]
fn only_containers_with_a_host_a_path_or_a_route_have_one() {
    assert_eq!(of(&[container("a", "", "")], &choice()), (Vec::new(), None));
    let run = r#","thalweg.host":"a","com.docker.compose.oneoff":"True""#;
    assert_eq!(of(&[container("a", run, "")], &choice()), (Vec::new(), None), "of `docker compose run`");
    for label in [r#","thalweg.host":"a""#, r#","thalweg.path":"/a""#, r#","thalweg.route":"{}""#] {
        assert_eq!(urls(&only(&[container("a", label, "")]).0), ["http://ip-a:80"]);
    }
    let other = Choice { project: Some("q".to_owned()), ..choice() };
    assert_eq!(of(&[container("a", r#","thalweg.host":"a""#, "")], &other), (Vec::new(), None));
}

#[test]
fn names_are_those_of_label_compose_or_container() {
    let name = |json: &str| {
        let (documents, _) = of(&[json.to_owned()], &choice());
        let text: Value = serde_json::from_str(&documents[0].text).unwrap();
        (documents[0].name.to_string(), text["routes"][0]["name"].as_str().unwrap().to_owned())
    };
    let pay = container("a", r#","thalweg.host":"a","thalweg.service":"pay""#, "");
    assert_eq!(name(&pay), ("pay.json".to_owned(), "docker/pay".to_owned()));
    let alone = container("a", r#","thalweg.host":"a""#, "").replace("com.docker.compose.service", "x");
    assert_eq!(name(&alone), ("a.json".to_owned(), "docker/a".to_owned()));
    let long = format!(r#","thalweg.host":"a","thalweg.service":"{}""#, "x".repeat(NAME));
    assert!(flaw(&long).contains("128 bytes"));
}

#[test]
fn a_route_of_its_own_says_what_labels_cannot() {
    let own = r#","thalweg.route":"match: { headers: { x-a: b } }\ntimeouts: { first_byte: 5s }","thalweg.host":"a""#;
    let (document, _) = only(&[container("a", own, "")]);
    let route = &document["routes"][0];
    assert_eq!(route["match"], json!({ "headers": { "x-a": "b" }, "host": ["a"] }));
    assert_eq!(route["timeouts"]["first_byte"], "5s");
}

#[test]
fn what_labels_say_wrong_is_left_out_and_told() {
    for (label, why) in [
        (r#","thalweg.host":"a,,b""#, "`thalweg.host` has an entry that is not one of values"),
        (r#","thalweg.path":"a""#, "write paths"),
        (r#","thalweg.host":"a","thalweg.filters":"{ cors: {} }""#, "`thalweg.filters` is no list"),
        (r#","thalweg.host":"a","thalweg.filters":"[ { cors: ""#, "`thalweg.filters` cannot be read"),
        (r#","thalweg.host":"a","thalweg.filters":"[ { a: 1, a: 2 } ]""#, "`thalweg.filters` cannot be read"),
        (r#","thalweg.host":"a","thalweg.health":"up""#, "which is no path"),
        (r#","thalweg.route":"[]""#, "is no map"),
        (r#","thalweg.route":"{ to: admin }""#, "has `to`"),
        (r#","thalweg.route":"{ name: x }""#, "has `name`"),
        (r#","thalweg.route":"{ match: { host: a } }","thalweg.host":"b""#, "both say `match.host`"),
        (r#","thalweg.route":"{ match: a }","thalweg.host":"b""#, "`match` in `thalweg.route` is no map"),
        (r#","thalweg.route":"{ match: { headers: { v: 1.10 } } }""#, "write it in quotes"),
    ] {
        let told = flaw(label);
        assert!(told.starts_with("service `shop` is left out: ") && told.contains(why), "{told}");
    }
    let (documents, flaw) = of(
        &[
            container("a", r#","thalweg.host":"a","thalweg.service":"x","thalweg.filters":"3""#, ""),
            container("b", r#","thalweg.host":"b""#, ""),
        ],
        &choice(),
    );
    assert_eq!((documents.len(), flaw.is_some()), (1, true), "others stay");
}

#[test]
fn text_of_labels_stays_text() {
    let host = r#","thalweg.host":"a\" } ], \"services\": { \"x\": 1""#;
    let (document, _) = only(&[container("a", host, "")]);
    assert_eq!(document["services"].as_object().unwrap().len(), 1);
    assert_eq!(
        document["routes"][0]["match"]["host"].as_array().unwrap().len(),
        2,
        "split at its comma only"
    );
    let words =
        r#","thalweg.route":"match: { headers: { a: off, b: yes, c: '1.10', d: 2026-11-25, e: 10 } }""#;
    let (document, _) = only(&[container("a", words, "")]);
    let headers = &document["routes"][0]["match"]["headers"];
    assert_eq!(*headers, json!({ "a": "off", "b": "yes", "c": "1.10", "d": "2026-11-25", "e": 10 }));
}

#[test]
fn of_containers_that_contradict_each_other_the_first_wins() {
    let (a, b) = (r#","thalweg.host":"a""#, r#","thalweg.host":"b""#);
    let (document, flaw) = only(&[container("2", b, ""), container("1", a, "")]);
    assert_eq!(document["routes"][0]["match"]["host"], json!(["a"]));
    assert_eq!(urls(&document), ["http://ip-1:80", "http://ip-2:80"], "of one project");
    assert!(flaw.unwrap().contains("container `2` has other labels than `1`"));
    let elsewhere = container("2", b, "").replace(r#"project":"p""#, r#"project":"q""#);
    let (document, flaw) = only(&[elsewhere, container("1", a, "")]);
    assert_eq!(urls(&document), ["http://ip-1:80"]);
    assert!(flaw.unwrap().contains("it is left out"));
    // The one that is not well says nothing while another is.
    let (document, _) = only(&[container("1", a, r#","State":"paused""#), container("2", b, "")]);
    assert_eq!(document["routes"][0]["match"]["host"], json!(["b"]));
}

#[test]
fn a_service_none_of_whose_containers_is_well_keeps_its_route() {
    let (host, sick) = (r#","thalweg.host":"a""#, r#","Health":{"Status":"unhealthy"}"#);
    let (document, _) = only(&[container("a", host, sick), container("b", host, "")]);
    assert_eq!(urls(&document), ["http://ip-b:80"]);
    let (document, flaw) = only(&[container("a", host, sick)]);
    assert_eq!(urls(&document), ["http://ip-a:80"]);
    assert_eq!(document["services"]["docker/shop"]["endpoints"][0]["weight"], 0);
    assert_eq!(flaw, None);
}
