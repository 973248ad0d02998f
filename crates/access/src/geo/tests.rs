//! Tests with a database that is written here: MMDB 2.0 with records of 24 bits.

use super::*;
use ipnet::IpNet;
use std::collections::BTreeMap;

/// A value in the data section.
pub(crate) enum Value {
    /// A text.
    Text(&'static str),
    /// An unsigned number of 16 bits.
    Short(u16),
    /// An unsigned number of 32 bits.
    Number(u32),
    /// An unsigned number of 64 bits.
    Long(u64),
    /// A map.
    Map(Vec<(&'static str, Value)>),
    /// An array.
    List(Vec<Value>),
}

fn head(kind: u8, size: usize, out: &mut Vec<u8>) {
    assert!(size < 29, "larger ones are not written here");
    match kind {
        0..=7 => out.push(kind << 5 | size as u8),
        _ => out.extend([size as u8, kind - 7]),
    }
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Text(text) => {
            head(2, text.len(), out);
            out.extend(text.as_bytes());
        }
        Value::Short(number) => {
            head(5, 2, out);
            out.extend(number.to_be_bytes());
        }
        Value::Long(number) => {
            head(9, 8, out);
            out.extend(number.to_be_bytes());
        }
        Value::Number(number) => {
            head(6, 4, out);
            out.extend(number.to_be_bytes());
        }
        Value::Map(members) => {
            head(7, members.len(), out);
            members.iter().for_each(|(key, value)| {
                write(&Value::Text(key), out);
                write(value, out);
            });
        }
        Value::List(items) => {
            head(11, items.len(), out);
            items.iter().for_each(|item| write(item, out));
        }
    }
}

/// A database of these networks, none of which contains another one. Networks of IPv4 stand below `::/96`.
pub(crate) fn written(networks: &[(&str, Value)]) -> Vec<u8> {
    let (mut nodes, mut data) = (vec![[None::<usize>; 2]], Vec::new());
    // By node and side: where its data begins.
    let mut leaves = BTreeMap::new();
    for (network, value) in networks {
        let (address, length) = match network.parse::<IpNet>().unwrap() {
            IpNet::V4(network) => (u128::from(u32::from(network.network())), network.prefix_len() + 96),
            IpNet::V6(network) => (u128::from(network.network()), network.prefix_len()),
        };
        let mut node = 0;
        for bit in 0..length {
            let side = (address >> (127 - bit) & 1) as usize;
            if bit + 1 == length {
                leaves.insert((node, side), data.len());
                break;
            }
            node = nodes[node][side].unwrap_or_else(|| {
                nodes.push([None; 2]);
                let new = nodes.len() - 1;
                nodes[node][side] = Some(new);
                new
            });
        }
        write(value, &mut data);
    }
    let mut out = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        for (side, next) in node.iter().enumerate() {
            let leaf = leaves.get(&(at, side)).map(|offset| nodes.len() + 16 + offset);
            let record = next.or(leaf).unwrap_or(nodes.len()) as u32;
            out.extend(&record.to_be_bytes()[1..]);
        }
    }
    out.extend([0; 16]);
    out.extend(data);
    out.extend(b"\xab\xcd\xefMaxMind.com");
    let metadata = Value::Map(vec![
        ("binary_format_major_version", Value::Short(2)),
        ("binary_format_minor_version", Value::Short(0)),
        ("build_epoch", Value::Long(1_795_521_600)),
        ("database_type", Value::Text("Test")),
        ("description", Value::Map(vec![("en", Value::Text("made by a test"))])),
        ("ip_version", Value::Short(6)),
        ("languages", Value::List(vec![Value::Text("en")])),
        ("node_count", Value::Number(nodes.len() as u32)),
        ("record_size", Value::Short(24)),
    ]);
    write(&metadata, &mut out);
    out
}

fn country(code: &'static str) -> Value {
    Value::Map(vec![("country", Value::Map(vec![("iso_code", Value::Text(code))]))])
}

/// The database of the examples and of the tests of the whole proxy: networks for documentation (RFC 5737, RFC 3849,
/// RFC 5398) and of this machine.
fn example() -> Vec<u8> {
    let of = |code, number| {
        let country = Value::Map(vec![("iso_code", Value::Text(code))]);
        Value::Map(vec![("country", country), ("autonomous_system_number", Value::Number(number))])
    };
    written(&[
        ("127.0.0.0/9", of("XA", 64_496)),
        ("127.128.0.0/9", of("XB", 64_497)),
        ("192.0.2.0/24", of("XA", 64_496)),
        ("198.51.100.0/24", of("XB", 64_497)),
        ("2001:db8::/32", of("XB", 64_498)),
    ])
}

#[test]
fn the_example_is_what_is_written_here() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/access/example.mmdb");
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, example()).unwrap();
    }
    assert!(std::fs::read(&path).unwrap() == example(), "`UPDATE_GOLDENS=1` writes it");
}

#[test]
fn countries_and_systems_are_found() {
    let directory = std::env::temp_dir().join(format!("thalweg-geo-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("a.mmdb");
    std::fs::write(&path, example()).unwrap();
    let database = Database::open(&path).unwrap();
    for (address, code, system) in [
        ("192.0.2.1", Some(*b"XA"), Some(64_496)),
        ("::ffff:198.51.100.1", Some(*b"XB"), Some(64_497)),
        ("2001:db8::1", Some(*b"XB"), Some(64_498)),
        ("203.0.113.1", None, None),
        ("2001:db9::1", None, None),
    ] {
        let address = address.parse().unwrap();
        assert_eq!((database.country(address), database.system(address)), (code, system), "{address}");
    }
    // What takes its place is wrong, then right.
    std::fs::write(&path, b"not a database").unwrap();
    assert_eq!(database.look_and_tell(), None, "it may be in the middle of a change");
    let told = database.look_and_tell().unwrap().text;
    assert!(told.contains("it is no MMDB") && told.ends_with("the old one stays"), "{told}");
    assert_eq!(database.country("192.0.2.1".parse().unwrap()), Some(*b"XA"));
    std::fs::write(&path, written(&[("192.0.2.0/24", country("XC"))])).unwrap();
    assert_eq!(database.look_and_tell(), None);
    assert!(database.look_and_tell().unwrap().text.ends_with("is read again"));
    assert_eq!(database.country("192.0.2.1".parse().unwrap()), Some(*b"XC"));
    assert_eq!(database.system("192.0.2.1".parse().unwrap()), None);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn broken_databases_are_refused_or_know_nothing() {
    let good = example();
    for cut in (0..good.len()).step_by(7) {
        if let Ok(reader) = Reader::from_source(good[..cut].to_vec()) {
            let found = reader.lookup("192.0.2.1".parse().unwrap());
            drop(found.map(|found| found.decode_path::<&str>(&[PathElement::Key("country")]).is_ok()));
        }
    }
    for at in (0..good.len()).step_by(3) {
        let mut bytes = good.clone();
        bytes[at] ^= 0xff;
        if let Ok(reader) = Reader::from_source(bytes) {
            let database = Database {
                path: PathBuf::new(),
                reader: ArcSwap::from_pointee(reader),
                state: Mutex::default(),
            };
            for address in ["192.0.2.1", "2001:db8::1", "127.0.0.1"] {
                let address = address.parse().unwrap();
                let _ = (database.country(address), database.system(address));
            }
        }
    }
}
