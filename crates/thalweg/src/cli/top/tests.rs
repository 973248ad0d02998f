//! What is seen on terminals of several sizes, and what keys do.

use super::rows::View;
use super::sample::Sample;
use super::state::Top;
use super::view::draw;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use serde_json::json;
use std::time::{Duration, Instant};

/// A proxy that has served so many requests per route after so many seconds.
fn sample(start: Instant, seconds: u64) -> Sample {
    let status = json!({ "version": "0.1.0", "pid": 7, "uptime_seconds": 60 + seconds, "state": "running",
        "requests_active": 3, "connections": { "active": 12, "max": 100 },
        "listeners": [ { "name": "web", "address": "127.0.0.1:8080", "protocol": "http" } ] });
    let endpoint = |port: u64, state: &str, per_second: u64| {
        json!({ "url": format!("http://10.0.0.{port}:80"), "state": state, "weight": 1, "requests_active": port,
            "requests_total": seconds * per_second, "failures_total": if state == "ready" { 0 } else { seconds * per_second },
            "cause": if state == "ready" { json!(null) } else { json!("connection refused\u{1b}[2J") } })
    };
    let services = json!({ "services": [
        { "name": "shop", "state": "degraded", "requests_active": 3, "queued": 1,
          "endpoints": [ endpoint(1, "ready", 90), endpoint(2, "unhealthy", 10) ] },
        { "name": "idle", "state": "up", "requests_active": 0, "queued": 0, "endpoints": [] },
    ] });
    let (good, bad) = (seconds * 90, seconds * 10);
    let page = format!(
        "thalweg_connections_total{{listener=\"web\"}} {}\nthalweg_connections_active{{listener=\"web\"}} 12\n\
         thalweg_connections_refused_total{{listener=\"web\"}} 0\n\
         thalweg_requests_total{{route=\"shop\",code=\"200\"}} {good}\n\
         thalweg_requests_total{{route=\"shop\",code=\"503\"}} {bad}\n\
         thalweg_requests_total{{route=\"archive\",code=\"404\"}} 5\n\
         thalweg_request_duration_seconds_bucket{{route=\"shop\",le=\"0.01\"}} {good}\n\
         thalweg_request_duration_seconds_bucket{{route=\"shop\",le=\"0.1\"}} {all}\n\
         thalweg_request_duration_seconds_bucket{{route=\"shop\",le=\"+Inf\"}} {all}\n\
         thalweg_response_bytes_total{{route=\"shop\"}} {}\n",
        seconds * 2,
        seconds * 2048,
        all = good + bad,
    );
    Sample::of(start + Duration::from_secs(seconds), &status, &services, &page)
}

fn top() -> Top {
    let (mut top, start) = (Top::new(true), Instant::now());
    top.sampled(Ok(sample(start, 10)));
    top.sampled(Ok(sample(start, 12)));
    top
}

/// The lines of the screen, without the space at their ends.
fn screen(top: &Top, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(top, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn press(top: &mut Top, keys: &str) {
    keys.chars().for_each(|c| top.handle(KeyEvent::from(KeyCode::Char(c))));
}

#[test]
fn routes_are_shown_with_rates_between_two_samples_the_busiest_first() {
    let lines = screen(&top(), 100, 8);
    assert!(
        lines[0].starts_with("100 req/s  10% 5xx  3 in flight  12/100 connections  running  up 1m12s"),
        "{lines:#?}"
    );
    assert_eq!(lines[1], " 1 routes  2 services  3 endpoints  4 connections   2");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        words(&lines[2]),
        ["ROUTE", "REQ/S\u{25be}", "5XX", "4XX", "P50", "P99", "IN/S", "OUT/S", "TOTAL"]
    );
    assert_eq!(words(&lines[3]), ["shop", "100", "10%", "0%", "5.6ms", "91.0ms", "0B", "2.0KiB", "1200"]);
    assert_eq!(words(&lines[4]), ["archive", "0", "0%", "0%", "-", "-", "0B", "0B", "5"]);
    assert!(lines[7].starts_with("q end  1-4 Tab view"), "{lines:#?}");
}

#[test]
fn each_view_has_its_rows_and_nothing_of_the_network_reaches_the_terminal() {
    let mut top = top();
    press(&mut top, "2");
    let lines = screen(&top, 100, 8);
    assert!(
        lines[3].starts_with("shop") && lines[3].contains("degraded") && lines[3].ends_with("1/2"),
        "{lines:#?}"
    );
    press(&mut top, "3");
    let lines = screen(&top, 130, 8);
    assert!(
        lines[3].starts_with("http://10.0.0.1:80") && lines[4].starts_with("http://10.0.0.2:80"),
        "{lines:#?}"
    );
    assert!(lines[4].contains("unhealthy") && lines[4].contains("100%"), "{lines:#?}");
    assert!(lines[4].contains("connection refused\u{fffd}[2J"), "{lines:#?}");
    press(&mut top, "4");
    let lines = screen(&top, 100, 8);
    assert!(lines[3].starts_with("web") && lines[3].contains("127.0.0.1:8080"), "{lines:#?}");
    top.handle(KeyEvent::from(KeyCode::Tab));
    assert_eq!(top.view, View::Routes);
    top.handle(KeyEvent::from(KeyCode::BackTab));
    assert_eq!(top.view, View::Connections);
}

#[test]
fn small_terminals_keep_what_matters_most() {
    let top = top();
    let lines = screen(&top, 40, 6);
    let titles: Vec<_> = lines[2].split_whitespace().collect();
    assert_eq!(titles, ["ROUTE", "REQ/S\u{25be}", "5XX", "P99"]);
    assert_eq!(screen(&top, 24, 6)[2].split_whitespace().collect::<Vec<_>>(), ["ROUTE", "REQ/S\u{25be}"]);
    assert_eq!(screen(&top, 23, 6)[0], "too small; q ends");
    for (width, height) in [(1, 1), (24, 6), (80, 24), (300, 100)] {
        screen(&top, width, height);
    }
}

#[test]
fn rows_are_sorted_by_any_column_in_both_directions() {
    let mut top = top();
    let names = |top: &Top| top.rows().iter().map(|row| row.cells[0].shown()).collect::<Vec<_>>();
    top.handle(KeyEvent::from(KeyCode::Left));
    assert_eq!((top.sorting().column, names(&top)), (0, vec!["archive".into(), "shop".into()]));
    press(&mut top, "r");
    assert_eq!(names(&top), ["shop", "archive"]);
    (0..View::Routes.columns().len()).for_each(|_| top.handle(KeyEvent::from(KeyCode::Right)));
    assert_eq!(top.sorting().column, 0);
    // Each view has an order of its own.
    press(&mut top, "2");
    assert_eq!(top.view.columns()[top.sorting().column].title, "REQ/S");
}

#[test]
fn a_filter_finds_parts_of_names_while_it_is_typed() {
    let mut top = top();
    press(&mut top, "/ARCq1");
    assert!(top.is_typing && top.rows().is_empty() && !top.has_ended());
    (0..2).for_each(|_| top.handle(KeyEvent::from(KeyCode::Backspace)));
    top.handle(KeyEvent::from(KeyCode::Enter));
    assert_eq!((top.rows().len(), top.is_typing), (1, false));
    assert!(screen(&top, 80, 8)[1].ends_with("1  /ARC"));
    top.handle(KeyEvent::from(KeyCode::Esc));
    assert_eq!(top.rows().len(), 2);
}

#[test]
fn while_paused_nothing_changes_and_errors_are_told_until_there_is_an_answer() {
    let mut top = top();
    let before = screen(&top, 80, 8);
    press(&mut top, "p");
    top.sampled(Ok(sample(Instant::now(), 100)));
    let paused = screen(&top, 80, 8);
    assert!(paused[1].ends_with("paused") && paused[3] == before[3], "{paused:#?}");
    press(&mut top, " ");
    top.sampled(Err("no thalweg answers\n  help: start it".into()));
    assert_eq!(screen(&top, 80, 8)[0], "no answer: no thalweg answers");
    top.sampled(Ok(sample(Instant::now(), 13)));
    assert!(!screen(&top, 80, 8)[0].contains("no answer"));
}

#[test]
fn one_sample_alone_and_a_proxy_that_began_anew_have_no_rates() {
    let (mut top, start) = (Top::new(true), Instant::now());
    assert_eq!(screen(&top, 80, 8)[0], "thalweg");
    top.sampled(Ok(sample(start, 10)));
    assert!(screen(&top, 80, 8)[0].starts_with("- req/s  - 5xx"));
    let mut anew = sample(start, 12);
    anew.process.pid = 8;
    top.sampled(Ok(anew));
    assert!(screen(&top, 80, 8)[0].starts_with("- req/s  - 5xx"));
}

#[test]
fn without_colors_nothing_is_colored_and_what_is_bad_is_seen_all_the_same() {
    for has_colors in [true, false] {
        let mut top = top();
        top.has_colors = has_colors;
        let mut terminal = Terminal::new(TestBackend::new(80, 8)).unwrap();
        terminal.draw(|frame| draw(&top, frame)).unwrap();
        let cells = terminal.backend().buffer().content();
        let is_colored = cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(is_colored, has_colors);
        let row = &terminal.backend().buffer()[(0, 3)];
        assert!(row.fg == Color::Red || row.modifier.contains(Modifier::BOLD));
    }
}

#[test]
fn scrolling_ends_at_the_last_page() {
    let (mut top, start) = (Top::new(true), Instant::now());
    let mut many = sample(start, 1);
    (0..50).for_each(|at| drop(many.routes.insert(format!("r{at:02}"), Default::default())));
    top.sampled(Ok(many));
    screen(&top, 80, 14);
    top.handle(KeyEvent::from(KeyCode::End));
    assert_eq!(top.first, 42);
    let last = screen(&top, 80, 14);
    assert!(last[12].starts_with("shop") || last[12].starts_with('r'), "{last:#?}");
    top.handle(KeyEvent::from(KeyCode::PageUp));
    assert_eq!(top.first, 32);
    top.handle(KeyEvent::from(KeyCode::Home));
    top.handle(KeyEvent::from(KeyCode::Down));
    assert_eq!(top.first, 1);
}

#[test]
fn q_and_control_c_end_it() {
    for key in [KeyEvent::from(KeyCode::Char('q')), KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)]
    {
        let mut top = top();
        top.handle(key);
        assert!(top.has_ended());
    }
}
