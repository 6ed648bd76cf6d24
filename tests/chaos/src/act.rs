//! The acts of a run, as data.

use std::time::Duration;

use tidings_harness::proxy::Network;
use tidings_model::Key;

use super::setup::Setup;

/// An act at one moment of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A producer hands over this batch.
    Emit(usize),
    /// A producer hands over the whole batch again.
    EmitAgain(usize),
    /// A producer posts this batch to the gateway, also while Temporal is away.
    Post(usize),
    /// Kills an emitting producer (SIGKILL). Another producer may hand over the same batch.
    KillEmit { again: bool },
    /// Retracts an event of the plan, by its number. The event may be still to come.
    Retract { event: u32 },
    /// Hands over a single message, by its number.
    Send { number: u32 },
    /// An intervention of an operator or a recipient.
    Intervention(Intervention, Key),
    /// The recipient of an email unsubscribes by one click. The number draws the email.
    Click { number: u32 },
    /// A provider reports about an email, out of order and twice. The number draws the email.
    Report { number: u32 },
    /// A mail server returns an email that it took. The number draws the email.
    Return { number: u32 },
    /// An intervention about a digest or a message. The ledger lists them, and the number draws one.
    Pick(Pick, u32),
    /// An operator sends what Temporal lost, as docs/operations.md says.
    Restore,
    /// Begins or ends a fault.
    Fault(Fault),
}

/// An intervention about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intervention {
    Flush,
    Hold,
    Release,
    ReleaseTenant,
    Drop,
    Retime,
    Preview,
    Status,
    Cadence(Option<&'static str>),
    Off,
    On,
    Pause,
    Resume,
    Withdraw,
    Grant,
    /// Cancels in Temporal, without the command line.
    Cancel,
    /// Terminates in Temporal, which runs no code. `tidings recover` follows.
    Terminate,
    OpenRelay(usize),
    CloseRelay(usize),
    /// An operator pauses the key's digest type of the tenant.
    PauseType,
    ResumeType,
    /// An operator pauses the tenant with its single messages, for some seconds.
    PauseTenant,
    ResumeTenant,
    /// Erases the key's person, and imports them again.
    Erase,
}

/// An intervention whose subject is drawn from the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    Reopen,
    RetryMessage,
    CancelMessage,
    Lift,
}

/// A fault of one part of Tidings' surroundings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    KillWorker(usize),
    StartWorker(usize),
    PauseWorker(usize),
    ContinueWorker(usize),
    KillTemporal,
    StartTemporal,
    PauseTemporal,
    ContinueTemporal,
    /// Kills Temporal and deletes its database.
    LoseTemporal,
    KillStore,
    StartStore,
    PauseStore,
    ContinueStore,
    /// The ledger refuses to record the ends of attempts, and answers to all else.
    RefuseLedger,
    AcceptLedger,
    KillGateway,
    StartGateway,
    PauseGateway,
    ContinueGateway,
    /// Stops a worker (SIGTERM) and starts it with this setup.
    ChangeWorker(usize, Setup),
    ChangeGateway(Setup),
    Relay(usize, Smtp),
    /// All relays work again.
    HealRelays,
    /// The network on a link changes. `Network::Whole` ends the fault.
    Link(Link, Network),
}

/// A link of the network: of one worker to Temporal or to the store, or of all workers to one relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Temporal(usize),
    Store(usize),
    Relay(usize),
}

/// A fault of a relay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Smtp {
    /// Delays the reply to the final dot this many times.
    Slow(Duration, usize),
    /// Takes the email and closes without a reply.
    TakeAndClose(usize),
    /// Loses the mail and closes, after the dot.
    LoseAndClose(usize),
    /// Closes amid the content.
    CloseInBody(usize),
    /// 451 at RCPT.
    Defer(usize),
    /// 550 5.1.1 at RCPT.
    Bounce,
    /// 550 5.7.1 at RCPT, which is about the sender.
    Policy,
    /// 421 as greeting, until it is healed.
    Refuse,
}

impl Act {
    /// The act's name in the counts of a run.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Emit(_) => "emit",
            Self::EmitAgain(_) => "emit again",
            Self::Post(_) => "post amid an outage",
            Self::KillEmit { .. } => "kill emit",
            Self::Retract { .. } => "retract",
            Self::Send { .. } => "send",
            Self::Intervention(intervention, _) => intervention.name(),
            Self::Click { .. } => "one click",
            Self::Report { .. } => "provider reports",
            Self::Return { .. } => "mail server returns",
            Self::Pick(pick, _) => pick.name(),
            Self::Restore => "inbox replay",
            Self::Fault(fault) => fault.name(),
        }
    }
}

impl Intervention {
    /// The end of a pause that an operator began.
    #[must_use]
    pub const fn resume(self) -> Option<Self> {
        match self {
            Self::PauseType => Some(Self::ResumeType),
            Self::PauseTenant => Some(Self::ResumeTenant),
            _ => None,
        }
    }

    /// Answers `true` if an operator begins or ends a pause.
    #[must_use]
    pub const fn pauses(self) -> bool {
        matches!(self, Self::PauseType | Self::ResumeType | Self::PauseTenant | Self::ResumeTenant)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::ReleaseTenant => "release --filter",
            Self::Drop => "drop",
            Self::Retime => "retime",
            Self::Preview => "preview",
            Self::Status => "status",
            Self::Cadence(_) => "change cadence",
            Self::Off => "category off",
            Self::On => "category on",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Withdraw => "withdraw consent",
            Self::Grant => "grant consent",
            Self::Cancel => "cancel in Temporal",
            Self::Terminate => "terminate and recover",
            Self::OpenRelay(_) => "relays open",
            Self::CloseRelay(_) => "relays close",
            Self::PauseType => "pause digest type",
            Self::ResumeType => "resume digest type",
            Self::PauseTenant => "pause tenant",
            Self::ResumeTenant => "resume tenant",
            Self::Erase => "recipients erase",
        }
    }
}

impl Pick {
    const fn name(self) -> &'static str {
        match self {
            Self::Reopen => "reopen",
            Self::RetryMessage => "messages retry",
            Self::CancelMessage => "messages cancel",
            Self::Lift => "suppressions lift",
        }
    }
}

impl Fault {
    /// Answers `true` if the act kills a process.
    #[must_use]
    pub const fn kills(self) -> bool {
        matches!(
            self,
            Self::KillWorker(_) | Self::KillTemporal | Self::LoseTemporal | Self::KillStore | Self::KillGateway
        )
    }

    const fn name(self) -> &'static str {
        match self {
            Self::KillWorker(_) => "kill worker",
            Self::StartWorker(_) => "start worker",
            Self::PauseWorker(_) => "pause worker",
            Self::ContinueWorker(_) => "continue worker",
            Self::KillTemporal => "kill Temporal",
            Self::StartTemporal => "start Temporal",
            Self::PauseTemporal => "pause Temporal",
            Self::ContinueTemporal => "continue Temporal",
            Self::LoseTemporal => "Temporal loses its data",
            Self::KillStore => "stop store",
            Self::StartStore => "start store",
            Self::PauseStore => "pause store",
            Self::ContinueStore => "continue store",
            Self::RefuseLedger => "the ledger refuses",
            Self::AcceptLedger => "the ledger accepts",
            Self::KillGateway => "kill gateway",
            Self::StartGateway => "start gateway",
            Self::PauseGateway => "pause gateway",
            Self::ContinueGateway => "continue gateway",
            Self::ChangeWorker(..) => "change worker",
            Self::ChangeGateway(_) => "change gateway",
            Self::Relay(_, smtp) => smtp.name(),
            Self::HealRelays => "heal relays",
            Self::Link(link, network) => link.name(network),
        }
    }
}

impl Link {
    const fn name(self, network: Network) -> &'static str {
        match (self, network) {
            (_, Network::Whole) => "heal a link",
            (Self::Temporal(_), Network::Slow(_)) => "slow link to Temporal",
            (Self::Temporal(_), Network::Frozen | Network::Cut) => "cut link to Temporal",
            (Self::Store(_), Network::Slow(_)) => "slow link to the store",
            (Self::Store(_), Network::Frozen | Network::Cut) => "cut link to the store",
            (Self::Relay(_), Network::Slow(_)) => "slow link to a relay",
            (Self::Relay(_), Network::Frozen | Network::Cut) => "cut link to a relay",
        }
    }
}

impl Smtp {
    const fn name(self) -> &'static str {
        match self {
            Self::Slow(..) => "relay is slow",
            Self::TakeAndClose(_) => "relay takes and closes",
            Self::LoseAndClose(_) => "relay loses and closes",
            Self::CloseInBody(_) => "relay closes in the body",
            Self::Defer(_) => "relay defers",
            Self::Bounce => "relay bounces",
            Self::Policy => "relay refuses by policy",
            Self::Refuse => "relay refuses connections",
        }
    }
}
