//! The filter `wasm` as it runs.

use super::body::{Pieces, Replaced};
use super::calls::{CallsEnd, answer};
use super::head::{Target, apply, apply_response, properties, request_head, response_head, rule};
use super::{Checked, MODULE, WasmFailureSpec, WasmSpec};
use crate::representation::becomes_another;
use crate::{
    ConfigFiles, Fetched, Filter, Hooks, Job, JobResult, Moves, Reply, ReplyBody, RequestCx, ResponseCx,
    Upkeep, UpkeepTools, Verdict,
};
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_core::units::size_text;
use thalweg_core::{Fault, FaultKind, Notice};
use thalweg_http::h1::encode::write_field;
use thalweg_wasm::{
    CallResponse, Context, Failure, HttpCall, Level, Limits, LocalResponse, Plugin, Setup, Step, Stream,
};

/// Bytes by which a module may make a body longer than those that it is given.
const ROOM: usize = 64 * 1024;

/// Compiles the module.
pub(super) fn build(
    spec: &WasmSpec,
    checked: Checked,
    files: &dyn ConfigFiles,
) -> Result<Arc<dyn Filter>, String> {
    let code = files.read(&spec.module, MODULE)?;
    let wrong = |why: String| format!("the module `{}` cannot be used: {why}", spec.module);
    let stem = Path::new(&spec.module).file_stem();
    let mut services = spec.services.clone();
    services.sort();
    services.dedup();
    let bodies = checked.request_body.max(checked.response_body).unwrap_or(0);
    let setup = Setup {
        name: stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned()),
        root_id: spec.root_id.clone().unwrap_or_default(),
        config: checked.config,
        services: services.clone(),
        max_body: bodies + ROOM,
        limits: Limits { fuel: checked.fuel, memory: checked.memory },
    };
    let mut mark = DefaultHasher::new();
    mark.write(&code);
    mark.write(&setup.config);
    let plugin = Plugin::load(&code, setup, rule).map_err(wrong)?;
    if checked.request_body.is_some() && !plugin.reads_request_bodies() {
        return Err("`request_body` is of no use: the module does not look at bodies of requests".into());
    }
    if checked.response_body.is_some() && !plugin.reads_response_bodies() {
        return Err("`response_body` is of no use: the module does not look at bodies of responses".into());
    }
    let passes = spec.on_failure == WasmFailureSpec::Pass;
    let mut words = vec![spec.module.clone(), format!("fuel {}", checked.fuel)];
    words.push(format!("memory {}", size_text(checked.memory as u64)));
    words.extend(spec.root_id.as_ref().map(|id| format!("root {id}")));
    words.extend(checked.request_body.map(|most| format!("request bodies of {}", size_text(most as u64))));
    words.extend(checked.response_body.map(|most| format!("response bodies of {}", size_text(most as u64))));
    words.extend((!services.is_empty()).then(|| format!("calls {}", services.join(" "))));
    words.extend(passes.then(|| "passes on failure".to_owned()));
    // What differs in the module or its configuration alone is a difference too; the configuration may have secrets.
    words.push(format!("content {:08x}", mark.finish() as u32));
    Ok(Arc::new(Wasm {
        request_body: checked.request_body.filter(|_| plugin.reads_request_bodies()),
        response_body: checked.response_body,
        services: services.iter().map(|name| name.as_str().into()).collect(),
        passes,
        text: words.join(", "),
        lines: Arc::new(Lines(plugin.clone())),
        plugin,
    }))
}

#[derive(Debug)]
struct Wasm {
    plugin: Arc<Plugin>,
    /// Bytes; `None`: the module is not given the body.
    request_body: Option<usize>,
    response_body: Option<usize>,
    services: Vec<Arc<str>>,
    passes: bool,
    text: String,
    lines: Arc<Lines>,
}

/// What is remembered of an exchange.
struct Held {
    /// `None`: the module has failed, and the exchange goes on without it.
    context: Option<Rc<Context>>,
    /// Whether the module has been given the body, or is not to be given it.
    had_body: bool,
    /// The call to a service that is waited for, and whether it is one of the root context.
    call: u32,
    is_of_root: bool,
    calls_end: CallsEnd,
}

impl Held {
    fn new(context: Option<Rc<Context>>) -> Self {
        let had_body = context.is_none();
        Self { context, had_body, call: 0, is_of_root: false, calls_end: CallsEnd::default() }
    }
}

const FAILED: Fault = Fault {
    status: 503,
    ..Fault::new(FaultKind::ProxyInternalError, "a module that this request needs has failed")
};

impl Wasm {
    /// The module has failed: it has no effect on the request.
    fn failed(&self, cx: &mut RequestCx<'_>, failure: &Failure) -> Verdict {
        cx.note_failure();
        let name = self.plugin.name();
        if self.passes {
            cx.remember(Held::new(None));
            cx.explain(format!("wasm: passes without `{name}`: {failure}"));
            return Verdict::Continue;
        }
        cx.explain(format!("wasm: `{name}`: {failure}"));
        Verdict::Fault(FAILED)
    }

    fn open(&self, cx: &RequestCx<'_>) -> Result<Held, Failure> {
        let known = if self.plugin.reads_properties() { properties(cx) } else { Vec::new() };
        let stream = Stream::new(request_head(cx), known);
        let context = Context::open(&self.plugin, stream, cx.facts.is_dry_run)?;
        Ok(Held::new(Some(Rc::new(context))))
    }

    /// Makes the calls of the root context, and gives the module the request then.
    fn begin(&self, cx: &mut RequestCx<'_>, mut held: Held) -> Verdict {
        let Some(context) = held.context.clone() else { return Verdict::Continue };
        while let Some(call) = context.root_call() {
            if let Some(request) = held.calls_end.begin(cx.facts.now, call) {
                held.is_of_root = true;
                cx.remember(held);
                return Verdict::Wait(Job::Fetch(Box::new(request)));
            }
            if let Err(failure) = context.answer_root(CallResponse::default()) {
                return self.failed(cx, &failure);
            }
        }
        match context.request_headers(!cx.has_body) {
            Ok(step) => self.advance(cx, held, step),
            Err(failure) => self.failed(cx, &failure),
        }
    }

    /// What becomes of the request after a call.
    fn advance(&self, cx: &mut RequestCx<'_>, mut held: Held, step: Step) -> Verdict {
        match step {
            Step::Respond(local) => self.respond(cx, local),
            Step::Close => {
                cx.explain(format!("wasm: `{}` closes the connection", self.plugin.name()));
                let denied = Fault::new(FaultKind::HttpRequestDenied, "a module has closed the connection");
                Verdict::Fault(Fault { status: Fault::NO_ANSWER, ..denied })
            }
            Step::Call(call) => self.call(cx, held, call),
            Step::Continue | Step::Paused if !held.had_body && cx.has_body => {
                let Some(most) = self.request_body else {
                    held.had_body = true;
                    return self.advance(cx, held, step);
                };
                cx.remember(held);
                Verdict::Wait(Job::Body(most))
            }
            Step::Paused => {
                let why = "the module keeps the request waiting, and nothing is under way that it waits for";
                self.failed(cx, &Failure::other(why))
            }
            Step::Continue => self.go_on(cx, held),
        }
    }

    fn call(&self, cx: &mut RequestCx<'_>, mut held: Held, call: HttpCall) -> Verdict {
        let Some(context) = held.context.clone() else { return Verdict::Continue };
        held.call = call.id;
        if let Some(request) = held.calls_end.begin(cx.facts.now, call) {
            cx.remember(held);
            return Verdict::Wait(Job::Fetch(Box::new(request)));
        }
        match context.answer(held.call, CallResponse::default()) {
            Ok(step) => self.advance(cx, held, step),
            Err(failure) => self.failed(cx, &failure),
        }
    }

    fn go_on(&self, cx: &mut RequestCx<'_>, held: Held) -> Verdict {
        if let Some(context) = &held.context {
            match context.take_request_edits() {
                Ok(edits) => apply(cx, edits),
                Err(failure) => return self.failed(cx, &failure),
            }
            if let Some(body) = context.take_request_body() {
                let body: Arc<[u8]> = body.into();
                cx.transform_body(Box::new(move || Box::new(Replaced::new(body.clone()))));
            }
        }
        cx.remember(held);
        Verdict::Continue
    }

    fn respond(&self, cx: &mut RequestCx<'_>, local: LocalResponse) -> Verdict {
        let said = if local.details.is_empty() { String::new() } else { format!(": {}", local.details) };
        cx.explain(format!("wasm: `{}` answers {}{said}", self.plugin.name(), local.status));
        Verdict::Reply(Box::new(reply(local)))
    }

    /// What is known of the exchange as its response comes.
    fn held(&self, cx: &mut ResponseCx<'_>) -> Result<Held, Failure> {
        if let Some(held) = cx.recall() {
            return Ok(held);
        }
        // The filters of the request were not reached, or its condition did not fit there.
        let target = Target { facts: &cx.facts, target: cx.target };
        let stream = Stream::new(target.head(cx.request, None), Vec::new());
        Ok(Held::new(Some(Rc::new(Context::open(&self.plugin, stream, cx.facts.is_dry_run)?))))
    }

    /// What becomes of the response after a call.
    fn advance_response(&self, cx: &mut ResponseCx<'_>, mut held: Held, mut step: Step) {
        let Some(context) = held.context.clone() else { return };
        while let Step::Call(call) = step {
            held.call = call.id;
            if cx.can_wait
                && let Some(request) = held.calls_end.begin(cx.facts.now, call)
            {
                cx.wait(request);
                return cx.remember(held);
            }
            step = match context.answer(held.call, CallResponse::default()) {
                Ok(step) => step,
                Err(_) => return self.response_failed(cx),
            };
        }
        cx.remember(held);
        let has_pieces = self.response_body.is_some() && cx.has_body;
        match step {
            Step::Respond(local) => return cx.replace(reply(local)),
            Step::Continue => {}
            // It waits for the body, which comes behind the head.
            Step::Paused if has_pieces => {}
            Step::Paused | Step::Close | Step::Call(_) => return self.response_failed(cx),
        }
        match context.take_response_edits() {
            Ok(edits) => apply_response(cx, edits),
            Err(_) => return self.response_failed(cx),
        }
        if self.response_body.is_some() && cx.content_length != Some(0) {
            becomes_another(&mut cx.fields);
            cx.transform_body(|| Box::new(Pieces::new(context)));
        }
    }

    fn response_failed(&self, cx: &mut ResponseCx<'_>) {
        cx.note_failure();
        cx.remember(Held::new(None));
        if !self.passes {
            cx.replace(Reply::new(FAILED.status));
        }
    }
}

impl Filter for Wasm {
    fn name(&self) -> &'static str {
        "wasm"
    }

    fn argument(&self) -> String {
        self.text.clone()
    }

    fn hooks(&self) -> Hooks {
        if self.plugin.reads_responses() { Hooks::BOTH } else { Hooks::REQUEST }
    }

    fn may_own_others(&self) -> bool {
        true
    }

    fn guards(&self) -> bool {
        !self.passes
    }

    /// Whatever becomes of requests when the module fails: it may refuse any request.
    fn restricts(&self) -> bool {
        true
    }

    /// The module may look at the name of the route.
    fn decides_by_route(&self) -> bool {
        true
    }

    /// It may: nobody knows what a module looks at.
    fn verifies(&self) -> bool {
        true
    }

    /// The module may name another path or host.
    fn moves(&self) -> Moves {
        Moves::Request
    }

    fn calls(&self) -> Vec<Arc<str>> {
        self.services.clone()
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        Some(self.lines.clone())
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        match self.open(cx) {
            Ok(held) => self.begin(cx, held),
            Err(failure) => self.failed(cx, &failure),
        }
    }

    fn resume(&self, cx: &mut RequestCx<'_>, got: JobResult) -> Verdict {
        let Some(mut held) = cx.recall::<Held>() else { return Verdict::Continue };
        let Some(context) = held.context.clone() else { return Verdict::Continue };
        let got = match got {
            JobResult::Fetched(got) if std::mem::take(&mut held.is_of_root) => {
                return match context.answer_root(answer(got)) {
                    Ok(()) => self.begin(cx, held),
                    Err(failure) => self.failed(cx, &failure),
                };
            }
            got => got,
        };
        let stepped = match got {
            JobResult::Body(Some(body)) => {
                held.had_body = true;
                context.request_body(body)
            }
            // It goes in both directions at once: nobody waits for its end.
            JobResult::Body(None) => {
                held.had_body = true;
                Ok(Step::Continue)
            }
            // In a dry run all is well.
            JobResult::NotAsked => return self.go_on(cx, held),
            JobResult::Fetched(got) => context.answer(held.call, answer(got)),
            JobResult::Slept | JobResult::Called(_) => context.answer(held.call, CallResponse::default()),
        };
        match stepped {
            Ok(step) => self.advance(cx, held, step),
            Err(failure) => self.failed(cx, &failure),
        }
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let Ok(mut held) = self.held(cx) else { return self.response_failed(cx) };
        held.calls_end = CallsEnd::default();
        let Some(context) = held.context.clone() else { return cx.remember(held) };
        match context.response_headers(response_head(cx), !cx.has_body) {
            Ok(step) => self.advance_response(cx, held, step),
            Err(_) => self.response_failed(cx),
        }
    }

    fn resume_response(&self, cx: &mut ResponseCx<'_>, got: Result<Fetched, Fault>) {
        let Some(held) = cx.recall::<Held>() else { return };
        let Some(context) = held.context.clone() else { return cx.remember(held) };
        match context.answer(held.call, answer(got)) {
            Ok(step) => self.advance_response(cx, held, step),
            Err(_) => self.response_failed(cx),
        }
    }
}

fn reply(local: LocalResponse) -> Reply {
    let mut reply = Reply::new(local.status);
    for (name, value) in &local.fields {
        write_field(&mut reply.fields, name, value);
    }
    if !local.body.is_empty() {
        reply.body = ReplyBody::Bytes(local.body.into());
    }
    reply
}

/// Writes what a module has to say, beside the workers.
#[derive(Debug)]
struct Lines(Arc<Plugin>);

impl Upkeep for Lines {
    fn run(self: Arc<Self>, tools: UpkeepTools) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            loop {
                let line = poll_fn(|context| self.0.poll_line(context)).await;
                let text = format!("wasm `{}`: {}", self.0.name(), line.text);
                (tools.say)(match line.level {
                    Level::Info => Notice::info(text),
                    Level::Warn => Notice::warn(text),
                });
            }
        })
    }
}
