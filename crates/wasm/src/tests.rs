//! Modules of this repository's tests (`tests/wasm`), called without a proxy.

use crate::{
    Allowed, CallResponse, Context, Edit, Failure, Head, Level, Limits, Line, Plugin, Rule, Setup, Step,
    Stream,
};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

mod hostile;

const RULE: Rule = |_, _, _| Allowed::Yes;
const MEMORY: usize = 4 * 1024 * 1024;

fn wasm(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// Each test has plugins of its own: those with the same setup are shared.
fn setup(name: &str) -> Setup {
    Setup {
        name: name.into(),
        root_id: "root".into(),
        config: b"a text".to_vec(),
        services: vec!["judge".into()],
        max_body: 1024,
        limits: Limits { fuel: 1_000_000, memory: MEMORY },
    }
}

fn plugin(name: &str, text: &str) -> Arc<Plugin> {
    Plugin::load(&wasm(text), setup(name), RULE).unwrap()
}

fn stream(fields: &[(&str, &str)]) -> Stream {
    let fields = [(":path", "/a")].iter().chain(fields);
    let head = Head::new(fields.map(|(name, value)| ((*name).into(), (*value).into())));
    Stream::new(head, vec![("request.path", b"/a?b".to_vec())])
}

fn open(plugin: &Arc<Plugin>, fields: &[(&str, &str)]) -> Context {
    Context::open(plugin, stream(fields), false).unwrap()
}

fn add(name: &str, value: &str) -> Edit {
    Edit::Add(name.into(), value.into())
}

fn lines(plugin: &Plugin) -> Vec<Line> {
    let context = TaskContext::from_waker(Waker::noop());
    let mut lines = Vec::new();
    while let Poll::Ready(line) = plugin.poll_line(&context) {
        lines.push(line);
    }
    lines
}

#[test]
fn a_module_adds_fields_on_both_sides() {
    let plugin = plugin("adds", include_str!("../../../examples/wasm/add_header.wat"));
    let context = open(&plugin, &[]);
    assert!(matches!(context.request_headers(true), Ok(Step::Continue)));
    assert_eq!(context.take_request_edits().unwrap(), [add("x-wasm", "hello")]);
    assert!(matches!(context.response_headers(Head::new([]), true), Ok(Step::Continue)));
    assert_eq!(context.take_response_edits().unwrap(), [add("x-wasm-seen", "hello")]);
}

#[test]
fn a_module_answers_in_place_of_the_service() {
    let plugin = plugin("denies", include_str!("../../../tests/wasm/deny.wat"));
    let Ok(Step::Respond(local)) = open(&plugin, &[]).request_headers(true) else { panic!("it passes") };
    assert_eq!((local.status, local.details.as_str()), (403, "no token"));
    assert_eq!(
        (local.fields, local.body),
        (vec![(b"x-denied".to_vec(), b"yes".to_vec())], b"go away\n".to_vec())
    );
    let context = open(&plugin, &[("X-Token", "secret")]);
    assert!(matches!(context.request_headers(true), Ok(Step::Continue)));
    let context = open(&plugin, &[("X-Token", "secreT")]);
    assert!(matches!(context.request_headers(true), Ok(Step::Respond(_))));
}

#[test]
fn a_module_reads_its_configuration_and_properties_and_shares_values() {
    let text = include_str!("../../../tests/wasm/tell.wat");
    let plugin = plugin("tells", text);
    for count in ["1", "2", "3"] {
        let context = open(&plugin, &[]);
        assert!(matches!(context.request_headers(true), Ok(Step::Continue)));
        let expected = [add("x-config", "a text"), add("x-path", "/a?b"), add("x-count", count)];
        assert_eq!(context.take_request_edits().unwrap(), expected);
    }
    let line = Line { level: Level::Info, text: "it has a request".into() };
    assert_eq!(lines(&plugin), [line.clone(), line.clone(), line]);
    // In a dry run nothing is kept, and nothing is said.
    let context = Context::open(&plugin, stream(&[]), true).unwrap();
    assert!(matches!(context.request_headers(true), Ok(Step::Continue)));
    let context = open(&plugin, &[]);
    assert!(matches!(context.request_headers(true), Ok(Step::Continue)));
    assert_eq!(context.take_request_edits().unwrap().last(), Some(&add("x-count", "4")));
    assert_eq!(lines(&plugin).len(), 1);
    // Another thread has another instance, and the same values.
    let of_thread = std::thread::spawn(move || {
        let context = open(&plugin, &[]);
        assert!(matches!(context.request_headers(true), Ok(Step::Continue)));
        context.take_request_edits().unwrap()
    });
    assert_eq!(of_thread.join().unwrap().last(), Some(&add("x-count", "5")));
    let refused = Setup { config: b"!".to_vec(), ..setup("tells") };
    assert_eq!(Plugin::load(&wasm(text), refused, RULE).unwrap_err(), "the module refuses its `config`");
}

fn failure(context: &Context) -> String {
    context.request_headers(true).unwrap_err().to_string()
}

#[test]
fn a_module_that_fails_loses_its_instance_and_the_next_one_is_well() {
    let plugin = plugin("fails", include_str!("../../../tests/wasm/fail.wat"));
    for (how, expected) in [
        ("loop", "the module has used up its fuel"),
        (
            "memory",
            "`unreachable` instruction executed, after it was refused more memory than `memory` allows",
        ),
        ("trap", "wasm `unreachable` instruction executed"),
        ("exit", "the module has ended itself with the status 3"),
    ] {
        let beside = open(&plugin, &[]);
        let told = failure(&open(&plugin, &[("x-fail", how)]));
        assert!(told.contains(expected), "{how}: {told}");
        // What was in the same instance is lost with it.
        assert_eq!(failure(&beside), "the module has failed in another exchange meanwhile");
        assert_eq!(beside.take_request_edits().ok(), None);
        let context = open(&plugin, &[]);
        assert!(matches!(context.request_headers(true), Ok(Step::Continue)), "{how}");
        assert_eq!(context.take_request_edits().unwrap(), [add("x-well", "1")]);
    }
    assert_eq!(lines(&plugin).len(), 1, "of many failures one is told in a while");
    assert!(matches!(open(&plugin, &[("x-fail", "pause")]).request_headers(true), Ok(Step::Paused)));
    let context = open(&plugin, &[("x-fail-response", "loop")]);
    assert!(matches!(context.request_headers(true), Ok(Step::Continue)));
    assert!(context.response_headers(Head::new([]), true).is_err());
}

#[test]
fn a_module_that_fails_again_and_again_is_not_started_each_time() {
    let plugin = plugin("again", include_str!("../../../tests/wasm/fail.wat"));
    let told: Vec<Failure> = (0..100)
        .map(|_| match Context::open(&plugin, stream(&[("x-fail", "trap")]), false) {
            Ok(context) => context.request_headers(true).unwrap_err(),
            Err(failure) => failure,
        })
        .collect();
    let refused = told.iter().filter(|failure| failure.to_string().contains("failed too often")).count();
    // On a slow machine the second may pass in between.
    assert!((1..=92).contains(&refused), "{refused}");
}

#[test]
fn bodies_are_changed() {
    let plugin = plugin("bodies", include_str!("../../../tests/wasm/bodies.wat"));
    assert!(plugin.reads_request_bodies() && plugin.reads_response_bodies() && !plugin.reads_properties());
    let context = open(&plugin, &[("content-length", "5")]);
    assert!(matches!(context.request_headers(false), Ok(Step::Continue)));
    assert!(matches!(context.request_body(b"hello".to_vec()), Ok(Step::Continue)));
    assert_eq!(context.take_request_body().as_deref(), Some(&b"seen: hello"[..]));
    assert_eq!(context.response_body(b"one ", false).unwrap(), b"");
    assert_eq!(context.response_body(b"two", false).unwrap(), b"");
    assert_eq!(context.response_body(b"", true).unwrap(), b"one two!");
    // It may not keep back more than its bound.
    let context = open(&plugin, &[]);
    assert!(matches!(context.request_headers(true), Ok(Step::Continue)));
    assert_eq!(context.response_body(&[b'x'; 1024], false).unwrap(), b"");
    assert!(context.response_body(b"y", false).is_err());
}

#[test]
fn a_module_asks_a_service_and_decides_by_its_answer() {
    let text = include_str!("../../../tests/wasm/call.wat");
    let plugin = plugin("asks", text);
    for (answer, passes) in [(Some("200"), true), (Some("403"), false), (None, false)] {
        let context = open(&plugin, &[]);
        let Ok(Step::Call(call)) = context.request_headers(true) else { panic!("it asks nobody") };
        assert_eq!((call.service.as_str(), call.timeout_ms, call.fields.len()), ("judge", 1000, 3));
        let step = context.answer(call.id, answer.map_or_else(CallResponse::default, status));
        assert_eq!(matches!(step, Ok(Step::Continue)), passes, "{step:?}");
        assert_eq!(matches!(&step, Ok(Step::Respond(local)) if local.status == 401), !passes);
    }
    let other = Plugin::load(&wasm(text), Setup { services: Vec::new(), ..setup("asks") }, RULE).unwrap();
    assert!(matches!(open(&other, &[]).request_headers(true), Ok(Step::Continue)));
    assert!(lines(&other)[0].text.contains("calls `judge`, which is not among its `services`"));
}

/// What a service answers with this status.
fn status(status: &str) -> CallResponse {
    CallResponse { fields: vec![(b":status".to_vec(), status.into())], body: Vec::new() }
}

#[test]
fn a_module_asks_services_when_the_response_comes_and_again_when_they_have_answered() {
    let plugin = plugin("late", include_str!("../../../tests/wasm/late.wat"));
    for (answers, judged) in [(["200", "404", "200"].map(Some), "3"), ([None, Some("200"), None], "1")] {
        let context = open(&plugin, &[]);
        assert!(matches!(context.request_headers(true), Ok(Step::Continue)));
        let mut step = context.response_headers(Head::new([]), true);
        for answer in answers {
            let Ok(Step::Call(call)) = step else { panic!("it asks nobody: {step:?}") };
            assert_eq!(call.service, "judge");
            step = context.answer(call.id, answer.map_or_else(CallResponse::default, status));
        }
        assert!(matches!(step, Ok(Step::Continue)), "{step:?}");
        assert_eq!(context.take_response_edits().unwrap(), [add("x-judged", judged)]);
    }
}

/// What the module says of the calls of its root context.
fn root_told(context: &Context) -> Vec<Edit> {
    assert!(matches!(context.request_headers(true), Ok(Step::Continue)));
    context.take_request_edits().unwrap()
}

#[test]
fn a_call_of_the_root_context_is_made_with_the_next_request() {
    let text = include_str!("../../../tests/wasm/root.wat");
    let plugin = plugin("root", text);
    let dry = Context::open(&plugin, stream(&[]), true).unwrap();
    assert!(dry.root_call().is_none());
    let context = open(&plugin, &[]);
    assert_eq!(context.root_call().unwrap().service, "judge");
    // Others do not wait for it.
    let other = open(&plugin, &[]);
    assert!(other.root_call().is_none());
    assert_eq!(root_told(&other), [add("x-root", "00")]);
    context.answer_root(status("200")).unwrap();
    assert!(context.root_call().is_none());
    assert_eq!(root_told(&context), [add("x-root", "10")]);
    assert_eq!(root_told(&open(&plugin, &[])), [add("x-root", "10")]);
}

#[test]
fn a_call_of_the_root_context_whose_exchange_ends_has_no_answer() {
    let plugin = plugin("root-ends", include_str!("../../../tests/wasm/root.wat"));
    let context = open(&plugin, &[]);
    assert!(context.root_call().is_some());
    drop(context);
    assert_eq!(root_told(&open(&plugin, &[])), [add("x-root", "01")]);
}

#[test]
fn a_call_of_a_tick_is_made_with_the_request_that_brings_it() {
    let text = include_str!("../../../tests/wasm/root.wat").replace("proxy_on_configure", "proxy_on_tick");
    let plugin = plugin("root-ticks", &text);
    let began = std::time::Instant::now();
    // It is due a millisecond after the start.
    let context = loop {
        let context = open(&plugin, &[]);
        if context.root_call().is_some() {
            break context;
        }
        assert!(began.elapsed().as_secs() < 5, "no tick");
    };
    context.answer_root(status("200")).unwrap();
    assert_eq!(root_told(&context), [add("x-root", "10")]);
}

#[test]
fn a_field_that_belongs_to_the_proxy_is_changed_for_the_module_alone() {
    let rule: Rule = |_, name, _| match name {
        b"content-length" => Allowed::WithoutEffect,
        _ => Allowed::Yes,
    };
    let text = include_str!("../../../tests/wasm/length.wat");
    let plugin = Plugin::load(&wasm(text), setup("length"), rule).unwrap();
    let context = open(&plugin, &[("Content-Length", "12")]);
    assert!(matches!(context.request_headers(false), Ok(Step::Continue)));
    assert_eq!(context.take_request_edits().unwrap(), [add("x-length", "12")]);
    let head = Head::new([(b"content-length".to_vec(), b"34".to_vec())]);
    assert!(matches!(context.response_headers(head, false), Ok(Step::Continue)));
    assert_eq!(context.take_response_edits().unwrap(), [add("x-length", "34")]);
    let context = open(&plugin, &[]);
    assert!(matches!(context.request_headers(false), Ok(Step::Continue)));
    assert_eq!(context.take_request_edits().unwrap(), []);
}

#[test]
fn an_older_module_that_is_a_program_of_wasi_runs() {
    let plugin = plugin("older", include_str!("../../../tests/wasm/older.wat"));
    let context = open(&plugin, &[]);
    assert!(matches!(context.request_headers(true), Ok(Step::Continue)));
    assert_eq!(context.take_request_edits().unwrap(), [add("x-older", "yes")]);
    assert_eq!(lines(&plugin), [Line { level: Level::Info, text: "it begins".into() }]);
}

#[test]
fn a_module_in_use_is_compiled_once() {
    let text = include_str!("../../../tests/wasm/deny.wat");
    let first = plugin("once", text);
    assert!(Arc::ptr_eq(&first, &plugin("once", text)));
    assert!(!Arc::ptr_eq(&first, &plugin("twice", text)));
}

#[test]
fn what_is_no_module_of_the_abi_is_refused_in_words() {
    let version = "(func (export \"proxy_abi_version_0_2_1\"))";
    for (text, expected) in [
        ("(module)".to_owned(), "exports none of `proxy_abi_version_0_2_1`"),
        (format!("(module (import \"env\" \"other\" (func)) {version})"), "imports `other` of `env`"),
        (format!("(module (import \"env\" \"proxy_log\" (global i32)) {version})"), "which is no function"),
        (
            format!("(module {version} (func (export \"proxy_on_tick\") (param i64)))"),
            "exports `proxy_on_tick`",
        ),
        (format!("(module {version} (memory 100))"), "memory"),
        (format!("(module {version} (func $f (loop (br 0))) (start $f))"), "used up its fuel"),
        (
            format!(
                "(module {version} (func (export \"proxy_on_vm_start\") (param i32 i32) (result i32) (i32.const 0)))"
            ),
            "`proxy_on_vm_start`",
        ),
    ] {
        let error = Plugin::load(&wasm(&text), setup("none"), RULE).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(Plugin::load(b"(module)", setup("none"), RULE).unwrap_err().contains("binary form"));
    assert!(Plugin::load(b"\0asm\x01\0\0\0\xff", setup("none"), RULE).is_err());
}

/// Fuel is taken for what the host copies, and for memory that is filled at once: a call ends in time whatever it does.
#[test]
fn work_of_the_host_costs_fuel() {
    let begin = "(module (func (export \"proxy_abi_version_0_2_1\")) (memory (export \"memory\") 16)";
    let callback =
        "(func (export \"proxy_on_request_headers\") (param i32 i32 i32) (result i32) (loop $again";
    for (name, import, work) in [
        ("fill", "", "(memory.fill (i32.const 0) (i32.const 1) (i32.const 1000000))"),
        ("grow", "", "(drop (memory.grow (i32.const 0)))"),
        (
            "log",
            "(import \"env\" \"proxy_log\" (func $log (param i32 i32 i32) (result i32)))",
            "(drop (call $log (i32.const 0) (i32.const 0) (i32.const 900000)))",
        ),
    ] {
        let text = format!(
            "{} {import} {} {callback} {work} (br $again)) (i32.const 0)))",
            &begin[..7],
            &begin[7..]
        );
        let plugin = plugin(name, &text);
        let began = std::time::Instant::now();
        assert_eq!(failure(&open(&plugin, &[])), "the module has used up its fuel", "{name}");
        assert!(began.elapsed().as_secs() < 5, "{name}: {:?}", began.elapsed());
    }
}
