//! A Service of a real control plane of Kubernetes: its pods are replaced under load, the API server is killed and
//! frozen, and no client notices. By `cargo xtask test --kubernetes`; elsewhere it is skipped.
//!
//! The account, its rights and the configuration are those of the guide (docs/guide/discovery.md).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg_tests::message::get;
use thalweg_tests::process::Signal;
use thalweg_tests::{ControlPlane, Load, Node, Proxy, Watchdog};

/// For all of it: large programs start, and pods take their time to leave.
const LIMIT: Duration = Duration::from_secs(300);
/// The longest that the controllers and the proxy may take for a change.
const PATIENCE: Duration = Duration::from_secs(60);
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/checkout";

/// The manifests of the guide.
fn manifests() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/discovery.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("\n### In a cluster\n").nth(1).unwrap();
    section.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap().to_owned()
}

/// The configuration in the ConfigMap, on ports of the kernel's choice, with short watches.
fn configuration(manifests: &str) -> String {
    let text = manifests.split("thalweg.yaml: |\n").nth(1).unwrap().split("\n---\n").next().unwrap();
    let text: String = text.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap())).collect();
    let text = text.replace("\":8080\"", "\"127.0.0.1:0\"").replace("\":9100\"", "\"127.0.0.1:0\"");
    let text =
        text.replace("port: http }", "port: http, wait: 2s }").replace("path: /checkout/*", "path: /*");
    text.replace("shutdown: { delay: 5s, grace: 20s }", "shutdown: { delay: 0s, grace: 5s }")
}

/// What the guide has is another's: here are six pods of `checkout` behind a Service.
const CHECKOUT: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata: { name: checkout }
spec:
  replicas: 6
  selector: { matchLabels: { app: checkout } }
  strategy: { rollingUpdate: { maxSurge: 2, maxUnavailable: 0 } }
  template:
    metadata: { labels: { app: checkout } }
    spec:
      nodeName: n1
      containers: [ { name: checkout, image: checkout, ports: [ { name: web, containerPort: 8080 } ] } ]
---
apiVersion: v1
kind: Service
metadata: { name: checkout }
spec:
  selector: { app: checkout }
  ports: [ { name: http, port: 80, targetPort: web } ]"#;

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} does not come");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Pods that answer through the proxy.
fn answering(proxy: &Proxy) -> BTreeSet<String> {
    (0..30)
        .map(|_| get(proxy.web(), "/").unwrap().value("x-endpoint").unwrap_or_default().to_owned())
        .collect()
}

/// Pods that exist and are not leaving.
fn pods(cluster: &ControlPlane) -> BTreeSet<String> {
    let list = cluster.client().call("GET", "/api/v1/namespaces/default/pods", &Value::Null);
    let pods = list["items"].as_array().unwrap().iter();
    let staying = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let of_checkout = staying.filter(|pod| pod["metadata"]["labels"]["app"] == "checkout");
    of_checkout.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Waits until so many pods are there, and the proxy uses all of them and no others.
fn follows(cluster: &ControlPlane, proxy: &Proxy, count: usize) -> BTreeSet<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let (pods, answering) = (pods(cluster), answering(proxy));
        if pods.len() == count && answering == pods {
            return pods;
        }
        let said = || proxy.process().stderr();
        assert!(Instant::now() < end, "there are {pods:?}, and {answering:?} answer:\n{}", said());
    }
}

/// How often the source has been told to fail, and to work again.
fn told(proxy: &Proxy) -> (usize, usize) {
    let lines = proxy.process().stderr();
    let count = |what: &str| {
        lines.lines().filter(|line| line.contains("source kubernetes") && line.contains(what)).count()
    };
    (count("fails: "), count("works again"))
}

#[test]
fn pods_are_followed_through_a_rolling_change_and_failures_of_the_api_server() {
    let name = "pods_are_followed_through_a_rolling_change_and_failures_of_the_api_server";
    let _watchdog = Watchdog::new(name, LIMIT);
    let Some(mut cluster) = ControlPlane::start() else { return };
    let manifests = manifests();
    cluster.client().create(&manifests);
    cluster.client().create(CHECKOUT);
    let _node = Node::start(cluster.client().clone(), "n1", env!("CARGO_BIN_EXE_test-endpoint"));
    let [host, port] = cluster.enter_pod("thalweg");
    let proxy = Proxy::start_under(Path::new("/usr/bin/env"), &[&host, &port], &configuration(&manifests));
    let first = follows(&cluster, &proxy, 6);

    let load = Load::start(proxy.web(), 8);
    let template = json!({ "metadata": { "annotations": { "round": "2" } } });
    cluster.client().call("PATCH", DEPLOYMENT, &json!({ "spec": { "template": template } }));
    until("the end of the rolling change", || {
        pods(&cluster).is_disjoint(&first) && pods(&cluster).len() == 6
    });
    let second = follows(&cluster, &proxy, 6);
    assert!(second.is_disjoint(&first), "{first:?} {second:?}");
    cluster.renew_token("thalweg");

    for (number, freeze) in [(1, false), (2, true)] {
        let known = pods(&cluster);
        if freeze {
            cluster.api_server().signal(Signal::STOP);
        } else {
            cluster.kill_api_server();
        }
        until("that the source fails", || told(&proxy).0 == number);
        load.wait_for(500);
        until("that all pods still answer", || answering(&proxy) == known);
        if freeze {
            cluster.api_server().signal(Signal::CONT);
        } else {
            cluster.restart_api_server();
        }
        until("that the source works again", || told(&proxy).1 == number);
        cluster.client().call("PATCH", DEPLOYMENT, &json!({ "spec": { "replicas": 6 - number } }));
        follows(&cluster, &proxy, 6 - number);
    }

    let (answered, failures) = load.stop();
    println!("{answered} requests");
    assert!(failures.is_empty(), "{} of {answered}: {:?}", failures.len(), failures.first());
    assert!(proxy.stop().status.success());
}

#[test]
fn outside_of_the_cluster_a_certificate_logs_in_and_without_rights_the_help_names_them() {
    let name = "outside_of_the_cluster_a_certificate_logs_in_and_without_rights_the_help_names_them";
    let _watchdog = Watchdog::new(name, LIMIT);
    let Some(cluster) = ControlPlane::start() else { return };
    let manifests = manifests();
    cluster.client().create(&manifests);
    cluster.client().create(CHECKOUT);
    let _node = Node::start(cluster.client().clone(), "n1", env!("CARGO_BIN_EXE_test-endpoint"));
    let login = cluster.kubeconfig_of("operator");
    let place = format!("namespace: default, kubeconfig: '{}', port: 80, wait", login.display());
    let proxy = Proxy::start(&configuration(&manifests).replace("port: http, wait", &place));
    until("that it is told", || told(&proxy).0 == 1);
    let said = proxy.process().stderr();
    assert!(said.contains("403") && said.contains("`endpointslices`"), "{said}");
    let subject = json!({ "kind": "User", "name": "operator", "apiGroup": "rbac.authorization.k8s.io" });
    let binding = json!({
        "metadata": { "name": "operator" }, "subjects": [subject],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "thalweg" },
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    cluster.client().call("POST", path, &binding);
    follows(&cluster, &proxy, 6);
    assert!(proxy.stop().status.success());
}
