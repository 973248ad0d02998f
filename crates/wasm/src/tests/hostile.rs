//! Modules that mean harm, or are broken: whatever they do ends in time, and within their memory.

use super::*;
use crate::HttpCall;
use crate::instance::{CALLBACKS, Callback};
use std::time::{Duration, Instant};

/// What a callback does, and how its end is told.
const DEEDS: [(&str, &str); 3] = [
    ("(unreachable)", "the module has crashed"),
    ("(loop $again (br $again))", "the module has used up its fuel"),
    ("(call $deep)", "the module has crashed: wasm trap: call stack exhausted"),
];

/// A module with one callback, which ends in the deed.
fn with_callback(name: &str, deed: &str) -> String {
    let (parameters, result) = match name {
        "proxy_on_context_create" => ("i32 i32", ""),
        "proxy_on_vm_start" | "proxy_on_configure" => ("i32 i32", "(result i32)"),
        "proxy_on_http_call_response" => ("i32 i32 i32 i32 i32", ""),
        "proxy_on_tick" | "proxy_on_log" | "proxy_on_delete" => ("i32", ""),
        "proxy_on_done" => ("i32", "(result i32)"),
        _ => ("i32 i32 i32", "(result i32)"),
    };
    let value = if result.is_empty() { "" } else { "(i32.const 1)" };
    format!(
        "(module (import \"env\" \"proxy_set_tick_period_milliseconds\" (func $tick (param i32) (result i32)))\
         (memory (export \"memory\") 1) (func (export \"proxy_abi_version_0_2_1\"))\
         (func $deep (call $deep) (call $deep))\
         (func (export \"_initialize\") (drop (call $tick (i32.const 1))))\
         (func (export \"{name}\") (param {parameters}) {result} {deed} {value}))"
    )
}

#[test]
fn a_module_that_fails_as_it_starts_is_refused() {
    for name in ["proxy_on_context_create", "proxy_on_vm_start", "proxy_on_configure"] {
        for (deed, expected) in [DEEDS[0], DEEDS[2]] {
            let error = Plugin::load(&wasm(&with_callback(name, deed)), setup(name), RULE).unwrap_err();
            assert!(error.contains(expected), "{name} {deed}: {error}");
        }
    }
}

/// Calls the callback of this name, by what the owner does.
fn provoke(plugin: &Arc<Plugin>, name: &str) -> Result<(), Failure> {
    let context = Context::open(plugin, stream(&[]), false)?;
    match name {
        "proxy_on_request_headers" => context.request_headers(false).map(drop),
        "proxy_on_request_body" => context.request_body(b"body".to_vec()).map(drop),
        "proxy_on_response_headers" => context.response_headers(Head::new([]), false).map(drop),
        "proxy_on_response_body" => context.response_body(b"body", true).map(drop),
        "proxy_on_http_call_response" => context.answer(1, CallResponse::default()).map(drop),
        // Nobody waits for what a module does at the end of an exchange: those beside it are lost with the instance.
        "proxy_on_done" | "proxy_on_log" | "proxy_on_delete" => {
            let beside = open(plugin, &[]);
            drop(context);
            let told = lines(plugin).pop().map_or_else(String::new, |line| line.text);
            assert_eq!(beside.take_request_edits().ok(), None, "{name}");
            drop(beside);
            Err(Failure::new(told))
        }
        _ => Ok(()),
    }
}

#[test]
fn a_failure_in_any_callback_ends_in_time_and_costs_one_instance() {
    // Those before it are called as the module starts.
    for &name in &CALLBACKS[Callback::RequestHeaders as usize..] {
        for (at, (deed, expected)) in DEEDS.into_iter().enumerate() {
            let plugin = plugin(&format!("{name}-{at}"), &with_callback(name, deed));
            let began = Instant::now();
            // A tick is due a millisecond after the start.
            let told = loop {
                match provoke(&plugin, name) {
                    Err(failure) => break failure.to_string(),
                    Ok(()) => assert!(began.elapsed() < Duration::from_secs(5), "{name} has no effect"),
                }
            };
            assert!(told.contains(expected), "{name} {deed}: {told}");
            assert!(began.elapsed() < Duration::from_secs(5), "{name} {deed}: {:?}", began.elapsed());
        }
    }
}

/// A module whose allocator does `deed`, and which asks for a field in its callback.
fn with_allocator(deed: &str) -> String {
    format!(
        "(module (import \"env\" \"proxy_get_header_map_value\" \
         (func $get (param i32 i32 i32 i32 i32) (result i32)))\
         (memory (export \"memory\") 1) (func (export \"proxy_abi_version_0_2_1\"))\
         (data (i32.const 16) \":path\")\
         (func $ask (result i32)\
         (call $get (i32.const 0) (i32.const 16) (i32.const 5) (i32.const 64) (i32.const 68)))\
         (func (export \"proxy_on_memory_allocate\") (param i32) (result i32) {deed})\
         (func (export \"proxy_on_request_headers\") (param i32 i32 i32) (result i32)\
         (if (i32.eqz (call $ask)) (then (unreachable))) (i32.const 0)))"
    )
}

#[test]
fn an_allocator_that_lies_gets_a_status_and_one_that_calls_the_host_again_is_stopped() {
    for (at, deed) in ["(i32.const 0)", "(i32.const 65535)", "(i32.const -2)"].into_iter().enumerate() {
        let plugin = plugin(&format!("lies-{at}"), &with_allocator(deed));
        assert!(matches!(open(&plugin, &[]).request_headers(true), Ok(Step::Continue)), "{deed}");
    }
    let again = plugin("asks-again", &with_allocator("(drop (call $ask)) (i32.const 128)"));
    let told = failure(&open(&again, &[]));
    assert!(told.contains("call stack exhausted") || told.contains("used up its fuel"), "{told}");
    let trap = plugin("allocates-nothing", &with_allocator("(unreachable)"));
    assert!(failure(&open(&trap, &[])).contains("the module has crashed"));
}

/// Fuel is taken for each field that is looked at: a call ends in time whatever the client has sent.
#[test]
fn a_long_head_costs_fuel() {
    let fields: Vec<_> = (0..1_000).map(|at| (format!("x-field-{at}"), "v".repeat(60))).collect();
    let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    for (name, parameters, call) in [
        ("proxy_get_header_map_size", "i32 i32", "(i32.const 0) (i32.const 64)"),
        ("proxy_get_header_map_pairs", "i32 i32 i32", "(i32.const 0) (i32.const 64) (i32.const 68)"),
        (
            "proxy_get_header_map_value",
            "i32 i32 i32 i32 i32",
            "(i32.const 0) (i32.const 16) (i32.const 6) (i32.const 64) (i32.const 68)",
        ),
        ("proxy_remove_header_map_value", "i32 i32 i32", "(i32.const 0) (i32.const 16) (i32.const 6)"),
        ("proxy_set_header_map_pairs", "i32 i32 i32", "(i32.const 0) (i32.const 32) (i32.const 4)"),
        (
            "proxy_get_property",
            "i32 i32 i32 i32",
            "(i32.const 16) (i32.const 6) (i32.const 64) (i32.const 68)",
        ),
    ] {
        let text = format!(
            "(module (import \"env\" \"{name}\" (func $do (param {parameters}) (result i32)))\
             (memory (export \"memory\") 4) (func (export \"proxy_abi_version_0_2_1\"))\
             (data (i32.const 16) \"x-none\")\
             (func (export \"proxy_on_memory_allocate\") (param i32) (result i32) (i32.const 4096))\
             (func (export \"proxy_on_request_headers\") (param i32 i32 i32) (result i32)\
             (local $left i32) (local.set $left (i32.const 500))\
             (loop $again (drop (call $do {call}))\
             (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1))))) (i32.const 0)))"
        );
        let plugin = plugin(name, &text);
        // Of a short head it may ask as often.
        assert!(matches!(open(&plugin, &[]).request_headers(true), Ok(Step::Continue)), "{name}");
        assert_eq!(failure(&open(&plugin, &fields)), "the module has used up its fuel", "{name}");
    }
}

/// Calls of one exchange are bounded in number and in bytes.
#[test]
fn calls_of_one_exchange_are_bounded() {
    for (bytes, most) in [(0, 16), (60_000, 4), (300_000, 0)] {
        let mut stream = stream(&[]);
        let call = || HttpCall { body: vec![0; bytes], ..HttpCall::default() };
        assert_eq!((0..100).filter(|_| stream.call(call())).count(), most, "{bytes}");
    }
}
