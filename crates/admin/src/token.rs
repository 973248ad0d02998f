//! The bearer token of the admin API: given in the configuration, or made once and kept in a file.
//!
//! Used by the gate (to compare), by the server at start (to load or create) and by the CLI verbs
//! (to send). Invariant: its text is never part of a `Debug` output or of an error.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

/// Name of the file in the state directory.
pub const TOKEN_FILE: &str = "admin.token";
/// Random bytes in a token that is made here.
const RANDOM_BYTES: usize = 32;
/// Largest token file that is read, in bytes.
const FILE_BYTES: u64 = 4096;

/// A bearer token.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A token from its text, without white space around it.
    ///
    /// # Errors
    /// It is empty or holds a character that cannot stand in an HTTP field.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text {
            "" => Err("the admin token is empty".into()),
            text if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Self(text.into())),
            _ => Err("the admin token may hold printable ASCII characters without blanks only".into()),
        }
    }

    /// A token from a file.
    ///
    /// # Errors
    /// The file cannot be read or what it holds is not a token.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        Self::read(File::open(path)?)
    }

    /// The token of the state directory: a regular file that only this user, root or the file's group can write.
    fn of_state(path: &Path) -> io::Result<Self> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let refused = |what: &str| {
            let what = format!("{} {what}; remove it, and the next start makes another one", path.display());
            Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
        };
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return refused("is a link");
            }
            opened => opened?,
        };
        let found = file.metadata()?;
        if !found.is_file() {
            return refused("is not a regular file");
        }
        if ![0, geteuid().as_raw()].contains(&found.uid()) || found.mode() & 0o002 != 0 {
            return refused("can be written by other users");
        }
        Self::read(file)
    }

    fn read(file: File) -> io::Result<Self> {
        let mut text = String::new();
        file.take(FILE_BYTES).read_to_string(&mut text)?;
        Self::new(&text).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))
    }

    /// The text, to be sent or shown to a terminal.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `given` is this token. The time does not depend on where they differ.
    pub fn matches(&self, given: &str) -> bool {
        let (ours, given) = (self.0.as_bytes(), given.as_bytes());
        let differences = ours.iter().zip(given).fold(0u8, |all, (a, b)| black_box(all | (a ^ b)));
        ours.len() == given.len() && black_box(differences) == 0
    }

    /// 32 bytes of the kernel's randomness, in hexadecimal.
    ///
    /// # Errors
    /// The kernel gives none.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; RANDOM_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token([redacted])")
    }
}

/// The tokens that a listener asks for. They are replaced while it runs, when the configuration or its
/// files say other ones.
#[derive(Debug)]
pub struct Tokens(RwLock<Pair>);

#[derive(Clone, Debug)]
struct Pair {
    write: Token,
    read: Option<Token>,
}

impl Tokens {
    /// The token for everything, and the one for reading, if there is one.
    ///
    /// # Errors
    /// They are the same: who may read could do everything.
    pub fn new(write: Token, read: Option<Token>) -> Result<Self, String> {
        Ok(Self(RwLock::new(Pair::new(write, read)?)))
    }

    /// Other ones hold from the next request on; without `write` the one for everything stays.
    ///
    /// # Errors
    /// They are the same. The old ones stay.
    pub fn replace(&self, write: Option<Token>, read: Option<Token>) -> Result<(), String> {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *now = Pair::new(write.unwrap_or_else(|| now.write.clone()), read)?;
        Ok(())
    }

    /// Whether `given` is the token for everything, and whether it is the one for reading. Both are always
    /// compared, so that the time says nothing about either.
    pub(crate) fn match_any(&self, given: &str) -> (bool, bool) {
        let now = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (now.write.matches(given), now.read.as_ref().is_some_and(|token| token.matches(given)))
    }
}

impl Pair {
    fn new(write: Token, read: Option<Token>) -> Result<Self, String> {
        if read.as_ref().is_some_and(|read| write.matches(read.reveal())) {
            return Err("it is the same as the token for everything".into());
        }
        Ok(Self { write, read })
    }
}

/// Where a token came from.
#[derive(Clone, Debug)]
pub struct TokenFile {
    /// The token.
    pub token: Token,
    /// The file that holds it.
    pub path: PathBuf,
    /// Whether it was made just now.
    pub created: bool,
}

/// Reads `<state>/admin.token`, or makes it (mode 0600) when it is missing. Of several processes
/// that make it at the same time all get the same token.
///
/// # Errors
/// The directory or the file cannot be made or read, or the file does not hold a token.
pub fn load_or_create(state_dir: &Path) -> io::Result<TokenFile> {
    DirBuilder::new().recursive(true).mode(0o700).create(state_dir)?;
    let path = state_dir.join(TOKEN_FILE);
    match Token::of_state(&path) {
        Ok(token) => return Ok(TokenFile { token, path, created: false }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let token = Token::random()?;
    // Written whole under another name, then linked: nobody ever reads half a token, and a link
    // does not replace a token that another process made meanwhile.
    let unique: String = Token::random()?.reveal().chars().take(16).collect();
    let draft = state_dir.join(format!(".{TOKEN_FILE}.{unique}"));
    let linked = write_draft(&draft, &token).and_then(|()| fs::hard_link(&draft, &path));
    let removed = fs::remove_file(&draft);
    match linked {
        Ok(()) => {
            removed?;
            File::open(state_dir)?.sync_all()?;
            Ok(TokenFile { token, path, created: true })
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(TokenFile { token: Token::of_state(&path)?, path, created: false })
        }
        Err(error) => Err(error),
    }
}

fn write_draft(path: &Path, token: &Token) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{}", token.reveal())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::thread;

    use super::*;
    use crate::socket::tests::Folder;

    fn token(text: &str) -> Token {
        Token::new(text).unwrap()
    }

    #[test]
    fn tokens_are_replaced_whole_or_stay() {
        let tokens = Tokens::new(token("write"), Some(token("read"))).unwrap();
        assert_eq!((tokens.match_any("write"), tokens.match_any("read")), ((true, false), (false, true)));
        tokens.replace(Some(token("other")), None).unwrap();
        assert_eq!((tokens.match_any("other"), tokens.match_any("write")), ((true, false), (false, false)));
        assert_eq!(tokens.match_any("read"), (false, false));
        tokens.replace(None, Some(token("reads"))).unwrap();
        assert_eq!((tokens.match_any("other"), tokens.match_any("reads")), ((true, false), (false, true)));
        assert!(tokens.replace(Some(token("reads")), Some(token("reads"))).is_err());
        assert!(tokens.replace(None, Some(token("other"))).is_err());
        assert_eq!((tokens.match_any("other"), tokens.match_any("reads")), ((true, false), (false, true)));
        assert!(Tokens::new(token("a"), Some(token("a"))).is_err());
        assert!(!format!("{tokens:?}").contains("other"));
    }

    #[test]
    fn matches_itself_only() {
        let token = Token::new(" abc \n").unwrap();
        assert!(token.matches("abc"));
        for other in ["", "ab", "abcd", "abC", "bbc", "abc "] {
            assert!(!token.matches(other), "{other}");
        }
    }

    #[test]
    fn refuses_what_cannot_be_sent_and_hides_what_it_holds() {
        for text in ["", " ", "a b", "a\nb", "ä", "a\0"] {
            assert!(Token::new(text).is_err(), "{text:?}");
        }
        assert!(!format!("{:?}", Token::new("abc")).contains("abc"));
    }

    #[test]
    fn is_made_once_with_mode_0600() {
        let folder = Folder::new();
        let state = folder.0.join("a/b");
        let first = load_or_create(&state).unwrap();
        let second = load_or_create(&state).unwrap();
        assert!(first.created && !second.created);
        assert_eq!(first.token.reveal(), second.token.reveal());
        assert_eq!(first.token.reveal().len(), 64);
        assert_eq!(fs::metadata(&first.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1);
    }

    #[test]
    fn makers_at_the_same_time_agree() {
        let folder = Folder::new();
        let made = || load_or_create(&folder.0).unwrap().token.reveal().to_owned();
        let tokens = thread::scope(|scope| {
            let threads = (0..8).map(|_| scope.spawn(made)).collect::<Vec<_>>();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]));
    }

    #[test]
    fn an_empty_file_is_an_error_and_is_left_alone() {
        let folder = Folder::new();
        fs::write(folder.0.join(TOKEN_FILE), "\n").unwrap();
        assert!(load_or_create(&folder.0).unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn a_file_that_others_could_have_written_is_not_the_token() {
        let folder = Folder::new();
        let path = folder.0.join(TOKEN_FILE);
        let told = || load_or_create(&folder.0).unwrap_err().to_string();
        let token = "0123456789abcdef";
        fs::write(&path, token).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
        assert_eq!(load_or_create(&folder.0).unwrap().token.reveal(), token, "the group of a volume may");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o602)).unwrap();
        assert!(told().contains("can be written by other users"), "{}", told());
        fs::rename(&path, folder.0.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(told().contains("is a link"), "{}", told());
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(told().contains("is not a regular file"), "{}", told());
    }
}
