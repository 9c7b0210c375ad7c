//! Serves one kernel with the modelled GPU and prints what was: for work on the bridge or the model without the rest of
//! the rig.
//!
//! `cargo run -p panthor-sim --example rig-model -- SOCKET [OPTIONS] [TRACE]`: the path of the socket to make, the options
//! of the GPU (`gpu_mhz=…,fault=…`), and a file for a line per request.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::net::UnixListener;

use panthor_sim::hw::bridge::{serve, serve_traced};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args
        .next()
        .ok_or("usage: rig-model SOCKET [OPTIONS] [TRACE]")?;
    let options = args.next().unwrap_or_default().parse()?;
    let listener = UnixListener::bind(&path)?;
    let (stream, _) = listener.accept()?;
    std::fs::remove_file(&path)?;
    let summary = match args.next() {
        None => serve(stream, options)?,
        Some(file) => {
            let mut trace = BufWriter::new(File::create(file)?);
            let summary = serve_traced(stream, options, &mut trace)?;
            trace.flush()?;
            summary
        }
    };
    println!("{summary:#?}");
    Ok(())
}
