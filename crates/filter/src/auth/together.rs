//! What the methods of one filter do beside the requests, as one.

use super::Method;
use crate::UpkeepTools;
use crate::filter::Upkeep;
use std::pin::Pin;
use std::sync::Arc;

/// The upkeep of all methods as one.
#[derive(Debug)]
pub(super) struct Together(Vec<Arc<dyn Upkeep>>);

impl Together {
    /// That of these methods; `None`: none has any.
    pub(super) fn of(methods: &[Arc<dyn Method>]) -> Option<Arc<Self>> {
        let list: Vec<_> = methods.iter().filter_map(|method| method.upkeep()).collect();
        (!list.is_empty()).then(|| Arc::new(Self(list)))
    }

    /// Whether both are made of the same.
    pub(super) fn is_same(one: Option<&Self>, other: Option<&Self>) -> bool {
        let (Some(Self(one)), Some(Self(other))) = (one, other) else {
            return one.is_none() && other.is_none();
        };
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl Upkeep for Together {
    fn run(self: Arc<Self>, tools: UpkeepTools) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let all = self.0.iter().map(|upkeep| upkeep.clone().run(tools.clone()));
        let all = futures_util::future::join_all(all);
        Box::pin(async {
            all.await;
        })
    }
}
