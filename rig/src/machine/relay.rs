//! The caller's end of a machine's channel: what comes out goes to two sinks, input and signals go in.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::frame::{
    Ended, FrameError, HEAD, Inward, MAX_PAYLOAD, Outward, Parser, Payload, Stage, Stream,
};

/// How long init may take to pass a signal on, before the machine counts as stuck and is killed. It takes microseconds,
/// unless the model is in the middle of a long job, during which nothing inside moves.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(10);
/// How long the kernel may take to power off.
const LAST_PATIENCE: Duration = Duration::from_secs(20);
/// How often a deadline is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Frames that wait for a slow sink; beyond, the pipe fills and the machine waits.
const WAITING: usize = 16;

/// Where the program's input comes from.
pub(super) enum Inputs {
    None,
    /// Over the channel, as it is credited.
    Channel(Box<dyn Read + Send>),
    /// Straight to the program's terminal.
    Terminal(Box<dyn Read + Send>, File),
}

enum Event {
    Frame(Outward),
    Broken(FrameError),
    Terminal(Stream, Vec<u8>),
}

/// What the machine said.
#[derive(Default)]
pub(super) struct Met {
    /// Version and time of init's first word.
    pub hello: Option<(u32, u64)>,
    /// When the program started, inside and here.
    pub started: Option<(u64, Instant)>,
    /// How it ended, and when inside.
    pub exit: Option<(Ended, u64)>,
    pub failed: Option<(Stage, String)>,
    pub broken: Option<FrameError>,
    /// It had not started by the deadline.
    pub late: bool,
    /// The caller wished it dead, or it did not take a signal.
    pub killed: bool,
}

/// A handle to signal or kill a machine with. What it is told after the machine's end is lost.
#[derive(Clone)]
pub struct Control(Arc<Shared>);

struct Shared {
    line: Mutex<File>,
    keeper: UnixStream,
    killed: AtomicBool,
    /// When a signal was sent that was not passed on yet.
    signalled: Mutex<Option<Instant>>,
}

impl Control {
    /// Sends a signal to the program's process group. A number that is no signal is not sent.
    pub fn signal(&self, number: u8) {
        if (1..=64).contains(&number) {
            let mut signalled = lock(&self.0.signalled);
            signalled.get_or_insert_with(Instant::now);
            drop(signalled);
            self.send(&Inward::Signal(number));
        }
    }

    /// Tells the program's terminals their size.
    pub fn resize(&self, rows: u16, columns: u16) {
        self.send(&Inward::Size { rows, columns });
    }

    /// Kills the machine at once. [`super::Machine::wait`] then says so.
    pub fn kill(&self) {
        self.0.killed.store(true, Ordering::Relaxed);
        self.kill_quietly();
    }

    /// Kills what is left.
    pub(super) fn kill_quietly(&self) {
        let _ = self.0.keeper.shutdown(Shutdown::Write);
    }

    fn send(&self, frame: &Inward) {
        // Where nobody reads, the machine is ending.
        let _ = lock(&self.0.line).write_all(&frame.encode());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Relay {
    events: Receiver<Event>,
    control: Control,
    /// Bytes of frames with input that may be sent, for its thread.
    credit: Option<std::sync::mpsc::Sender<usize>>,
}

impl Relay {
    pub(super) fn start(
        from: File,
        to: File,
        keeper: UnixStream,
        terminals: Vec<(Stream, File)>,
        inputs: Inputs,
    ) -> Self {
        let (sender, events) = sync_channel(WAITING);
        let control = Control(Arc::new(Shared {
            line: Mutex::new(to),
            keeper,
            killed: AtomicBool::new(false),
            signalled: Mutex::new(None),
        }));
        for (stream, file) in terminals {
            let sender = sender.clone();
            std::thread::spawn(move || {
                pieces(file, |bytes| {
                    sender.send(Event::Terminal(stream, bytes.to_vec())).is_ok()
                });
            });
        }
        std::thread::spawn(move || frames(from, &sender));
        let credit = match inputs {
            Inputs::None => None,
            Inputs::Channel(mut reader) => {
                let (credit, granted) = channel();
                let control = control.clone();
                std::thread::spawn(move || feed(&mut reader, &granted, &control));
                Some(credit)
            }
            Inputs::Terminal(reader, mut terminal) => {
                std::thread::spawn(move || {
                    pieces(reader, |bytes| terminal.write_all(bytes).is_ok());
                });
                None
            }
        };
        Self {
            events,
            control,
            credit,
        }
    }

    pub(super) fn control(&self) -> Control {
        self.control.clone()
    }

    /// Relays until everything from inside is closed.
    pub(super) fn run(
        &mut self,
        deadline: Instant,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Met {
        let mut met = Met::default();
        let mut open = [true; 2];
        let mut over = None;
        let mut give = |control: &Control, stream: Stream, bytes: &[u8]| {
            let (sink, open): (&mut dyn Write, _) = match stream {
                Stream::Out => (&mut *out, &mut open[0]),
                Stream::Err => (&mut *err, &mut open[1]),
            };
            if *open && sink.write_all(bytes).and_then(|()| sink.flush()).is_err() {
                *open = false;
                control.send(&Inward::OutputClosed(stream));
            }
        };
        loop {
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Terminal(stream, bytes)) => give(&self.control, stream, &bytes),
                Ok(Event::Broken(error)) => {
                    met.broken = Some(error);
                    self.control.kill_quietly();
                }
                Ok(Event::Frame(frame)) => match frame {
                    Outward::Output(stream, bytes) => give(&self.control, stream, &bytes),
                    Outward::Hello { version, now } => {
                        met.hello = Some((version, now));
                        if version != super::frame::VERSION {
                            self.control.kill_quietly();
                        }
                    }
                    Outward::Started { now } => met.started = Some((now, Instant::now())),
                    Outward::Credit(bytes) => {
                        if let Some(credit) = &self.credit {
                            let _ = credit.send(bytes as usize);
                        }
                    }
                    Outward::InputClosed => self.credit = None,
                    Outward::Signalled(_) => *lock(&self.control.0.signalled) = None,
                    Outward::Exit { ended, now } => {
                        met.exit = Some((ended, now));
                        over = Some(Instant::now());
                    }
                    Outward::Failed { stage, why } => {
                        met.failed = Some((stage, why));
                        over = Some(Instant::now());
                    }
                },
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let signalled = *lock(&self.control.0.signalled);
                    let stuck = signalled.is_some_and(|at| at.elapsed() > SIGNAL_PATIENCE);
                    if over.is_some_and(|at: Instant| at.elapsed() > LAST_PATIENCE) {
                        log::warn!("the rig's kernel does not power off: it was killed");
                        self.control.kill_quietly();
                    } else if stuck && over.is_none() && met.started.is_some() {
                        self.control.kill();
                    } else if met.started.is_none() && over.is_none() && Instant::now() > deadline {
                        met.late = true;
                        self.control.kill_quietly();
                    }
                }
            }
        }
        let killed = self.control.0.killed.load(Ordering::Relaxed);
        met.killed = killed && met.exit.is_none();
        met
    }
}

fn pieces(mut from: impl Read, mut take: impl FnMut(&[u8]) -> bool) {
    let mut bytes = vec![0; MAX_PAYLOAD];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(n) if take(&bytes[..n]) => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            _ => break,
        }
    }
}

fn frames(from: File, sender: &SyncSender<Event>) {
    let mut parser = Parser::default();
    let mut broken = false;
    pieces(from, |bytes| {
        parser.push(bytes);
        loop {
            match parser.next() {
                Ok(None) => return true,
                Ok(Some(frame)) => {
                    if sender.send(Event::Frame(frame)).is_err() {
                        return false;
                    }
                }
                Err(error) => {
                    // Read on, so that the machine does not wait for a reader while it is killed.
                    let first = !std::mem::replace(&mut broken, true);
                    return !first || sender.send(Event::Broken(error)).is_ok();
                }
            }
        }
    });
}

/// Passes input on as far as it is credited.
fn feed(reader: &mut dyn Read, granted: &Receiver<usize>, control: &Control) {
    let mut credit = 0;
    let mut bytes = vec![0; MAX_PAYLOAD];
    loop {
        while let Ok(more) = granted.try_recv() {
            credit += more;
        }
        if credit <= HEAD {
            match granted.recv() {
                Ok(more) => credit += more,
                Err(_) => return,
            }
            continue;
        }
        let most = (credit - HEAD).min(bytes.len());
        match reader.read(&mut bytes[..most]) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            // An input that cannot be read has ended.
            Ok(0) | Err(_) => return control.send(&Inward::InputEnd),
            Ok(n) => {
                credit -= n + HEAD;
                control.send(&Inward::Input(bytes[..n].to_vec()));
            }
        }
    }
}
