use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{self, Sender};
use std::time::Instant;
use thalweg_tls::OnDemand;

use crate::storage::tests::State;

const STEP: Duration = Duration::from_secs(10);

fn pem(authority: &LocalAuthority) -> Vec<u8> {
    fs::read(authority.file()).unwrap()
}

#[test]
fn there_is_one_of_a_state_directory_whoever_comes_first() {
    let state = State::new("local");
    let open = || {
        let (authority, why) = LocalAuthority::open(&state.0).unwrap();
        assert_eq!(why, None);
        pem(&authority)
    };
    let all: Vec<_> = thread::scope(|scope| {
        let opening: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        opening.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(all.iter().all(|one| *one == all[0] && *one == open()));
    let key = fs::metadata(state.0.join("local/authority.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    assert!(!String::from_utf8(open()).unwrap().contains("PRIVATE"));
}

#[test]
fn one_that_cannot_be_kept_serves_all_the_same_and_nothing_is_overwritten() {
    let state = State::new("local-damaged");
    let key = state.0.join("local/authority.key");
    drop(LocalAuthority::open(&state.0).unwrap());
    fs::write(&key, "damaged").unwrap();
    let (authority, why) = LocalAuthority::open(&state.0).unwrap();
    assert!(why.as_ref().is_some_and(|why| why.contains("is damaged; remove it")), "{why:?}");
    assert_eq!(fs::read_to_string(&key).unwrap(), "damaged");
    authority.sign("a.localhost", &[]).unwrap();
    fs::write(&key, "ends: 18446744073709551615\n-----BEGIN PRIVATE").unwrap();
    assert!(LocalAuthority::open(&state.0).unwrap().1.is_some());
}

#[test]
fn what_is_missing_is_shown_again_and_long_names_are_signed_too() {
    let state = State::new("local-shown");
    let (authority, _) = LocalAuthority::open(&state.0).unwrap();
    let shown = pem(&authority);
    fs::remove_file(authority.file()).unwrap();
    let (authority, why) = LocalAuthority::open(&state.0).unwrap();
    assert_eq!((why, pem(&authority)), (None, shown));
    let long = format!("{}.localhost", "x".repeat(63));
    assert_eq!(authority.sign(&long, &[]).unwrap().names(), [long]);
}

/// Tells when it is called.
struct Told(Sender<()>);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

#[test]
fn names_are_signed_when_clients_come_with_them_and_kept_up_to_a_bound() {
    let state = State::new("local-names");
    let (authority, _) = LocalAuthority::open(&state.0).unwrap();
    let (authority, issued_store) = (Arc::new(authority), IssuedStore::new("test"));
    authority.serve(&issued_store).unwrap();
    let localhost = issued_store.get("localhost").unwrap();
    // BoringSSL refuses addresses below a constraint on addresses: those who come with the name get none.
    assert_eq!((localhost.names().len(), localhost.addresses().len()), (1, 0));
    let unnamed = issued_store.unnamed().unwrap();
    assert_eq!((unnamed.names(), unnamed.addresses().len()), (localhost.names(), 2));
    let (tell, told) = mpsc::channel();
    let waker = Waker::from(Arc::new(Told(tell)));
    let ask = |name: &str| {
        assert_eq!(issued_store.want(name, Instant::now(), &waker), OnDemand::Waits);
        told.recv_timeout(STEP).unwrap();
        issued_store.has(name)
    };
    assert!(ask("a.localhost") && ask("x.y.localhost"));
    let one = issued_store.get("a.localhost").unwrap();
    (issued_store.all().len()..TLS_LOCAL_NAMES)
        .for_each(|at| issued_store.put(&format!("{at}.localhost"), one.clone()));
    // One has to go, and not the first.
    assert!(ask("b.localhost") && issued_store.has("localhost"));
    assert_eq!(issued_store.len(), TLS_LOCAL_NAMES);
}
