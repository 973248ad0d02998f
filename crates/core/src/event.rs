//! What happens to endpoints, services and the configuration, for those who watch from outside.
//!
//! Made where it happens, numbered and kept by the admin crate, sent to its event stream and to
//! webhooks. An endpoint that goes out of rotation is one kind, whoever saw it: a health check and
//! an ejection both are [`EventKind::EndpointDown`], and the cause says which it was.

use std::sync::Arc;
use std::time::SystemTime;

/// An enumeration whose every value is a word with a sentence.
macro_rules! words {
    ($(#[$doc:meta])* $enum:ident { $( $variant:ident $name:literal $summary:literal; )* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum $enum { $( #[doc = $summary] $variant, )* }

        impl $enum {
            /// Every value, in the order of the table.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// The word used in the configuration, events, the admin API and documents.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// One sentence for the reference page.
            pub const fn summary(self) -> &'static str {
                match self { $( Self::$variant => $summary, )* }
            }

            /// The value with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}

words! {
    /// The kinds of event.
    EventKind {
        EndpointDown "endpoint_down"
            "an endpoint gets no traffic any more: health checks failed, or it was ejected for failing exchanges";
        EndpointUp "endpoint_up"
            "an endpoint gets traffic again after it was down";
        EndpointAdded "endpoint_added"
            "an endpoint was added to a service";
        EndpointRemoved "endpoint_removed"
            "an endpoint was removed from a service";
        DrainFinished "drain_finished"
            "the last exchange of an endpoint that drains is over, or its time was up";
        ServiceUnavailable "service_unavailable"
            "no endpoint of a service can be used";
        ServiceAvailable "service_available"
            "a service that was unavailable has an endpoint again";
        ReloadFailed "reload_failed"
            "a new configuration was refused; the old one keeps running";
        ConfigApplied "config_applied"
            "a configuration took over after a reload, by the admin API, or from the history";
        ConfigRolledBack "config_rolled_back"
            "a configuration that was watched did harm, and the one before it took over again";
        CanaryStep "canary_step"
            "a newcomer among the services of a route gets another share of its requests";
        CanaryFinished "canary_finished"
            "a newcomer among the services of a route has passed every step, or was promoted";
        CanaryFailed "canary_failed"
            "a newcomer among the services of a route has broken a gate, or was rolled back by an operator";
        MaintenanceBegun "maintenance_begun"
            "the filter `maintenance` of a route was turned on through the admin API";
        MaintenanceEnded "maintenance_ended"
            "the filter `maintenance` of a route was turned off through the admin API, or is as the file says again";
        AddressBlocked "address_blocked"
            "a network was put into a list of addresses through the admin API";
        AddressUnblocked "address_unblocked"
            "a network was taken out of a list of addresses through the admin API, or its time was over";
        ClientBanned "client_banned"
            "a client was put into a list of addresses by a ban, or would have been where it is a dry run";
        CachePurged "cache_purged"
            "stored responses were taken away, or made stale, by a purge: through the admin API, or told by another replica";
        PurgeChannelLost "purge_channel_lost"
            "the channel on which replicas tell each other of purges cannot be used; purges of others may be missed";
        PurgeChannelUp "purge_channel_up"
            "the channel on which replicas tell each other of purges can be used";
        SourceFailed "source_failed"
            "a source of endpoints cannot be asked, or says what cannot be understood; what is known stays in use";
        SourceRecovered "source_recovered"
            "a source of endpoints that failed works again";
        SloBurning "slo_burning"
            "the budget of an objective is used up too fast: its cause says which, and how fast over which time";
        SloRecovered "slo_recovered"
            "the budget of an objective that was used up too fast no longer is";
        CertificateRenewed "certificate_renewed"
            "an authority has issued a certificate, the first one for its host or one in place of an older one";
        CertificateExpiring "certificate_expiring"
            "a certificate expires in 30, 7 or 1 days, or has expired";
        CertificateReplaced "certificate_replaced"
            "the files of a certificate hold another one, which is used now";
        CertificateFailed "certificate_failed"
            "a certificate could not be issued or renewed, or files of one or of ticket keys have changed and cannot be used; what there was goes on";
    }
}

words! {
    /// How an endpoint stands.
    EndpointCondition {
        Ready "ready" "it gets its full share";
        SlowStart "slow_start" "it gets a share that grows until it is the full one";
        Unhealthy "unhealthy" "its health checks fail";
        Ejected "ejected" "it is set aside for failing exchanges, until its ejection time is over";
        Draining "draining" "it gets nothing new; what is under way may finish";
        Maintenance "maintenance" "it is set aside by an operator";
        Unchecked "unchecked" "it waits for its first health check";
    }
}

/// One endpoint at the moment of an event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EndpointSnapshot {
    /// Its URL, as in the configuration.
    pub url: Arc<str>,
    /// Its weight.
    pub weight: u32,
    /// How it stands.
    pub state: EndpointCondition,
}

/// Something that happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// When.
    pub at: SystemTime,
    /// What.
    pub kind: EventKind,
    /// The service's name, where it is about one.
    pub service: Option<Arc<str>>,
    /// The endpoint's URL, where it is about one.
    pub endpoint: Option<Arc<str>>,
    /// Why, in a few words without a full stop.
    pub cause: String,
    /// All endpoints of the service, right after the event. Empty where it is about none.
    pub endpoints: Arc<[EndpointSnapshot]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a table: words in snake_case, each once, sentences without a full stop.
    macro_rules! check {
        ($enum:ident) => {
            for (i, value) in $enum::ALL.iter().enumerate() {
                let name = value.name();
                assert_eq!((*value as usize, $enum::from_name(name)), (i, Some(*value)));
                assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
                assert!(!value.summary().ends_with('.') && !value.summary().contains('|'), "{name}");
            }
        };
    }

    #[test]
    fn words_are_unique_and_lead_back() {
        check!(EventKind);
        check!(EndpointCondition);
        assert_eq!(EventKind::from_name("Endpoint_down"), None);
    }
}
