use super::*;
use crate::tests::{Beside, built};

fn error(json: &str) -> String {
    built::<WasmSpec>(json).build(&Beside("/nonexistent".into())).map(drop).unwrap_err()
}

#[test]
fn wrong_settings_are_refused() {
    for (json, part) in [
        ("{}", "write the path of its file"),
        (r#"{"module": "a.wasm", "fuel": 9}"#, "from 10000 to 1000000000"),
        (r#"{"module": "a.wasm", "memory": "1KiB"}"#, "from 64KiB to 256MiB"),
        (r#"{"module": "a.wasm", "request_body": "1MiB"}"#, "`request_body` of `wasm` must be from 1KiB"),
        (r#"{"module": "a.wasm", "response_body": "1B"}"#, "`response_body` of `wasm` must be from 1KiB"),
    ] {
        assert!(error(json).contains(part), "{json}: {}", error(json));
    }
}

#[cfg(not(feature = "wasm"))]
#[test]
fn a_binary_without_it_says_so() {
    assert!(error(r#"{"module": "a.wasm"}"#).contains("this binary is built without `wasm`"));
}

#[cfg(feature = "wasm")]
mod with_modules {
    use super::*;
    use crate::tests::Asked;
    use crate::{Fetched, Filter, Job, JobResult, Moved, ReplyBody, Verdict};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use thalweg_core::Fault;

    /// A directory with one module, which goes when this is dropped.
    struct Module(PathBuf);

    impl Module {
        fn new(text: &str) -> Self {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let at = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("thalweg-wasm-{}-{at}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("m.wasm"), wat::parse_str(text).unwrap()).unwrap();
            Self(folder)
        }

        fn try_filter(&self, more: &str) -> Result<Arc<dyn Filter>, String> {
            built::<WasmSpec>(&format!(r#"{{"module": "m.wasm"{more}}}"#)).build(&Beside(self.0.clone()))
        }

        fn filter(&self, more: &str) -> Arc<dyn Filter> {
            self.try_filter(more).unwrap()
        }
    }

    impl Drop for Module {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const FAIL: &str = include_str!("../../../../tests/wasm/fail.wat");
    const DENY: &str = include_str!("../../../../tests/wasm/deny.wat");
    const TELL: &str = include_str!("../../../../tests/wasm/tell.wat");
    const BODIES: &str = include_str!("../../../../tests/wasm/bodies.wat");
    const LENGTH: &str = include_str!("../../../../tests/wasm/length.wat");
    const LATE: &str = include_str!("../../../../tests/wasm/late.wat");
    const ROOT: &str = include_str!("../../../../tests/wasm/root.wat");
    const CALL: &str = include_str!("../../../../tests/wasm/call.wat");

    fn reason(asked: &Asked) -> &str {
        asked.outcome.reason.as_deref().unwrap_or_default()
    }

    #[test]
    fn a_module_answers_with_fields_and_a_body() {
        let module = Module::new(DENY);
        let mut asked = Asked::at("/");
        let Verdict::Reply(reply) = asked.send(&*module.filter("")) else { panic!("it passes") };
        assert_eq!(
            (reply.status, String::from_utf8_lossy(&reply.fields).as_ref()),
            (403, "x-denied: yes\r\n")
        );
        assert!(matches!(reply.body, ReplyBody::Bytes(body) if *body == *b"go away\n"));
        assert_eq!(reason(&asked), "wasm: `m` answers 403: no token");
        let mut asked = Asked::at("/").with("X-Token", "secret");
        assert!(matches!(asked.send(&*module.filter("")), Verdict::Continue));
    }

    #[test]
    fn a_module_is_told_its_configuration_as_text_or_json() {
        let module = Module::new(TELL);
        for (config, expected) in
            [(r#""a b""#, "a b"), (r#"{"b": [1, "x"], "a": true}"#, r#"{"a":true,"b":[1,"x"]}"#)]
        {
            let mut asked = Asked::at("/p");
            asked.query = Some("q=1".into());
            let filter = module.filter(&format!(r#", "config": {config}"#));
            assert!(matches!(asked.send(&*filter), Verdict::Continue));
            let lines = format!("x-config: {expected}\r\nx-path: /p?q=1\r\nx-count: 1\r\n");
            assert_eq!(asked.request_lines(), lines);
        }
        assert!(module.try_filter(r#", "config": "!""#).unwrap_err().contains("refuses its `config`"));
        let other = module.filter(r#", "config": "x""#).argument();
        assert_ne!(module.filter("").argument(), other);
        assert!(
            !other.contains('!') && other.starts_with("m.wasm, fuel 10000000, memory 32MiB, content "),
            "{other}"
        );
    }

    #[test]
    fn a_module_that_fails_denies_or_is_passed_by() {
        let module = Module::new(FAIL);
        for how in ["loop", "memory", "trap", "exit", "pause"] {
            let mut asked = Asked::at("/").with("X-Fail", how);
            let verdict = asked.send(&*module.filter(""));
            assert!(matches!(verdict, Verdict::Fault(Fault { status: 503, .. })), "{how}: {verdict:?}");
            assert!(reason(&asked).starts_with("wasm: `m`: the module "), "{}", reason(&asked));
            assert_eq!(asked.outcome.failed, 1);
            let mut asked = Asked::at("/").with("X-Fail", how);
            let passes = module.filter(r#", "on_failure": "pass", "fuel": 20000"#);
            assert!(matches!(asked.send(&*passes), Verdict::Continue));
            assert!(reason(&asked).starts_with("wasm: passes without `m`: "), "{}", reason(&asked));
            // It had added a field before it failed.
            assert_eq!((asked.request_lines(), asked.outcome.failed), (format!("X-Fail: {how}\r\n"), 1));
            assert!(asked.answer(&*passes).replaced.is_none());
        }
    }

    #[test]
    fn a_module_that_fails_with_the_response_denies_or_is_passed_by() {
        let module = Module::new(FAIL);
        let passes = module.filter(r#", "on_failure": "pass""#);
        for (filter, status) in [(module.filter(""), Some(503)), (passes, None)] {
            let mut asked = Asked::at("/").with("X-Fail-Response", "trap");
            assert!(matches!(asked.send(&*filter), Verdict::Continue));
            let outcome = asked.answer(&*filter);
            assert_eq!((outcome.replaced.map(|reply| reply.status), outcome.failed), (status, 1));
        }
    }

    #[test]
    fn bodies_of_requests_and_responses_are_changed() {
        let module = Module::new(BODIES);
        let filter = module.filter(r#", "request_body": "1KiB", "response_body": "1KiB""#);
        let mut asked = Asked::at("/");
        assert!(matches!(asked.send(&*filter), Verdict::Wait(Job::Body(1024))));
        let body = JobResult::Body(Some(b"hello".to_vec()));
        assert!(matches!(asked.call(|cx| filter.resume(cx, body)), Verdict::Continue));
        // Each attempt sends the whole of it.
        for _ in 0..2 {
            let mut transform = asked.outcome.transforms.make().next().unwrap();
            let (mut data, mut out) = (&b"hello"[..], Vec::new());
            transform.push(&mut data, &mut out).unwrap();
            assert!(data.is_empty() && transform.finish(&mut Vec::new(), &mut out).unwrap());
            assert_eq!(out, b"seen: hello");
        }
        let mut outcome = asked.answer(&*filter);
        let (mut data, mut out) = (&b"bye"[..], Vec::new());
        let transform = &mut outcome.transforms[0];
        transform.push(&mut data, &mut out).unwrap();
        assert!(out.is_empty() && transform.finish(&mut Vec::new(), &mut out).unwrap());
        assert_eq!(out, b"bye!");
        // A body that goes in both directions is not waited for.
        let mut asked = Asked::at("/");
        asked.send(&*filter);
        assert!(matches!(asked.call(|cx| filter.resume(cx, JobResult::Body(None))), Verdict::Continue));
        assert!(asked.outcome.transforms.is_empty());
        let none = Module::new(DENY).try_filter(r#", "request_body": "1KiB""#).unwrap_err();
        assert!(none.contains("does not look at bodies of requests"), "{none}");
    }

    #[test]
    fn a_module_asks_a_service_of_the_configuration() {
        let module = Module::new(CALL);
        let filter = module.filter(r#", "services": ["judge"]"#);
        assert_eq!(filter.calls(), [Arc::<str>::from("judge")]);
        for (status, passes) in [(200, true), (404, false)] {
            let mut asked = Asked::at("/");
            let Verdict::Wait(Job::Fetch(call)) = asked.send(&*filter) else { panic!("it asks nobody") };
            assert_eq!(
                (&*call.service, &*call.target, &*call.host),
                ("judge", &b"/judge"[..], &b"judge.test"[..])
            );
            let fetched = Fetched { status, ..Fetched::default() };
            let verdict = asked.call(|cx| filter.resume(cx, JobResult::Fetched(Ok(fetched))));
            assert_eq!(matches!(verdict, Verdict::Continue), passes, "{verdict:?}");
            assert_eq!(matches!(verdict, Verdict::Reply(reply) if reply.status == 401), !passes);
        }
        let mut asked = Asked::at("/");
        asked.send(&*filter);
        assert!(matches!(asked.call(|cx| filter.resume(cx, JobResult::NotAsked)), Verdict::Continue));
    }

    #[test]
    fn a_module_asks_a_service_before_the_response_goes_on() {
        let module = Module::new(LATE);
        let filter = module.filter(r#", "services": ["judge"]"#);
        let mut asked = Asked::at("/");
        asked.send(&*filter);
        let mut outcome = asked.answer(&*filter);
        for status in [200, 404, 200] {
            let (at, request) = outcome.waits.take().unwrap();
            assert_eq!((at, &*request.service, &*request.host), (0, "judge", &b"judge"[..]));
            assert_eq!(asked.response_lines(), "", "nothing is changed before the answers are there");
            let got = Ok(Fetched { status, ..Fetched::default() });
            outcome = asked.answer_by(|cx| filter.resume_response(cx, got));
        }
        assert!(outcome.waits.is_none() && outcome.replaced.is_none());
        assert_eq!(asked.response_lines(), "x-judged: 3\r\n");
        // Where nobody can wait, there is no answer.
        let mut asked = Asked::at("/");
        asked.send(&*filter);
        let outcome = asked.answer_by(|cx| {
            cx.can_wait = false;
            filter.on_response(cx);
        });
        assert!(outcome.waits.is_none());
        assert_eq!(asked.response_lines(), "x-judged: 0\r\n");
    }

    #[test]
    fn a_module_asks_a_service_before_it_is_given_a_request() {
        let module = Module::new(ROOT);
        let filter = module.filter(r#", "services": ["judge"]"#);
        let mut dry = Asked::at("/");
        dry.is_dry_run = true;
        assert!(matches!(dry.send(&*filter), Verdict::Continue));
        let mut asked = Asked::at("/");
        assert!(matches!(asked.send(&*filter), Verdict::Wait(Job::Fetch(_))));
        let got = JobResult::Fetched(Ok(Fetched { status: 200, ..Fetched::default() }));
        assert!(matches!(asked.call(|cx| filter.resume(cx, got)), Verdict::Continue));
        assert_eq!(
            (dry.request_lines(), asked.request_lines()),
            ("x-root: 00\r\n".into(), "x-root: 10\r\n".into())
        );
    }

    #[test]
    fn the_length_of_a_body_is_seen_where_it_is_known() {
        let filter = Module::new(LENGTH).filter("");
        let mut asked = Asked::at("/");
        asked.send(&*filter);
        asked.answer(&*filter);
        assert_eq!((asked.request_lines().as_str(), asked.response_lines().as_str()), ("", ""));
        let mut asked = Asked::at("/");
        (asked.content_length, asked.response_length) = (Some(12), Some(34));
        asked.send(&*filter);
        assert!(asked.answer(&*filter).replaced.is_none());
        assert_eq!(asked.request_lines(), "x-length: 12\r\n");
        assert_eq!(asked.response_lines(), "x-length: 34\r\n");
        // Behind a filter that changes the body, it is not.
        let bodies = Module::new(BODIES).filter(r#", "request_body": "1KiB""#);
        let mut asked = Asked::at("/");
        asked.content_length = Some(5);
        asked.send(&*bodies);
        let body = JobResult::Body(Some(b"hello".to_vec()));
        assert!(matches!(asked.call(|cx| bodies.resume(cx, body)), Verdict::Continue));
        asked.send(&*filter);
        assert_eq!(asked.request_lines(), "");
    }

    /// Sets `:path` and `:authority`, and what a module may not change.
    fn moving(name: &str, value: &str) -> String {
        format!(
            "(module (import \"env\" \"proxy_replace_header_map_value\" \
             (func $put (param i32 i32 i32 i32 i32) (result i32)))\
             (memory (export \"memory\") 1) (func (export \"proxy_abi_version_0_2_0\"))\
             (data (i32.const 16) \"{name}\") (data (i32.const 64) \"{value}\")\
             (func (export \"proxy_on_request_headers\") (param i32 i32 i32) (result i32)\
             (if (call $put (i32.const 0) (i32.const 16) (i32.const {}) (i32.const 64) (i32.const {}))\
             (then (unreachable))) (i32.const 0)))",
            name.len(),
            value.len(),
        )
    }

    #[test]
    fn a_module_moves_a_request_to_sound_places_only() {
        let mut asked = Asked::at("/a");
        asked.query = Some("x=1".into());
        assert!(matches!(
            asked.send(&*Module::new(&moving(":path", "/b/../c?y=2")).filter("")),
            Verdict::Continue
        ));
        assert_eq!(asked.path(), "/c");
        assert_eq!(*asked.target.query(), crate::QueryEdit::Replaced(b"y=2".to_vec()));
        assert!(matches!(asked.target.moved(), [Moved::Otherwise]));
        assert!(matches!(
            asked.send(&*Module::new(&moving(":authority", "b.test:81")).filter("")),
            Verdict::Continue
        ));
        assert_eq!(asked.target.host(), Some(&b"b.test:81"[..]));
        for (name, value) in [
            (":path", "//evil"),
            (":path", "/a b"),
            (":authority", "a/b"),
            (":method", "POST"),
            ("x-a", "1\\0d\\0aB: 2"),
            ("x a", "1"),
        ] {
            let mut asked = Asked::at("/a");
            let verdict = asked.send(&*Module::new(&moving(name, value)).filter(""));
            assert!(matches!(verdict, Verdict::Fault(_)), "{name}: {value}");
            assert_eq!((asked.path().as_str(), asked.request_lines().as_str()), ("/a", ""));
        }
        // Framing is the proxy's: accepted, and of no effect.
        let mut asked = Asked::at("/a");
        asked.send(&*Module::new(&moving("transfer-encoding", "chunked")).filter(""));
        assert_eq!((asked.request_lines().as_str(), reason(&asked)), ("", ""));
    }
}
