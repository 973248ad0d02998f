//! One exchange within the instance of its thread.

use crate::abi::CONTINUE;
use crate::data::ROOT;
use crate::failure::Failure;
use crate::head::{Edit, Head};
use crate::instance::{Callback, Instance};
use crate::plugin::{Place, Plugin};
use crate::stream::{CALLS, CallResponse, HttpCall, Phase, Step, Stream};
use std::cell::Cell;
use std::sync::Arc;

/// One exchange. When this is dropped, the module is told that it is over.
#[derive(Debug)]
pub struct Context {
    plugin: Arc<Plugin>,
    place: usize,
    generation: u64,
    id: u32,
    is_dry: bool,
    /// Calls of the root context that were made with this exchange.
    root_calls: Cell<usize>,
    /// The one of them that is under way.
    root_call: Cell<Option<u32>>,
}

impl Context {
    /// Tells the module of an exchange. `is_dry`: nothing that outlives it may change.
    ///
    /// # Errors
    /// The module cannot be started, or fails.
    pub fn open(plugin: &Arc<Plugin>, stream: Stream, is_dry: bool) -> Result<Self, Failure> {
        let at = Plugin::place_of_thread();
        let mut place = plugin.place(at);
        plugin.ensure(&mut place)?;
        let (id, generation) = (place.number(), place.generation);
        let context = Self {
            plugin: plugin.clone(),
            place: at,
            generation,
            id,
            is_dry,
            root_calls: Cell::new(0),
            root_call: Cell::new(None),
        };
        let opened = context.run(&mut place, |instance| {
            if !is_dry {
                instance.tick()?;
            }
            instance.data().streams.insert(id, stream);
            instance.call(Callback::ContextCreate, id, &[id as i32, ROOT as i32]).map(drop)
        });
        drop(place);
        opened.map(|()| context)
    }

    /// A call that the module has made outside of any exchange, as it started or at a tick. It is made before the
    /// module is given the request; to be asked again when [`Self::answer_root`] has told its answer.
    pub fn root_call(&self) -> Option<HttpCall> {
        let made = self.root_calls.get();
        if made >= CALLS || self.is_dry {
            return None;
        }
        let mut place = self.plugin.place(self.place);
        let is_same = place.generation == self.generation;
        let calls = &mut place.instance.as_mut().filter(|_| is_same)?.data().root_calls;
        let call = calls.next()?;
        calls.make_room();
        self.root_calls.set(made + 1);
        self.root_call.set(Some(call.id));
        Some(call)
    }

    /// Tells the module what a service has answered to such a call.
    ///
    /// # Errors
    /// The module fails.
    pub fn answer_root(&self, answer: CallResponse) -> Result<(), Failure> {
        let Some(call) = self.root_call.take() else { return Ok(()) };
        self.with(|instance, _| tell(instance, ROOT, call, answer))
    }

    /// Gives the module the head of the request. `ends`: there is no body.
    ///
    /// # Errors
    /// The module fails.
    pub fn request_headers(&self, ends: bool) -> Result<Step, Failure> {
        self.with(|instance, id| {
            let count = begin(instance, id, Phase::Request)?.request.fields().len();
            step(instance, id, Callback::RequestHeaders, [count as i32, i32::from(ends)])
        })
    }

    /// Gives the module the whole body of the request.
    ///
    /// # Errors
    /// The module fails.
    pub fn request_body(&self, body: Vec<u8>) -> Result<Step, Failure> {
        self.with(|instance, id| {
            let stream = begin(instance, id, Phase::Request)?;
            let length = body.len();
            (stream.body, stream.body_changed) = (Some(body), false);
            step(instance, id, Callback::RequestBody, [length as i32, 1])
        })
    }

    /// Tells the module what a service has answered to the call of this number.
    ///
    /// # Errors
    /// The module fails.
    pub fn answer(&self, call: u32, answer: CallResponse) -> Result<Step, Failure> {
        self.with(|instance, id| {
            let stream = begin_again(instance, id)?;
            stream.begin(stream.phase);
            tell(instance, id, call, answer)?;
            Ok(begin_again(instance, id)?.end(None))
        })
    }

    /// Gives the module the head of the response. `ends`: there is no body.
    ///
    /// # Errors
    /// The module fails.
    pub fn response_headers(&self, head: Head, ends: bool) -> Result<Step, Failure> {
        self.with(|instance, id| {
            let stream = begin(instance, id, Phase::Response)?;
            let count = head.fields().len();
            (stream.response, stream.body, stream.paused) = (head, None, false);
            step(instance, id, Callback::ResponseHeaders, [count as i32, i32::from(ends)])
        })
    }

    /// Gives the module a piece of the response's body, with what it has kept back of it before, and gives what becomes
    /// of it; empty: the module keeps it all back. `ends`: it is the last one.
    ///
    /// # Errors
    /// The module fails, or keeps back more than it may.
    pub fn response_body(&self, piece: &[u8], ends: bool) -> Result<Vec<u8>, Failure> {
        self.with(|instance, id| {
            let most = instance.data().common.max_body;
            let stream = begin(instance, id, Phase::ResponseBody)?;
            let mut body = stream.body.take().unwrap_or_default();
            body.extend_from_slice(piece);
            if body.len() > most.max(piece.len()) {
                return Err(Failure::new("the module keeps back more of a body than `max_body` allows"));
            }
            let length = body.len() as i32;
            stream.body = Some(body);
            let arguments = [id as i32, length, i32::from(ends)];
            let action = instance.call(Callback::ResponseBody, id, &arguments)?;
            let stream = begin_again(instance, id)?;
            let pauses = action.is_some_and(|action| action != CONTINUE) && !stream.resumed;
            let body = stream.body.take().unwrap_or_default();
            if pauses && !ends {
                stream.body = Some(body);
                return Ok(Vec::new());
            }
            Ok(body)
        })
    }

    /// What the module has changed of the request's head; it is forgotten.
    ///
    /// # Errors
    /// The instance is gone, and with it what it had changed.
    pub fn take_request_edits(&self) -> Result<Vec<Edit>, Failure> {
        self.taken(Stream::take_request_edits).ok_or_else(lost)
    }

    /// The body of the request, if the module has changed it; the module can read it no longer.
    pub fn take_request_body(&self) -> Option<Vec<u8>> {
        self.taken(Stream::take_body).flatten()
    }

    /// What the module has changed of the response's head; it is forgotten.
    ///
    /// # Errors
    /// The instance is gone, and with it what it had changed.
    pub fn take_response_edits(&self) -> Result<Vec<Edit>, Failure> {
        self.taken(Stream::take_response_edits).ok_or_else(lost)
    }

    fn taken<T>(&self, take: impl FnOnce(&mut Stream) -> T) -> Option<T> {
        let mut place = self.plugin.place(self.place);
        let is_same = place.generation == self.generation;
        let instance = place.instance.as_mut().filter(|_| is_same)?;
        instance.data().streams.get_mut(&self.id).map(take)
    }

    fn with<T>(&self, call: impl FnOnce(&mut Instance, u32) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut place = self.plugin.place(self.place);
        if place.generation != self.generation || place.instance.is_none() {
            return Err(lost());
        }
        self.run(&mut place, |instance| call(instance, self.id))
    }

    /// Calls the instance; one that fails is gone, with its memory.
    fn run<T>(
        &self,
        place: &mut Place,
        call: impl FnOnce(&mut Instance) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(instance) = &mut place.instance else {
            return Err(Failure::new("the module is not running"));
        };
        instance.data().is_dry = self.is_dry;
        let called = call(instance);
        if let Err(failure) = &called {
            place.instance = None;
            if !self.is_dry {
                self.plugin.tell(failure);
            }
        }
        called
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let mut place = self.plugin.place(self.place);
        if place.generation != self.generation || place.instance.is_none() {
            return;
        }
        let (id, call) = (self.id, self.root_call.take());
        // Whoever fails here has lost its instance; nobody waits for this exchange.
        let _ = self.run(&mut place, |instance| {
            if let Some(call) = call {
                // It belongs to no exchange: the module would wait for it for ever.
                tell(instance, ROOT, call, CallResponse::default())?;
            }
            if let Some(stream) = instance.data().streams.get_mut(&id) {
                stream.begin(Phase::Outside);
                for callback in [Callback::Done, Callback::Log, Callback::Delete] {
                    instance.call(callback, id, &[id as i32])?;
                }
            }
            instance.data().streams.remove(&id);
            Ok(())
        });
    }
}

fn lost() -> Failure {
    Failure::new("the module has failed in another exchange meanwhile")
}

/// Tells the module of an answer to a call of this context.
fn tell(instance: &mut Instance, id: u32, call: u32, answer: CallResponse) -> Result<(), Failure> {
    let (fields, body) = (answer.fields.len() as i32, answer.body.len() as i32);
    instance.data().answer = Some(answer);
    let arguments = [ROOT as i32, call as i32, fields, body, 0];
    let told = instance.call(Callback::CallResponse, id, &arguments);
    instance.data().answer = None;
    told.map(drop)
}

/// A callback about this exchange begins.
fn begin(instance: &mut Instance, id: u32, phase: Phase) -> Result<&mut Stream, Failure> {
    let stream = begin_again(instance, id)?;
    stream.begin(phase);
    Ok(stream)
}

fn begin_again(instance: &mut Instance, id: u32) -> Result<&mut Stream, Failure> {
    let stream = instance.data().streams.get_mut(&id);
    stream.ok_or_else(|| Failure::new("the module does not know this exchange"))
}

/// Calls a function that says whether the exchange is to pause.
fn step(instance: &mut Instance, id: u32, callback: Callback, arguments: [i32; 2]) -> Result<Step, Failure> {
    let [first, second] = arguments;
    let action = instance.call(callback, id, &[id as i32, first, second])?;
    let pauses = action.is_some_and(|action| action != CONTINUE);
    Ok(begin_again(instance, id)?.end(Some(pauses)))
}
