use super::answer::read;
use super::*;

fn wanted(yaml: &str) -> Wanted {
    let spec: EurekaSourceSpec = serde_saphyr::from_str(yaml).unwrap();
    let name = match (spec.app, spec.vip) {
        (Some(app), _) => Name::App(app.to_ascii_uppercase()),
        (_, vip) => Name::Vip(vip.unwrap()),
    };
    Wanted { name, address: spec.prefer.unwrap_or_default(), port: spec.secure.unwrap_or_default() }
}

/// An instance of CHECKOUT; `more` begins with a comma.
fn instance(id: &str, status: &str, updated: u64, more: &str) -> String {
    format!(
        r#"{{"instanceId":"{id}","hostName":"{id}.example","app":"CHECKOUT","ipAddr":"10.0.0.1","status":"{status}",
            "port":{{"$":8080,"@enabled":"true"}},"securePort":{{"$":443,"@enabled":"false"}},
            "leaseInfo":{{"renewalIntervalInSecs":30,"durationInSecs":90}},"metadata":{{"zone":"a"}},
            "vipAddress":"checkout","lastUpdatedTimestamp":"{updated}"{more}}}"#
    )
}

fn answer(count: &str, instances: &[String]) -> Answer {
    let apps = if instances.is_empty() {
        String::new()
    } else {
        format!(r#"{{"name":"CHECKOUT","instance":[{}]}}"#, instances.join(","))
    };
    let text = format!(
        r#"{{"applications":{{"versions__delta":"1","apps__hashcode":"{count}","application":[{apps}]}}}}"#
    );
    read(text.as_bytes()).unwrap()
}

fn ids(known: &Known) -> Vec<String> {
    known.up(&wanted("{ app: checkout }")).map(|instance| instance.id.clone()).collect()
}

const DELETED: &str = r#","actionType":"DELETED""#;

#[test]
fn only_instances_that_are_up_are_used() {
    let mut known = Known::default();
    let states = ["UP", "DOWN", "STARTING", "OUT_OF_SERVICE", "UNKNOWN"];
    let all: Vec<_> = states.iter().map(|state| instance(state, state, 1, "")).collect();
    known.replace(answer("", &all), false, Instant::now());
    assert_eq!(ids(&known), ["UP"]);
    let count = "DOWN_1_OUT_OF_SERVICE_1_STARTING_1_UNKNOWN_1_UP_1_";
    assert!(known.change(answer(count, &[])), "the count is the server's");
}

#[test]
fn changes_are_carried_out_and_checked_by_the_servers_count() {
    let mut known = Known::default();
    known.replace(answer("UP_1_", &[instance("a", "UP", 1, "")]), false, Instant::now());
    assert!(known.takes_effect(Instant::now()));
    let added = || answer("UP_2_", &[instance("b", "UP", 2, "")]);
    assert!(known.change(added()) && known.takes_effect(Instant::now()));
    assert!(known.change(added()) && !known.takes_effect(Instant::now()), "a change is told for minutes");
    assert!(known.change(answer("DOWN_1_UP_1_", &[instance("a", "DOWN", 3, "")])));
    assert_eq!(ids(&known), ["b"]);
    assert!(known.change(answer("DOWN_1_", &[instance("b", "UP", 4, DELETED)])));
    assert!(ids(&known).is_empty());
    assert!(!known.change(answer("DOWN_1_UP_1_", &[])), "a change was missed");
}

#[test]
fn an_answer_that_is_older_than_the_last_changes_nothing() {
    let mut known = Known::default();
    known.replace(answer("UP_1_", &[instance("a", "UP", 5, "")]), false, Instant::now());
    assert!(known.change(answer("UP_1_", &[instance("a", "UP", 4, DELETED)])));
    assert_eq!(ids(&known), ["a"]);
}

#[test]
fn an_instance_that_vanishes_without_a_word_is_used_for_as_long_as_its_lease() {
    let begun = Instant::now();
    let after = |seconds| begun + Duration::from_secs(seconds);
    let mut known = Known::default();
    let all = ["a", "b", "c"].map(|id| instance(id, "UP", 1, ""));
    known.replace(answer("UP_3_", &all), false, begun);
    // The server was restarted.
    known.replace(answer("", &[]), false, begun);
    known.takes_effect(begun);
    assert_eq!(ids(&known), ["a", "b", "c"]);
    assert!(known.change(answer("UP_1_", &[instance("b", "UP", 9, "")])), "vanished ones are not counted");
    assert!(known.change(answer("UP_1_", &[instance("c", "UP", 9, DELETED)])));
    known.takes_effect(after(89));
    assert_eq!(ids(&known), ["b", "a"], "c is told to be gone");
    // Another look at the whole gives it no more time.
    known.replace(answer("UP_1_", &[instance("b", "UP", 9, "")]), false, after(60));
    assert!(known.takes_effect(after(91)));
    assert_eq!(ids(&known), ["b"]);
}

#[test]
fn where_a_server_gives_out_no_changes_what_is_not_in_the_whole_is_gone() {
    let mut known = Known::default();
    known.replace(answer("UP_1_", &[instance("a", "UP", 1, "")]), false, Instant::now());
    known.replace(answer("", &[]), true, Instant::now());
    assert!(ids(&known).is_empty());
}

#[test]
fn the_json_of_xstream_is_read_in_all_its_shapes() {
    let one = r#"{"applications":{"versions__delta":1,"apps__hashcode":"UP_1_","application":{"name":"checkout",
        "instance":{"hostName":"h","ipAddr":"10.0.0.1","status":"UP","port":{"@enabled":true,"$":"8080"},
        "securePort":null,"metadata":{"@class":"java.util.Collections$EmptyMap"},"dataCenterInfo":{"name":"Amazon",
        "metadata":{"instance-id":"i-1","availability-zone":"eu-1a"}}}}}}"#;
    let instance = read(one.as_bytes()).unwrap().instances.remove(0);
    assert_eq!((instance.app.as_str(), instance.id.as_str(), instance.port), ("CHECKOUT", "i-1", Some(8080)));
    assert_eq!(instance.labels.iter().collect::<Vec<_>>(), [("zone", "eu-1a")]);
    assert_eq!((instance.weight, instance.lease), (1, Duration::from_secs(90)));
    for none in [r#""application":[]"#, r#""application":"""#, r#""application":null"#, r#""other":1"#] {
        let text = format!(r#"{{"applications":{{{none}}}}}"#);
        assert_eq!(read(text.as_bytes()).unwrap().instances, []);
    }
    let numbers = r#"{"applications":{"application":[{"name":"A","instance":[{"instanceId":"a","port":8080,
        "metadata":{"weight":7,"canary":true,"n":{"@class":"int","$":"3"},"list":[1]}}]}]}}"#;
    let instance = read(numbers.as_bytes()).unwrap().instances.remove(0);
    assert_eq!((instance.port, instance.weight, instance.labels.get("n")), (Some(8080), 7, Some("3")));
    for bad in [&b""[..], b"[]", b"{}", br#"{"applications":{"application":"x"}}"#, b"<applications/>"] {
        assert!(read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
    }
}

#[test]
fn the_secure_port_is_used_where_it_is_enabled_or_as_it_is_written() {
    let both = r#","securePort":{"$":8443,"@enabled":"true"}"#;
    let text = instance("a", "UP", 1, "").replace(r#","securePort":{"$":443,"@enabled":"false"}"#, "");
    let text = text.replace(r#""securePort":{"$":443,"@enabled":"false"},"#, "");
    let text = format!("{}{both}}}", text.strip_suffix('}').unwrap());
    let instance = answer("", &[text]).instances.remove(0);
    let url = |yaml: &str| wanted(yaml).endpoint(&instance).map(|found| found.url("http"));
    assert_eq!(url("{ app: a }").unwrap(), "https://10.0.0.1:8443");
    assert_eq!(url("{ app: a, secure: never, prefer: host }").unwrap(), "http://a.example:8080");
    let plain = Instance { secure_port: None, ..instance.clone() };
    assert_eq!(wanted("{ app: a }").endpoint(&plain).unwrap().url("http"), "http://10.0.0.1:8080");
    assert!(wanted("{ app: a, secure: always }").endpoint(&plain).is_err());
}

#[test]
fn virtual_addresses_are_lists() {
    let mut instance = answer("", &[instance("a", "UP", 1, "")]).instances.remove(0);
    instance.vip = "other, checkout".to_owned();
    assert!(wanted("{ vip: checkout }").fits(&instance) && !wanted("{ vip: check }").fits(&instance));
    assert!(!wanted("{ vip: checkout, secure: always }").fits(&instance));
}

#[test]
fn a_query_says_all_that_is_wanted() {
    for yaml in ["{ app: a }", "{ vip: b, prefer: host }", "{ app: c, secure: never, prefer: host }"] {
        assert_eq!(Wanted::parse(&wanted(yaml).query()), Some(wanted(yaml)));
    }
    assert_eq!(wanted("{ app: c, secure: always }").query(), "app C, secure ports only");
}
