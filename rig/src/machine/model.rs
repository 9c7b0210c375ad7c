//! The modelled GPU of a machine, on a thread of the caller's process.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;

use panthor_sim::hw::bridge::{self, BridgeError};
pub use panthor_sim::hw::{Options as Hardware, Summary};
use rustix::event::{PollFd, PollFlags, poll};

/// A model that waits for its kernel or serves it.
pub(super) struct Model {
    thread: JoinHandle<Result<Summary, BridgeError>>,
    /// Its closing says that no kernel will come any more.
    waiting: UnixStream,
}

impl Model {
    /// Listens on `socket`. What it answers goes to `trace` as well, where that is given.
    pub(super) fn start(
        options: &Hardware,
        socket: &Path,
        trace: Option<&Path>,
    ) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let trace = trace
            .map(|path| {
                let named =
                    |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
                File::create(path).map(BufWriter::new).map_err(named)
            })
            .transpose()?;
        let (waiting, given_up) = UnixStream::pair()?;
        let options = options.clone();
        let thread = std::thread::Builder::new()
            .name("model".to_owned())
            .spawn(move || {
                let Some(stream) = accept(&listener, &given_up)? else {
                    return Ok(Summary::default());
                };
                drop(listener);
                match trace {
                    None => bridge::serve(stream, options),
                    Some(mut trace) => {
                        let summary = bridge::serve_traced(stream, options, &mut trace);
                        trace.flush()?;
                        summary
                    }
                }
            })?;
        Ok(Self { thread, waiting })
    }

    /// What it counted, once its kernel is gone.
    ///
    /// # Errors
    /// What it complains of.
    pub(super) fn finish(self) -> Result<Summary, String> {
        drop(self.waiting);
        match self.thread.join() {
            Ok(result) => result.map_err(|e| e.to_string()),
            Err(panic) => {
                let text = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied());
                Err(format!("it panicked: {}", text.unwrap_or("without a word")))
            }
        }
    }
}

/// The kernel's connection; `None` where it does not come.
fn accept(listener: &UnixListener, given_up: &UnixStream) -> io::Result<Option<UnixStream>> {
    loop {
        let mut fds = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(given_up, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if fds[0].revents().contains(PollFlags::IN) {
            return listener.accept().map(|(stream, _)| Some(stream));
        }
        if !fds[1].revents().is_empty() {
            return Ok(None);
        }
    }
}
