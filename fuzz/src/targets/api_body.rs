//! Bodies of the admin API.
//!
//! Input: a body, read as that of every operation that takes JSON. Asserts: a refusal is a 4xx; an accepted body is
//! an object to a second parser too, and is accepted again as that parser serialises it; an accepted purge survives
//! serialisation for other replicas.

use serde_json::{Map, Value};
use thalweg_admin::{purge_of, read_bodies};

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let object = serde_json::from_slice::<Map<String, Value>>(input).ok();
    let again = object.map(|object| Value::Object(object).to_string());
    let mut all_again = again.iter().flat_map(|text| read_bodies(text.as_bytes()));
    let mut count = 0;
    for (operation, read) in read_bodies(input) {
        count += 1;
        let of_written = all_again.next();
        match read {
            Ok(()) => {
                assert!(again.is_some(), "`{operation}` takes what is no object");
                assert_eq!(of_written, Some((operation, Ok(()))), "another verdict on what was written");
            }
            Err(status) => assert!((400..500).contains(&status), "`{operation}` answers {status}"),
        }
    }
    assert!(count >= 10, "the table has {count} bodies");
    if let Ok(purge) = purge_of(input) {
        let written = serde_json::to_vec(&purge).expect("a purge is JSON");
        assert_eq!(purge_of(&written).as_ref(), Ok(&purge), "{}", String::from_utf8_lossy(&written));
    }
}
