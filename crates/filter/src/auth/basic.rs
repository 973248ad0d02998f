//! `basic:` user and password (RFC 7617), as browsers ask for them.
//!
//! A password is checked beside the workers, as that takes long on purpose; a login that was right lately passes
//! without, and the same login of several clients at once is checked once (`thalweg_access::logins`). Users that are
//! not known take as long as those that are.

use super::{Finding, Method, authorization};
use crate::filter::{Upkeep, UpkeepTools};
use crate::{ConfigFiles, Identity, Job, JobResult, RequestCx};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use schemars::JsonSchema;
use serde::Deserialize;
use std::any::Any;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg_access::logins::{Awaited, Known, Logins};
use thalweg_access::users::{FILE, NAME, PASSWORD, Users};
use thalweg_access::watched_file::WatchedFile;
use thalweg_access::{Fingerprint, InFlight, fingerprint};
use thalweg_core::units::{duration_text, parse_duration};
use thalweg_core::{Fault, FaultKind};

/// For the check of one password, with the wait for those before it.
const CHECK: Duration = Duration::from_secs(15);
/// Checks that clients of one network (an address of IPv4, 64 bits of IPv6) may have under way at a time, of all that
/// the process has places for: strangers at one place cannot take them all.
const SHARE: u32 = 16;
/// Requests of one network that may wait for checks of others.
const WAITING: u32 = 256;
/// Checks under way, and requests that wait for those of others, by network; of all filters.
static CHECKS: LazyLock<Arc<InFlight>> = LazyLock::new(Arc::default);
static WAITS: LazyLock<Arc<InFlight>> = LazyLock::new(Arc::default);
/// How long a login that was right passes without a check, where nothing is written, and at most.
const REMEMBERED: Duration = Duration::from_secs(5 * 60);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Padding at the end is not needed.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Users and their passwords.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `file` or `users`")]
pub(crate) struct BasicSpec {
    /// A file with lines of `NAME:HASH`, as `htpasswd -B` and `thalweg hash-password` write them, at most 16 MiB. It is
    /// read again when it has changed; while it has a bad line, what was read before stays in force.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "reference"))]
    file: Option<String>,
    /// Names of users, and hashes of their passwords: bcrypt, or argon2id in the PHC form.
    #[schemars(extend("x-default-words" = "none"))]
    #[schemars(extend("x-api" = "secret"))]
    users: BTreeMap<String, HashSpec>,
    /// How long a login that was right passes without another check of its password; 0s: each is checked.
    #[schemars(extend("x-range" = ["0s", "24h"], "x-default" = "5m"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["5m", "1h"]))]
    remember: Option<String>,
}

/// The hash of a password; not shown.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct HashSpec(String);

impl std::fmt::Debug for HashSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl BasicSpec {
    pub(crate) fn build(&self, files: &dyn ConfigFiles) -> Result<Arc<dyn Method>, String> {
        let source = match (&self.file, self.users.is_empty()) {
            (Some(file), true) => {
                Source::File(Arc::new(WatchedFile::open(files.path(file), FILE, Users::parse)?))
            }
            (None, false) => {
                let mut users = Users::default();
                for (name, HashSpec(hash)) in &self.users {
                    users.add(name, hash).map_err(|error| format!("`users`: {error}"))?;
                }
                Source::Inline(Arc::new(users))
            }
            (Some(_), false) => return Err("`basic` takes `file` or `users`, not both".into()),
            (None, true) => {
                return Err("`basic` has no users; write `file: users.htpasswd`, or `users`".into());
            }
        };
        let remembered = self.remember.as_deref().map_or(Ok(REMEMBERED), parse_duration)?;
        if remembered > LONGEST {
            return Err("`remember` of `basic` must be from 0s to 24h".into());
        }
        let upkeep = match &source {
            Source::File(file) => Some(Arc::new(Keep(file.clone()))),
            Source::Inline(_) => None,
        };
        let logins = Mutex::new(Arc::new(Logins::new()?));
        let written = self.file.as_deref().map(Into::into);
        Ok(Arc::new(Basic { source, written, remembered, logins, upkeep }))
    }
}

#[derive(Debug)]
enum Source {
    File(Arc<WatchedFile<Users>>),
    Inline(Arc<Users>),
}

#[derive(Debug)]
struct Basic {
    source: Source,
    /// The file as it was written.
    written: Option<Box<str>>,
    remembered: Duration,
    logins: Mutex<Arc<Logins>>,
    upkeep: Option<Arc<Keep>>,
}

#[derive(Debug)]
struct Keep(Arc<WatchedFile<Users>>);

impl Upkeep for Keep {
    fn run(self: Arc<Self>, tools: UpkeepTools) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.0.clone().keep(tools.say))
    }
}

/// A login whose password is being checked.
#[derive(Debug)]
struct Asked {
    user: String,
    is_known: bool,
    /// It was right lately, and passes if nothing comes of the check.
    ends_soon: bool,
}

/// What came of a check of somebody else with the same login; `None`: it was given up.
type OfAnother = Option<bool>;

impl Basic {
    fn users(&self) -> Arc<Users> {
        match &self.source {
            Source::File(file) => file.current(),
            Source::Inline(users) => users.clone(),
        }
    }

    fn logins(&self) -> Arc<Logins> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Method for Basic {
    fn name(&self) -> &'static str {
        "basic"
    }

    fn argument(&self) -> String {
        let users = match &self.written {
            Some(file) => format!("users of {file}"),
            // A change of a hash is a difference, and is not to be shown.
            None => format!("{} users, {}", self.users().len(), self.users().fingerprint()),
        };
        format!("{users}, remembered for {}", duration_text(self.remembered))
    }

    fn challenge(&self, realm: &str) -> Option<String> {
        Some(format!("Basic realm=\"{realm}\", charset=\"UTF-8\""))
    }

    fn check(&self, cx: &mut RequestCx<'_>) -> Finding {
        let sent = match authorization::credential(cx.fields.view(), "basic").map(|sent| sent.map(Sent::read))
        {
            Ok(Some(Some(sent))) => sent,
            Ok(Some(None)) => {
                return Finding::refused(401, "the credential is malformed", "malformed user and password");
            }
            Ok(None) => return Finding::Absent,
            Err(refused) => return refused,
        };
        let (logins, users) = (self.logins(), self.users());
        let Some(check) = users.check(&sent.user, |name| logins.draw(name)) else {
            return Finding::refused(401, WRONG, "there are no users");
        };
        let login = logins.login(&[sent.user.as_bytes(), &sent.password, check.hash().as_bytes()]);
        let known = logins.known(&login, cx.facts.now, self.remembered / 10);
        let passes = check.is_known() && known != Known::No;
        let (is_known, client) = (check.is_known(), network(cx.facts.client_ip));
        if passes && (known == Known::Yes || logins.awaited(&login).is_some()) {
            return Finding::Verified(Identity::new("basic", sent.user));
        }
        if cx.facts.is_dry_run {
            // Nobody is to wait for a check that is not made.
            cx.remember(Asked { user: sent.user, is_known, ends_soon: false });
            return Finding::Wait(Job::compute(CHECK, || false));
        }
        if let Some(other) = logins.awaited(&login) {
            return wait_for(cx, client, other, Asked { user: sent.user, is_known, ends_soon: false });
        }
        let Some(place) = CHECKS.enter(client, SHARE) else {
            return match passes {
                true => Finding::Verified(Identity::new("basic", sent.user)),
                false => crowded(cx, format!("{SHARE} passwords of this client's network are being checked")),
            };
        };
        let begun = match logins.begin(login) {
            Ok(begun) => begun,
            Err(other) => {
                return wait_for(cx, client, other, Asked { user: sent.user, is_known, ends_soon: passes });
            }
        };
        cx.remember(Asked { user: sent.user, is_known, ends_soon: passes });
        let remembered = self.remembered;
        Finding::Wait(Job::compute(CHECK, move || {
            let _place = place;
            let is_right = check.run(&sent.password);
            begun.end(is_right, Instant::now(), remembered);
            is_right
        }))
    }

    fn resume(&self, cx: &mut RequestCx<'_>, got: JobResult) -> Finding {
        let Some(Asked { user, is_known, ends_soon }) = cx.recall() else {
            return Finding::refused(401, WRONG, "nothing was asked");
        };
        let is_right = match got {
            // Nothing is computed in a dry run; what is known without is told.
            JobResult::NotAsked => Ok(is_known),
            JobResult::Called(Ok(outcome)) if outcome.is::<OfAnother>() => JobResult::Called(Ok(outcome))
                .called::<OfAnother>()
                .and_then(|is_right| is_right.ok_or(GIVEN_UP)),
            got => got.called::<bool>(),
        };
        match is_right {
            Ok(true) => Finding::Verified(Identity::new("basic", user)),
            Err(_) if ends_soon => Finding::Verified(Identity::new("basic", user)),
            Ok(false) if is_known => Finding::refused(401, WRONG, format!("a wrong password for `{user}`")),
            // What was sent as a name may be a password in the wrong place.
            Ok(false) => Finding::refused(401, WRONG, "an unknown user"),
            Err(fault) => Finding::Fault(fault),
        }
    }

    fn strip(&self, cx: &mut RequestCx<'_>) {
        authorization::strip(cx, "basic");
    }

    fn upkeep(&self) -> Option<Arc<dyn Upkeep>> {
        self.upkeep.clone().map(|upkeep| upkeep as Arc<dyn Upkeep>)
    }

    fn adopt(&self, former: &dyn Method) {
        if let Some(former) = (former as &dyn Any).downcast_ref::<Self>() {
            // Hashes are part of what a login is known by: those that have changed are not known.
            *self.logins.lock().unwrap_or_else(PoisonError::into_inner) = former.logins();
        }
    }
}

/// The request waits for a check that another one has begun.
fn wait_for(cx: &mut RequestCx<'_>, client: Fingerprint, other: Awaited, asked: Asked) -> Finding {
    let Some(place) = WAITS.enter(client, WAITING) else {
        return crowded(cx, format!("{WAITING} requests of this client's network wait for a check"));
    };
    cx.remember(asked);
    Finding::Wait(Job::call::<OfAnother>(CHECK, async move {
        let _place = place;
        other.wait().await
    }))
}

fn crowded(cx: &mut RequestCx<'_>, reason: String) -> Finding {
    cx.fault_field("Retry-After", b"1");
    Finding::refused(429, "too many passwords of this network are being checked", reason)
}

/// Where a client is.
fn network(client: IpAddr) -> Fingerprint {
    match client {
        IpAddr::V4(address) => fingerprint(4, &address.octets()),
        IpAddr::V6(address) => fingerprint(6, &address.to_bits().to_be_bytes()[..8]),
    }
}

/// For those who waited for a check that no thread had time for.
const GIVEN_UP: Fault =
    Fault::new(FaultKind::ConnectionLimitReached, "the check of this password was given up");
/// The same whatever was wrong.
const WRONG: &str = "the user or the password is wrong";

/// User and password as they were sent.
struct Sent {
    user: String,
    password: Vec<u8>,
}

impl Sent {
    fn read(credential: &[u8]) -> Option<Self> {
        let mut bytes = BASE64.decode(credential).ok()?;
        let colon = bytes.iter().position(|byte| *byte == b':')?;
        let password = bytes.split_off(colon + 1);
        bytes.truncate(colon);
        let user = String::from_utf8(bytes).ok()?;
        let is_control = |byte: &u8| byte.is_ascii_control();
        let fits = user.len() <= NAME
            && password.len() <= PASSWORD
            && !user.bytes().any(|byte| is_control(&byte))
            && !password.iter().any(is_control);
        fits.then_some(Self { user, password })
    }
}
