use super::*;

const GIB: u64 = 1024 * MIB;

fn budget(limits: Limits, descriptors: usize, memory: u64) -> Budget {
    Budget::new(&limits, 1, Allowance { descriptors, memory: Memory::Machine(memory), workers: 2 })
}

fn with_memory(memory: u64) -> Limits {
    Limits { memory: Some(memory), ..Limits::default() }
}

/// Everything that can be taken on at once, with the buffers of every request full.
fn worst(budget: &Budget) -> u64 {
    let mut used = Used { upstream: budget.upstream_connections, ..Used::default() };
    while budget.has_room_for_a_client(&used) && used.clients < budget.connections {
        (used.clients, used.fresh) = (used.clients + 1, used.fresh + 1);
    }
    used.active = budget.in_flight;
    budget.memory_used(&used) + budget.bodies as u64 * budget.body_cost()
}

#[test]
fn a_usual_machine_is_bounded_by_its_descriptors_and_leaves_sockets_to_the_kernel() {
    let budget = budget(Limits::default(), 20_000, 24 * GIB);
    assert_eq!(budget.memory, 12 * GIB);
    let own = DESCRIPTOR_RESERVE + 2 * (REFUSALS + 9 + 2 * PIPES);
    assert_eq!((budget.pipes, budget.connections), (PIPES, (20_000 - own) / 2 / 2 * 2));
    assert_eq!(budget.in_flight, budget.connections);
    assert_eq!(budget.bodies, budget.connections, "nothing is counted for nothing");
    assert_eq!(budget.socket_buffers, None);
    assert_eq!(budget.held_limit(State::Normal), LIMIT);
}

#[test]
fn a_cgroup_gives_three_quarters_and_a_machine_half() {
    let allowance = |memory| Allowance { descriptors: 1024, memory, workers: 1 };
    let memory = |memory| Budget::new(&Limits::default(), 1, allowance(memory)).memory;
    assert_eq!(memory(Memory::Cgroup(400 * MIB)), 300 * MIB);
    assert_eq!(memory(Memory::Machine(400 * MIB)), 200 * MIB);
}

#[test]
fn what_is_taken_on_fits_into_little_memory_with_every_buffer_full() {
    for mib in [32, 48, 64, 100, 128, 256, 500, 1000] {
        for max_connections in [None, Some(10), Some(100), Some(1000), Some(1_000_000)] {
            let limits = Limits { max_connections, ..with_memory(mib * MIB) };
            let budget = budget(limits, 1_048_576, 24 * GIB);
            if budget.socket_buffers.is_some() {
                assert!(worst(&budget) <= budget.shared, "{mib} MiB, {max_connections:?}: {budget:?}");
            }
            assert!(budget.connections >= 2 && budget.in_flight >= 1, "{budget:?}");
            assert!(
                budget.bodies <= budget.in_flight && budget.in_flight <= budget.connections,
                "{budget:?}"
            );
        }
    }
}

#[test]
fn little_memory_is_enough_for_many_silent_clients_and_fewer_bodies() {
    let budget = budget(with_memory(64 * MIB), 20_000, GIB);
    assert_eq!(budget.socket_buffers, Some(BUFFER_MIN as u32));
    assert!(budget.connections > 2_500 && budget.in_flight > 500 && budget.bodies > 150, "{budget:?}");
    let silent = Used { clients: budget.connections - 1, ..Used::default() };
    assert!(budget.memory_used(&silent) * 3 <= budget.shared);
    let fresh = Used { clients: 500, fresh: 500, ..Used::default() };
    assert!(!budget.has_room_for_a_client(&fresh), "what they may have sent does not fit");
}

#[test]
fn bounds_that_are_configured_hold() {
    let limits = Limits { max_connections: Some(100), max_in_flight: Some(7), ..Limits::default() };
    let budget = budget(limits, 20_000, 24 * GIB);
    assert_eq!((budget.connections, budget.in_flight), (100, 7));
    assert_eq!(budget.upstream_connections, 7);
}

#[test]
fn descriptors_are_enough_for_all_that_is_taken_on() {
    for descriptors in [0, 64, 256, 1024, 65_536] {
        let budget = budget(Limits::default(), descriptors, 24 * GIB);
        let open = budget.own_descriptors + budget.connections + budget.upstream_connections;
        assert!(open <= descriptors.max(256), "{budget:?}");
    }
}

#[test]
fn where_descriptors_are_few_pipes_are_fewer() {
    let pipes = |descriptors| budget(Limits::default(), descriptors, 24 * GIB).pipes;
    assert_eq!([0, 256, 1024, 65_536].map(pipes), [0, 0, 3, PIPES]);
}

#[test]
fn flows_may_hold_less_from_state_to_state() {
    let small = budget(with_memory(64 * MIB), 20_000, GIB);
    let large = budget(with_memory(8 * GIB), 20_000, GIB);
    for budget in [small, large] {
        let limits =
            [State::Normal, State::AdmissionControl, State::Full].map(|state| budget.held_limit(state));
        assert!(limits[0] > limits[1] && limits[1] > limits[2] && limits[2] == 0, "{limits:?}");
    }
    assert_eq!(large.held_limit(State::Normal), LIMIT);
    let held = 2 * small.held_limit(State::Normal);
    assert!(small.memory_used(&Used { held, ..Used::default() }) <= small.shared / 3);
}

#[test]
fn a_state_is_left_lower_than_it_was_entered() {
    let walk = |shares: &[u64]| shares.iter().fold(State::Normal, |state, used| state.next(*used, 100));
    assert_eq!(walk(&[79]), State::Normal);
    assert_eq!(walk(&[80]), State::AdmissionControl);
    assert_eq!(walk(&[80, 70]), State::AdmissionControl);
    assert_eq!(walk(&[80, 69]), State::Normal);
    assert_eq!(walk(&[95]), State::Full);
    assert_eq!(walk(&[95, 90]), State::Full);
    assert_eq!(walk(&[95, 89]), State::AdmissionControl);
    assert_eq!(walk(&[95, 75]), State::AdmissionControl);
    assert_eq!(walk(&[95, 5]), State::Normal);
    assert_eq!(walk(&[85, 94]), State::AdmissionControl);
}

#[test]
fn saturation_is_the_largest_share() {
    let budget = budget(Limits { max_in_flight: Some(10), ..Limits::default() }, 20_000, 24 * GIB);
    let near = |used: &Used, expected: f64| {
        let is = budget.saturation(used);
        assert!((is - expected).abs() < 0.001, "{is} is not {expected} for {used:?}");
    };
    near(&Used { active: 5, clients: 5, ..Used::default() }, 0.5);
    near(&Used { active: 20, clients: 20, ..Used::default() }, 1.0);
    near(&Used { clients: budget.connections / 4 * 3, ..Used::default() }, 0.75);
    near(&Used { held: (budget.shared / 10 * 9) as usize, ..Used::default() }, 0.9);
}

#[test]
fn what_the_cache_may_use_is_not_shared_out() {
    let allowance = Allowance { descriptors: 20_000, memory: Memory::Machine(4 * GIB), workers: 2 };
    let budget = |cache: u64| Budget::with_cache((&Limits::default(), 1), allowance, |_| cache);
    let (none, some) = (budget(0), budget(256 * MIB));
    assert_eq!((none.memory, none.cache, some.cache), (some.memory, 0, 256 * MIB));
    assert_eq!(none.shared - some.shared, 256 * MIB);
}
