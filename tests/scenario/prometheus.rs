//! A real Prometheus: it scrapes the proxy, and the dashboard and rules of `packaging/` use only what there is.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use thalweg_observe::names::{ALL, Kind};
use thalweg_tests::admin::segment;
use thalweg_tests::message::{fetch, get};
use thalweg_tests::program::{find_or_skip, run};
use thalweg_tests::{Admin, Directory, Process, Proxy, Upstream};

use super::{config, watchdog};

/// Prometheus scrapes every second, and evaluates rules as often.
const LIMIT: Duration = Duration::from_secs(30);
/// Labels that Prometheus adds, and those of its histograms.
const ADDED: [&str; 4] = ["instance", "job", "le", "__name__"];

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(file)
}

/// The rules file, line by line: names that it records, and expressions.
fn rules() -> (BTreeSet<String>, Vec<String>) {
    let text = fs::read_to_string(packaging("prometheus/thalweg.rules.yaml")).unwrap();
    let values = |key: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix(key));
        lines.map(|value| value.trim().to_owned()).collect()
    };
    (values("record:").into_iter().collect(), values("expr:"))
}

/// Every expression of the dashboard, with values for its variables.
fn panels() -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("expr").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|value| collect(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let text = fs::read_to_string(packaging("grafana/thalweg.json")).unwrap();
    let mut found = Vec::new();
    collect(&serde_json::from_str(&text).unwrap(), &mut found);
    let variables = [("$__rate_interval", "1m"), ("$instance", ".*"), ("$route", ".*"), ("$service", ".*")];
    let fill = |expression: String| {
        variables.iter().fold(expression, |text, (name, value)| text.replace(name, value))
    };
    found.into_iter().map(fill).collect()
}

/// Words of an expression outside of its texts.
fn words(expression: &str) -> Vec<&str> {
    let outside = expression.split('"').step_by(2);
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    outside.flat_map(|text| text.split(move |c| !is_part(c))).filter(|word| !word.is_empty()).collect()
}

/// The labels that samples of this name have; `None`: there are no such samples.
fn labels_of(name: &str) -> Option<&'static [&'static str]> {
    let metric = ALL.iter().find(|metric| match metric.kind {
        Kind::Histogram => {
            name.strip_prefix(metric.name).is_some_and(|end| ["_bucket", "_sum", "_count"].contains(&end))
        }
        Kind::Counter | Kind::Gauge => metric.name == name,
    });
    metric.map(|metric| metric.labels)
}

/// What stands in an expression between braces, and after `by`: names of labels.
fn named_labels(expression: &str) -> Vec<String> {
    // Texts may hold braces and commas of their own.
    let outside: String = expression.split('"').step_by(2).collect::<Vec<_>>().join("\"");
    let between = |begin: &'static str, end: char| {
        let parts = outside.split(begin).skip(1);
        parts.filter_map(move |part| part.split(end).next()).flat_map(|part| part.split(','))
    };
    let names = between("by (", ')').chain(between("{", '}'));
    let names =
        names.map(|text| text.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_').to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn dashboard_and_rules_use_only_metrics_and_labels_that_there_are() {
    let (recorded, mut expressions) = rules();
    let panels = panels();
    assert!(expressions.len() > 15 && panels.len() > 30, "{} and {}", expressions.len(), panels.len());
    expressions.extend(panels);
    for expression in &expressions {
        let is_ours =
            |word: &&str| ["thalweg_", "thalweg:", "process_"].iter().any(|start| word.starts_with(start));
        let used: Vec<&str> = words(expression).into_iter().filter(is_ours).collect();
        assert!(!used.is_empty(), "{expression}");
        let mut labels: Vec<&str> = ADDED.to_vec();
        for name in used {
            if !recorded.contains(name) {
                labels.extend(labels_of(name).unwrap_or_else(|| panic!("there is no {name}: {expression}")));
            }
        }
        for label in named_labels(expression) {
            assert!(labels.contains(&label.as_str()), "no label `{label}`: {expression}");
        }
    }
}

#[test]
fn the_checks_of_expressions_find_what_is_wrong() {
    assert_eq!(labels_of("thalweg_request_duration_seconds"), None, "only its parts are samples");
    assert_eq!(labels_of("thalweg_request_duration_seconds_bucket"), Some(&["route"][..]));
    let text = "sum by (route, le) (rate(a_total{instance=~\"x{,\", code!~\"5..\"}[5m]))";
    assert_eq!(named_labels(text), ["route", "le", "instance", "code"]);
    assert!(words(text).contains(&"a_total"));
}

struct Prometheus {
    _process: Process,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts it before a proxy; `None` where it is not installed.
    fn start(directory: &Directory, proxy: &Proxy) -> Option<Self> {
        let program = find_or_skip("prometheus")?;
        let rules = packaging("prometheus/thalweg.rules.yaml");
        let text = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [ '{}' ]\n\
             scrape_configs:\n- job_name: thalweg\n  static_configs: [ {{ targets: [ '{}' ] }} ]\n",
            rules.display(),
            proxy.metrics(),
        );
        let file = directory.write("prometheus.yml", &text);
        // It does not say which port the kernel has given it.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--enable-feature=exemplar-storage");
        Some(Self { _process: Process::start(&mut command), address })
    }

    /// What it answers; `None`: it does not, or not well.
    fn ask(&self, path: &str) -> Option<Value> {
        let answer = get(self.address, path).ok().filter(|answer| answer.status() == 200)?;
        let document: Value = serde_json::from_str(&answer.text()).ok()?;
        (document["status"] == "success").then(|| document["data"].clone())
    }

    fn query(&self, expression: &str) -> Option<Value> {
        Some(self.ask(&format!("/api/v1/query?query={}", segment(expression)))?["result"].clone())
    }

    /// Waits until a query has such a result.
    fn wait(&self, expression: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + LIMIT;
        loop {
            let result = self.query(expression).unwrap_or(Value::Null);
            if is_so(&result) {
                return result;
            }
            assert!(Instant::now() < end, "{expression}: {result:#}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn prometheus_scrapes_evaluates_the_rules_and_answers_every_panel() {
    let _watchdog = watchdog("prometheus_scrapes_evaluates_the_rules_and_answers_every_panel");
    let Some(promtool) = find_or_skip("promtool") else { return };
    let checked = run(
        Command::new(promtool).arg("check").arg("rules").arg(packaging("prometheus/thalweg.rules.yaml")),
        LIMIT,
    );
    assert_eq!(checked.code, 0, "{checked:?}");
    let (upstream, directory) = (Upstream::saying("here"), Directory::new());
    let slos = "slos: { stock: { service: s, target: 99%, window: 1d } }\n";
    let proxy = Proxy::start(&config(&[&upstream.url()], slos));
    let Some(prometheus) = Prometheus::start(&directory, &proxy) else { return };
    prometheus.wait("up", |result| result[0]["value"][1] == "1");
    (0..25).for_each(|_| assert_eq!(get(proxy.web(), "/a").unwrap().status(), 200));
    let counted =
        prometheus.wait("sum by (code) (thalweg_requests_total)", |result| result[0]["value"][1] == "25");
    assert_eq!(counted[0]["metric"]["code"], "200");
    prometheus.wait("thalweg_slo_budget_left_ratio{slo=\"stock\"}", |result| result[0]["value"][1] == "1");
    // Rules are evaluated, and none of the alerts fires of a proxy that is well.
    prometheus.wait("thalweg:request_duration_seconds:p99_5m", |result| !result[0].is_null());
    let rules = prometheus.ask("/api/v1/rules").unwrap();
    let rules: Vec<&Value> = rules["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap())
        .collect();
    assert_eq!(rules.len(), self::rules().1.len());
    assert!(rules.iter().all(|rule| rule["lastError"].is_null()), "{rules:#?}");
    assert_eq!(prometheus.query("ALERTS"), Some(serde_json::json!([])));
    for expression in panels() {
        assert!(prometheus.query(&expression).is_some(), "{expression}");
    }
    // An example leads from a bucket to the record of a request.
    let (end, bucket) = (Instant::now() + LIMIT, segment("thalweg_request_duration_seconds_bucket"));
    let id = loop {
        assert_eq!(get(proxy.web(), "/a").unwrap().status(), 200);
        let found = prometheus.ask(&format!("/api/v1/query_exemplars?query={bucket}&start=0&end=9999999999"));
        let found = found.unwrap_or_default();
        if let Some(id) = found[0]["exemplars"][0]["labels"]["request_id"].as_str() {
            break id.to_owned();
        }
        assert!(Instant::now() < end, "no example: {found:#}");
        thread::sleep(Duration::from_millis(100));
    };
    let record = &Admin::of(&proxy).get(&format!("/api/v1/requests/{id}"))["requests"][0];
    assert_eq!((&record["id"], &record["path"]), (&id.into(), &"/a".into()));
}

#[test]
fn metrics_are_openmetrics_where_the_client_asks_for_it() {
    let _watchdog = watchdog("metrics_are_openmetrics_where_the_client_asks_for_it");
    let upstream = Upstream::saying("here");
    let proxy = Proxy::start(&config(&[&upstream.url()], ""));
    let ask = |accept: &str| {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {}\r\n{accept}Connection: close\r\n\r\n",
            proxy.metrics()
        );
        fetch(proxy.metrics(), &request).unwrap()
    };
    assert_eq!(get(proxy.web(), "/a").unwrap().status(), 200);
    let plain = ask("");
    assert_eq!(plain.value("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(!plain.text().contains("# EOF") && !plain.text().contains("request_id"));
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let open = ask(accept);
    assert_eq!(
        open.value("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(
        open.text().ends_with("# EOF\n") && !open.text().contains("request_id"),
        "nobody had asked before"
    );
    let end = Instant::now() + LIMIT;
    let id = loop {
        let answer = get(proxy.web(), "/a").unwrap();
        let id = answer.value("x-request-id").map(str::to_owned);
        let page = ask(accept).text();
        if let Some((_, rest)) = page.split_once("# {request_id=\"") {
            break (rest.split('"').next().unwrap().to_owned(), id);
        }
        assert!(Instant::now() < end, "{page}");
    };
    assert!(id.0.len() == 36, "{id:?}");
}
