//! Bans: purges that are remembered instead of looked for.
//!
//! A ban has a number and concerns what was stored before it. It holds from the moment at which it stands in the list:
//! what is read from the disk is compared with the bans that are newer than it. Behind that, every object is looked at
//! once, and then the ban is forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use thalweg_cache::request::FieldLines;
use thalweg_cache::{UnixMillis, split_lines};
use thalweg_store::{How, PathIs, Select};

type Bytes = Box<[u8]>;

/// Which objects a ban concerns.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Which {
    /// All of this URL, as it stands at the front of keys.
    Url(Bytes),
    /// All under this key.
    Key(Bytes),
    /// A selection.
    Select(Box<Selection>),
}

impl Which {
    /// All objects.
    pub(crate) fn all() -> Self {
        Self::Select(Box::default())
    }
}

/// [`Select`], kept.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Selection {
    spaces: Vec<Bytes>,
    scheme: Option<Bytes>,
    host: Option<Bytes>,
    port: Option<u16>,
    /// With its queries, where these count.
    path: Option<(PathKind, Bytes, Vec<Option<Bytes>>)>,
    tag: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PathKind {
    Exactly,
    Path,
    Prefix,
}

impl Selection {
    pub(crate) fn of(select: &Select<'_>) -> Self {
        let kept = |bytes: Option<&[u8]>| bytes.map(Bytes::from);
        let path = select.path.map(|path| match path {
            PathIs::Exactly(path, queries) => {
                (PathKind::Exactly, path.into(), queries.iter().map(|query| kept(*query)).collect())
            }
            PathIs::Path(path) => (PathKind::Path, path.into(), Vec::new()),
            PathIs::Prefix(path) => (PathKind::Prefix, path.into(), Vec::new()),
        });
        Self {
            spaces: select.spaces.iter().map(|space| Bytes::from(*space)).collect(),
            scheme: kept(select.scheme),
            host: kept(select.host),
            port: select.port,
            path,
            tag: kept(select.tag),
        }
    }

    fn fits<'f>(&self, key: &[u8], fields: impl FieldLines<'f>) -> bool {
        let spaces: Vec<&[u8]> = self.spaces.iter().map(|space| &**space).collect();
        let queries = self.path.iter().flat_map(|(_, _, queries)| queries);
        let queries: Vec<Option<&[u8]>> = queries.map(Option::as_deref).collect();
        let path = self.path.as_ref().map(|(kind, path, _)| match kind {
            PathKind::Exactly => PathIs::Exactly(path, &queries),
            PathKind::Path => PathIs::Path(path),
            PathKind::Prefix => PathIs::Prefix(path),
        });
        let select = Select {
            spaces: &spaces,
            scheme: self.scheme.as_deref(),
            host: self.host.as_deref(),
            port: self.port,
            path,
            tag: self.tag.as_deref(),
        };
        select.fits(key, fields)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let Self { spaces, scheme, host, port, path, tag } = self;
        let is_there = |part: &Option<Bytes>| u8::from(part.is_some());
        out.extend_from_slice(&(spaces.len() as u32).to_le_bytes());
        spaces.iter().for_each(|space| put(out, 1, Some(space)));
        for part in [scheme, host] {
            put(out, is_there(part), part.as_deref());
        }
        out.push(u8::from(port.is_some()));
        out.extend_from_slice(&port.unwrap_or(0).to_le_bytes());
        let (kind, path, queries) = match path {
            None => (0, None, &[][..]),
            Some((kind, path, queries)) => (*kind as u8 + 1, Some(&**path), &queries[..]),
        };
        put(out, kind, path);
        out.extend_from_slice(&(queries.len() as u32).to_le_bytes());
        queries.iter().for_each(|query| put(out, is_there(query), query.as_deref()));
        put(out, is_there(tag), tag.as_deref());
    }

    fn decode(rest: &mut &[u8]) -> Option<Self> {
        // Whoever says more than there is gets none: nothing is set apart in advance.
        let count = u32::from_le_bytes(take(rest)?);
        let spaces = (0..count).map(|_| part(rest)?.1).collect::<Option<_>>()?;
        let (scheme, host) = (part(rest)?.1, part(rest)?.1);
        let ([has_port], port) = (take(rest)?, u16::from_le_bytes(take(rest)?));
        let (kind, path) = part(rest)?;
        let count = u32::from_le_bytes(take(rest)?);
        let queries = (0..count).map(|_| Some(part(rest)?.1)).collect::<Option<_>>()?;
        let path = match kind {
            0 => None,
            1 => Some((PathKind::Exactly, path?, queries)),
            2 => Some((PathKind::Path, path?, queries)),
            3 => Some((PathKind::Prefix, path?, queries)),
            _ => return None,
        };
        let port = (has_port == 1).then_some(port);
        Some(Self { spaces, scheme, host, port, path, tag: part(rest)?.1 })
    }
}

/// A ban.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Ban {
    pub(crate) number: u64,
    pub(crate) how: How,
    pub(crate) which: Which,
}

impl Ban {
    fn fits<'f>(&self, key: &[u8], url: &[u8], fields: impl FieldLines<'f>) -> bool {
        match &self.which {
            Which::Url(banned) => **banned == *url,
            Which::Key(banned) => **banned == *key,
            Which::Select(selection) => selection.fits(key, fields),
        }
    }

    /// Appends it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (how, time) = match self.how {
            How::Remove => (0, 0),
            How::MakeStale(from) => (1, from.0),
        };
        out.extend_from_slice(&self.number.to_le_bytes());
        out.push(how);
        out.extend_from_slice(&time.to_le_bytes());
        match &self.which {
            Which::Url(url) => put(out, 0, Some(url)),
            Which::Key(key) => put(out, 1, Some(key)),
            Which::Select(selection) => {
                out.push(2);
                selection.encode(out);
            }
        }
    }

    /// `None`: it is none.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        let number = u64::from_le_bytes(take(rest)?);
        let [how] = take(rest)?;
        let time = UnixMillis(u64::from_le_bytes(take(rest)?));
        let how = match how {
            0 => How::Remove,
            1 => How::MakeStale(time),
            _ => return None,
        };
        let which = match *rest.first()? {
            0 => Which::Url(part(rest)?.1?),
            1 => Which::Key(part(rest)?.1?),
            2 => {
                take::<1>(rest)?;
                Which::Select(Box::new(Selection::decode(rest)?))
            }
            _ => return None,
        };
        rest.is_empty().then_some(Self { number, how, which })
    }
}

/// A byte, and bytes with their length in front where there are some.
fn put(out: &mut Vec<u8>, kind: u8, bytes: Option<&[u8]>) {
    out.push(kind);
    let length = bytes.map_or(u32::MAX, |bytes| bytes.len() as u32);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn part(rest: &mut &[u8]) -> Option<(u8, Option<Bytes>)> {
    let ([kind], length) = (take(rest)?, u32::from_le_bytes(take(rest)?));
    if length == u32::MAX {
        return Some((kind, None));
    }
    let (bytes, after) = rest.split_at_checked(length as usize)?;
    *rest = after;
    Some((kind, Some(bytes.into())))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*bytes)
}

/// What bans make of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Gone,
    /// It may be used; it is stale from this moment on.
    Kept(Option<UnixMillis>),
}

/// The bans in force.
#[derive(Default)]
pub(crate) struct Bans {
    list: RwLock<Arc<Vec<Arc<Ban>>>>,
    /// The number of the last one.
    last: AtomicU64,
    /// Those up to this number are forgotten: all objects that are stored have met them.
    forgotten: AtomicU64,
}

impl Bans {
    /// The number of the last one.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Bans that were kept, when the store is opened. Those that came before stay.
    pub(crate) fn begin(&self, forgotten: u64, kept: Vec<Ban>) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let base = kept.iter().map(|ban| ban.number).max().unwrap_or(0).max(forgotten);
        let early = list.iter().map(|ban| Ban { number: base + ban.number, ..(**ban).clone() });
        let all: Vec<_> = kept.into_iter().chain(early).map(Arc::new).collect();
        self.last.store(all.last().map_or(base, |ban| ban.number), Ordering::Release);
        self.forgotten.store(forgotten, Ordering::Release);
        *list = Arc::new(all);
    }

    /// Adds one: it holds from now on.
    pub(crate) fn add(&self, how: How, which: Which) -> Arc<Ban> {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let number = self.last.load(Ordering::Relaxed) + 1;
        let ban = Arc::new(Ban { number, how, which });
        Arc::make_mut(&mut list).push(ban.clone());
        self.last.store(number, Ordering::Release);
        ban
    }

    /// Forgets those up to a number.
    pub(crate) fn forget(&self, number: u64) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut list).retain(|ban| ban.number > number);
        self.forgotten.fetch_max(number, Ordering::AcqRel);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<Ban>>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of the last one that is forgotten.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Whether an object that came after ban number `since` may have been concerned by one that is forgotten.
    pub(crate) fn is_unknown(&self, since: u64) -> bool {
        since < self.forgotten.load(Ordering::Acquire)
    }

    /// What those newer than number `since` make of an object.
    pub(crate) fn judge(
        &self,
        since: u64,
        name: (&[u8], &[u8], &[u8]),
        stale_from: Option<UnixMillis>,
    ) -> Verdict {
        match self.last() > since {
            true => judge(&self.all(), since, name, stale_from),
            false => Verdict::Kept(stale_from),
        }
    }
}

/// What those of these bans that are newer than number `since` make of an object.
pub(crate) fn judge(
    bans: &[Arc<Ban>],
    since: u64,
    (key, url, lines): (&[u8], &[u8], &[u8]),
    mut stale_from: Option<UnixMillis>,
) -> Verdict {
    for ban in bans.iter().filter(|ban| ban.number > since) {
        if !ban.fits(key, url, split_lines(lines)) {
            continue;
        }
        match ban.how {
            How::Remove => return Verdict::Gone,
            How::MakeStale(from) => stale_from = Some(stale_from.map_or(from, |known| known.min(from))),
        }
    }
    Verdict::Kept(stale_from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(select: Select<'_>) -> Which {
        Which::Select(Box::new(Selection::of(&select)))
    }

    #[test]
    fn bans_come_back_as_they_were() {
        let all = Select {
            spaces: &[b"s", b""],
            scheme: Some(b"https"),
            host: Some(b""),
            port: Some(8443),
            path: Some(PathIs::Exactly(b"/a", &[Some(b"b=c"), None])),
            tag: Some(b"t"),
        };
        let paths = [PathIs::Exactly(b"/", &[]), PathIs::Path(b"/x"), PathIs::Prefix(b"")];
        let mut which: Vec<_> =
            paths.map(|path| selection(Select { path: Some(path), ..Select::default() })).into();
        which.extend([Which::Url((*b"u").into()), Which::Key((*b"").into()), selection(all)]);
        which.push(selection(Select::default()));
        for (number, which) in which.into_iter().enumerate() {
            for how in [How::Remove, How::MakeStale(UnixMillis(5))] {
                let ban = Ban { number: number as u64, how, which: which.clone() };
                let mut bytes = Vec::new();
                ban.encode(&mut bytes);
                assert_eq!(Ban::decode(&bytes), Some(ban));
                for length in 0..bytes.len() {
                    assert_eq!(Ban::decode(&bytes[..length]), None);
                }
                bytes.push(0);
                assert_eq!(Ban::decode(&bytes), None);
            }
        }
    }

    #[test]
    fn bans_concern_what_came_before_them() {
        let bans = Bans::default();
        bans.begin(5, vec![Ban { number: 7, how: How::Remove, which: Which::Url((*b"u").into()) }]);
        bans.add(How::MakeStale(UnixMillis(9)), Which::Key((*b"k").into()));
        bans.add(How::MakeStale(UnixMillis(8)), Which::Key((*b"k").into()));
        let judge = |since, key: &[u8], url: &[u8]| bans.judge(since, (key, url, b""), None);
        assert_eq!(bans.last(), 9);
        assert_eq!((judge(6, b"x", b"u"), judge(7, b"x", b"u")), (Verdict::Gone, Verdict::Kept(None)));
        assert_eq!(judge(7, b"k", b""), Verdict::Kept(Some(UnixMillis(8))));
        assert_eq!(judge(9, b"k", b""), Verdict::Kept(None));
        assert!(bans.is_unknown(4) && !bans.is_unknown(5));
        bans.forget(8);
        assert!(bans.is_unknown(7) && !bans.is_unknown(8));
        assert_eq!((bans.all().len(), bans.last()), (1, 9));
    }
}
