//! What the filters of a route make of one exchange.

use crate::relay::SharedTap;
use crate::state::forwarded::Forwarded;
use crate::state::spools::Spooled;
use thalweg_filter::{FilterStates, QueryEdit, Reply, RequestOutcome, ResponseOutcome, TargetEdit};
use thalweg_http::{Field, FieldSet, Framing};

/// Buffers larger than this are given back when their exchange is over.
const KEEP_CAPACITY: usize = 4 * 1024;

/// What filters have changed, asked for and remembered. Empty, and nothing is allocated, where no filter took part.
#[derive(Debug, Default)]
pub(crate) struct Filtering {
    /// Filters of the request have been reached: `target` is what goes upstream.
    pub(crate) is_begun: bool,
    /// The target that goes upstream.
    pub(crate) target: TargetEdit,
    /// Lines that filters have added to the request.
    pub(crate) added: Vec<u8>,
    /// Known names among them.
    pub(crate) known: FieldSet,
    /// Lines that filters have added to the response.
    pub(crate) response_added: Vec<u8>,
    /// The host that the endpoint was asked for, while filters of the response are called: a buffer.
    pub(crate) upstream_host: Vec<u8>,
    /// What filters remember.
    pub(crate) states: FilterStates,
    /// What filters of the request ask for beside a changed head.
    pub(crate) outcome: RequestOutcome,
    /// Sees the body of the request, for copies of it.
    pub(crate) tap: Option<SharedTap>,
    /// The whole body of the request, where it was too long for memory.
    pub(crate) spooled: Option<Spooled>,
    /// The filter that waits, or has ended the way of the request.
    pub(crate) at: usize,
    /// Filters from this one on were not reached by the request; `None`: all were, or none should have been.
    pub(crate) below: Option<usize>,
    /// What its response changes in the cache of the route, where the request goes to the service.
    pub(crate) forwarded: Option<Box<Forwarded>>,
    /// The client gets this in place of the endpoint's response.
    pub(crate) replaced: Option<Box<Reply>>,
    /// The endpoint's response waits for what a filter fetches.
    pub(crate) held: Option<Box<HeldResponse>>,
    /// The head of the final response as it was written, where somebody watches (`records/tap.rs`).
    pub(crate) sent_head: Option<Box<[u8]>>,
}

/// A final response that waits for what a filter fetches, as it came: nothing of it is composed.
#[derive(Debug)]
pub(crate) struct HeldResponse {
    /// The head, with what came behind it.
    pub(crate) head: Vec<u8>,
    /// Its fields, and which of them filters have kept.
    pub(crate) fields: Vec<Field>,
    /// How its body is framed.
    pub(crate) framing: Framing,
    /// The head was all, and says nothing of that.
    pub(crate) is_empty: bool,
    /// What filters have asked for.
    pub(crate) outcome: ResponseOutcome,
}

impl Filtering {
    /// Makes ready for the next request.
    pub(crate) fn clear(&mut self) {
        self.is_begun = false;
        self.added.clear();
        self.known = FieldSet::default();
        self.response_added.clear();
        self.states.clear();
        self.outcome.clear();
        self.tap = None;
        self.spooled = None;
        (self.at, self.below) = (0, None);
        (self.forwarded, self.replaced, self.held) = (None, None, None);
        self.sent_head = None;
    }

    /// Gives memory back.
    pub(crate) fn shrink(&mut self) {
        self.clear();
        self.target.shrink(KEEP_CAPACITY);
        for buffer in [&mut self.added, &mut self.response_added, &mut self.upstream_host] {
            buffer.clear();
            buffer.shrink_to(KEEP_CAPACITY);
        }
    }

    /// The host that goes upstream, where a filter says it.
    pub(crate) fn host(&self) -> Option<&[u8]> {
        self.target.host()
    }

    /// The query that goes upstream, where a filter says it: `Some(None)` is none.
    pub(crate) fn query(&self) -> Option<Option<&[u8]>> {
        match self.target.query() {
            QueryEdit::Removed => Some(None),
            QueryEdit::Replaced(query) => Some(Some(query)),
            QueryEdit::Unchanged => None,
        }
    }
}
