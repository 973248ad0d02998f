//! What may never change: the hashes, and which endpoint a key has. Another result here means that after an upgrade
//! nearly every user loses their session or cache, and that two versions side by side disagree.

#![allow(clippy::unwrap_used)]

use thalweg_balance::{Candidate, NoLoads, Pick, Seed, balancer, endpoint_id, key_hash};

/// Keys of each golden table.
const KEYS: usize = 64;

/// The endpoints of the golden tables, by weight.
const WEIGHTS: [u32; 6] = [1, 2, 1, 5, 0, 3];

fn endpoints(weights: impl IntoIterator<Item = u32>) -> Vec<Candidate> {
    let id = |number: usize| endpoint_id(&format!("http://10.0.0.{number}:8080"));
    let all = weights.into_iter().enumerate();
    all.map(|(number, weight)| Candidate { weight, ready: true, id: id(number) }).collect()
}

/// The endpoint of each key, one digit each.
fn assignments(name: &str, set: &[Candidate]) -> String {
    let mut balancer = (balancer(name).unwrap().new)(Seed(1));
    balancer.rebuild(set);
    let home = |number: usize| {
        let hash = key_hash(format!("user-{number}").as_bytes());
        let pick = Pick { candidates: set, tried: &[], hash, bounded_load: None, loads: &NoLoads };
        balancer.pick(&pick).unwrap()
    };
    let digits = (0..KEYS).map(home).map(|index| char::from_digit(index % 36, 36).unwrap());
    digits.collect()
}

#[test]
fn a_key_is_hashed_as_xxh64_is_published() {
    assert_eq!(key_hash(b""), 0xef46_db37_51d8_e999);
    assert_eq!(key_hash(b"a"), 0xd24e_c4f1_a98c_6e5b);
    assert_eq!(key_hash(b"abc"), 0x44bc_2cf5_ad77_0999);
    assert_eq!(key_hash(b"Nobody inspects the spammish repetition"), 0xfbce_a83c_8a37_8bf1);
}

#[test]
fn hashes_of_every_length_stay() {
    let bytes: Vec<u8> = (0..=255).collect();
    let all = (0..bytes.len()).fold(0_u64, |all, length| all.rotate_left(1) ^ key_hash(&bytes[..length]));
    assert_eq!(all, 0xd675_ba71_30e4_31b9);
    assert_eq!(endpoint_id(""), 0xd5af_ba13_36a3_be4b);
    assert_eq!(endpoint_id("http://10.0.0.1:8080"), 0xd554_145a_c169_79d5);
}

#[test]
fn a_ring_keeps_its_assignments() {
    assert_eq!(
        assignments("ring", &endpoints(WEIGHTS)),
        "3213505110301355355322311513135115513531350031051325235335332021"
    );
}

#[test]
fn a_maglev_table_keeps_its_assignments() {
    assert_eq!(
        assignments("maglev", &endpoints(WEIGHTS)),
        "5355301351135332333350533353301553333115233552333315103101533353"
    );
}

#[test]
fn rendezvous_keeps_its_assignments() {
    assert_eq!(
        assignments("rendezvous", &endpoints(WEIGHTS)),
        "3033133335035503155113535553300053153152503311535555113335105553"
    );
}

#[test]
fn large_sets_keep_their_assignments() {
    // A ring that is halved, and the large table of Maglev.
    let set = endpoints((0..7_000).map(|number| 1 + number % 3));
    assert_eq!(assignments("ring", &set), "sph192ohdwkll6qkq4w85zpetmz78k1hsa7w2atmabac4pw41dv7w1nik5mep1z7");
    assert_eq!(
        assignments("maglev", &set),
        "1zea046ay2ezmemehpzzxxde8y8tv5atw95ajnqh7b1nsrn87wnnt51gdbbmjdi5"
    );
    assert_eq!(
        assignments("rendezvous", &set),
        "ycbub8bqbeznsdgkdh2ed8b1thv5bg9eye1c1ib8htebtdng9h5bn65w8b4gqtzo"
    );
}

#[test]
fn a_key_of_an_endpoint_that_is_out_keeps_its_second_choice() {
    let mut set = endpoints(WEIGHTS);
    set[3].ready = false;
    assert_eq!(assignments("ring", &set), "2212505110501055155122211515105115515511150051051125255555552021");
    assert_eq!(
        assignments("maglev", &set),
        "5155101051155552115550525550501555255115211552105515100101555055"
    );
    assert_eq!(
        assignments("rendezvous", &set),
        "2011110555055505155111515555500051151152505111505555111555105550"
    );
    // Only what has few places is ready: found by the way around long searches.
    let mut set = endpoints((0..30).map(|number| if number % 6 == 0 { 1 + number / 6 } else { 1000 }));
    set.iter_mut().for_each(|candidate| candidate.ready = candidate.weight < 1000);
    assert_eq!(assignments("ring", &set), "60oiio6ioi6oi0o0ocooocic6iocc0ociociooiocooicci0coooci6icii0iioo");
    assert_eq!(
        assignments("maglev", &set),
        "606iio6ici6oi0o0ociooiic6ioic0ociociooiocooicoi0cooocioicii0iioo"
    );
    assert_eq!(
        assignments("rendezvous", &set),
        "60oiio6ici6oi0o0ociooiic6ioic0ociociooiocooicoi0cooocioicii0iioo"
    );
}

#[test]
fn endpoints_with_the_same_id_keep_their_assignments() {
    let twins = [1, 2, 1].map(|weight| Candidate { weight, ready: true, id: 7 });
    assert_eq!(
        assignments("ring", &twins),
        "2001210221112110011111001110220120122121111101110001021012101202"
    );
    assert_eq!(
        assignments("maglev", &twins),
        "2022001212020020111111110101102212112110221100121222101020011212"
    );
    assert_eq!(
        assignments("rendezvous", &twins),
        "0211111011111220101012110210221010111021210101110221122001011111"
    );
}
