//! A page of text that is about as compressible as pages are: words of unequal frequency within tags.

/// Words, the frequent ones first.
const WORDS: &str = "\
    the of and to in a is that it for was on are as with they be at one have this from had by not word but what \
    some we can out other were all there when up use your how said an each she which their time if will way \
    about many then them write would like these long make thing see two look more day could go come number sound \
    people over know water than call first who may down side been now find river channel current depth harbour \
    estuary measurement observation";

/// A page of exactly this many bytes, always the same one.
pub(super) fn page(bytes: usize) -> Vec<u8> {
    let words: Vec<&str> = WORDS.split(' ').collect();
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    let mut page = b"<!doctype html>\n<html><head><title>Thalweg</title></head><body>\n".to_vec();
    while page.len() < bytes {
        let class = draw.below(9);
        page.extend_from_slice(
            format!("<p class=\"item-{class}\" id=\"p{}\">", draw.below(100_000)).as_bytes(),
        );
        for _ in 0..8 + draw.below(30) {
            // The lower of two draws: the first words come most often.
            let at = draw.below(words.len() as u64).min(draw.below(words.len() as u64));
            page.extend_from_slice(words[at as usize].as_bytes());
            page.push(b' ');
        }
        page.extend_from_slice(
            format!("<a href=\"/page/{}\">more</a></p>\n", draw.below(100_000)).as_bytes(),
        );
    }
    page.truncate(bytes);
    page
}

/// Numbers that are the same in every run (xorshift).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_length_and_is_always_the_same() {
        assert_eq!(page(10_000).len(), 10_000);
        assert_eq!(page(10_000), page(10_000));
        assert_eq!(page(20_000)[..10_000], page(10_000));
    }
}
