//! What a session knows and asks for, without I/O: bytes that came go in, bytes to send come out.
//!
//! A watch of ZooKeeper fires once. So each reading sets it anew, and what it tells is only that one reads again: the
//! children of the node that stands for a service, or the data of one child. Answers come in the order of the
//! questions, and a notice before what it is about.

use super::jute::{Reader, Short, Writer, op, xid};
use crate::feed::Content;
use crate::kept::{Item, KEYS, Kept, ReadValue};
use std::collections::{BTreeSet, VecDeque};

/// Questions that are under way at a time.
const WINDOW: usize = 256;
/// Most requests that wait for each node. A request that has not been sent has set no watch, so there is at most one
/// for each child, before and after a change of the children.
const WAITING: usize = 2 * KEYS + 16;
/// The node is not there.
const NO_NODE: i32 = -101;
/// One may not read it.
const NO_AUTH: i32 = -102;
/// The session is over.
const EXPIRED: i32 = -112;
/// Kinds of notices.
const CREATED: i32 = 1;
const DELETED: i32 = 2;
const DATA_CHANGED: i32 = 3;
const CHILDREN_CHANGED: i32 = 4;

/// What is asked of the node with this position.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Ask {
    Children(usize),
    Exists(usize),
    Data(usize, Box<str>),
}

/// A node whose children are instances.
struct Node<I> {
    path: String,
    kept: Kept<I>,
    /// Whose data has been asked for, with a watch that has not fired.
    watched: BTreeSet<Box<str>>,
    /// Questions without an answer.
    open: usize,
    has_changed: bool,
    /// All was known once.
    is_whole: bool,
}

/// All nodes of a session.
pub(super) struct Session<I> {
    nodes: Vec<Node<I>>,
    waiting: VecDeque<Ask>,
    under_way: VecDeque<(i32, Ask)>,
    last_xid: i32,
}

impl<I: Item> Session<I>
where
    [I]: Content,
{
    /// For nodes at these paths.
    pub(super) fn new(paths: impl Iterator<Item = String>, read: ReadValue<I>) -> Self {
        let node = |path| Node {
            path,
            kept: Kept::new(read),
            watched: BTreeSet::new(),
            open: 0,
            has_changed: false,
            is_whole: false,
        };
        let mut this = Self {
            nodes: paths.map(node).collect(),
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
            last_xid: 0,
        };
        for at in 0..this.nodes.len() {
            this.ask(Ask::Children(at));
        }
        this
    }

    fn ask(&mut self, ask: Ask) {
        let (Ask::Children(at) | Ask::Exists(at) | Ask::Data(at, _)) = &ask;
        self.nodes[*at].open += 1;
        self.waiting.push_back(ask);
    }

    /// What is to be sent now.
    pub(super) fn outgoing(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.under_way.len() < WINDOW {
            let Some(ask) = self.waiting.pop_front() else { break };
            self.last_xid = self.last_xid.checked_add(1).unwrap_or(1);
            let (op, path) = match &ask {
                Ask::Children(at) => (op::GET_CHILDREN, self.nodes[*at].path.clone()),
                Ask::Exists(at) => (op::EXISTS, self.nodes[*at].path.clone()),
                Ask::Data(at, name) => (op::GET_DATA, format!("{}/{name}", self.nodes[*at].path)),
            };
            bytes.extend(Writer::request(self.last_xid, op).bytes(path.as_bytes()).bool(true).frame());
            self.under_way.push_back((self.last_xid, ask));
        }
        bytes
    }

    /// Takes what came.
    ///
    /// # Errors
    /// A sentence: the session is over, or of no use.
    pub(super) fn take(&mut self, frame: &[u8]) -> Result<(), String> {
        self.take_record(frame).map_err(|error| match error {
            Wrong::Short(Short) => {
                "it does not speak the protocol of ZooKeeper: a record is too short".to_owned()
            }
            Wrong::Failed(why) => why,
        })
    }

    fn take_record(&mut self, frame: &[u8]) -> Result<(), Wrong> {
        let mut record = Reader::new(frame);
        let (number, _zxid, error) = (record.int()?, record.long()?, record.int()?);
        match number {
            xid::PING => Ok(()),
            xid::AUTH if error == 0 => Ok(()),
            xid::AUTH => Err(Wrong::Failed("it does not take the user and the password".to_owned())),
            xid::EVENT => {
                let (kind, state, path) = (record.int()?, record.int()?, record.text()?);
                if state == EXPIRED {
                    return Err(Wrong::Failed("the session is over".to_owned()));
                }
                self.noticed(kind, path);
                if self.waiting.len() > WAITING * self.nodes.len() {
                    return Err(Wrong::Failed("it tells of more changes than watches were set".to_owned()));
                }
                Ok(())
            }
            number => {
                let front = self.under_way.pop_front();
                let Some((_, ask)) = front.filter(|(expected, _)| *expected == number) else {
                    return Err(Wrong::Failed("it answers what was not asked".to_owned()));
                };
                self.answered(ask, error, &mut record)
            }
        }
    }

    fn noticed(&mut self, kind: i32, path: &str) {
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at];
            if node.path == path {
                if matches!(kind, CREATED | DELETED | CHILDREN_CHANGED) {
                    self.ask(Ask::Children(at));
                }
                continue;
            }
            let child = path.strip_prefix(&node.path).and_then(|rest| rest.strip_prefix('/'));
            let Some(name) = child.filter(|name| node.watched.contains(*name)) else { continue };
            match kind {
                DATA_CHANGED => self.ask(Ask::Data(at, name.into())),
                // It stays until the children are read again, which are noticed too.
                DELETED => drop(node.watched.remove(name)),
                _ => {}
            }
        }
    }

    fn answered(&mut self, ask: Ask, error: i32, record: &mut Reader<'_>) -> Result<(), Wrong> {
        let (Ask::Children(at) | Ask::Exists(at) | Ask::Data(at, _)) = ask;
        let node = &mut self.nodes[at];
        node.open -= 1;
        match (ask, error) {
            (Ask::Children(_), 0) => {
                let names: BTreeSet<&str> = record.texts()?.into_iter().collect();
                if names.len() > KEYS {
                    let why = format!("{} has more than {KEYS} children", node.path);
                    return Err(Wrong::Failed(why));
                }
                node.kept.retain(|name| names.contains(name));
                node.watched.retain(|name| names.contains(&**name));
                node.has_changed = true;
                let new: Vec<Box<str>> =
                    names.into_iter().filter(|name| !node.watched.contains(*name)).map(Into::into).collect();
                for name in new {
                    self.nodes[at].watched.insert(name.clone());
                    self.ask(Ask::Data(at, name));
                }
            }
            // Curator makes the node with the first instance, and ZooKeeper removes it behind the last.
            (Ask::Children(_), NO_NODE) => {
                node.kept.retain(|_| false);
                node.watched.clear();
                node.has_changed = true;
                self.ask(Ask::Exists(at));
            }
            (Ask::Exists(_), 0) => self.ask(Ask::Children(at)),
            (Ask::Exists(_), NO_NODE) => {}
            (Ask::Data(_, name), 0) => {
                node.kept.put(&name, record.bytes()?)?;
                node.has_changed = true;
            }
            (Ask::Data(_, name), NO_NODE) => {
                node.watched.remove(&name);
                node.has_changed |= node.kept.remove(&name);
            }
            (Ask::Data(_, name), NO_AUTH) => {
                node.kept.put_flaw(&name, "its data may not be read");
                node.has_changed = true;
            }
            (_, error) => return Err(Wrong::Failed(refusal(error, &node.path))),
        }
        Ok(())
    }

    /// Those that have changed since they were told: as soon as all answers are there, or now if `is_due`, where
    /// changes never end.
    pub(super) fn news(&mut self, is_due: bool) -> impl Iterator<Item = (&str, &Kept<I>)> {
        self.nodes.iter_mut().filter_map(move |node| {
            node.is_whole |= node.open == 0;
            let can_be_told = node.open == 0 || (node.is_whole && is_due);
            let is_news = can_be_told && std::mem::take(&mut node.has_changed);
            is_news.then_some((node.path.as_str(), &node.kept))
        })
    }
}

enum Wrong {
    Short(Short),
    Failed(String),
}

impl From<Short> for Wrong {
    fn from(short: Short) -> Self {
        Self::Short(short)
    }
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

fn refusal(error: i32, path: &str) -> String {
    match error {
        NO_AUTH => format!("{path} may not be read; write `username` and `password` of one who may"),
        EXPIRED => "the session is over".to_owned(),
        other => format!("it answers for {path} with error {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{Document, document};

    type Tested = Session<Document>;

    fn session(path: &str) -> Tested {
        Session::new([path.to_owned()].into_iter(), document)
    }

    /// What is asked: numbers, operations and paths.
    fn asked(session: &mut Tested) -> Vec<(i32, i32, String)> {
        let (mut bytes, mut all) = (session.outgoing(), Vec::new());
        while let Some(frame) = super::super::jute::take_frame(&mut bytes, 1000).unwrap() {
            let mut reader = Reader::new(&frame);
            all.push((reader.int().unwrap(), reader.int().unwrap(), reader.text().unwrap().to_owned()));
        }
        all
    }

    fn answer(number: i32, error: i32) -> Writer {
        Writer::new().int(number).long(1).int(error)
    }

    fn take(session: &mut Tested, record: Writer) -> Result<(), String> {
        session.take(&record.frame()[4..])
    }

    fn names(number: i32, names: &[&str]) -> Writer {
        let count = i32::try_from(names.len()).unwrap();
        names.iter().fold(answer(number, 0).int(count), |record, name| record.bytes(name.as_bytes()))
    }

    fn notice(kind: i32, path: &str) -> Writer {
        answer(xid::EVENT, 0).int(kind).int(3).bytes(path.as_bytes())
    }

    fn told(session: &mut Tested) -> Option<usize> {
        session.news(false).next().map(|(_, kept)| kept.count())
    }

    #[test]
    fn children_are_read_and_watched_again_when_a_watch_fires() {
        let mut all = session("/s");
        assert_eq!(asked(&mut all), [(1, op::GET_CHILDREN, "/s".into())]);
        take(&mut all, names(1, &["a", "b"])).unwrap();
        assert_eq!(told(&mut all), None, "the data is missing");
        assert_eq!(asked(&mut all), [(2, op::GET_DATA, "/s/a".into()), (3, op::GET_DATA, "/s/b".into())]);
        take(&mut all, answer(2, 0).bytes(b"x")).unwrap();
        take(&mut all, answer(3, NO_NODE)).unwrap();
        assert_eq!((told(&mut all), told(&mut all)), (Some(1), None), "once");
        take(&mut all, notice(DATA_CHANGED, "/s/a")).unwrap();
        assert_eq!(asked(&mut all), [(4, op::GET_DATA, "/s/a".into())]);
        take(&mut all, answer(4, 0).bytes(b"y")).unwrap();
        // One that is deleted and made again at once.
        take(&mut all, notice(DELETED, "/s/a")).unwrap();
        take(&mut all, notice(CHILDREN_CHANGED, "/s")).unwrap();
        assert_eq!(asked(&mut all), [(5, op::GET_CHILDREN, "/s".into())]);
        take(&mut all, names(5, &["a"])).unwrap();
        assert_eq!(asked(&mut all), [(6, op::GET_DATA, "/s/a".into())]);
        assert_eq!(all.news(true).count(), 1, "changes that never end are told too");
        take(&mut all, answer(6, NO_AUTH)).unwrap();
        assert_eq!(told(&mut all), Some(1));
    }

    #[test]
    fn a_node_that_is_not_there_is_waited_for() {
        let mut all = session("/s");
        asked(&mut all);
        take(&mut all, answer(1, NO_NODE)).unwrap();
        assert_eq!(asked(&mut all), [(2, op::EXISTS, "/s".into())]);
        take(&mut all, answer(2, NO_NODE)).unwrap();
        assert_eq!(told(&mut all), Some(0));
        take(&mut all, notice(CREATED, "/s")).unwrap();
        assert_eq!(asked(&mut all), [(3, op::GET_CHILDREN, "/s".into())]);
    }

    #[test]
    fn many_questions_wait_for_answers() {
        let mut all = session("/s");
        asked(&mut all);
        let many: Vec<String> = (0..WINDOW + 5).map(|at| at.to_string()).collect();
        take(&mut all, names(1, &many.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
        assert_eq!((asked(&mut all).len(), asked(&mut all).len()), (WINDOW, 0));
        take(&mut all, answer(2, 0).bytes(b"")).unwrap();
        assert_eq!(asked(&mut all).len(), 1);
    }

    /// Without the bound, the queue of requests would grow as long as the connection lasts.
    #[test]
    fn notices_without_end_end_the_session() {
        let mut all = session("/s");
        asked(&mut all);
        take(&mut all, names(1, &["a"])).unwrap();
        asked(&mut all);
        let changed = notice(DATA_CHANGED, "/s/a").frame();
        let failed = (0..=2 * WAITING).find_map(|_| all.take(&changed[4..]).err());
        assert!(failed.unwrap().contains("more changes"));
        assert!(all.waiting.len() <= WAITING + 1);
    }

    #[test]
    fn what_is_not_understood_ends_the_session() {
        let mut all = session("/s");
        asked(&mut all);
        assert!(all.take(b"short").unwrap_err().contains("protocol"));
        assert!(take(&mut all, answer(9, 0)).unwrap_err().contains("not asked"));
        let mut all = session("/s");
        asked(&mut all);
        assert!(take(&mut all, answer(1, NO_AUTH)).unwrap_err().contains("may not be read"));
        let over = answer(xid::EVENT, 0).int(-1).int(EXPIRED).bytes(b"");
        assert!(take(&mut all, over).unwrap_err().contains("over"));
        assert!(take(&mut all, answer(xid::AUTH, -115)).unwrap_err().contains("password"));
        take(&mut all, answer(xid::PING, 0)).unwrap();
    }
}
