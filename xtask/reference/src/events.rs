//! The reference of events, from the tables in `thalweg-core`.

use thalweg_core::{EndpointCondition, EventKind};

/// The page.
pub(crate) fn page() -> String {
    let mut page = String::from(
        "# Events\n\n\
         What `GET /api/v1/events` and webhooks tell. How to use them: [the guide](../guide/events.md).\n\n\
         | event | meaning |\n\
         |---|---|\n",
    );
    for kind in EventKind::ALL {
        page += &format!("| `{}` | {} |\n", kind.name(), kind.summary());
    }
    page += "\n`state` of an endpoint:\n\n\
             | state | meaning |\n\
             |---|---|\n";
    for condition in EndpointCondition::ALL {
        page += &format!("| `{}` | {} |\n", condition.name(), condition.summary());
    }
    page
}
