//! The reference of faults, from the table in `thalweg-core`.

use thalweg_core::FaultKind;

/// The page.
pub(crate) fn page() -> String {
    let mut page = String::from(
        "# Faults\n\n\
         Why the proxy could not do what was asked. The same word stands in the `Proxy-Status` field of the\n\
         proxy's own answers (RFC 9209), in the access log, in the `fault` label of metrics and here.\n\n\
         - *status*: what the client gets, unless the fault carries a closer one (499 is only logged)\n\
         - *side*: who is to blame\n\
         - *retry*: when another attempt may be made\n\
         - *closes*: the client's connection is closed after the answer\n\
         - *health*: the endpoint's passive health suffers\n\
         - *log*: how loudly the proxy itself logs it\n\n\
         | fault | meaning | status | side | retry | closes | health | log |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for kind in FaultKind::ALL {
        let rule = kind.rule();
        let yes = |is: bool| if is { "yes" } else { "no" };
        page += &format!(
            "| `{}` | {} | {} | {} | {} | {} | {} | {} |\n",
            rule.name,
            rule.summary,
            rule.status,
            rule.side.name(),
            rule.retry.name(),
            yes(rule.close),
            yes(rule.hurts_endpoint),
            rule.level.name()
        );
    }
    page
}
