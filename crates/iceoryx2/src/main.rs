//! iceoryx2, for `byway bench native`: a program of its own, so that its ninety packages are in nobody else's build, and
//! its start-up and files not in ours.
//!
//! ```text
//! sender    loan, write, send [, notify]  -->  receiver   [wait for a notification,] receive until there is a record
//! ```
//! Invariant: nothing overflows or is dropped, so that every record that was sent is received; every file is at a place of the
//! run's (byway_lab::native::place), which goes with it.
//! Not here: the cases, and what the words mean (byway_lab::native::apart).
use byway_lab::child::Failure;
use byway_lab::native::case::Case;
use byway_lab::native::run::{self, Done};
use byway_lab::native::way::{self, Need, Receiver, Sender, Wait, Way};
use byway_lab::native::{apart, place};
use iceoryx2::config::Config;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};
use std::fmt::Debug;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

fn main() {
    set_log_level(LogLevel::Error);
    std::process::exit(apart::serve(std::env::args().skip(1), run));
}

/// The size of a record is a part of its type.
fn run(case: Case, cpus: &[usize], n: u64, place: &str) -> Result<Done, Failure> {
    match case.bytes() {
        8 => by::<8>(case, cpus, n, place),
        64 => by::<64>(case, cpus, n, place),
        0x1_0000 => by::<0x1_0000>(case, cpus, n, place),
        0x10_0000 => by::<0x10_0000>(case, cpus, n, place),
        other => Err(Failure::Said(format!("a record of {other} bytes is new"))),
    }
}

fn by<const N: usize>(case: Case, cpus: &[usize], n: u64, place: &str) -> Result<Done, Failure> {
    run::by(case, |need| Topic::<N>::new(need, place), cpus, n)
}

/// Records that may wait, as those of ours that are 64 bytes long; or fewer, if that would be more than 8 MiB.
const WAITING: usize = 1000;
const WAITING_BYTES: usize = 8 << 20;
/// Up to this size a record is written and looked at as a whole, as ours; a longer one is only numbered.
const WHOLE: usize = 4096;

/// A service for records of `N` bytes, and one that wakes who sleeps.
struct Topic<const N: usize> {
    need: Need,
    config: Config,
    name: String,
}

/// What went wrong, for people too: all that a worker hands on is that it could not.
fn failed(what: impl Debug) -> io::Error {
    eprintln!("iceoryx2: {what:?}");
    io::Error::other(format!("iceoryx2: {what:?}"))
}

impl<const N: usize> Topic<N> {
    fn new(need: Need, place: &str) -> io::Result<Topic<N>> {
        static TOPICS: AtomicU64 = AtomicU64::new(0);
        let mut config = Config::default();
        let root = place::folder(place);
        let root = root.to_str().unwrap_or_default().as_bytes();
        config
            .global
            .set_root_path(&Path::new(root).map_err(failed)?);
        let prefix = place::prefix(place);
        config.global.prefix = FileName::new(prefix.as_bytes()).map_err(failed)?;
        Ok(Topic {
            need,
            config,
            name: format!("records-{}", TOPICS.fetch_add(1, Relaxed)),
        })
    }

    fn open(&self) -> io::Result<Open<N>> {
        let node = NodeBuilder::new()
            .config(&self.config)
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()
            .map_err(failed)?;
        let name = self.name.as_str().try_into().map_err(failed)?;
        let records = node
            .service_builder(&name)
            .publish_subscribe::<[u8; N]>()
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size((WAITING_BYTES / N).clamp(1, WAITING))
            .subscriber_max_borrowed_samples(1)
            .max_publishers(1)
            .max_subscribers(1)
            .history_size(0)
            .open_or_create()
            .map_err(failed)?;
        let events = node
            .service_builder(&name)
            .event()
            .open_or_create()
            .map_err(failed)?;
        Ok(Open {
            _node: node,
            records,
            events,
            need: self.need,
        })
    }
}

struct Open<const N: usize> {
    _node: Node<ipc::Service>,
    records: publish_subscribe::PortFactory<ipc::Service, [u8; N], ()>,
    events: event::PortFactory<ipc::Service>,
    need: Need,
}

impl<const N: usize> Open<N> {
    fn sleeps(&self) -> bool {
        self.need.wait == Wait::Asleep
    }
}

struct Source<const N: usize> {
    port: Publisher<ipc::Service, [u8; N], ()>,
    notifier: Option<Notifier<ipc::Service>>,
    open: Open<N>,
}

struct Sink<const N: usize> {
    port: Subscriber<ipc::Service, [u8; N], ()>,
    listener: Option<Listener<ipc::Service>>,
    open: Open<N>,
}

impl<const N: usize> Way for Topic<N> {
    type Sender<'a> = Source<N>;
    type Receiver<'a> = Sink<N>;

    fn sender(&self) -> io::Result<Source<N>> {
        let open = self.open()?;
        let port = open
            .records
            .publisher_builder()
            .max_loaned_samples(1)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()
            .map_err(failed)?;
        let notifier = || open.events.notifier_builder().create().map_err(failed);
        Ok(Source {
            port,
            notifier: open.sleeps().then(notifier).transpose()?,
            open,
        })
    }

    fn receiver(&self) -> io::Result<Sink<N>> {
        let open = self.open()?;
        let listener = || open.events.listener_builder().create().map_err(failed);
        Ok(Sink {
            port: open.records.subscriber_builder().create().map_err(failed)?,
            listener: open.sleeps().then(listener).transpose()?,
            open,
        })
    }
}

impl<const N: usize> Source<N> {
    /// Sends record `i`; to how many.
    #[inline]
    fn publish(&mut self, i: u64) -> io::Result<usize> {
        let mut loan = self.port.loan_uninit().map_err(failed)?;
        let record = if N <= WHOLE {
            let mut b = [1; N];
            way::fill(&mut b, i);
            loan.write_payload(b)
        } else {
            let at = loan.payload_mut().as_mut_ptr();
            // SAFETY: the loan is ours and so long; the bytes that are not written are those of the memory, whatever they
            // are, and any are a value of the type.
            unsafe {
                way::number(&mut *at, i);
                loan.assume_init()
            }
        };
        record.send().map_err(failed)
    }
}

impl<const N: usize> Sender for Source<N> {
    #[inline]
    fn send(&mut self, i: u64) -> io::Result<()> {
        // A subscriber is connected when it first looks. Before that a record goes into its buffer, but who finds that full
        // does not wait.
        let mut got = Ok(0);
        self.open.need.until(|| {
            got = self.publish(i);
            !matches!(got, Ok(0))
        });
        got?;
        if let Some(n) = &self.notifier {
            n.notify().map_err(failed)?;
        }
        Ok(())
    }
}

impl<const N: usize> Receiver for Sink<N> {
    #[inline]
    fn receive(&mut self) -> io::Result<u64> {
        if let Some(l) = &self.listener {
            l.blocking_wait(|_| {}).map_err(failed)?;
        }
        let mut got = Ok(None);
        self.open.need.until(|| {
            got = self.port.receive();
            !matches!(got, Ok(None))
        });
        let record = got.map_err(failed)?.expect("there is one, or an error");
        let b = record.payload();
        Ok(if N <= WHOLE {
            way::look(b)
        } else {
            way::numbered(b)
        })
    }
}
