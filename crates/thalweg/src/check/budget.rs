//! Whether the machine admits what the limits ask for.

use super::{Subject, place};
use thalweg_config::SpecError;
use thalweg_net::machine::{self, Memory};
use thalweg_proxy::{Allowance, Budget};

pub(super) fn check(subject: &Subject<'_>) -> Vec<SpecError> {
    let workers = subject.loaded.settings.workers.map_or_else(machine::cpus, usize::from);
    let descriptors = machine::raise_descriptor_limit();
    judge(subject, Allowance { descriptors, memory: machine::memory(), workers })
}

fn judge(subject: &Subject<'_>, allowance: Allowance) -> Vec<SpecError> {
    let (plan, places) = (&subject.loaded.plan, subject.places);
    let budget = |allowance| Budget::of(plan, allowance);
    let mut found = Vec::new();
    if let Some(wanted) = plan.limits.max_connections {
        let possible = budget(allowance).connections;
        // Each worker has the same share.
        if possible < wanted / allowance.workers * allowance.workers {
            let unbounded = Allowance { descriptors: usize::MAX / 4, ..allowance };
            let by_memory = budget(unbounded).connections <= possible;
            let (message, help) = if by_memory {
                let memory = budget(allowance).memory >> 20;
                (
                    format!("only {possible} connections fit into {memory} MiB of memory"),
                    "raise `limits.memory` or the cgroup's limit, or write fewer connections".to_owned(),
                )
            } else {
                let descriptors = allowance.descriptors;
                (
                    format!("only {possible} connections fit into {descriptors} descriptors"),
                    "raise the hard limit (`LimitNOFILE=` in a systemd unit, `ulimit -Hn`), or write fewer connections"
                        .to_owned(),
                )
            };
            found.push(SpecError::warning("budget", place(places.max_connections), message).help(help));
        }
    }
    let (Memory::Cgroup(there) | Memory::Machine(there)) = allowance.memory;
    if let Some(wanted) = plan.limits.memory.filter(|wanted| *wanted > there) {
        let message = format!("this machine has {} MiB of memory, not {} MiB", there >> 20, wanted >> 20);
        let warning = SpecError::warning("budget", place(places.memory), message);
        found.push(warning.help("write less, or `auto`"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(limits: &str, allowance: Allowance) -> Vec<String> {
        let text = format!(
            "limits: {limits}\nlisteners: {{ web: {{ address: \":8080\" }} }}\nroutes: [ {{ to: [ \"http://a\" ] }} ]\n"
        );
        let loaded = thalweg_config::check_text("a.yaml", &text, &|_| None).unwrap();
        let subject = Subject { loaded: &loaded, places: &loaded.places };
        judge(&subject, allowance).into_iter().map(|warning| warning.message).collect()
    }

    #[test]
    fn says_what_the_machine_does_not_admit() {
        let plenty = Allowance { descriptors: 1 << 20, memory: Memory::Machine(64 << 30), workers: 2 };
        assert_eq!(messages("{ max_connections: 20001, memory: 1GiB }", plenty), [""; 0]);
        let few = Allowance { descriptors: 1024, ..plenty };
        let said = messages("{ max_connections: 20000 }", few);
        assert!(said.len() == 1 && said[0].contains("1024 descriptors"), "{said:?}");
        let small = Allowance { memory: Memory::Cgroup(64 << 20), ..plenty };
        let said = messages("{ max_connections: 20000 }", small);
        assert!(said.len() == 1 && said[0].contains("MiB of memory"), "{said:?}");
        let said = messages("{ memory: 1GiB }", small);
        assert!(said.len() == 1 && said[0].contains("has 64 MiB"), "{said:?}");
    }
}
