//! The processes of a run: workers, Temporal on a file, relays and a store. They are killed when they are dropped.

use std::{
    fs::{self, OpenOptions, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, ExitStatus},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tidings_harness::{
    process::signal,
    proxy::Network,
    relay::{self, Act, At, Mail, Relay},
    server::DevServer,
};
use tidings_model::link_keys::LinkKeys;
use tokio::time::Instant;

use super::{
    act::{Fault, Link, Smtp},
    gateway::{Gateway, Requests},
    network::Links,
    plan::Plan,
    settings::{self, Edition, RELAYS, TENANTS},
    setup::{KEY_COUNT, Setup, WORKERS},
    store::Target,
    tidings::{Build, Builds, FORMER_FILE, Tidings, ended_as_asked, former_toml},
};

/// Time after an outage in which a worker may still end because it cannot connect. The run starts it again.
const GRACE: Duration = Duration::from_secs(20);
/// Time limit for the end of a process that is changed, or whose clock is wrong.
const ENDS_WITHIN: Duration = Duration::from_mins(1);

/// The processes of a run.
pub struct Processes {
    pub tidings: Tidings,
    pub server: DevServer,
    pub relays: Vec<Relay>,
    pub store: Target,
    links: Links,
    /// The gateway, unless earlier builds take part.
    gateway: Option<Gateway>,
    pub requests: Option<Requests>,
    workers: [Worker; WORKERS],
    /// Workers of the new build order the steps as earlier builds do.
    pub hold_patches: bool,
    /// Process ids of all workers so far.
    pub pids: Vec<(u32, Build)>,
    /// Outages of Temporal and the store that last now, and the end of the last outage.
    away: u32,
    back_at: Instant,
    /// Workers that ended by themselves and were started again.
    pub restarts: u64,
    /// Workers that ended by themselves without an outage.
    pub unexplained: Vec<String>,
}

/// The effect of a fault, or of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The run has no such part: SQLite is a file and has no network.
    Nothing,
    Done,
    /// A process was killed.
    Killed,
}

struct Worker {
    child: Option<Child>,
    started_at: Instant,
    build: Build,
    setup: Setup,
    wanted: bool,
}

impl Processes {
    /// Starts everything of a plan, with workers of the old build.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(plan: &Plan, folder: &Path, store: Target, builds: Builds) -> Result<Self> {
        let server = DevServer::start_with(&folder.join("temporal.db")).await?;
        let mut relays = Vec::new();
        for _ in RELAYS {
            relays.push(Relay::start().await?);
        }
        let links = Links::start(&server.target(), &store.url(), &relays).await?;
        let is_one_build = builds.are_same();
        let tidings = Tidings::new(builds, folder, server.target());
        let gateway = is_one_build.then(|| Gateway::new(tidings.clone())).transpose()?;
        let editions = if plan.changes() { Edition::ALL.map(Some).to_vec() } else { vec![None] };
        for edition in editions {
            let ports = gateway.as_ref().map(Gateway::ports);
            let toml = settings::toml(&store.url(), &links.relay_urls(), ports, edition);
            fs::write(folder.join(FORMER_FILE), former_toml(&toml))?;
            fs::write(folder.join(edition.unwrap_or_default().file()), toml)?;
        }
        let keys = folder.join(settings::KEYS);
        fs::write(&keys, link_keys()?)?;
        fs::set_permissions(&keys, Permissions::from_mode(0o600))?;
        let people = TENANTS
            .iter()
            .flat_map(|tenant| plan.users.iter().map(move |user| format!("{tenant},{user},{user}@{tenant}.test\n")));
        fs::write(folder.join("people.csv"), format!("tenant,user,address\n{}", people.collect::<String>()))?;
        let mut processes = Self {
            tidings,
            server,
            relays,
            store,
            links,
            gateway,
            requests: None,
            workers: std::array::from_fn(|_| Worker {
                child: None,
                build: Build::Old,
                setup: Setup::default(),
                started_at: Instant::now(),
                wanted: false,
            }),
            hold_patches: false,
            pids: Vec::new(),
            away: 0,
            back_at: Instant::now(),
            restarts: 0,
            unexplained: Vec::new(),
        };
        processes.prepare(Build::Old, &["migrate"]).await?;
        processes.prepare(Build::Old, &["recipients", "import", "people.csv"]).await?;
        for worker in 0..WORKERS {
            processes.start_worker(worker)?;
        }
        if let Some(gateway) = &mut processes.gateway {
            processes.requests = Some(gateway.requests().await?);
            gateway.start()?;
        }
        Ok(processes)
    }

    /// Runs a command of one build, which must succeed.
    ///
    /// # Errors
    /// When the command fails. The error contains its output.
    pub async fn prepare(&self, build: Build, arguments: &[&str]) -> Result<()> {
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let output = self.tidings.command_of(build, &arguments).output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "tidings {} of the {build:?} build: {}: {said}",
            arguments.join(" "),
            output.status
        );
        Ok(())
    }

    /// One of the emails that the relays took so far, by a random number, and its relay's name.
    #[must_use]
    pub fn taken(&self, number: usize) -> Option<(&'static str, Mail)> {
        let counts: Vec<_> = self.relays.iter().map(Relay::count).collect();
        let mut number = number.checked_rem(counts.iter().sum())?;
        for ((relay, name), count) in self.relays.iter().zip(RELAYS).zip(counts) {
            if number < count {
                return relay.mail(number).map(|mail| (name, mail));
            }
            number -= count;
        }
        None
    }

    fn start_worker(&mut self, number: usize) -> Result<()> {
        let path = self.tidings.folder().join(format!("worker-{number}.log"));
        let log = OpenOptions::new().create(true).append(true).open(path)?;
        let Worker { build, setup, .. } = self.workers[number];
        let held = (self.hold_patches && build == Build::New).then(|| "--hold-patches".to_owned());
        let arguments: Vec<_> = ["worker".to_owned()].into_iter().chain(held).collect();
        let mut command = self.tidings.process(build, &arguments, setup)?;
        command.env("TEMPORAL_ADDRESS", self.links.temporal(number));
        command.env("TIDINGS_DATABASE_URL", self.links.store_url(number)?);
        let child = command.stdout(log.try_clone()?).stderr(log).spawn()?;
        self.pids.push((child.id(), build));
        // With a wrong clock it has to end by itself, and stays away until the next change.
        self.workers[number] =
            Worker { child: Some(child), started_at: Instant::now(), build, setup, wanted: !setup.is_refused() };
        Ok(())
    }

    /// Replaces a worker by one of another build: SIGTERM, wait, start. Answers with the time that the worker took to
    /// end.
    ///
    /// # Errors
    /// When the worker does not end in time, or ends with another code than 0.
    pub async fn replace_worker(&mut self, number: usize, build: Build, within: Duration) -> Result<Duration> {
        let asked = Instant::now();
        self.workers[number].wanted = false;
        self.signal_worker(number, "TERM");
        self.workers[number].ended(number, asked + within).await?;
        self.workers[number].build = build;
        self.start_worker(number)?;
        Ok(asked.elapsed())
    }

    /// Replaces a worker by one with this setup. One whose clock is wrong must have ended by itself.
    async fn change_worker(&mut self, number: usize, setup: Setup) -> Result<()> {
        let worker = &mut self.workers[number];
        let deadline = Instant::now() + ENDS_WITHIN;
        worker.wanted = false;
        if worker.setup.is_refused() {
            if let Err(error) = worker.refused(number, deadline).await {
                self.unexplained.push(format!("{error:#}"));
                self.kill_worker(number)?;
            }
        } else {
            self.signal_worker(number, "TERM");
            self.workers[number].ended(number, deadline).await?;
        }
        self.workers[number].setup = setup;
        self.start_worker(number)
    }

    /// Supervises workers and gateway, and restarts each that ended by itself.
    ///
    /// # Errors
    /// When one does not start.
    pub fn supervise(&mut self) -> Result<()> {
        if let Some(status) = self.gateway.as_mut().map(Gateway::supervise).transpose()?.flatten() {
            if self.away == 0 && self.back_at.elapsed() > GRACE {
                self.unexplained.push(format!("the gateway ended by itself with {status}"));
            }
            self.restarts += 1;
        }
        for number in 0..WORKERS {
            let Worker { child: Some(child), wanted: true, .. } = &mut self.workers[number] else { continue };
            let Some(status) = child.try_wait()? else { continue };
            if self.away == 0 && self.back_at.elapsed() > GRACE {
                self.unexplained.push(format!("worker {number} ended by itself with {status}"));
            }
            self.restarts += 1;
            self.start_worker(number)?;
        }
        Ok(())
    }

    /// Begins or ends a fault.
    ///
    /// # Errors
    /// When that cannot be done.
    pub async fn apply(&mut self, fault: Fault) -> Result<Effect> {
        let killed = |killed| if killed { Effect::Killed } else { Effect::Done };
        match fault {
            Fault::KillWorker(number) => return self.kill_worker(number).map(killed),
            Fault::StartWorker(number) => self.start_worker(number)?,
            Fault::PauseWorker(number) => self.signal_worker(number, "STOP"),
            Fault::ContinueWorker(number) => self.signal_worker(number, "CONT"),
            Fault::KillTemporal => {
                self.away += 1;
                self.server.stop();
                return Ok(Effect::Killed);
            }
            Fault::LoseTemporal => {
                self.away += 1;
                self.server.lose()?;
                self.tidings.lost();
                return Ok(Effect::Killed);
            }
            Fault::StartTemporal => {
                self.server.restart().await?;
                self.back();
            }
            Fault::PauseTemporal => {
                self.away += 1;
                self.server.pause()?;
            }
            Fault::ContinueTemporal => {
                self.server.go_on()?;
                self.back();
            }
            Fault::KillStore => {
                self.away += 1;
                return self.store.kill().await.map(killed);
            }
            Fault::StartStore => {
                self.store.start().await?;
                self.back();
            }
            Fault::PauseStore => {
                self.away += 1;
                self.store.pause().await?;
            }
            Fault::ContinueStore => {
                self.store.go_on().await?;
                self.back();
            }
            Fault::RefuseLedger => {
                self.away += 1;
                self.store.refuse().await?;
            }
            Fault::AcceptLedger => {
                self.store.accept().await?;
                self.back();
            }
            Fault::KillGateway => {
                let alive = self.gateway.as_mut().map(Gateway::kill).transpose()?;
                return Ok(alive.map_or(Effect::Nothing, killed));
            }
            Fault::StartGateway => self.gateway.as_mut().map_or(Ok(()), Gateway::start)?,
            Fault::PauseGateway => self.signal_gateway("STOP"),
            Fault::ContinueGateway => self.signal_gateway("CONT"),
            Fault::ChangeWorker(number, setup) => self.change_worker(number, setup).await?,
            Fault::ChangeGateway(setup) => {
                let gateway = self.gateway.as_mut().context("there is no gateway")?;
                gateway.change(setup, ENDS_WITHIN).await?;
            }
            Fault::Relay(number, smtp) => self.relays[number].fault(fault_of(smtp)),
            Fault::HealRelays => self.relays.iter().for_each(Relay::heal),
            Fault::Link(link, network) => return self.change(link, network),
        }
        Ok(Effect::Done)
    }

    /// Changes the network on a link. A worker may end because of a link to Temporal or to the store.
    fn change(&mut self, link: Link, network: Network) -> Result<Effect> {
        if !self.links.set(link, network)? {
            return Ok(Effect::Nothing);
        }
        match (link, network) {
            (Link::Relay(_), _) => {}
            (_, Network::Whole) => self.back(),
            _ => self.away += 1,
        }
        Ok(Effect::Done)
    }

    fn back(&mut self) {
        self.away -= 1;
        self.back_at = Instant::now();
    }

    fn kill_worker(&mut self, number: usize) -> Result<bool> {
        let Worker { child, wanted, .. } = &mut self.workers[number];
        *wanted = false;
        let Some(mut child) = child.take() else { return Ok(false) };
        let alive = child.try_wait()?.is_none();
        child.kill()?;
        child.wait()?;
        Ok(alive)
    }

    fn signal_worker(&self, number: usize, name: &str) {
        if let Some(child) = &self.workers[number].child {
            // A worker that has just ended by itself is started again.
            let _ = signal(child.id(), name);
        }
    }

    fn signal_gateway(&self, name: &str) {
        if let Some(gateway) = &self.gateway {
            gateway.signal(name);
        }
    }

    /// Stops workers and gateway with SIGTERM. Each must end by itself.
    ///
    /// # Errors
    /// When one does not end, or ends with another code than 0.
    pub async fn stop(&mut self, within: Duration) -> Result<()> {
        if let Some(gateway) = &mut self.gateway {
            gateway.stop(within).await?;
        }
        for number in 0..WORKERS {
            self.workers[number].wanted = false;
            self.signal_worker(number, "TERM");
        }
        let deadline = Instant::now() + within;
        for (number, worker) in self.workers.iter_mut().enumerate() {
            worker.ended(number, deadline).await?;
        }
        Ok(())
    }
}

impl Worker {
    /// Waits until the worker has ended as it was asked to.
    async fn ended(&mut self, number: usize, deadline: Instant) -> Result<()> {
        let status = self.status(deadline).await?;
        let status = status.with_context(|| format!("worker {number} does not stop in time after SIGTERM"))?;
        ensure!(ended_as_asked(status, self.started_at), "worker {number} stopped with {status}");
        Ok(())
    }

    /// Waits until the worker has ended because its clock is wrong.
    async fn refused(&mut self, number: usize, deadline: Instant) -> Result<()> {
        let skew = self.setup.skew;
        let status = self.status(deadline).await?;
        let status = status.with_context(|| format!("worker {number} works with a clock that is {skew} s ahead"))?;
        ensure!(!status.success(), "worker {number} says nothing of its clock, which is {skew} s ahead");
        Ok(())
    }

    /// The status of the worker's end, if it comes in time.
    async fn status(&mut self, deadline: Instant) -> Result<Option<ExitStatus>> {
        let child = self.child.as_mut().context("a worker is missing")?;
        loop {
            let status = child.try_wait()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            if let Some(mut child) = worker.child.take() {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// The lines of the file of link keys.
fn link_keys() -> Result<String> {
    let keys: Option<Vec<_>> = (0..KEY_COUNT).map(|_| LinkKeys::generate()).collect();
    Ok(keys.context("no randomness")?.join("\n"))
}

fn fault_of(smtp: Smtp) -> relay::Fault {
    let reply = |text: &str| Act::Reply(text.to_owned());
    match smtp {
        Smtp::Slow(time, times) => relay::Fault::new(At::Dot, Act::Slow(time)).times(times),
        Smtp::TakeAndClose(times) => relay::Fault::new(At::Dot, Act::KeepAndClose).times(times),
        Smtp::LoseAndClose(times) => relay::Fault::new(At::Dot, Act::Close).times(times),
        Smtp::CloseInBody(times) => relay::Fault::new(At::Body, Act::Close).times(times),
        Smtp::Defer(times) => relay::Fault::new(At::Rcpt, reply("451 4.3.0 not now")).times(times),
        Smtp::Bounce => relay::Fault::new(At::Rcpt, reply("550 5.1.1 no such user")).times(1),
        Smtp::Policy => relay::Fault::new(At::Rcpt, reply("550 5.7.606 not from you")).times(1),
        Smtp::Refuse => relay::Fault::new(At::Greeting, Act::ReplyAndClose("421 4.3.2 not in service".to_owned())),
    }
}
