//! What a source has found.

use thalweg_upstream::Labels;

/// The largest weight of an endpoint.
const WEIGHT: u32 = 1000;

/// One endpoint.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Found {
    /// The scheme that the source tells of, as `https`; `None`: the one that the service says, `http` by default.
    pub scheme: Option<&'static str>,
    /// A name or an address; an IPv6 address without brackets.
    pub host: String,
    /// 1–65535.
    pub port: u16,
    /// Its share, 0 (none) to 1000; default 1.
    pub weight: u32,
    /// It is used only while none of a lower tier is well, 0–9; default 0.
    pub tier: u8,
    /// What the source says of it beside, such as `zone` and `version`.
    pub labels: Labels,
}

impl Found {
    /// With weight 1, in tier 0, without labels.
    pub fn at(host: impl Into<String>, port: u16) -> Self {
        let (scheme, labels) = (None, Labels::default());
        Self { scheme, host: host.into(), port, weight: 1, tier: 0, labels }
    }

    /// The URL of the endpoint, with `scheme` where the source tells of none.
    pub fn url(&self, scheme: &str) -> String {
        let scheme = self.scheme.unwrap_or(scheme);
        if self.host.contains(':') {
            format!("{scheme}://[{}]:{}", self.host, self.port)
        } else {
            format!("{scheme}://{}:{}", self.host, self.port)
        }
    }
}

/// Weights of another scale, none above 1000: in proportion, where the largest is too large; who has any share keeps
/// at least 1.
pub fn scale_weights(found: &mut [Found]) {
    let largest = found.iter().map(|found| found.weight).max().unwrap_or(0);
    if largest <= WEIGHT {
        return;
    }
    for found in found.iter_mut().filter(|found| found.weight > 0) {
        let scaled = u64::from(found.weight) * u64::from(WEIGHT) / u64::from(largest);
        found.weight = u32::try_from(scaled).unwrap_or(WEIGHT).max(1);
    }
}
