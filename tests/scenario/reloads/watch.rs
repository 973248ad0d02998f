//! `run --watch`: the proxy reloads by itself when its file has changed.

use std::fs;
use std::os::unix::fs::symlink;

use thalweg_tests::message::get;
use thalweg_tests::{Directory, Proxy, Upstream};

use super::super::watchdog;
use super::{metric, plan, wait_said};

fn texts() -> ([Upstream; 2], [String; 2]) {
    let upstreams = ["one", "two"].map(Upstream::saying);
    let texts = upstreams.each_ref().map(|upstream| {
        let service = format!("s: {{ endpoints: [ \"{}\" ] }}", upstream.url());
        plan("web: { address: \"127.0.0.1:0\" }", "{ to: s }", &service)
    });
    (upstreams, texts)
}

fn says(proxy: &Proxy) -> String {
    get(proxy.web(), "/").unwrap().text()
}

#[test]
fn a_file_that_is_renamed_into_place_takes_over_and_a_bad_one_is_told_once() {
    let _watchdog = watchdog("a_file_that_is_renamed_into_place_takes_over_and_a_bad_one_is_told_once");
    let (_upstreams, [one, two]) = texts();
    let proxy = Proxy::start_with(&["--watch"], &one);
    let file = proxy.directory().join("thalweg.yaml");
    let write = |text: &str| {
        let new = proxy.directory().join(".thalweg.yaml.new");
        fs::write(&new, text).unwrap();
        let said = proxy.process().stderr().len();
        fs::rename(new, &file).unwrap();
        said
    };
    wait_said(&proxy, write(&two), "thalweg: reloaded ");
    assert_eq!(says(&proxy), "two");
    let said = write("listeners: [");
    wait_said(&proxy, said, "reload refused; the old configuration keeps running");
    // A good one that follows is seen: the bad one was not tried again and again.
    let text = format!("{one}# by hand\n");
    fs::write(&file, &text).unwrap();
    wait_said(&proxy, said, "thalweg: reloaded ");
    assert_eq!(says(&proxy), "one");
    let stderr = proxy.process().stderr();
    assert_eq!(stderr[said..].matches("reload refused").count(), 1, "{stderr}");
    assert!((metric(&proxy, "thalweg_config_reloads_total", "failed") - 1.0).abs() < 0.5);
    assert!((metric(&proxy, "thalweg_config_reloads_total", "ok") - 2.0).abs() < 0.5);
}

/// As Kubernetes exchanges the content of a ConfigMap: the directory that a link on the way points to.
#[test]
fn a_link_that_points_elsewhere_is_a_change() {
    let _watchdog = watchdog("a_link_that_points_elsewhere_is_a_change");
    let (_upstreams, [one, two]) = texts();
    let directory = Directory::new();
    let path = directory.path().to_owned();
    for (name, text) in [("..1", &one), ("..2", &two)] {
        fs::create_dir(path.join(name)).unwrap();
        directory.write(&format!("{name}/real.yaml"), text);
    }
    symlink("..1", path.join("..data")).unwrap();
    symlink("..data/real.yaml", path.join("linked.yaml")).unwrap();
    let proxy = Proxy::start_file(directory, &["--watch"], "linked.yaml");
    assert_eq!(says(&proxy), "one");
    symlink("..2", path.join("..data_tmp")).unwrap();
    let said = proxy.process().stderr().len();
    fs::rename(path.join("..data_tmp"), path.join("..data")).unwrap();
    wait_said(&proxy, said, "thalweg: reloaded ");
    assert_eq!(says(&proxy), "two");
}
