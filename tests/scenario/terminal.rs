//! `top` and `tap` in a real terminal.

use std::fs;

use thalweg_tests::message::get;
use thalweg_tests::process::Signal;
use thalweg_tests::program::run;
use thalweg_tests::proxy::command;
use thalweg_tests::tmux::Tmux;
use thalweg_tests::{Admin, Directory, Load, Proxy, STEP, Upstream, binary};

use super::{config, watchdog};

fn proxy(upstream: &Upstream) -> Proxy {
    Proxy::start(&config(&[&upstream.url()], "").replace("{ to: s }", "{ name: shop, to: s }"))
}

/// The verb as a line of the shell, which tells its exit code and goes on.
fn line(proxy: &Proxy, verb: &str) -> String {
    let socket = proxy.directory().join("run/thalweg/admin.sock");
    format!(
        "export THALWEG_ADMIN_SOCKET={}; echo before; {} {verb}; echo \"code $?\"; exec cat",
        socket.display(),
        binary::path().display(),
    )
}

#[test]
fn top_shows_rates_follows_keys_and_gives_the_terminal_back() {
    let _watchdog = watchdog("top_shows_rates_follows_keys_and_gives_the_terminal_back");
    let upstream = Upstream::saying("ok");
    let proxy = proxy(&upstream);
    let verb = line(&proxy, "top --interval 200ms");
    let Some(pane) = Tmux::start(proxy.directory(), (100, 20), &verb) else { return };
    let load = Load::start(proxy.web(), 2);
    let is_busy = |screen: &str| {
        let row = screen.lines().find(|line| line.starts_with("shop ")).unwrap_or_default();
        row.split_whitespace().nth(1).is_some_and(|rate| !matches!(rate, "-" | "0"))
    };
    let screen = pane.wait("a busy route", STEP, is_busy);
    assert!(screen.contains("ROUTE") && screen.contains("q end") && !screen.contains("before"), "{screen}");
    pane.press(&["3"]);
    pane.wait("the endpoint", STEP, |screen| screen.contains(&upstream.url()) && screen.contains("ready"));
    pane.press(&["/", "n", "o", "n", "e"]);
    pane.wait("the filter", STEP, |screen| screen.contains("/none_") && screen.contains("nothing has this"));
    pane.press(&["Escape"]);
    pane.wait("no filter", STEP, |screen| !screen.contains("/none"));
    pane.press(&["4"]);
    pane.wait("the listener", STEP, |screen| screen.contains(&proxy.web().to_string()));
    pane.resize((40, 8));
    pane.wait("less", STEP, |screen| screen.contains("LISTENER") && !screen.contains("TOTAL"));
    pane.press(&["q"]);
    let screen = pane.wait("the shell", STEP, |screen| screen.contains("code 0"));
    assert!(screen.contains("before") && !screen.contains("LISTENER"), "{screen}");
    load.stop();
}

#[test]
fn top_gives_the_terminal_back_when_a_signal_ends_it_and_has_no_colors_where_none_are_wanted() {
    let _watchdog =
        watchdog("top_gives_the_terminal_back_when_a_signal_ends_it_and_has_no_colors_where_none_are_wanted");
    let upstream = Upstream::start(|_| Some(b"HTTP/1.1 503 no\r\nContent-Length: 0\r\n\r\n".to_vec()));
    let proxy = proxy(&upstream);
    let program = binary::path().display().to_string();
    let verb = line(&proxy, "top --interval 200ms").replace("export", "export NO_COLOR=1; export");
    let own = format!("sh -c 'echo $$ > pid; exec {program} top --interval 200ms'");
    let verb = verb.replace(&format!("{program} top --interval 200ms"), &own);
    let Some(pane) = Tmux::start(proxy.directory(), (100, 20), &verb) else { return };
    let load = Load::start(proxy.web(), 1);
    pane.wait("failures", STEP, |screen| {
        screen.lines().any(|line| line.starts_with("shop ") && line.contains("100%"))
    });
    let styled = pane.screen(true);
    assert!(!styled.contains("\u{1b}[31m") && !styled.contains("\u{1b}[33m"), "{styled:?}");
    load.stop();
    let pid: i32 = fs::read_to_string(proxy.directory().join("pid")).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    let screen = pane.wait("the shell", STEP, |screen| screen.contains("code 0"));
    assert!(screen.contains("before") && !screen.contains("ROUTE"), "{screen}");
}

#[test]
fn tap_prints_lines_into_a_terminal_until_it_is_interrupted() {
    let _watchdog = watchdog("tap_prints_lines_into_a_terminal_until_it_is_interrupted");
    let upstream = Upstream::saying("ok");
    let proxy = proxy(&upstream);
    let verb = line(&proxy, "tap --where 'path~/seen'");
    let Some(pane) = Tmux::start(proxy.directory(), (150, 20), &verb) else { return };
    pane.wait("the tap", STEP, |screen| screen.contains("watching"));
    Admin::of(&proxy).get("/api/v1/requests?limit=1");
    get(proxy.web(), "/unseen-at-first?a=1").unwrap();
    get(proxy.web(), "/seen/?token=hidden").unwrap();
    let screen = pane.wait("the exchange", STEP, |screen| screen.contains("/seen/"));
    assert!(
        screen.contains(" 200 ") && screen.contains("shop > s") && !screen.contains("hidden"),
        "{screen}"
    );
    pane.press(&["C-c"]);
    pane.wait("its end", STEP, |screen| screen.contains("code 0"));
}

#[test]
fn top_without_a_terminal_or_a_proxy_says_so_and_takes_no_screen() {
    let _watchdog = watchdog("top_without_a_terminal_or_a_proxy_says_so_and_takes_no_screen");
    let upstream = Upstream::saying("ok");
    let proxy = proxy(&upstream);
    let blind = run(command(proxy.directory()).arg("top"), STEP);
    assert_eq!((blind.code, blind.stdout.as_str()), (1, ""));
    assert!(
        blind.stderr.contains("top needs a terminal") && blind.stderr.contains("thalweg status --json"),
        "{}",
        blind.stderr
    );
    let directory = Directory::new();
    let verb = format!(
        "{} top --admin unix:{}/none.sock; echo \"code $?\"; exec cat",
        binary::path().display(),
        directory.path().display()
    );
    let Some(pane) = Tmux::start(directory.path(), (100, 20), &verb) else { return };
    let screen = pane.wait("why", STEP, |screen| screen.contains("code 1"));
    assert!(screen.contains("no thalweg answers at"), "{screen}");
}
