//! Checks of servers: `check`, `option httpchk` and `http-check`.

use super::Importer;
use super::lines::Line;
use super::proxy::Proxy;
use super::service::Server;
use crate::Grade;
use crate::draft::duration;
use crate::yaml::{Map, Value};

impl Importer<'_> {
    pub(super) fn health(&mut self, proxy: &Proxy, servers: &[Server], service: &mut Map) {
        let Some(first) = servers.iter().find(|server| server.is_checked) else { return };
        if servers.iter().any(|server| !server.is_checked) {
            for line in proxy.servers.iter().filter(|line| !line.words.iter().any(|word| word == "check")) {
                self.note(line, Grade::Near, "it is checked as the others are", &proxy.name);
            }
        }
        let mut health = Map::default();
        match proxy.settings.options.get("httpchk").cloned() {
            Some(line) => self.http_check(proxy, &line, &mut health),
            None => {
                health.put("tcp", true);
                for line in proxy.settings.checks.clone() {
                    self.note(&line, Grade::Near, "without `option httpchk` it is not asked", &proxy.name);
                }
            }
        }
        if let Some(port) = first.check_port {
            health.put("port", port);
        }
        let interval = first.check.get("interval").cloned().unwrap_or_else(|| "2s".into());
        health.put("interval", interval);
        if let Some(down) = first.check.get("interval_down") {
            health.put("interval_down", down.clone());
        }
        let number =
            |key: &str, otherwise: u64| first.check.get(key).cloned().unwrap_or(Value::Number(otherwise));
        health.put("unhealthy_after", number("unhealthy_after", 3));
        health.put("healthy_after", number("healthy_after", 2));
        if let Some(time) = proxy.settings.timeouts.get("check").filter(|time| **time >= 10) {
            let most = [
                first.interval("interval").unwrap_or(2000),
                first.interval("interval_down").unwrap_or(u64::MAX),
                60_000,
            ];
            health.put("timeout", duration((*time).min(most.into_iter().min().unwrap_or(1000))));
        }
        if first.is_checked_by_tls && !first.is_tls {
            for line in &proxy.servers {
                self.note(line, Grade::Lost, "checks speak TLS only where requests do", &proxy.name);
            }
        }
        service.put("health", health);
    }

    fn http_check(&mut self, proxy: &Proxy, line: &Line, health: &mut Map) {
        let (mut method, mut path) = ("OPTIONS".to_owned(), "/".to_owned());
        let mut fields = Map::default();
        match line.rest(2) {
            [] => {}
            [only] => path.clone_from(only),
            [first, second, rest @ ..] => {
                method.clone_from(first);
                path.clone_from(second);
                let version = rest.join(" ");
                for field in version.replace("\\r\\n", "\r\n").split("\r\n").skip(1) {
                    if let Some((name, value)) = field.split_once(':') {
                        fields.put(name.trim(), value.trim());
                    }
                }
            }
        }
        let mut is_expected = false;
        for check in proxy.settings.checks.clone() {
            match check.word(1) {
                "send" => {
                    if let Some(said) = check.behind("meth") {
                        said.clone_into(&mut method);
                    }
                    if let Some(said) = check.behind("uri") {
                        said.clone_into(&mut path);
                    }
                    for (at, _) in check.words.iter().enumerate().filter(|(_, word)| *word == "hdr") {
                        fields.put(check.word(at + 1), check.word(at + 2));
                    }
                    if check.behind("body").is_some() {
                        self.note(&check, Grade::Lost, "checks have no body", &proxy.name);
                    }
                }
                "expect" => {
                    is_expected = true;
                    self.expectation(proxy, &check, health);
                }
                "disable-on-404" => self.note(&check, Grade::Near, "404 is a failure", &proxy.name),
                _ => self.note(&check, Grade::Lost, "checks are one request with one answer", &proxy.name),
            }
        }
        if !is_expected {
            health.put("expect", vec!["200-399"]);
        }
        health.put("method", method);
        health.put("path", path);
        if !fields.is_empty() {
            health.put("headers", fields);
        }
    }

    fn expectation(&mut self, proxy: &Proxy, check: &Line, health: &mut Map) {
        let words: Vec<&str> = check.rest(2).iter().map(String::as_str).collect();
        match words.as_slice() {
            ["status", status] => {
                let list: Vec<String> = status.split(',').map(str::to_owned).collect();
                health.put("expect", list);
            }
            ["rstatus", regex] => {
                let bare = regex.trim_start_matches('^').trim_matches(|letter| matches!(letter, '(' | ')'));
                let classes: Option<Vec<String>> = bare
                    .split('|')
                    .flat_map(|part| match part.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                        Some((digits, _)) => {
                            digits.chars().filter(char::is_ascii_digit).map(|it| it.to_string()).collect()
                        }
                        None => vec![part.chars().take(1).collect::<String>()],
                    })
                    .map(|digit| {
                        digit.parse::<u8>().ok().filter(|it| (1..6).contains(it)).map(|it| format!("{it}xx"))
                    })
                    .collect();
                let is_class = bare.split('|').all(|part| {
                    part.len() == 1
                        || part.ends_with("..")
                        || part.starts_with('[')
                        || part.ends_with("[0-9][0-9]")
                });
                match classes.filter(|_| is_class) {
                    Some(classes) => health.put("expect", classes),
                    None => {
                        health.put("expect", vec!["200-399"]);
                        self.note(check, Grade::Near, "statuses from 200 to 399 pass", &proxy.name);
                    }
                }
            }
            ["string", text @ ..] => health.put("body", crate::pattern::escaped(&text.join(" "))),
            ["rstring", regex @ ..] => health.put("body", regex.join(" ")),
            _ => {
                health.put("expect", vec!["200-399"]);
                self.note(check, Grade::Lost, "statuses from 200 to 399 pass", &proxy.name);
            }
        }
    }
}
