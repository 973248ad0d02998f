//! Originals that do not run here: what must become of requests is written in the files, after their documentation.

use std::net::IpAddr;
use std::path::Path;

use thalweg_tests::{Directory, Message, Process};

use super::side::Original;
use super::watchdog;

fn recorded(name: &'static str) -> Original {
    Original {
        name,
        listening_at: |text, _| text.to_owned(),
        start,
        prepare: |_| {},
        is_recorded: false,
        is_own_page,
    }
}

fn start(_: &Directory, _: &Path, _: IpAddr) -> Option<Process> {
    None
}

fn is_own_page(_: &Message) -> bool {
    false
}

#[test]
fn requests_are_treated_as_goloadbalance_describes_it() {
    let _watchdog = watchdog("requests_are_treated_as_goloadbalance_describes_it");
    super::play(&recorded("goloadbalance"), 3);
}

#[test]
fn requests_are_treated_as_spring_cloud_gateway_documents_it() {
    let _watchdog = watchdog("requests_are_treated_as_spring_cloud_gateway_documents_it");
    super::play(&recorded("spring-cloud-gateway"), 5);
}
