//! `panthorctl info`: the device, its driver, and what is missing.

use std::path::Path;

use panthor_uapi::discover::{self, NodeState, RenderGroup};
use panthor_uapi::{Device, Feature, KernelTransport, TransportKind};
use serde_json::{Value, json};

use crate::device::Opened;
use crate::failure::{Exit, Failure};
use crate::output::{print, print_json};

/// Shows the device.
pub fn run(opened: &Opened, json_wanted: bool) -> Result<Exit, Failure> {
    let device = &opened.device;
    let failed = |e: panthor_uapi::Error| Failure::new(Exit::NoDevice, e);
    let gpu = device.gpu_info().map_err(failed)?;
    let csif = device.csif_info().map_err(failed)?;
    let missing = missing(Path::new("/"));
    let features: serde_json::Map<String, Value> = Feature::ALL
        .iter()
        .map(|f| (f.name().to_owned(), device.has(*f).into()))
        .collect();
    let driver = device.driver();
    let coherency = match device.coherency().map_err(failed)? {
        Some(coherency) => format!("{coherency:?}").to_lowercase(),
        None => "not told by this driver".to_owned(),
    };
    let report = json!({
        "kind": kind(device),
        "path": device.path(),
        "driver": {
            "name": driver.name,
            "version": device.version().to_string(),
        },
        "gpu": {
            "name": gpu_name(gpu.gpu_id),
            "id": format!("{:#010x}", gpu.gpu_id),
            "revision": format!("r{}p{} status {}", gpu.gpu_id >> 12 & 0xf, gpu.gpu_id >> 4 & 0xff, gpu.gpu_id & 0xf),
            "shader_present": format!("{:#x}", gpu.shader_present),
            "cores": gpu.shader_present.count_ones(),
            "l2_slices": gpu.mem_features >> 8 & 0xf,
            "l2_bytes": (1u64 << (gpu.l2_features >> 16 & 0xff)) * u64::from((gpu.mem_features >> 8 & 0xf) + 1),
            "va_bits": gpu.mmu_features & 0xff,
            "threads_per_core": gpu.max_threads,
            "workgroup_threads": gpu.thread_max_workgroup_size,
            "address_spaces": gpu.as_present.count_ones(),
            "coherency": coherency,
        },
        "csif": {
            "id": format!("{:#010x}", gpu.csf_id),
            "group_slots": csif.csg_slot_count,
            "queues_per_group": csif.cs_slot_count,
            "registers": csif.cs_reg_count,
            "registers_of_the_kernel": csif.unpreserved_cs_reg_count,
            "scoreboards": csif.scoreboard_slot_count,
        },
        "features": features,
        "memory": { "page_bytes": device.gpu_page_size().map_err(failed)?, "cpu_page_bytes": device.page_size() },
        "missing": missing,
    });
    if json_wanted {
        print_json(&report)?
    } else {
        print(&text(&report, device))?
    }
    Ok(Exit::Right)
}

/// `"simulator"`, `"rig"` or `"hardware"`.
fn kind(device: &Device) -> &'static str {
    match device.transport().kind() {
        TransportKind::Kernel if discover::is_rig(Path::new("/")) => "rig",
        kind => kind.word(),
    }
}

fn text(report: &Value, device: &Device) -> String {
    let word = |pointer: &str| match report.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let mut lines = vec![
        format!("device   {} ({})", device.path().display(), word("/kind")),
        format!(
            "driver   {} {}",
            word("/driver/name"),
            word("/driver/version")
        ),
        format!(
            "GPU      {} ({}, {}), {} cores, L2 {} KiB, {}-bit addresses, coherency {}",
            word("/gpu/name"),
            word("/gpu/id"),
            word("/gpu/revision"),
            word("/gpu/cores"),
            report
                .pointer("/gpu/l2_bytes")
                .and_then(Value::as_u64)
                .unwrap_or(0)
                >> 10,
            word("/gpu/va_bits"),
            word("/gpu/coherency"),
        ),
        format!(
            "CSF      {} group slots, {} queues a group, {} registers ({} of the kernel), {} scoreboards",
            word("/csif/group_slots"),
            word("/csif/queues_per_group"),
            word("/csif/registers"),
            word("/csif/registers_of_the_kernel"),
            word("/csif/scoreboards"),
        ),
    ];
    for feature in Feature::ALL {
        let state = if device.has(feature) { "yes" } else { "no" };
        lines.push(format!(
            "feature  {} (since {}): {state}",
            feature.name(),
            feature.needs()
        ));
    }
    for hint in report["missing"].as_array().into_iter().flatten() {
        lines.push(format!("missing  {}", hint.as_str().unwrap_or_default()));
    }
    lines.iter().map(|l| format!("{l}\n")).collect()
}

/// Arm's product names by `GPU_ID`'s architecture and product numbers (kernel `panthor_hw.c`, `get_gpu_model_name`).
fn gpu_name(id: u32) -> String {
    let (major, product) = (id >> 28, id >> 16 & 0xf);
    match (major, product) {
        (10, 2) => "Mali-G710".into(),
        (10, 3) => "Mali-G510".into(),
        (10, 4) => "Mali-G310".into(),
        (10, 7) => "Mali-G610".into(),
        _ => format!("Mali, architecture {major}, product {product}"),
    }
}

/// What keeps this machine from using a Mali through panthor: one line each, with what to do.
pub fn missing(root: &Path) -> Vec<String> {
    let transport = KernelTransport::shared();
    let nodes = discover::nodes(&transport, root).unwrap_or_default();
    let mut lines = Vec::new();
    let bound = discover::bound_gpus(root).unwrap_or_default();
    if let Some(gpu) = bound.iter().find(|g| g.driver == "mali") {
        lines.push(format!(
            "{} is held by Arm's own driver `mali`, which panthor replaces: boot a kernel with CONFIG_DRM_PANTHOR",
            gpu.device
        ));
    }
    for node in nodes.iter().filter(|n| n.state == NodeState::Denied) {
        let path = node.path.display();
        lines.push(match discover::own_groups().and_then(|g| discover::render_group(root, &g)) {
            Ok(RenderGroup::NotMember(_)) => {
                format!("{path} may not be opened: `sudo usermod -aG render $USER`, then log in again")
            }
            _ => format!("{path} may not be opened: see `ls -l {path}`"),
        });
    }
    if !nodes
        .iter()
        .any(|n| n.is_panthor() || n.state == NodeState::Denied)
    {
        lines.push("no render node of panthor in /dev/dri: the kernel needs CONFIG_DRM_PANTHOR and a Mali with CSF".into());
    }
    if discover::firmware(root).is_none() {
        lines.push(format!(
            "firmware /lib/firmware/{}: install firmware-misc-nonfree or linux-firmware",
            discover::FIRMWARE
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_with_the_vendor_driver_is_told_what_to_do() {
        let root = std::env::temp_dir().join(format!("panthorctl-info-{}", std::process::id()));
        let gpu = root.join("sys/bus/platform/drivers/mali/fb000000.gpu");
        // Bound devices are links there.
        std::fs::create_dir_all(gpu.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("../../../../devices/platform/fb000000.gpu", &gpu).unwrap();
        let lines = missing(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert!(
            lines[0].contains("fb000000.gpu") && lines[0].contains("CONFIG_DRM_PANTHOR"),
            "{lines:?}"
        );
        assert!(lines.iter().any(|l| l.contains("firmware")), "{lines:?}");
    }

    #[test]
    fn the_g610_has_its_name() {
        assert_eq!(gpu_name(0xa867_0000), "Mali-G610");
    }
}
