//! No message quotes a secret: neither its text nor the source line beside it.

use thalweg_config::{Look, check_text};

const REST: &str =
    "listeners: { web: { address: \":8080\" } }\nroutes: [ { to: [ \"http://127.0.0.1:9001\" ] } ]\n";

/// Everything that is said of a file, rendered and in lines.
fn said(name: &str, text: &str) -> String {
    let environment = |name: &str| (name == "PASSWORD").then(|| "hunter2".to_owned());
    let report = match check_text(name, text, &environment) {
        Ok(loaded) => loaded.warnings,
        Err(report) => report,
    };
    report.render(Look::Plain) + &report.lines()
}

#[test]
fn no_message_shows_a_secret() {
    for text in [
        // A value of the wrong shape, a key that is not known, one that is misspelt, and keys beside it.
        "admin: { address: \"127.0.0.1:9900\", token: hunter2 }",
        "admin: { address: \"127.0.0.1:9900\", token: { valu: hunter2 } }",
        "admin: { address: \"127.0.0.1:9900\", tokn: hunter2 }",
        "admin: { address: \"127.0.0.1:9900\", token: { value: hunter2 }, tokens: 1 }",
        "admin: { address: \"127.0.0.1:9900\", token: [ hunter2 ] }",
        "admin: { address: \"127.0.0.1:9900\", password: hunter2 }",
        "basic_auth: { users: { alice: hunter2 } }",
        "api-key: hunter2",
        "webhooks: [ { url: \"https://a.example.com/?key=hunter2\", evnts: [] } ]",
        "webhooks: [ { url: \"https://u:hunter2@a.example.com/\" } ]",
        "webhooks: [ { url: \"ftp://a.example.com/?key=hunter2\" } ]",
        "webhooks: [ { url: \"https://a.example.com/\", secret: { value: hunter2 }, timeout: 5 } ]",
        // What the environment holds.
        "workers: ${PASSWORD}",
        "webhooks: [ { url: \"${PASSWORD}\" } ]",
        "services: { a: { endpoints: [ \"http://${PASSWORD}/x\" ] } }",
        "services: { a: { endpoints: [ \"http://a\" ], host: \"a ${PASSWORD}\" } }",
        // A text that cannot be read at all.
        "admin: { address: \"127.0.0.1:9900\", token: { value: \"hunter2 }",
        "admin:\n  token: { value: hunter2 }\n token: { value: hunter2",
    ] {
        let said = said("a.yaml", &format!("{text}\n{REST}"));
        assert!(!said.is_empty(), "{text}: nothing is said");
        assert!(!said.contains("hunter2"), "{text}:\n{said}");
    }
    let toml = "[admin]\naddress = \"127.0.0.1:9900\"\ntoken = \"hunter2\ntokn = 1\n";
    assert!(!said("a.toml", toml).contains("hunter2"));
}

/// Two letters are part of many words: they are left out where they are quoted.
#[test]
fn a_secret_of_two_letters_is_not_shown() {
    for text in [
        "admin: { address: \"127.0.0.1:9900\", token: zq }",
        "webhooks: [ { url: \"https://a/\", secret: { value: zq } } ]",
    ] {
        let said = said("a.yaml", &format!("{text}\n{REST}"));
        assert!(!said.is_empty() && !said.contains("zq"), "{text}:\n{said}");
    }
}

/// Names that the user chose are no keys: a service may be called `auth`.
#[test]
fn what_is_no_secret_is_shown() {
    let text = "listeners: { web: { address: \":8080\" } }\nroutes: [ { to: auth } ]\nservices: { auth: { endpoints: [ \"http://a:99999\" ] } }\n";
    assert!(said("a.yaml", text).contains("http://a:99999"));
    let sticky = format!(
        "services: {{ a: {{ endpoints: [ \"http://a\" ], sticky: {{ secure: true, sekure: true }} }} }}\n{REST}"
    );
    assert!(said("a.yaml", &sticky).contains("secure: true, sekure: true"));
}

#[test]
fn paths_are_relative_to_the_file_that_names_them() {
    let folder = std::env::temp_dir().join(format!("thalweg-paths-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("parts")).unwrap();
    std::fs::write(folder.join("parts/token.txt"), "0123456789abcdef0123\n").unwrap();
    std::fs::write(folder.join("parts/admin.yaml"), "admin: { address: \"127.0.0.1:9900\", token: { file: token.txt } }\naccess_log: { path: log/access.log }\n").unwrap();
    let main = folder.join("thalweg.yaml");
    let name = main.to_str().unwrap();
    let text = format!("include: [ parts/admin.yaml ]\n{REST}");
    let loaded = check_text(name, &text, &|_| None).unwrap_or_else(|report| panic!("{report}"));
    assert!(loaded.files.contains(&folder.join("parts/token.txt")), "{:?}", loaded.files);
    let log = format!("{:?}", loaded.settings.access_log);
    assert!(log.contains(folder.join("parts/log/access.log").to_str().unwrap()), "{log}");
    // What is missing is named in full.
    let text = format!("webhooks: [ {{ url: \"https://a/\", secret: {{ file: none.txt }} }} ]\n{REST}");
    let report = check_text(name, &text, &|_| None).unwrap_err().to_string();
    assert!(report.contains(folder.join("none.txt").to_str().unwrap()), "{report}");
    std::fs::remove_dir_all(&folder).unwrap();
}
