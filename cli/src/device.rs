//! `--device`: which device is meant, and opening it.

use panthor_sim::kmd::Monitor;
use panthor_sim::{Options, Sim};
use panthor_uapi::discover::{self, NodeState};
use panthor_uapi::{Device, KernelTransport};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::failure::{Exit, Failure, say};

/// A device that was opened, and how it was chosen.
pub struct Opened {
    /// The device.
    pub device: Device,
    /// A view of the simulated GPU, where the device is simulated.
    pub monitor: Option<Monitor>,
}

/// Opens what `--device` names. `auto` says on standard error which device it chose and why.
///
/// # Errors
/// [`Exit::NoDevice`] where a named device cannot be used, [`Exit::Usage`] for a malformed simulator string.
pub fn open(spec: &str) -> Result<Opened, Failure> {
    if spec != "auto" {
        return if spec == "sim" || spec.starts_with("sim:") {
            simulator(spec)
        } else {
            hardware(Path::new(spec))
        };
    }
    let transport = KernelTransport::shared();
    let nodes = discover::nodes(&transport, Path::new("/")).unwrap_or_default();
    if let Some(node) = nodes.iter().find(|n| n.is_panthor()) {
        say(format_args!("using {}", node.path.display()));
        return hardware(&node.path);
    }
    let denied = nodes.iter().find(|n| n.state == NodeState::Denied);
    let why = match denied {
        Some(node) => format!(
            "{} may not be opened, see `panthorctl info`",
            node.path.display()
        ),
        None => "no render node of panthor".to_owned(),
    };
    say(format_args!("using the simulator ({why})"));
    simulator("sim")
}

fn hardware(path: &Path) -> Result<Opened, Failure> {
    if path.as_os_str().is_empty() {
        let line = "--device is empty: name auto, sim or a render node such as /dev/dri/renderD128";
        return Err(Failure::new(Exit::Usage, line));
    }
    if let Ok(found) = std::fs::metadata(path) {
        if !found.file_type().is_char_device() {
            let line = format!(
                "{}: no device node; name one of /dev/dri/renderD*, or sim for the simulator",
                path.display()
            );
            return Err(Failure::new(Exit::NoDevice, line));
        }
    }
    let device = Device::open(KernelTransport::shared(), path)
        .map_err(|e| Failure::new(Exit::NoDevice, e))?;
    Ok(Opened {
        device,
        monitor: None,
    })
}

fn simulator(spec: &str) -> Result<Opened, Failure> {
    let options: Options = spec.parse().map_err(|e| Failure::new(Exit::Usage, e))?;
    let (transport, monitor) = Sim::device(options).map_err(|e| Failure::new(Exit::NoDevice, e))?;
    let device = Device::open(transport, spec).map_err(|e| Failure::new(Exit::NoDevice, e))?;
    Ok(Opened {
        device,
        monitor: Some(monitor),
    })
}
