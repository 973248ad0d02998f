//! A node without containers: each of its pods is a process of the endpoint of these tests, at an address of its own.
//! In the place of a kubelet, it tells the API server how they are.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ApiClient;
use crate::{Process, STEP};

/// Between two looks at its pods.
const LOOK: Duration = Duration::from_millis(100);
/// The port of each pod.
const PORT: u16 = 8080;
/// How long a pod that is to end goes on answering.
const GRACE: Duration = Duration::from_secs(2);

/// A running node; its pods end with it.
#[derive(Debug)]
pub struct Node {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Pod {
    address: String,
    _process: Process,
    /// When it ends.
    end: Option<Instant>,
}

impl Pod {
    /// Starts the one of this number.
    fn start(program: &Path, name: &str, number: u16) -> Self {
        let [high, low] = number.to_be_bytes();
        let address = format!("10.244.{}.{low}", high + 1);
        let process = Process::start(Command::new(program).args([name, &format!("{address}:{PORT}")]));
        process.wait_line("that it is there", STEP, |line| line.starts_with("control ").then_some(()));
        Self { address, _process: process, end: None }
    }
}

impl Node {
    /// Registers as the node `name`, in the zone `a`, and runs all of its pods; `program` is
    /// `env!("CARGO_BIN_EXE_test-endpoint")`.
    pub fn start(client: ApiClient, name: &str, program: impl AsRef<Path>) -> Self {
        // Without it, endpoints of its pods are not told of.
        let labels = json!({ "topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": name });
        let metadata = json!({ "name": name, "labels": labels });
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata });
        client.call("POST", "/api/v1/nodes", &node);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let (name, program) = (name.to_owned(), program.as_ref().to_owned());
        let thread = thread::spawn(move || run(&client, &name, &program, &over));
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(client: &ApiClient, name: &str, program: &Path, is_over: &AtomicBool) {
    let mut pods: HashMap<String, Pod> = HashMap::new();
    let mut count = 0;
    while !is_over.load(Ordering::Acquire) {
        thread::sleep(LOOK);
        // The API server may be down or frozen: the pods go on.
        let path = format!("{PODS}?fieldSelector=spec.nodeName%3D{name}");
        let Ok(list) = client.ask("GET", &path, "", "") else { continue };
        let Ok(list) = serde_json::from_str::<Value>(&list.text()) else { continue };
        for told in list["items"].as_array().into_iter().flatten() {
            let Some(name) = told["metadata"]["name"].as_str() else { continue };
            let pod = pods.entry(name.to_owned()).or_insert_with(|| {
                count += 1;
                Pod::start(program, name, count)
            });
            if told["status"]["podIP"].is_null() {
                let status = running(&pod.address).to_string();
                let _ = client.ask("PATCH", &format!("{PODS}/{name}/status"), MERGE, &status);
            }
            if told["metadata"]["deletionTimestamp"].is_null() {
                continue;
            }
            let end = *pod.end.get_or_insert_with(|| Instant::now() + GRACE);
            if Instant::now() >= end {
                pods.remove(name);
                let now = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0 });
                let _ = client.ask("DELETE", &format!("{PODS}/{name}"), "application/json", &now.to_string());
            }
        }
    }
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const MERGE: &str = "application/strategic-merge-patch+json";

/// The status of a pod that is ready.
fn running(address: &str) -> Value {
    let conditions: Vec<_> = ["Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(|kind| json!({ "type": kind, "status": "True" }))
        .into();
    json!({ "status": {
        "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }], "hostIP": "10.244.0.1",
        "conditions": conditions,
    } })
}
