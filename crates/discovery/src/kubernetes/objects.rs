//! What is read of the objects of Kubernetes; all else in them is passed over.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// The label of an EndpointSlice that names its Service.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A kind of object that can be listed and watched.
pub(super) trait Resource: DeserializeOwned + Send {
    /// Before the namespace: `/api/v1`.
    const GROUP: &'static str;
    /// As in paths: `services`.
    const PLURAL: &'static str;

    fn metadata(&self) -> &KubeMetadataSpec;

    /// What it takes in memory, in objects: itself and the longest of its lists.
    fn size(&self) -> usize;
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KubeMetadataSpec {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) resource_version: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl KubeMetadataSpec {
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }
}

/// `v1` Service.
#[derive(Debug, Deserialize)]
pub(super) struct KubeServiceSpec {
    pub(super) metadata: KubeMetadataSpec,
    #[serde(default)]
    pub(super) spec: KubeServiceBodySpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KubeServiceBodySpec {
    #[serde(default, rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) external_name: String,
    #[serde(default)]
    pub(super) ports: Option<Vec<KubeServicePortSpec>>,
    /// The first is the primary one.
    #[serde(default)]
    pub(super) ip_families: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct KubeServicePortSpec {
    #[serde(default)]
    pub(super) name: String,
    pub(super) port: u16,
}

impl Resource for KubeServiceSpec {
    const GROUP: &'static str = "/api/v1";
    const PLURAL: &'static str = "services";

    fn metadata(&self) -> &KubeMetadataSpec {
        &self.metadata
    }

    fn size(&self) -> usize {
        1 + self.spec.ports.as_ref().map_or(0, Vec::len)
    }
}

/// `v1` ConfigMap.
#[derive(Debug, Deserialize)]
pub(super) struct KubeConfigMapSpec {
    metadata: KubeMetadataSpec,
    #[serde(default)]
    pub(super) data: Option<BTreeMap<String, String>>,
}

impl Resource for KubeConfigMapSpec {
    const GROUP: &'static str = "/api/v1";
    const PLURAL: &'static str = "configmaps";

    fn metadata(&self) -> &KubeMetadataSpec {
        &self.metadata
    }

    /// An object for every 32 bytes: 16 MiB are as much as there may be.
    fn size(&self) -> usize {
        let bytes: usize = self.data.iter().flatten().map(|(entry, text)| entry.len() + text.len()).sum();
        1 + bytes / 32
    }
}

/// `discovery.k8s.io/v1` EndpointSlice.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndpointSliceSpec {
    pub(super) metadata: KubeMetadataSpec,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub(super) address_type: String,
    #[serde(default)]
    pub(super) endpoints: Option<Vec<SliceEndpointSpec>>,
    /// None: all ports.
    #[serde(default)]
    pub(super) ports: Option<Vec<SlicePortSpec>>,
}

impl EndpointSliceSpec {
    pub(super) fn endpoints(&self) -> &[SliceEndpointSpec] {
        self.endpoints.as_deref().unwrap_or_default()
    }

    pub(super) fn ports(&self) -> &[SlicePortSpec] {
        self.ports.as_deref().unwrap_or_default()
    }
}

impl Resource for EndpointSliceSpec {
    const GROUP: &'static str = "/apis/discovery.k8s.io/v1";
    const PLURAL: &'static str = "endpointslices";

    fn metadata(&self) -> &KubeMetadataSpec {
        &self.metadata
    }

    fn size(&self) -> usize {
        1 + self.endpoints().len()
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SlicePortSpec {
    #[serde(default)]
    pub(super) name: Option<String>,
    /// None: any.
    #[serde(default)]
    pub(super) port: Option<u16>,
    #[serde(default)]
    pub(super) app_protocol: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SliceEndpointSpec {
    /// Only the first counts.
    #[serde(default)]
    pub(super) addresses: Vec<String>,
    #[serde(default)]
    pub(super) conditions: SliceConditionsSpec,
    #[serde(default)]
    pub(super) target_ref: Option<SliceTargetSpec>,
    #[serde(default)]
    pub(super) node_name: Option<String>,
    #[serde(default)]
    pub(super) zone: Option<String>,
    #[serde(default)]
    pub(super) hints: Option<SliceHintsSpec>,
}

/// None stands for `ready`, for what `ready` says, and for not terminating.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct SliceConditionsSpec {
    #[serde(default)]
    ready: Option<bool>,
    #[serde(default)]
    serving: Option<bool>,
    #[serde(default)]
    terminating: Option<bool>,
}

impl SliceConditionsSpec {
    pub(super) fn is_ready(self) -> bool {
        self.ready.unwrap_or(true)
    }

    /// It still answers, and will not for long.
    pub(super) fn is_leaving_and_serving(self) -> bool {
        self.terminating.unwrap_or(false) && self.serving.unwrap_or(self.is_ready())
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct SliceTargetSpec {
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SliceHintsSpec {
    #[serde(default)]
    pub(super) for_zones: Option<Vec<SliceHintSpec>>,
    #[serde(default)]
    pub(super) for_nodes: Option<Vec<SliceHintSpec>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SliceHintSpec {
    #[serde(default)]
    pub(super) name: String,
}
