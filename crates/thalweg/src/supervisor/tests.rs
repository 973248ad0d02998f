//! Trust in children, and how many there are.

use super::*;

/// A user that owns nothing on this machine.
const OTHER: u32 = 54321;

fn child(pid: Pid, channel: Channel) -> Child {
    Child {
        pid,
        channel,
        held: Vec::new(),
        serves_since: None,
        is_leaving: false,
        terms: Terms::default(),
        report: File::from(memfd_create("thalweg-test", MemfdFlags::CLOEXEC).unwrap()),
    }
}

/// A supervisor with a child, and the child's end of the channel.
fn with_child() -> (Supervisor, Channel) {
    let (ours, theirs) = Channel::pair().unwrap();
    let child = child(rustix::process::getpid(), ours);
    let mut supervisor = Supervisor::new();
    supervisor.children.insert(1, child);
    supervisor.current = Some(1);
    (supervisor, theirs)
}

fn says(supervisor: &mut Supervisor, message: MessageSpec) {
    supervisor.hear(1, Received { message, fds: Vec::new() });
}

fn begins(state: &str, uid: u32) -> MessageSpec {
    MessageSpec::Begins { state: Some(state.into()), uid }
}

#[test]
fn only_the_first_message_of_a_child_says_how_far_it_is_trusted() {
    let ours = rustix::process::geteuid().as_raw();
    let (mut supervisor, _child) = with_child();
    says(&mut supervisor, begins("/state", OTHER));
    says(&mut supervisor, begins("/etc", ours));
    let terms = &supervisor.children[&1].terms;
    let Terms::Known { state: Some(state), uid: OTHER } = terms else { panic!("{terms:?}") };
    assert!(state == Path::new("/state") && !terms.is_trusted());
    let (mut supervisor, _child) = with_child();
    says(&mut supervisor, MessageSpec::Hold { sockets: Vec::new() });
    says(&mut supervisor, begins("/etc", ours));
    let terms = &supervisor.children[&1].terms;
    assert!(matches!(terms, Terms::Unknown) && terms.is_trusted() == (ours != 0), "{terms:?}");
    assert!(keep_report(&supervisor.children[&1], ("killed", Duration::ZERO)).unwrap().is_none());
}

#[test]
fn a_child_of_another_user_gets_no_program_started_that_it_names() {
    let (mut supervisor, child) = with_child();
    says(&mut supervisor, begins("/state", OTHER));
    for binary in ["/bin/sh", "/no/such/thalweg"] {
        says(&mut supervisor, MessageSpec::Upgrade { binary: Some(binary.into()) });
        let answer = child.receive(Some(READS)).unwrap().message;
        let MessageSpec::Refused { why } = answer else { panic!("{answer:?}") };
        assert!(why.contains("runs as another user than its supervisor"), "{why}");
        assert_eq!(supervisor.children.len(), 1);
    }
}

/// A configuration that the dropped user rewrote without `user:` gave it root after a crash.
#[test]
fn the_first_user_of_a_child_is_the_only_one() {
    let (mut supervisor, _child) = with_child();
    says(&mut supervisor, begins("/state", OTHER));
    assert_eq!(supervisor.uid, Some(OTHER));
    for (number, uid) in [(2, rustix::process::geteuid().as_raw()), (3, OTHER + 1), (4, OTHER)] {
        let (child, _theirs, mut process) = sleeping();
        supervisor.children.insert(number, child);
        let message = MessageSpec::Begins { state: None, uid };
        supervisor.hear(number, Received { message, fds: Vec::new() });
        assert_eq!(supervisor.uid, Some(OTHER));
        if uid == OTHER {
            assert!(process.try_wait().unwrap().is_none());
            process.kill().unwrap();
        }
        assert_eq!(process.wait().unwrap().signal(), Some(9), "{uid}");
    }
    // An older version says something else first.
    let (child, _theirs, mut process) = sleeping();
    supervisor.children.insert(5, child);
    let message = MessageSpec::Hold { sockets: Vec::new() };
    supervisor.hear(5, Received { message, fds: Vec::new() });
    assert_eq!(process.wait().unwrap().signal(), Some(9));
}

/// A process that does nothing, as a child.
fn sleeping() -> (Child, Channel, std::process::Child) {
    let process = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let (ours, theirs) = Channel::pair().unwrap();
    let pid = Pid::from_raw(process.id().cast_signed()).unwrap();
    (child(pid, ours), theirs, process)
}

/// A child asked for 25 successors, and there were 25 processes of root.
#[test]
fn one_successor_is_started_at_a_time_and_for_the_process_that_serves() {
    let (mut supervisor, child) = with_child();
    says(&mut supervisor, begins("/state", rustix::process::geteuid().as_raw()));
    supervisor.successor = Some(7);
    says(&mut supervisor, MessageSpec::Upgrade { binary: None });
    let answer = child.receive(Some(READS)).unwrap().message;
    let MessageSpec::Refused { why } = answer else { panic!("{answer:?}") };
    assert!(why.contains("another successor"), "{why}");
    assert_eq!(supervisor.children.len(), 1);
    (supervisor.successor, supervisor.current) = (None, Some(9));
    says(&mut supervisor, MessageSpec::Upgrade { binary: None });
    let answer = child.receive(Some(READS)).unwrap().message;
    let MessageSpec::Refused { why } = answer else { panic!("{answer:?}") };
    assert!(why.contains("another process serves"), "{why}");
    supervisor.current = Some(1);
    supervisor.successor = Some(1);
    says(&mut supervisor, MessageSpec::Serving);
    assert!(supervisor.may_upgrade(1).is_ok());
}
