//! `route_sources: [ { kubernetes: {} } ]`: ConfigMaps with a label, each entry of their data one document.

use super::objects::{KubeConfigMapSpec, Resource};
use super::resources::{Change, News, Scope, follow};
use super::{Access, GRACE, WAIT, access};
use crate::feed::{Feed, PAUSE};
use crate::http_servers::{encoded, time};
use crate::kept::{Document, Kept, document};
use crate::source::{Source, Watching};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thalweg_filter::ConfigFiles;
use tokio::sync::Notify;

/// Which ConfigMaps, where nothing is written.
const SELECTOR: &str = "thalweg/routes=true";
/// Longest selector, in bytes.
const LONGEST: usize = 1024;

/// ConfigMaps of Kubernetes with documents.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map, which may be empty")]
pub struct KubernetesRoutesSpec {
    /// Which ConfigMaps, by their labels, as `kubectl --selector` has it.
    #[schemars(extend("x-default" = "thalweg/routes=true"))]
    selector: Option<String>,
    /// Their namespace. Default: that of the pod, or of the context of `kubeconfig`; else `default`.
    #[schemars(extend("x-default-words" = "the usual one"))]
    namespace: Option<String>,
    /// A file as `kubectl` has it, which says where the API server is and how to log in. Default: the cluster that
    /// Thalweg runs in as a pod, by its service account.
    #[schemars(extend("x-default-words" = "the cluster of the pod"))]
    #[schemars(extend("x-api" = "reference"))]
    kubeconfig: Option<String>,
    /// The context of `kubeconfig`; default: its current one.
    #[schemars(extend("x-default-words" = "the current one"))]
    context: Option<String>,
    /// How long one watch lasts before it is begun again. What is known is at most this old, and a little more.
    #[schemars(extend("x-range" = ["1s", "10m"], "x-default" = "30s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["30s"]))]
    wait: Option<String>,
}

impl KubernetesRoutesSpec {
    /// Checks the arguments.
    ///
    /// # Errors
    /// A sentence that names the wrong one.
    pub(crate) fn documents(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Source<[Document]>>, String> {
        let selector = self.selector.as_deref().unwrap_or(SELECTOR).trim();
        if selector.is_empty() || selector.len() > LONGEST || selector.contains(char::is_control) {
            return Err(format!("`selector` must have 1 to {LONGEST} bytes, as `{SELECTOR}`"));
        }
        let login = (self.kubeconfig.as_deref(), self.context.as_deref());
        let (access, namespace) = access(login, self.namespace.as_deref(), files)?;
        let range = (Duration::from_secs(1), Duration::from_secs(600));
        let wait = time(("wait", self.wait.as_deref()), WAIT, range)?;
        Ok(Arc::new(ConfigMaps { access, namespace, selector: selector.to_owned(), wait }))
    }
}

#[derive(Debug)]
struct ConfigMaps {
    access: Access,
    namespace: String,
    selector: String,
    wait: Duration,
}

impl Source<[Document]> for ConfigMaps {
    fn kind(&self) -> &'static str {
        "kubernetes"
    }

    fn place(&self) -> String {
        self.access.place()
    }

    fn query(&self) -> String {
        format!("ConfigMaps of {} with {}", self.namespace, self.selector)
    }

    fn group(&self) -> String {
        format!("{} {} {:?}", self.access.group(), self.query(), self.wait)
    }

    fn silence(&self) -> Duration {
        self.wait + GRACE.min(self.wait)
    }

    fn watch<'a>(
        &'a self,
        _members: &'a [Arc<dyn Source<[Document]>>],
        feed: Feed<[Document]>,
    ) -> Watching<'a> {
        Box::pin(async move {
            let api = match self.access.api().await {
                Ok(api) => api,
                Err(why) => return why,
            };
            let selector = format!("labelSelector={}", encoded(&self.selector));
            let grace = GRACE.min(self.wait);
            let scope = Scope { namespace: &self.namespace, selector: &selector, wait: self.wait, grace };
            let known = Known { feed, query: self.query(), maps: Mutex::default(), bell: Notify::new() };
            tokio::select! {
                why = follow(&api, scope, |news| known.take(news)) => why,
                why = known.tell() => why,
            }
        })
    }
}

/// The ConfigMaps that there are.
struct Known {
    feed: Feed<[Document]>,
    query: String,
    maps: Mutex<BTreeMap<String, KubeConfigMapSpec>>,
    bell: Notify,
}

impl Known {
    fn take(&self, news: News<KubeConfigMapSpec>) {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let named = |map: KubeConfigMapSpec| (map.metadata().name.clone(), map);
        let changes = match news {
            News::All(all) => {
                *maps = all.into_iter().map(named).collect();
                return self.bell.notify_one();
            }
            News::Changes(changes) => changes,
        };
        self.feed.alive();
        for change in changes {
            match change {
                Change::Is(map) => maps.extend([named(map)]),
                Change::Gone(map) => drop(maps.remove(&map.metadata().name)),
            }
            self.bell.notify_one();
        }
    }

    /// Tells of what has changed, at most once in [`PAUSE`]. Ends when it is too much; then why.
    async fn tell(&self) -> String {
        loop {
            self.bell.notified().await;
            match self.all() {
                Ok(kept) => kept.tell(&self.feed, &self.query),
                Err(why) => return why,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Each entry of each, by `NAME/ENTRY`.
    fn all(&self) -> Result<Kept<Document>, String> {
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = Kept::new(document);
        for (name, map) in &*maps {
            for (entry, text) in map.data.iter().flatten() {
                kept.put(&format!("{name}/{entry}"), text.as_bytes())?;
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tests::Nothing;

    #[test]
    fn config_maps_are_chosen_by_a_selector() {
        let built =
            |yaml: &str| serde_saphyr::from_str::<KubernetesRoutesSpec>(yaml).unwrap().documents(&Nothing);
        assert_eq!(built("{}").unwrap().query(), "ConfigMaps of default with thalweg/routes=true");
        let team = built("{ selector: 'team in (a,b)', namespace: shop }").unwrap();
        assert_eq!(team.query(), "ConfigMaps of shop with team in (a,b)");
        for bad in ["{ selector: '' }", "{ namespace: A }", "{ context: x }", "{ wait: 1h }"] {
            assert!(built(bad).is_err(), "{bad}");
        }
    }
}
