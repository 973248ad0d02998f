//! Every recipe of the guide runs as it stands, but for its ports, and answers.

use std::fs;
use std::path::Path;

use thalweg_tests::message::get;
use thalweg_tests::{Directory, Proxy};

use super::watchdog;

/// Titles and files of the page.
fn recipes() -> Vec<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/recipes.md");
    let page = fs::read_to_string(page).unwrap();
    let recipe = |section: &str| {
        let title = section.lines().next().unwrap().to_owned();
        let blocks: Vec<&str> = section.split("```yaml\n").skip(1).collect();
        assert_eq!(blocks.len(), 1, "{title}");
        (title, blocks[0].split("```").next().unwrap().to_owned())
    };
    page.split("\n## ").skip(1).map(recipe).collect()
}

/// Ports of the kernel's choice in place of the written ones.
fn on_free_ports(text: &str) -> String {
    let written = ["8080", "8443", "8432"];
    let forms = written.iter().flat_map(|port| [format!("\":{port}\""), format!("\"127.0.0.1:{port}\"")]);
    forms.fold(text.to_owned(), |text, written| text.replace(&written, "\"127.0.0.1:0\""))
}

#[test]
fn every_recipe_runs_and_answers() {
    let _watchdog = watchdog("every_recipe_runs_and_answers");
    let recipes = recipes();
    assert!(recipes.len() >= 30, "{}", recipes.len());
    for (title, text) in recipes {
        let directory = Directory::new();
        // What recipes serve from the disk.
        fs::create_dir_all(directory.path().join("public")).unwrap();
        directory.write("public/index.html", "<h1>home</h1>");
        directory.write("public/error.html", "<h1>sorry</h1>");
        directory.write("blocked.txt", "192.0.2.0/24\n");
        let keys = format!("acme sha256:{} plan=gold\n", "9f".repeat(32));
        directory.write("keys.txt", &keys);
        let database = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/access/example.mmdb");
        fs::copy(database, directory.path().join("countries.mmdb")).unwrap();
        let text = on_free_ports(&text);
        assert!(
            !text.contains("address: \":") && !text.contains("web: \":"),
            "{title}: a fixed port in\n{text}"
        );
        // No authority of the world is asked by a test.
        let text = text.replace("email: ops", "directory: \"https://127.0.0.1:9/\", email: ops");
        println!("{title}");
        let proxy = Proxy::start_in(directory, &text);
        if text.contains("web:") {
            let status = get(proxy.web(), "/").unwrap_or_else(|error| panic!("{title}: {error}")).status();
            assert!((200..600).contains(&status), "{title}: {status}");
        }
        let ended = proxy.stop();
        assert!(ended.status.success(), "{title}: {}", ended.stderr);
    }
}
