//! The file that arguments stand for, and mistakes in them.

use super::*;
use proptest::prelude::*;

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn two() -> Arguments {
    Arguments { listen: texts(&[":8080"]), to: texts(&["http://a:1", "http://b:2"]), ..Arguments::default() }
}

fn load(arguments: &Arguments) -> Result<Loaded, Report> {
    arguments.file().load(&|_| None)
}

#[test]
fn two_arguments_are_a_plan() {
    let loaded = load(&two()).unwrap();
    assert_eq!(loaded.plan.services[0].endpoints.len(), 2);
    assert_eq!((&*loaded.plan.routes[0].name, &*loaded.plan.services[0].name), ("default", "default"));
    assert_eq!(
        two().file().text(),
        "listeners:\n  web: \":8080\"\nroutes:\n  - name: default\n    to: default\nservices:\n  default:\n    \
         endpoints:\n      - \"http://a:1\"\n      - \"http://b:2\"\n"
    );
}

fn all() -> Arguments {
    Arguments {
        listen: texts(&[":8080", "unix:/run/a.sock"]),
        balance: Some("hash:client_ip".into()),
        health: Some("/ping".into()),
        health_interval: Some("2s".into()),
        health_failures: Some("5".into()),
        retry: Some("3".into()),
        cache: Some("60s".into()),
        block: texts(&["192.0.2.0/24", "2001:db8::1"]),
        rate_limit: Some(("100".into(), "1s".into())),
        access_log: Some("json".into()),
        webhook: texts(&["http://127.0.0.1:9900/hook"]),
        https: Some(Https::Local),
        ..two()
    }
}

#[test]
fn every_argument_is_in_the_file() {
    let loaded = load(&all()).map_err(|report| report.lines()).unwrap();
    assert_eq!(loaded.plan.listeners.len(), 3);
    let text = all().file().text().to_owned();
    for part in [
        "  web-2: \"unix:/run/a.sock\"\n",
        "- access: { deny: [ \"192.0.2.0/24\", \"2001:db8::1\" ] }\n",
        "- rate_limit: { requests: 100, per: 1s, key: client_ip }\n",
        "- cache: 60s\n",
        "balance: { hash: { on: client_ip } }\n",
        "health: { path: \"/ping\", interval: 2s, unhealthy_after: 5 }\n",
        "retry: { attempts: 3 }\n",
        "access_log: { format: json }\n",
        "  - url: \"http://127.0.0.1:9900/hook\"\n",
        "secure: { address: \":8443\", tls: { local: true } }\n",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn a_certificate_of_an_authority() {
    let (email, domains) = ("ops@example.com".to_owned(), texts(&["a.example.com", "b.example.com"]));
    let acme = Some(Https::Acme { email, domains });
    let arguments = Arguments { listen: texts(&[":80"]), https: acme, ..two() };
    let loaded = load(&arguments).map_err(|report| report.lines()).unwrap();
    assert_eq!(loaded.plan.listeners.len(), 2);
    assert!(arguments.file().text().contains("address: \":443\""), "{}", arguments.file().text());
}

/// Each mistake stands in the line of its option, with what was written.
#[test]
fn mistakes_name_the_option() {
    let with = |change: &dyn Fn(&mut Arguments)| {
        let mut arguments = all();
        arguments.https = None;
        change(&mut arguments);
        let report = load(&arguments).unwrap_err();
        assert_eq!(report.errors.len(), 1, "{report}");
        let position = report.sources.position(report.errors[0].span);
        let text = report.sources.get(0).unwrap().text();
        (text.lines().nth(position.line - 1).unwrap_or_default().to_owned(), position.column)
    };
    let some = |text: &str| Some(text.to_owned());
    type Case<'a> = (&'a str, usize, &'a dyn Fn(&mut Arguments));
    let cases: [Case<'_>; 12] = [
        ("--listen \"8080\"", 10, &|a| a.listen[0] = "8080".into()),
        ("--to \"htp://a\"", 6, &|a| a.to[1] = "htp://a".into()),
        ("--balance fastest", 11, &|a| a.balance = some("fastest")),
        ("--balance hash:nothing", 16, &|a| a.balance = some("hash:nothing")),
        ("--health \"ping\"", 10, &|a| a.health = some("ping")),
        ("--health-interval 2", 19, &|a| a.health_interval = some("2")),
        ("--health-failures 0", 19, &|a| a.health_failures = some("0")),
        ("--retry 11", 9, &|a| a.retry = some("11")),
        ("--cache 60", 9, &|a| a.cache = some("60")),
        ("--block \"192.0.2\"", 9, &|a| a.block[1] = "192.0.2".into()),
        ("--rate-limit 100/1x", 14, &|a| a.rate_limit = Some(("100".into(), "1x".into()))),
        ("--webhook \"ftp://x\"", 11, &|a| a.webhook[0] = "ftp://x".into()),
    ];
    for (line, column, change) in cases {
        assert_eq!(with(change), (line.to_owned(), column));
    }
}

#[test]
fn several_mistakes_stand_in_the_order_of_the_arguments() {
    let arguments = Arguments { listen: texts(&["8080"]), to: texts(&["htp://a"]), ..Arguments::default() };
    let report = load(&arguments).unwrap_err();
    assert_eq!(report.errors.len(), 2);
    assert!(report.lines().starts_with("command line:1:10: "), "{}", report.lines());
    assert!(load(&Arguments::default()).is_err());
}

#[test]
fn variables_are_filled_in_and_never_shown() {
    let arguments = Arguments { to: texts(&["${URL}"]), ..two() };
    let with = |url: &'static str| arguments.file().load(&move |_| Some(url.to_owned()));
    assert!(with("http://a:1").is_ok());
    let report = with("hunter2 hunter2").unwrap_err();
    assert!(!report.to_string().contains("hunter2") && report.to_string().contains("${URL}"), "{report}");
}

proptest! {
    /// No value changes the structure of the file, and every mistake has its place.
    #[test]
    fn any_value_stays_a_value(value in "[ -~\n\tä#:{}\\[\\]\"'&*!|>%@`,-]{0,20}", which in 0..7usize) {
        let mut arguments = all();
        let value = value.replace("${", "");
        match which {
            0 => arguments.listen[0] = value.clone(),
            1 => arguments.to[0] = value.clone(),
            2 => arguments.balance = Some(value.clone()),
            3 => arguments.health = Some(value.clone()),
            4 => arguments.cache = Some(value.clone()),
            5 => arguments.block[0] = value.clone(),
            _ => arguments.webhook[0] = value.clone(),
        }
        match load(&arguments) {
            Ok(loaded) => prop_assert_eq!(loaded.plan.routes.len(), 1),
            Err(report) => {
                prop_assert_eq!(report.lines().lines().count(), report.errors.len());
                for error in &report.errors {
                    let place = error.span.range();
                    prop_assert!(report.sources.get(0).unwrap().text().get(place).is_some());
                }
                report.render(crate::Look::Plain);
            }
        }
    }
}
