//! Which nodes there are, and what is missing where there is none.
//!
//! Every function takes the root of the file system (`/`), so that a test can show it a tree of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::device::{DRIVER_NAME, DriverVersion, driver_version, open};
use crate::error::Error;
use crate::transport::{Errno, SharedTransport};

/// The group that owns render nodes (systemd's `50-udev-default.rules`).
pub const RENDER_GROUP: &str = "render";
/// The firmware of a Mali-G610 below the firmware directories (`panthor_fw.c`, `arm/mali/arch%d.%d/mali_csffw.bin`, v10.8).
pub const FIRMWARE: &str = "arm/mali/arch10.8/mali_csffw.bin";
/// Where the kernel looks for firmware (`drivers/base/firmware_loader/main.c`, `fw_path`), without the release's own.
const FIRMWARE_DIRS: [&str; 2] = ["lib/firmware/updates", "lib/firmware"];
/// The module parameter that names one more, below the root.
const FIRMWARE_PARAMETER: &str = "sys/module/firmware_class/parameters/path";
/// The `compatible` of the device tree's root, below the root of the file system.
const ROOT_COMPATIBLE: &str = "sys/firmware/devicetree/base/compatible";
/// What it holds on the rig.
pub const RIG_COMPATIBLE: &str = "uml,mali-host";
/// The endings that the kernel tries (plain, and compressed where it is built for that).
const FIRMWARE_ENDINGS: [&str; 3] = ["", ".zst", ".xz"];
/// Names of platform drivers that can hold a Mali: the mainline ones, and Arm's own, which keeps panthor out.
const GPU_DRIVERS: [&str; 4] = [DRIVER_NAME, "panfrost", "mali", "lima"];

/// What a render node turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It can be opened, and this is its driver.
    Driver(DriverVersion),
    /// This user may not open it.
    Denied,
    /// It cannot be used for another reason.
    Unusable(Error),
}

/// One node of `/dev/dri`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its path.
    pub path: PathBuf,
    /// What it is.
    pub state: NodeState,
}

impl Node {
    /// Whether it is a panthor device that this user may open.
    pub fn is_panthor(&self) -> bool {
        matches!(&self.state, NodeState::Driver(driver) if driver.name == DRIVER_NAME)
    }
}

/// The render nodes in the order of their numbers; empty where there are none, also where `/dev/dri` does not exist.
///
/// # Errors
/// What reading the directory says, but for its absence.
pub fn nodes(transport: &SharedTransport, root: &Path) -> io::Result<Vec<Node>> {
    let dir = root.join("dev/dri");
    let entries = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix("renderD"))
            .and_then(|n| n.parse::<u32>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    let probe = |number| {
        let path = dir.join(format!("renderD{number}"));
        let driver =
            open(transport, &path).and_then(|file| driver_version(transport, &file, &path));
        let state = match driver {
            Ok(driver) => NodeState::Driver(driver),
            Err(error) if matches!(error.errno(), Some(Errno::ACCESS | Errno::PERM)) => {
                NodeState::Denied
            }
            Err(error) => NodeState::Unusable(error),
        };
        Node { path, state }
    };
    Ok(numbers.into_iter().map(probe).collect())
}

/// How the user stands to the group that owns render nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenderGroup {
    /// This process is in it.
    Member,
    /// It exists, with this number, and this process is not in it.
    NotMember(u32),
    /// There is no such group.
    Absent,
}

/// The groups of this process.
///
/// # Errors
/// What the system call says.
pub fn own_groups() -> io::Result<Vec<u32>> {
    let mut groups: Vec<u32> = rustix::process::getgroups()?
        .into_iter()
        .map(rustix::process::Gid::as_raw)
        .collect();
    groups.push(rustix::process::getegid().as_raw());
    Ok(groups)
}

/// Whether a process with these groups (see [`own_groups`]) is in group `render` of `/etc/group`.
///
/// # Errors
/// What reading `/etc/group` says.
pub fn render_group(root: &Path, groups: &[u32]) -> io::Result<RenderGroup> {
    // name:password:number:members
    let file = fs::read_to_string(root.join("etc/group"))?;
    let number = file.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() == Some(RENDER_GROUP) {
            fields.nth(1)?.parse::<u32>().ok()
        } else {
            None
        }
    });
    Ok(match number {
        Some(number) if groups.contains(&number) => RenderGroup::Member,
        Some(number) => RenderGroup::NotMember(number),
        None => RenderGroup::Absent,
    })
}

/// Where the firmware of a Mali-G610 lies, plain or compressed; `None` where it is missing.
pub fn firmware(root: &Path) -> Option<PathBuf> {
    // The kernel looks there first, where its command line names a directory.
    let named = fs::read_to_string(root.join(FIRMWARE_PARAMETER)).unwrap_or_default();
    let named = named.trim().trim_start_matches('/');
    let named = Some(named).filter(|dir| !dir.is_empty());
    named.into_iter().chain(FIRMWARE_DIRS).find_map(|dir| {
        let endings = FIRMWARE_ENDINGS.iter();
        endings
            .map(|ending| root.join(dir).join(format!("{FIRMWARE}{ending}")))
            .find(|path| path.is_file())
    })
}

/// Whether this machine is the rig: User Mode Linux with the kernel's own driver over a modelled GPU. Its device tree's root
/// says so.
pub fn is_rig(root: &Path) -> bool {
    let compatible = fs::read(root.join(ROOT_COMPATIBLE)).unwrap_or_default();
    // A list of names, each with a NUL at its end (Devicetree Specification, 2.2.4.2).
    compatible
        .split(|byte| *byte == 0)
        .any(|name| name == RIG_COMPATIBLE.as_bytes())
}

/// A platform device that a GPU driver holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoundGpu {
    /// The driver: `panthor`, or Arm's `mali`, which keeps panthor out.
    pub driver: String,
    /// The device, such as `fb000000.gpu`.
    pub device: String,
}

/// Which GPU devices are bound to which driver, from `/sys/bus/platform/drivers`.
///
/// # Errors
/// What reading the directories says, but for their absence.
pub fn bound_gpus(root: &Path) -> io::Result<Vec<BoundGpu>> {
    let mut bound = Vec::new();
    for driver in GPU_DRIVERS {
        let entries = match fs::read_dir(root.join("sys/bus/platform/drivers").join(driver)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let device = entry.file_name().to_string_lossy().into_owned();
            // Devices are links; `module` is one too; `bind`, `unbind` and `uevent` are files.
            if entry.file_type()?.is_symlink() && device != "module" {
                bound.push(BoundGpu {
                    driver: driver.to_owned(),
                    device,
                });
            }
        }
    }
    bound.sort();
    Ok(bound)
}
