//! Starting: in the order in which a failure leaves nothing behind.
//!
//! Limits, listeners, user, threads. Addresses are bound first because ports below 1024 need the privileges that
//! `user:` gives up, and threads come last because they keep the privileges that they start with. Input that other
//! users can write (the state directory, documents of sources) is read after the change of the user.

use super::access::AccessLists;
use super::access_log::AccessLogMonitor;
use super::acme::Acme;
use super::admin::Shared;
use super::api_keys::ApiKeyStore;
use super::base::Base;
use super::canary::Canaries;
use super::certificates::Certificates;
use super::checks::Rounds;
use super::discovered::FoundSets;
use super::documents::Documents;
use super::files::Files;
use super::history::{self, History};
use super::kept_file;
use super::kept_sources::KeptSources;
use super::operator::Operator;
use super::origin::Origin;
use super::overlay::{self, OverlaySpec};
use super::privileges::{become_user, default_state_directory, make_optional, may_become};
use super::purge_channel::PurgeChannelTask;
use super::revocations::Revocations;
use super::route_sources::{RouteSources, first_documents};
use super::runtime::Runtime;
use super::sent_secrets;
use super::series::TimeSeries;
use super::start_error::explain;
use super::state_writer::StateWriter;
use super::tokens;
use super::traces::Traces;
use super::upgrade::{ADMIN_SOCKETS, Upgrades};
use super::{Control, Signals};
use super::{maintenance, weights::in_force};
use crate::cli::show;
use crate::concealed::conceal;
use crate::handover::{Channel, MessageSpec, Parent, RuntimeChangesSpec, Successor};
use crate::operator_log::{info, warn};
use crate::service_manager;
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thalweg_acme::News;
use thalweg_admin::server::ANOTHER_SOCKET;
use thalweg_admin::{AdminOptions, AdminTls, Control as _, PlaceReason, SocketPlace, Webhooks};
use thalweg_config::protections::Apart;
use thalweg_config::settings::{AccessLog, LogFormat, LogTarget, Settings, User};
use thalweg_config::{Inputs, Loaded, Provenance};
use thalweg_core::Notice;
use thalweg_discovery::{Followed, Followers, Registrations, Update};
use thalweg_net::inherited::{Inherited, InheritedSocket};
use thalweg_net::machine;
use thalweg_observe::{Destination, Format, LogOptions, LogWriter, Registry};
use thalweg_proxy::plan::{Banned, Barred, CachePlan, DiskPlan, Limits, ListenAddress, OwnAddresses};
use thalweg_proxy::{Allowance, Budget, Plan, WorkerPool, WorkerPoolOptions, bind_listeners};
use thalweg_upstream::{AdaptiveLimits, Notifier};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Lines that workers may have waiting.
const NOTICES: usize = 256;
/// Clients that may wait to be banned.
const BANS: usize = 1024;
/// How long the start waits for the first documents, the first sets of sources and host names, all together; afterwards
/// the proxy runs without them.
const FIRST_SETS: Duration = Duration::from_secs(5);
/// What of that is left for host names however slow documents are, and all that names have where there are no sources.
const FIRST_NAMES: Duration = Duration::from_secs(2);

/// How long the workers of a process that takes over may take until they turn.
const TURNS: Duration = Duration::from_secs(10);
/// How often it is looked whether they do.
const TURNS_LOOK: Duration = Duration::from_millis(5);

/// What the command line says beside the configuration.
#[derive(Debug, Default)]
pub(crate) struct RunOptions {
    /// The file that the configuration came from.
    pub(crate) file: Option<PathBuf>,
    /// Another place for the admin socket.
    pub(crate) admin_socket: Option<PathBuf>,
    /// Reload when the configuration's files have changed.
    pub(crate) watch: bool,
    /// Say less: what is said is said by somebody else.
    pub(crate) quiet: bool,
    /// Who has started this process, and what it has given it.
    pub(crate) parent: Parent,
}

/// Starts the proxy; the caller then runs [`Control::run`]. The handle ends the admin thread when dropped.
///
/// # Errors
/// A sentence for the operator, with help where there is some.
pub(crate) async fn start(
    loaded: Loaded,
    mut options: RunOptions,
) -> Result<(Control, thalweg_admin::Handle), String> {
    conceal(&loaded.plan.secrets.concealed);
    let Parent { sockets, successor, supervisor, uid } = std::mem::take(&mut options.parent);
    let quiet = options.quiet;
    let started = start_beside(loaded, options, (sockets, &successor, (supervisor, uid))).await;
    let (control, mut admin, reason) = match (started, &successor) {
        (Err(why), Some(successor)) => {
            successor.fail(&why);
            return Err(why);
        }
        (started, _) => started?,
    };
    if let Some(successor) = successor {
        info(format_args!("takes over from a process of {}", successor.version));
        control.shared.turns(TURNS).await?;
        let begin = || {
            if let Err(error) = admin.take_place() {
                warn(format_args!("the admin socket cannot be put in its place: {error}"));
            }
            control.shared.worker_pool().accept();
            // Before the process that was there ends: the supervisor would end with it.
            control.tell_supervisor();
        };
        let taken = successor.take_over(begin);
        taken.map_err(|error| format!("the process before this one goes on: {error}"))?;
    }
    if !quiet {
        let settings = control.shared.origin().settings.clone();
        announce(&control.shared, &settings, &admin, reason);
    }
    Ok((control, admin))
}

/// A supervisor, and the only user that it lets this process become.
type Superior = (Option<Arc<Channel>>, Option<u32>);

/// The same up to where this process could accept, where it is to take over.
async fn start_beside(
    loaded: Loaded,
    options: RunOptions,
    (sockets, successor, (supervisor, uid)): (Vec<InheritedSocket>, &Option<Successor>, Superior),
) -> Result<(Control, thalweg_admin::Handle, PlaceReason), String> {
    let inherited = Inherited::new(sockets);
    let changes = successor.as_ref().map(|successor| &successor.changes);
    // From here on a signal means a reload or a drain, not the end.
    let signals = Signals::new().map_err(|error| format!("cannot watch for signals: {error}"))?;
    let budget = |loaded: &Loaded| budget(&loaded.plan, &loaded.settings);
    let doors = bind_listeners(&loaded.plan, budget(&loaded), &inherited).map_err(|error| explain(&error))?;
    let state = loaded.settings.state.clone().unwrap_or_else(default_state_directory);
    begin_as((supervisor.as_deref(), uid), &loaded.settings)?;
    let place = admin_place(&options, (&loaded.settings, &state), loaded.plan.cache.disk.as_ref())?;
    // Sources are queried before the admin API is bound: until then the written addresses are kept off.
    let written = OwnAddresses::written(&loaded.plan);
    thalweg_client::keep_off(move |address, is_named| {
        written.bars_call(address, is_named).map(Barred::as_str)
    });
    let waits_until = Instant::now() + FIRST_SETS;
    let kept_sources = KeptSources::open(loaded.settings.state.as_deref(), SystemTime::now());
    let (loaded, route_sources, documents) =
        first_documents(loaded, (&options, &kept_sources), waits_until - FIRST_NAMES).await;
    let budget = budget(&loaded);
    let doors = doors.with_budget(budget);
    let Loaded { plan, settings, warnings, inputs, provenance, text, apart, .. } = loaded;
    conceal(&plan.secrets.concealed);
    show(&warnings, false);
    let registry = Arc::new(Registry::new(budget.workers));
    let log = open_log(settings.access_log.as_ref(), &registry)?;
    let ((notices_in, notices), (bans_in, bans)) = (mpsc::channel(NOTICES), mpsc::channel(BANS));
    let (spans, traces) = Traces::start(registry.traces(), notices_in.clone());
    let changed = Arc::new(Notify::new());
    let operator = operator((&options, &text.0), &settings, changes);
    let overlay = changes.map(|changes| changes.overlay.clone());
    let mut runtime = laid_over((plan, apart), (&settings, overlay), (kept_sources, &operator))?;
    let (sources, names, early) = first_answers(&mut runtime, waits_until).await;
    let (acme, issued) = Acme::new(state.clone(), &runtime.plan());
    let pool = WorkerPoolOptions {
        registry: registry.clone(),
        log: log.clone(),
        notices: notices_in.clone(),
        bans: bans_in,
        spans,
        names,
        bell: bell(&changed),
        challenges: acme.challenges(),
        waits: successor.is_some(),
    };
    let kept = kept(settings.state.as_deref(), changes)?;
    let worker_pool = WorkerPool::start(runtime.plan(), doors, pool).map_err(|error| explain(&error))?;
    let started_with = (worker_pool.plan().limits, worker_pool.plan().cache.clone());
    let read = (options.file, text.0, inputs, provenance);
    let origin = origin(read, (&settings, documents, operator), started_with)?;
    let shown = (changed, acme, (sources.sources(), route_sources.board()));
    let shared = Arc::new(Shared::new(worker_pool, registry.clone(), (origin, runtime), kept, shown));
    let upgrades = Upgrades::new(&shared, supervisor);
    let reason = place.reason;
    let admin = (place, state, AdminSockets::of(&inherited, successor.is_some()));
    let admin = open_admin(&shared, &settings, admin)?;
    tell_unused(&inherited);
    let webhooks = Webhooks::start(settings.webhooks, shared.events(), registry.webhooks(), notices_in);
    let control = assembled(
        shared,
        (webhooks, traces, log),
        (notices, bans, issued),
        (sources, early, route_sources),
        (signals, upgrades, options.watch),
    );
    Ok((control, admin, reason))
}

/// The control thread's part, before its first turn.
fn assembled(
    shared: Arc<Shared>,
    (webhooks, traces, log): (Webhooks, Traces, Option<Arc<LogWriter>>),
    (notices, bans, issued): (mpsc::Receiver<Notice>, mpsc::Receiver<Banned>, mpsc::Receiver<News>),
    (sources, early, route_sources): (Followers, Vec<Update>, RouteSources),
    (signals, upgrades, watches): (Signals, Upgrades, bool),
) -> Control {
    Control {
        webhooks,
        looked_after: shared.worker_pool().plan(),
        bound: shared.worker_pool().bound(),
        shared,
        log,
        log_monitor: AccessLogMonitor::default(),
        notices,
        bans,
        sources,
        early,
        route_sources,
        followed: 0,
        followed_at: Instant::now(),
        retired: 0,
        rounds: Rounds::start(),
        registrations: Registrations::default(),
        files: watches.then(Files::default),
        certificates: Certificates::default(),
        revocations: Revocations::default(),
        purge_channel: PurgeChannelTask::default(),
        traces,
        ends_told: Instant::now(),
        limits: AdaptiveLimits::default(),
        issued,
        is_untidy: false,
        signals,
        upgrades,
    }
}

impl Shared {
    /// Waits until all workers turn.
    async fn turns(&self, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        loop {
            match self.alive() {
                Ok(()) => return Ok(()),
                Err(why) if Instant::now() >= end => return Err(why),
                Err(_) => tokio::time::sleep(TURNS_LOOK).await,
            }
        }
    }
}

/// Begins to answer on the admin listeners; a process that takes over, when it does.
fn open_admin(
    shared: &Arc<Shared>,
    settings: &Settings,
    (place, state, sockets): (SocketPlace, PathBuf, AdminSockets),
) -> Result<thalweg_admin::Handle, String> {
    let mut options = admin_options(settings, place.path.clone(), state)?;
    (options.succeeds, options.sockets) = (sockets.succeeds, sockets.sockets);
    let admin = thalweg_admin::start(options, shared.clone()).map_err(|error| error.to_string())?;
    keep(shared, &admin);
    Ok(admin)
}

/// What is kept in the state directory, where there is one.
fn kept(
    directory: Option<&Path>,
    passed: Option<&RuntimeChangesSpec>,
) -> Result<(AccessLists, TimeSeries, ApiKeyStore), String> {
    let (now, access) = (SystemTime::now(), passed.map(|passed| passed.access.clone()));
    let (access, series) = (AccessLists::open(directory, access, now)?, TimeSeries::open(directory, now));
    Ok((access, series, ApiKeyStore::open(directory, passed.map(|passed| passed.api_keys.clone()))?))
}

/// What a process that takes over has of the admin sockets of the one before.
struct AdminSockets {
    succeeds: bool,
    sockets: [Option<TcpListener>; 2],
}

impl AdminSockets {
    fn of(inherited: &Inherited, succeeds: bool) -> Self {
        let take = |name| inherited.take(name, "", |_| false).pop().map(TcpListener::from);
        Self { succeeds, sockets: ADMIN_SOCKETS.map(take) }
    }
}

/// Tells of sockets that nobody has taken: they are closed, and who waits in them is lost.
fn tell_unused(inherited: &Inherited) {
    let rest = inherited.rest();
    let names: BTreeSet<_> = rest.iter().map(|socket| &*socket.name).collect();
    for name in names {
        warn(format_args!("a socket that was passed on is not used, and is closed: {name}"));
    }
}

/// What the machine and the configuration allow.
fn budget(plan: &Plan, settings: &Settings) -> Budget {
    let descriptors = machine::raise_descriptor_limit();
    let workers = settings.workers.map_or_else(machine::cpus, usize::from);
    let allowance = Allowance { descriptors, memory: machine::memory(), workers };
    Budget::of(plan, allowance)
}

/// Reports the state directory and the new user to a supervisor, while this process still has all its rights.
///
/// # Errors
/// A sentence: there is no such user, or the supervisor expects another one.
fn begin_as(
    (supervisor, expected): (Option<&Channel>, Option<u32>),
    settings: &Settings,
) -> Result<(), String> {
    let Some(supervisor) = supervisor else { return Ok(()) };
    let uid = match &settings.user {
        Some(user) => machine::identity(&written(user)).map_err(|error| error.to_string())?.uid,
        None => rustix::process::geteuid().as_raw(),
    };
    may_become(uid, expected)?;
    // A lost supervisor is noticed when this process reports that it accepts.
    let _ = supervisor.send(&MessageSpec::Begins { state: settings.state.clone(), uid }, &[], TURNS);
    Ok(())
}

/// A user as written in the configuration.
fn written(user: &User) -> String {
    user.group.as_ref().map_or(user.user.clone(), |group| format!("{}:{group}", user.user))
}

/// Becomes the user that is configured, for whom the directories of the admin socket, of the state and of the cache are
/// made.
fn leave_root(
    settings: &Settings,
    (socket, state): (&Path, &Path),
    cache: Option<&DiskPlan>,
) -> Result<(), String> {
    let Some(user) = &settings.user else {
        cache.into_iter().for_each(|disk| make_optional(&disk.path));
        return Ok(());
    };
    let user = written(user);
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    become_user(&user, &[folder, state], cache.map(|disk| &*disk.path))
}

/// What the control thread knows of the admin server.
fn keep(shared: &Shared, admin: &thalweg_admin::Handle) {
    shared.keep_tokens(admin.tokens());
    shared.keep_admin_tls(admin.tls());
    keep_off(shared, admin);
}

/// Keeps labels, endpoints and requests of the control plane away from the admin API and the metrics.
fn keep_off(shared: &Shared, admin: &thalweg_admin::Handle) {
    let addresses = admin.addresses();
    shared.worker_pool().keep_off(addresses.admin.into_iter().chain(addresses.metrics));
    let own = shared.worker_pool().own_addresses();
    thalweg_client::keep_off(move |address, is_named| own.bars_call(address, is_named).map(Barred::as_str));
}

/// Stirs the control thread.
fn bell(changed: &Arc<Notify>) -> Notifier {
    let changed = changed.clone();
    Notifier::new(move || changed.notify_one())
}

/// The configuration that the process starts with, and those that ran before where they are kept.
fn origin(
    (file, text, inputs, provenance): (Option<PathBuf>, String, Inputs, Provenance),
    (settings, documents, operator): (&Settings, Documents, Operator),
    (limits, cache): (Limits, CachePlan),
) -> Result<Origin, String> {
    let directory = settings.state.as_ref().map(|directory| directory.join(history::DIRECTORY));
    let history = History::open(directory);
    let mut history =
        history.map_err(|error| format!("cannot start the thread that keeps the history: {error}"))?;
    if file.is_some() {
        history.begin((&text, &inputs.etag()));
    }
    let provenance = Arc::new(provenance);
    Ok(Origin {
        file,
        text,
        settings: settings.clone(),
        inputs,
        provenance,
        limits,
        cache,
        history,
        documents,
        operator,
    })
}

/// The configuration that an operator supplied last: the one that the process starts with, unless a token wrote it.
fn operator(
    (options, text): (&RunOptions, &str),
    settings: &Settings,
    passed: Option<&RuntimeChangesSpec>,
) -> Operator {
    let Some(file) = &options.file else { return Operator::default() };
    let passed = passed.map(|passed| passed.operator.clone());
    Operator::open(settings.state.as_deref(), passed, (&file.display().to_string(), text))
}

/// What the admin API changed and sources found before a restart, where that is kept: where `state:` says so.
fn laid_over(
    (plan, apart): (Plan, Apart),
    (settings, passed): (&Settings, Option<OverlaySpec>),
    (kept_sources, operator): (KeptSources, &Operator),
) -> Result<Runtime, String> {
    let store = settings.state.as_ref().map(|directory| directory.join(overlay::FILE));
    let load = || store.as_deref().map(kept_file::load).transpose();
    let overlay = passed.map_or_else(load, |passed| Ok(Some(passed))).map_err(|error: io::Error| {
        let path = store.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
        format!("cannot read {path}: {error}\n  help: it holds changes made through the admin API; mend or remove it")
    })?;
    let start = |path: PathBuf| {
        let what = format!("runtime changes in {}", path.display());
        StateWriter::start(what, move |changes| kept_file::store(&path, &changes))
    };
    let keeper = store.map(start).transpose();
    let keeper = keeper.map_err(|error| format!("cannot start the thread that keeps changes: {error}"))?;
    let overlay = overlay.unwrap_or_default();
    let said = in_force(&overlay, &plan).into_iter().chain(maintenance::in_force(&overlay, &plan));
    said.for_each(warn);
    let found = FoundSets::kept(kept_sources.findings());
    let of = |plan: Plan, apart: Apart| Base::with_documents(plan, (&settings.discover, &found), apart);
    let mut base = of(plan, apart);
    if let Some(operator) = operator.supplied() {
        let mut apart = base.apart().clone();
        apart.join(operator.apart(&base, (&base, &settings.discover)));
        base = of(base.as_written(), apart);
    }
    base.operator = operator.supplied();
    sent_secrets::left_out(&overlay, &base).into_iter().for_each(warn);
    Ok(Runtime {
        base,
        overlay,
        canaries: Canaries::new(),
        version: 1,
        drains: Vec::new(),
        keeper,
        kept_sources,
    })
}

/// The sources of the services, which begin to be asked.
fn first_sources(runtime: &Runtime) -> Followers {
    let plan = runtime.plan();
    let sources: Vec<_> = runtime.base.sources().map(|(_, discover)| discover.source.clone()).collect();
    let configured = runtime.base.written_services();
    let followed = Followed { configured: &configured, running: &plan.services, sources: &sources };
    Followers::start(followed, &Default::default())
}

/// Waits a little for what sources find and host names stand for, so that the first requests find their endpoints. What
/// else is said is taken over when workers run.
async fn first_answers(
    runtime: &mut Runtime,
    waits_until: Instant,
) -> (Followers, thalweg_upstream::Names, Vec<Update>) {
    let mut sources = first_sources(runtime);
    runtime.kept_sources.show(&runtime.base, &sources.sources());
    let (mut names, mut rest) = (thalweg_upstream::Names::new(), Vec::new());
    let has_sources = runtime.base.sources().next().is_some();
    // However long it took to merge documents, names are resolved.
    let names_until = Instant::now() + FIRST_NAMES;
    let until = if has_sources { waits_until.max(names_until) } else { names_until };
    let _ = tokio::time::timeout_at(until, async {
        while !sources.is_complete() {
            match sources.next().await {
                Update::Addresses { host, addresses } => drop(names.insert(host, addresses)),
                Update::Failed(text) => warn(text),
                Update::Found { source, found } => {
                    let taken = runtime.base.take_found(&source, found);
                    sources.sources().tell_unused(&source, taken.flaw.as_deref());
                    taken.said.into_iter().for_each(warn);
                    // What has been found may have names.
                    let plan = runtime.plan();
                    let all: Vec<_> =
                        runtime.base.sources().map(|(_, discover)| discover.source.clone()).collect();
                    let configured = runtime.base.written_services();
                    sources.follow(Followed {
                        configured: &configured,
                        running: &plan.services,
                        sources: &all,
                    });
                }
                update => rest.push(update),
            }
        }
    })
    .await;
    runtime.kept_sources.tell(&runtime.base, &sources.sources());
    (sources, names, rest)
}

fn open_log(wanted: Option<&AccessLog>, registry: &Registry) -> Result<Option<Arc<LogWriter>>, String> {
    let Some(AccessLog { format, target, rotation, sample }) = wanted else { return Ok(None) };
    let format = match format {
        LogFormat::Json => Format::Json,
        LogFormat::Combined => Format::Combined,
        LogFormat::Text(text) => Format::Text(text.clone()),
    };
    let destination = match target {
        LogTarget::Stdout => Destination::Stdout,
        LogTarget::Stderr => Destination::Stderr,
        LogTarget::File(path) => Destination::File(path.clone()),
        LogTarget::Syslog(syslog) => Destination::Syslog(syslog.clone()),
    };
    let options = LogOptions { destination, format, sample: sample.clone(), rotation: rotation.clone() };
    let writer = LogWriter::start_with(options, registry.log()).map_err(|error| error.to_string())?;
    Ok(Some(Arc::new(writer)))
}

/// Where the admin socket will be, ready for it; from then on the process is the user that is configured.
fn admin_place(
    options: &RunOptions,
    (settings, state): (&Settings, &Path),
    cache: Option<&DiskPlan>,
) -> Result<SocketPlace, String> {
    let place =
        options.admin_socket.clone().map_or_else(SocketPlace::from_environment, SocketPlace::argument);
    place.prepare().map_err(|error| {
        let at = place.path.display();
        format!("the admin socket {at} cannot be opened: {error}\n  help: {ANOTHER_SOCKET}")
    })?;
    leave_root(settings, (&place.path, state), cache)?;
    Ok(place)
}

fn admin_options(settings: &Settings, socket: PathBuf, state_dir: PathBuf) -> Result<AdminOptions, String> {
    let admin = settings.admin.as_ref();
    Ok(AdminOptions {
        socket,
        address: settings.admin.as_ref().and_then(|admin| tcp(&admin.address)),
        token: tokens::of(admin.and_then(|admin| admin.token.as_ref()))?,
        read_token: tokens::of(admin.and_then(|admin| admin.read_token.as_ref()))?,
        tls: admin
            .and_then(|admin| admin.tls.as_ref())
            .map(|tls| Arc::new(AdminTls::new(tls.acceptor.clone()))),
        state_dir,
        names: Vec::new(),
        metrics_address: settings.metrics.as_ref().and_then(tcp),
        succeeds: false,
        sockets: [None, None],
        serves_itself: false,
    })
}

fn tcp(address: &ListenAddress) -> Option<SocketAddr> {
    match address {
        ListenAddress::Tcp { address, .. } => Some(*address),
        ListenAddress::Udp { .. } | ListenAddress::Unix(_) => None,
    }
}

fn announce(shared: &Shared, settings: &Settings, admin: &thalweg_admin::Handle, reason: PlaceReason) {
    let worker_pool = shared.worker_pool();
    let (workers, budget) = (worker_pool.workers(), worker_pool.budget());
    info(format_args!(
        "{} with {workers} worker{}, {} client connections at once, {} descriptors",
        env!("CARGO_PKG_VERSION"),
        if workers == 1 { "" } else { "s" },
        budget.connections,
        budget.descriptors,
    ));
    info(format_args!(
        "at most {} exchanges at once, {} with large request bodies, {} MiB of memory, {}",
        budget.in_flight,
        budget.bodies,
        budget.memory >> 20,
        match budget.socket_buffers {
            Some(bytes) => format!("socket buffers of {} KiB", bytes >> 10),
            None => "socket buffers as the kernel sizes them".into(),
        },
    ));
    if settings.access_log.is_none() {
        info("no access log; `access_log: { format: json }` turns it on");
    }
    for bound in worker_pool.bound() {
        info(format_args!("listening on {} ({})", bound.address, bound.name));
    }
    let addresses = admin.addresses();
    if let Some(address) = addresses.metrics {
        info(format_args!("metrics on {address}"));
    }
    if let Some(address) = addresses.admin {
        let scheme = if admin.tls().is_some() { "https" } else { "http" };
        info(format_args!("admin on {address}"));
        info(format_args!("dashboard at {scheme}://{address}/"));
    }
    if let Some(token) = admin.token_file() {
        info(format_args!("admin token in {}", token.path.display()));
    }
    let socket = addresses.socket.display();
    if reason == PlaceReason::Temporary {
        info(format_args!(
            "`$XDG_RUNTIME_DIR` is not set: the admin socket is in a private temporary directory, where verbs of \
             this user look too; root and other environments need `--admin unix:{socket}`"
        ));
    }
    info(format_args!("admin on unix:{socket}"));
    info("ready");
    service_manager::ready("serving");
}
